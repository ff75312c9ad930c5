"""Logging of a sync run beside its report: one audit entry for what it did, one warning for what it could not do."""

import logging

from peewee import Database

from regsvc.database.audit import Audit
from regsvc.sync.report import HeldBack, SyncReport

log = logging.getLogger("regsvc.sync.run")


class RunLog:
    """Audit entries and log lines of runs, repeating a warning only when its subject has changed."""

    def __init__(self, database: Database, audit: Audit) -> None:
        self._database = database
        self._audit = audit
        self._held_back: HeldBack | None = None
        self._unavailable: str | None = None

    def record(self, report: SyncReport) -> None:
        """Audit and log a finished run. Call it outside every transaction."""
        if report.has_effects:
            with self._database.atomic():
                self._audit.record("sync.run", "sync", None, report.counts())
            log.info("sync: %s", report.counts())
        self._record_held_back(report.held_back)
        self._log_availability(report.unavailable)

    def _record_held_back(self, held_back: HeldBack | None) -> None:
        if held_back is not None and held_back != self._held_back:
            with self._database.atomic():
                counts = {"removed": held_back.removed, "locked": held_back.locked, "edited": held_back.edited}
                self._audit.record("sync.braked", "sync", None, counts)
            log.warning(
                "the sync held back %d removals, %d locks and %d status changes made in SQL: more than %s at once. "
                "If they are intended, run `companion sync --allow-mass-changes`.",
                held_back.removed,
                held_back.locked,
                held_back.edited,
                held_back.limit,
            )
        self._held_back = held_back

    def _log_availability(self, unavailable: str | None) -> None:
        if unavailable is not None and self._unavailable is None:
            log.warning("the sync is paused: %s", unavailable)
        elif unavailable is None and self._unavailable is not None:
            log.info("the sync continues: AuthMe's table is available again")
        self._unavailable = unavailable
