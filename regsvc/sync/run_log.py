"""What a run tells beside its report: one audit entry for what it did, one warning for what it could not do."""

import logging

from peewee import Database

from regsvc.database.audit import Audit
from regsvc.sync.report import HeldBack, SyncReport

log = logging.getLogger("regsvc.sync.run")


class RunLog:
    """Remembers what was told, so that nothing is told again at each run until it changes."""

    def __init__(self, database: Database, audit: Audit) -> None:
        self._database = database
        self._audit = audit
        self._brake: HeldBack | None = None
        self._absence: str | None = None

    def tell(self, report: SyncReport) -> None:
        """Runs after the run, outside every transaction."""
        if report.has_effects:
            with self._database.atomic():
                self._audit.record("sync.run", "sync", None, report.counts())
            log.info("sync: %s", report.counts())
        self._tell_of_brake(report.held_back)
        self._tell_of_absence(report.away)

    def _tell_of_brake(self, braked: HeldBack | None) -> None:
        if braked is not None and braked != self._brake:
            with self._database.atomic():
                counts = {"removed": braked.removed, "locked": braked.locked, "edited": braked.edited}
                self._audit.record("sync.braked", "sync", None, counts)
            log.warning(
                "the sync left out %d removals, %d locks and %d typed status changes: more than %s at once. "
                "If they are meant, run `companion sync --allow-mass-changes`.",
                braked.removed,
                braked.locked,
                braked.edited,
                braked.limit,
            )
        self._brake = braked

    def _tell_of_absence(self, why: str | None) -> None:
        if why is not None and self._absence is None:
            log.warning("the sync waits: %s", why)
        elif why is None and self._absence is not None:
            log.info("the sync goes on: AuthMe's table is there again")
        self._absence = why
