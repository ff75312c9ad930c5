"""Console commands for the running game: enqueued in the transaction of their cause, sent later by `RconTransport`.

A kick matters at once or not at all and is given up after a minute. A change to the game's own ban list is lasting and
is retried for a day. A row is inserted for a name only after a kick for that very row: AuthMe would log in whichever
player is online under an unregistered name and types `/register` at the wrong moment.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from plugin_bridge.server.rcon import RconAddress
from regsvc.config.sections import OnBan
from regsvc.core.clock import Clock
from regsvc.database.models import OutboxEntry
from regsvc.notifications.outbox import Outbox

KIND: Final = "rcon"

Command = Literal["kick", "kick_first", "ban", "pardon"]
"""Command of an outbox entry. After `kick_first`, whatever its outcome, the player's row is inserted."""
Cause = Literal["approved", "banned", "deleted", "locked"]

KICK_FIRST: Final = "kick_first"
_KICK_HOLDS_FOR: Final = timedelta(minutes=1)  # a player kicked earlier than this may have joined again


@dataclass(frozen=True, slots=True)
class _Player:
    """The recipient of a command. Entries with the same `key` keep their order."""

    display: str
    key: str


class RconQueue:
    """Queue that puts console commands into the outbox; every method runs inside the caller's transaction."""

    def __init__(
        self, outbox: Outbox, find_address: Callable[[], RconAddress | None], on_ban: OnBan, language: str, now: Clock
    ) -> None:
        """`find_address` returns the console's last known address without blocking, or None if RCON is off."""
        self._outbox = outbox
        self._find_address = find_address
        self._on_ban = on_ban
        self._language = language
        self._now = now

    @property
    def is_on(self) -> bool:
        """Return whether commands can be sent to the game."""
        return self._find_address() is not None

    def on_ban(self, username: str, user_id: int, reason: str | None) -> None:
        """Kick the player or put them on the game's ban list, as `game.on_ban` says."""
        if self._on_ban == "kick":
            self._kick(username, user_id, "banned", reason)
        elif self._on_ban == "ban":
            self._put("ban", username, user_id, "banned", reason)

    def on_unban(self, username: str, user_id: int | None) -> None:
        """Take the player off the game's ban list, if `game.on_ban` puts players there."""
        if self._on_ban == "ban":
            self._put("pardon", username, user_id, "banned")

    def on_deletion(self, username: str, user_id: int | None, *, was_banned: bool) -> None:
        """Kick the player; take a banned one off the game's list, since the next user of the name is not banned."""
        self._kick(username, user_id, "deleted")
        if was_banned:
            self.on_unban(username, user_id)

    def on_lock(self, username: str, user_id: int, *, is_ban: bool) -> None:
        """Kick the player, who may be online under the row that has just been locked."""
        if is_ban and self._on_ban == "none":
            return
        self._kick(username, user_id, "banned" if is_ban else "locked")

    def may_insert(self, username: str, user_id: int, regdate: int) -> bool:
        """Return whether the row of this name and `regdate` may be inserted now: RCON is off, or the kick is done.

        If not, a kick is enqueued; its delivery inserts the row.
        """
        if not self.is_on:
            return True
        kick = (
            OutboxEntry.select(OutboxEntry.done_at)
            .where(
                OutboxEntry.recipient_key == _key_of(KICK_FIRST, username),
                OutboxEntry.kind == KIND,
                OutboxEntry.row_id == regdate,
            )
            .order_by(OutboxEntry.id.desc())
            .first()
        )
        if kick is not None and kick.done_at is None:
            return False
        if kick is not None and self._now() - kick.done_at < _KICK_HOLDS_FOR:
            return True
        self._put(KICK_FIRST, username, user_id, "approved", row_id=regdate)
        return False

    def _kick(self, username: str, user_id: int | None, cause: Cause, reason: str | None = None) -> None:
        """Enqueue a kick unless one is enqueued that has not been attempted yet."""
        if not self.is_on:
            return
        is_untried = (OutboxEntry.attempts == 0) & OutboxEntry.next_attempt_at.is_null(False)
        is_same = (OutboxEntry.recipient_key == _key_of("kick", username)) & (OutboxEntry.kind == KIND)
        if not OutboxEntry.select(OutboxEntry.id).where(is_same, is_untried).exists():
            self._put("kick", username, user_id, cause, reason)

    def _put(
        self,
        command: Command,
        username: str,
        user_id: int | None,
        cause: Cause,
        reason: str | None = None,
        *,
        row_id: int | None = None,
    ) -> None:
        if not self.is_on:
            return
        payload = json.dumps({"cause": cause, "reason": reason}, ensure_ascii=False)
        player = _Player(username, _key_of(command, username))
        self._outbox.put(command, player, self._language, user_id=user_id, row_id=row_id, payload=payload)


class NoRconQueue(RconQueue):
    """Null object: there is no game to send commands to."""

    is_on = False

    def __init__(self) -> None:
        """Needs no dependencies."""

    def on_ban(self, username: str, user_id: int, reason: str | None) -> None:
        """Do nothing."""

    def on_unban(self, username: str, user_id: int | None) -> None:
        """Do nothing."""

    def on_deletion(self, username: str, user_id: int | None, *, was_banned: bool) -> None:
        """Do nothing."""

    def on_lock(self, username: str, user_id: int, *, is_ban: bool) -> None:
        """Do nothing."""

    def may_insert(self, username: str, user_id: int, regdate: int) -> bool:
        """Return True: no kick is needed."""
        return True


def _key_of(command: Command, username: str) -> str:
    """Return the ordering key: a ban and its end keep their order; kicks do not wait for them, nor for other kicks."""
    return f"{command} {username.lower()}" if command in ("kick", KICK_FIRST) else username.lower()
