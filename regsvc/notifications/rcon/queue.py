"""What is asked of the running game: promised in the transaction of the cause, carried out by `RconTransport` after it.

A kick is for the moment and is given up after a minute. What the game's own list of bans holds stays, so that is tried
for a day. A row is inserted for a name only after a kick for that very row: AuthMe would log in whoever is online under
an unregistered name and types `/register` at the wrong moment.
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

Order = Literal["kick", "kick_first", "ban", "pardon"]
"""What an entry of the outbox asks for. After `kick_first`, however it ended, the player's row is inserted."""
Cause = Literal["approved", "banned", "deleted", "locked"]

KICK_FIRST: Final = "kick_first"
_STILL_KICKED: Final = timedelta(minutes=1)  # somebody kicked earlier than this may have joined again


@dataclass(frozen=True, slots=True)
class _Player:
    """Entries with the same `key` keep their order."""

    display: str
    key: str


class RconQueue:
    """Puts orders into the outbox; every method runs inside the caller's transaction."""

    def __init__(
        self, outbox: Outbox, find_address: Callable[[], RconAddress | None], on_ban: OnBan, language: str, now: Clock
    ) -> None:
        """`find_address` tells where the console is at this moment; None: it is off."""
        self._outbox = outbox
        self._find_address = find_address
        self._on_ban = on_ban
        self._language = language
        self._now = now

    @property
    def is_on(self) -> bool:
        """Whether the game can be told anything."""
        return self._find_address() is not None

    def on_ban(self, username: str, user_id: int, reason: str | None) -> None:
        """As `game.on_ban` says."""
        if self._on_ban == "kick":
            self._kick(username, user_id, "banned", reason)
        elif self._on_ban == "ban":
            self._put("ban", username, user_id, "banned", reason)

    def on_unban(self, username: str, user_id: int | None) -> None:
        """Off the game's own list, if a ban puts him there."""
        if self._on_ban == "ban":
            self._put("pardon", username, user_id, "banned")

    def on_deletion(self, username: str, user_id: int | None, *, was_banned: bool) -> None:
        """Out of the game; the next of this name is nobody who was banned."""
        self._kick(username, user_id, "deleted")
        if was_banned:
            self.on_unban(username, user_id)

    def on_lock(self, username: str, user_id: int, *, is_ban: bool) -> None:
        """Somebody may be playing in a row that was open until now."""
        if is_ban and self._on_ban == "none":
            return
        self._kick(username, user_id, "banned" if is_ban else "locked")

    def may_insert(self, username: str, user_id: int, regdate: int) -> bool:
        """Whether the row of this name and `regdate` may be inserted now: the game is off, or has been told to kick.

        False: it is asked to, and whoever carries that out has the row inserted.
        """
        if not self.is_on:
            return True
        asked = (
            OutboxEntry.select(OutboxEntry.done_at)
            .where(
                OutboxEntry.recipient_key == _key_of(KICK_FIRST, username),
                OutboxEntry.kind == KIND,
                OutboxEntry.row_id == regdate,
            )
            .order_by(OutboxEntry.id.desc())
            .first()
        )
        if asked is not None and asked.done_at is None:
            return False
        if asked is not None and self._now() - asked.done_at < _STILL_KICKED:
            return True
        self._put(KICK_FIRST, username, user_id, "approved", row_id=regdate)
        return False

    def _kick(self, username: str, user_id: int | None, cause: Cause, reason: str | None = None) -> None:
        """Once is enough while nobody has begun to carry it out."""
        if not self.is_on:
            return
        waits = (OutboxEntry.attempts == 0) & OutboxEntry.next_attempt_at.is_null(False)
        is_same = (OutboxEntry.recipient_key == _key_of("kick", username)) & (OutboxEntry.kind == KIND)
        if not OutboxEntry.select(OutboxEntry.id).where(is_same, waits).exists():
            self._put("kick", username, user_id, cause, reason)

    def _put(
        self,
        order: Order,
        username: str,
        user_id: int | None,
        cause: Cause,
        reason: str | None = None,
        *,
        row_id: int | None = None,
    ) -> None:
        if not self.is_on:
            return
        told = json.dumps({"cause": cause, "reason": reason}, ensure_ascii=False)
        player = _Player(username, _key_of(order, username))
        self._outbox.put(order, player, self._language, user_id=user_id, row_id=row_id, payload=told)


class NoRconQueue(RconQueue):
    """Where there is no game to talk to."""

    is_on = False

    def __init__(self) -> None:
        """It needs nothing."""

    def on_ban(self, username: str, user_id: int, reason: str | None) -> None:
        """Nobody hears it."""

    def on_unban(self, username: str, user_id: int | None) -> None:
        """Nobody hears it."""

    def on_deletion(self, username: str, user_id: int | None, *, was_banned: bool) -> None:
        """Nobody hears it."""

    def on_lock(self, username: str, user_id: int, *, is_ban: bool) -> None:
        """Nobody hears it."""

    def may_insert(self, username: str, user_id: int, regdate: int) -> bool:
        """Nobody has to be kicked."""
        return True


def _key_of(order: Order, username: str) -> str:
    """A ban and its end keep their order; a kick waits for neither, nor for a kick before a row."""
    return f"{order} {username.lower()}" if order in ("kick", KICK_FIRST) else username.lower()
