"""What the delivery of console commands does in the database: after a kick for a row, the row."""

import logging
from collections.abc import Callable
from datetime import timedelta

from peewee import Database

from plugin_bridge.authme.players import PlayersAway
from regsvc.notifications.outbox import Errand, Outbox, Outcome
from regsvc.notifications.outbox_store import OutboxDesk
from regsvc.notifications.rcon.console import KICK_FIRST

log = logging.getLogger(__name__)


class RconDesk(OutboxDesk):
    """However a kick for a row ended, the row is inserted then, as the sync would: nobody waits for ever."""

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        settle: Callable[[str], object],
        on_finished: Callable[[Outcome], None],
    ) -> None:
        """`settle` closes the difference for a lower-case name."""
        super().__init__(database, outbox, on_finished)
        self._settle = settle

    def record_sent(self, errand: Errand) -> None:
        super().record_sent(errand)
        self._insert_row(errand)

    def record_failure(
        self, errand: Errand, error: str, *, is_final: bool = False, retry_after: timedelta | None = None
    ) -> timedelta | None:
        wait = super().record_failure(errand, error, is_final=is_final, retry_after=retry_after)
        if wait is None:
            self._insert_row(errand)
        return wait

    def drop(self, errand: Errand, reason: str) -> None:
        super().drop(errand, reason)
        self._insert_row(errand)

    def _insert_row(self, errand: Errand) -> None:
        if errand.template != KICK_FIRST:
            return
        try:
            self._settle(errand.recipient.lower())
        except PlayersAway as error:
            log.warning("the player waits for the sync: %s", error)
