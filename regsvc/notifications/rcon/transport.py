"""Carries orders to the game's remote console. Neither the password nor what the game answers gets into the log."""

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
from regsvc.core.i18n import Translations
from regsvc.notifications.outbox import Outbox, OutboxMessage, OutboxStore, Outcome, RetryPolicy
from regsvc.notifications.rcon.queue import KICK_FIRST
from regsvc.notifications.transport import Drop, PermanentFailure, TemporaryFailure, Transport


class RconStore(OutboxStore):
    """However a kick for a row ended, the row is inserted then, as the sync would: nobody waits for ever."""

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        reconcile: Callable[[str], object],
        on_finished: Callable[[Outcome], None],
    ) -> None:
        """`settle` closes the difference for a lower-case name."""
        super().__init__(database, outbox, on_finished)
        self._settle = reconcile

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
            self._settle(message.recipient.lower())
        except PlayersUnavailable as error:
            log.warning("the player waits for the sync: %s", error)


log = logging.getLogger(__name__)

RCON_RETRY_POLICY: Final = RetryPolicy(
    first_retry=timedelta(seconds=1),
    longest_retry=timedelta(minutes=5),
    max_age=timedelta(days=1),  # for what stays in the game's list of bans
    claim=timedelta(seconds=20),
)

_KICK_AGE: Final = timedelta(minutes=1)
"""After that a kick meets somebody who came back for another reason."""
_MOST_TRIES_BEFORE_ROW: Final = 3
"""A few seconds; a server that is away for longer is mostly one that nobody plays on."""


class RconTransport(Transport):
    """One conversation for each order."""

    noun: ClassVar[str] = "console command"

    def __init__(
        self, find_address: Callable[[], RconAddress | None], translations: Translations, server_name: str, now: Clock
    ) -> None:
        """`find_address` is asked anew each time, on a thread; None: the console is off."""
        self._find_address = find_address
        self._translations = translations
        self._server_name = server_name
        self._now = now
        self._is_away = False

    async def send(self, message: OutboxMessage) -> None:
        age = self._now() - message.created_at
        if message.template == "kick" and age >= _KICK_AGE:
            raise Drop("nobody was there to kick the player while it mattered")
        address = await asyncio.to_thread(self._find_address)
        if address is None:
            raise Drop("the game's remote console is off")
        try:
            command = self._compose(message)
            await self._tell(address, message, command)
        except UnsafeName as error:
            raise PermanentFailure(str(error)) from None
        except RconError as error:
            self._note_away(error)
            if message.template == KICK_FIRST and message.attempts >= _MOST_TRIES_BEFORE_ROW:
                raise PermanentFailure(f"the row is inserted without a kick: {error}") from None
            raise TemporaryFailure(str(error)) from None
        self._note_there()

    async def _tell(self, address: RconAddress, message: OutboxMessage, command: str) -> None:
        async with open_rcon(address) as console:
            # many plugins kick whoever's name begins like this when nobody has it: only who may be there is kicked
            is_kick = message.template in ("kick", KICK_FIRST)
            if is_kick and is_surely_offline(message.recipient, await console.execute(LIST)):
                return
            await console.execute(command)

    def _compose(self, message: OutboxMessage) -> str:
        """Raises `UnsafeName`."""
        if message.template == "pardon":
            return pardon(message.recipient)
        told = json.loads(message.payload or "{}")
        key = f"game.{told['cause']}_because" if told["reason"] else f"game.{told['cause']}"
        words = self._translations.text(key, message.language, server=self._server_name, reason=told["reason"])
        return ban(message.recipient, words) if message.template == "ban" else kick(message.recipient, words)

    def _note_away(self, error: RconError) -> None:
        if not self._is_away:
            log.warning("the game's remote console does not take commands: %s", error)
        self._is_away = True

    def _note_there(self) -> None:
        if self._is_away:
            log.info("the game's remote console takes commands again")
        self._is_away = False
