"""Delivery of console commands over RCON. Neither the password nor the game's replies appear in the log."""

import asyncio
import json
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import ClassVar, Final

from peewee import Database

from plugin_bridge.authme.players import PlayersUnavailable
from plugin_bridge.server.console_commands import LIST, UnsafeName, ban, is_surely_offline, kick, pardon
from plugin_bridge.server.rcon import RconAddress, RconError, open_rcon
from regsvc.core.clock import Clock
from regsvc.core.i18n.translations import Translations
from regsvc.notifications.outbox import Outbox, OutboxMessage, Outcome, RetryPolicy
from regsvc.notifications.rcon.queue import KICK_FIRST
from regsvc.notifications.store import OutboxStore
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


class RconStore(OutboxStore):
    """Outbox store that inserts the player's row once a `kick_first` has ended, whatever its outcome.

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


class RconTransport(Transport):
    """Transport that sends each command over a connection of its own."""

    noun: ClassVar[str] = "console command"

    def __init__(
        self, find_address: Callable[[], RconAddress | None], translations: Translations, server_name: str, now: Clock
    ) -> None:
        """`find_address` is called for every command, on a thread; None: RCON is off."""
        self._find_address = find_address
        self._translations = translations
        self._server_name = server_name
        self._now = now
        self._is_unreachable = False

    async def send(self, message: OutboxMessage) -> None:
        age = self._now() - message.created_at
        if message.template == "kick" and age >= _MAX_KICK_AGE:
            raise Drop("the kick could not be sent while it mattered")
        address = await asyncio.to_thread(self._find_address)
        if address is None:
            raise Drop("RCON is disabled")
        try:
            command = self._compose(message)
            await self._execute(address, message, command)
        except UnsafeName as error:
            raise PermanentFailure(str(error)) from None
        except RconError as error:
            self._log_outage(error)
            if message.template == KICK_FIRST and message.attempts >= _MAX_KICK_ATTEMPTS:
                raise PermanentFailure(f"the row is inserted without a kick: {error}") from None
            raise TemporaryFailure(str(error)) from None
        self._log_recovery()

    async def _execute(self, address: RconAddress, message: OutboxMessage, command: str) -> None:
        async with open_rcon(address) as console:
            # for a player who is offline many plugins kick one whose name begins alike: kick only who may be online
            is_kick = message.template in ("kick", KICK_FIRST)
            if is_kick and is_surely_offline(message.recipient, await console.execute(LIST)):
                return
            await console.execute(command)

    def _compose(self, message: OutboxMessage) -> str:
        """Return the console command. Raises `UnsafeName`."""
        if message.template == "pardon":
            return pardon(message.recipient)
        payload = json.loads(message.payload or "{}")
        given = self._translations.reason(payload["reason"], message.language)
        key = f"game.{payload['cause']}_because" if given else f"game.{payload['cause']}"
        reason = self._translations.text(key, message.language, server=self._server_name, reason=given)
        return ban(message.recipient, reason) if message.template == "ban" else kick(message.recipient, reason)

    def _log_outage(self, error: RconError) -> None:
        if not self._is_unreachable:
            log.warning("the game's RCON console cannot be used: %s", error)
        self._is_unreachable = True

    def _log_recovery(self) -> None:
        if self._is_unreachable:
            log.info("the game's RCON console can be used again")
        self._is_unreachable = False
