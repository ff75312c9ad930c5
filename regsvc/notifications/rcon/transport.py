"""Delivery of console commands over RCON. Neither the password nor the game's replies appear in the log."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Final

from peewee import Database

from plugin_bridge.authme.players import PlayersUnavailable
from plugin_bridge.server.rcon import (
    LIST,
    RconAddress,
    RconError,
    UnsafeName,
    ban,
    is_surely_offline,
    kick,
    open_rcon,
    pardon,
)
from regsvc.core.clock import Clock
from regsvc.core.i18n.translations import Translations
from regsvc.notifications.outbox import Outbox, OutboxMessage, OutboxStore, Outcome, RetryPolicy
from regsvc.notifications.rcon.queue import KICK_FIRST, FindAddress
from regsvc.notifications.transport import Drop, PermanentFailure, TemporaryFailure, Transport

log = logging.getLogger(__name__)

RCON_RETRY_POLICY: Final = RetryPolicy(
    first_retry=timedelta(seconds=1),
    longest_retry=timedelta(minutes=5),
    max_age=timedelta(days=1),  # for the game's ban list
    claim=timedelta(seconds=20),
)

_MAX_KICK_AGE: Final = timedelta(minutes=1)
"""After that, a kick would hit a player who joined again for another reason."""
_MAX_KICK_ATTEMPTS: Final = 3
"""A few seconds; a server that is unreachable for longer mostly has no players online."""
_NEXT_PLACE: Final = timedelta(seconds=5)
"""How long an attempt at a server that hangs takes at most."""


class RconStore(OutboxStore):
    """Outbox store that inserts the player's row once a `kick_first` has ended on each server, whatever its outcome.

    No player waits for ever.
    """

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        reconcile: Callable[[str], object],
        on_finished: Callable[[Outcome], None],
    ) -> None:
        """`reconcile` reconciles the account with this lower-case name, as the sync would."""
        super().__init__(database, outbox, on_finished)
        self._reconcile = reconcile

    def record_sent(self, message: OutboxMessage) -> None:
        super().record_sent(message)
        self._insert_row(message)

    def record_failure(
        self, message: OutboxMessage, error: str, *, is_final: bool = False, retry_after: timedelta | None = None
    ) -> timedelta | None:
        wait = super().record_failure(message, error, is_final=is_final, retry_after=retry_after)
        if wait is None:
            self._insert_row(message)
        return wait

    def drop(self, message: OutboxMessage, reason: str) -> None:
        super().drop(message, reason)
        self._insert_row(message)

    def _insert_row(self, message: OutboxMessage) -> None:
        if message.template != KICK_FIRST:
            return
        try:
            self._reconcile(message.recipient.lower())
        except PlayersUnavailable as error:
            log.warning("the player will be added by the next sync: %s", error)


@dataclass(slots=True)
class _Console:
    """The console of one game server."""

    find_address: FindAddress
    is_unreachable: bool = False
    under_way: int = 0
    """Commands that wait for its answer."""


class RconTransport(Transport):
    """Transport that sends each command over a connection of its own."""

    noun: ClassVar[str] = "console command"

    def __init__(
        self, consoles: Mapping[str, FindAddress], translations: Translations, server_name: str, now: Clock
    ) -> None:
        """`consoles` return addresses by server (`Config.game_servers`), and are called on a thread for every command.

        `server_name` is what players read.
        """
        self._consoles = {server: _Console(find_address) for server, find_address in consoles.items()}
        self._translations = translations
        self._server_name = server_name
        self._now = now

    async def send(self, message: OutboxMessage) -> None:
        payload = json.loads(message.payload or "{}")
        server = payload.get("server", "")
        age = self._now() - message.created_at
        if message.template == "kick" and age >= _MAX_KICK_AGE:
            raise Drop("the kick could not be sent while it mattered")
        console = self._consoles.get(server)
        if console is None:
            raise Drop(f"the config has no game server {server} any more")
        address = await asyncio.to_thread(console.find_address)
        if address is None:
            raise Drop("RCON is disabled")
        try:
            command = self._compose(message, payload)
            await self._execute(console, address, message, command)
        except UnsafeName as error:
            raise PermanentFailure(str(error)) from None
        except RconError as error:
            self._log_outage(server, error)
            if message.template == KICK_FIRST and message.attempts >= _MAX_KICK_ATTEMPTS:
                raise PermanentFailure(f"the row is inserted without a kick: {error}") from None
            raise TemporaryFailure(str(error), _NEXT_PLACE if isinstance(error, _NoPlace) else None) from None
        self._log_recovery(server)

    async def _execute(self, console: _Console, address: RconAddress, message: OutboxMessage, command: str) -> None:
        if console.is_unreachable and console.under_way and len(self._consoles) > 1:
            raise _NoPlace("the server did not answer, and another command waits for it")
        console.under_way += 1
        try:
            async with open_rcon(address) as connection:
                # for a player who is offline many plugins kick one whose name begins alike: kick only who may be online
                is_kick = message.template in ("kick", KICK_FIRST)
                if is_kick and is_surely_offline(message.recipient, await connection.execute(LIST)):
                    return
                await connection.execute(command)
        finally:
            console.under_way -= 1

    def _compose(self, message: OutboxMessage, payload: Mapping[str, Any]) -> str:
        """Return the console command. Raises `UnsafeName`."""
        if message.template == "pardon":
            return pardon(message.recipient)
        given = self._translations.reason(payload["reason"], message.language)
        key = f"game.{payload['cause']}_because" if given else f"game.{payload['cause']}"
        reason = self._translations.text(key, message.language, server=self._server_name, reason=given)
        return ban(message.recipient, reason) if message.template == "ban" else kick(message.recipient, reason)

    def _log_outage(self, server: str, error: RconError) -> None:
        if not self._consoles[server].is_unreachable:
            log.warning("%s cannot be used: %s", _noun_of(server), error)
        self._consoles[server].is_unreachable = True

    def _log_recovery(self, server: str) -> None:
        if self._consoles[server].is_unreachable:
            log.info("%s can be used again", _noun_of(server))
        self._consoles[server].is_unreachable = False


class _NoPlace(RconError):
    """Not attempted: commands to other servers would have to wait for one that hangs."""


def _noun_of(server: str) -> str:
    return f"the RCON console of {server}" if server else "the game's RCON console"
