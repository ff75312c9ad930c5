"""Audit entry and log lines of a sync run."""

import logging

from peewee import Database

from regsvc.database.audit import Audit
from regsvc.sync.report import HeldBack, SyncReport, counts_in_words
from regsvc.sync.reporting.words import advise_on_held_back, describe_conflicts, describe_held_back

log = logging.getLogger("regsvc.sync.run")


class RunLog:
    """Audit entries and log lines of runs, repeating a warning only when its subject has changed."""

    def __init__(self, database: Database, audit: Audit) -> None:
        self._database = database
        self._audit = audit
        self._held_back: HeldBack | None = None
        self._unavailable: str | None = None
        self._missing_column: str | None = None

    def record(self, report: SyncReport) -> None:
        """Audit and log a finished run. Call it outside every transaction."""
        if report.has_effects:
            with self._database.atomic():
                self._audit.record("sync.run", "sync", None, report.counts())
            self._log_effects(report)
        self._record_held_back(report)
        self._log_availability(report.unavailable)

    def _log_effects(self, report: SyncReport) -> None:
        parts = [counts_in_words(report.counts()), *describe_conflicts(report.conflicts)]
        if not report.is_complete:
            parts.append("stopped before the end: the next run does the rest")
        log.info("sync: %s", "; ".join(parts))
        if report.missing_email_column is not None and report.missing_email_column != self._missing_column:
            log.warning(
                "the sync adopted players without their e-mail addresses: AuthMe's table has no column %s "
                "(DataSource.mySQLColumnEmail in AuthMe's config)",
                report.missing_email_column,
            )
            self._missing_column = report.missing_email_column

    def _record_held_back(self, report: SyncReport) -> None:
        held_back = report.held_back
        if held_back is not None and held_back != self._held_back:
            with self._database.atomic():
                self._audit.record("sync.braked", "sync", None, held_back.counts())
            log.warning(
                "the sync held back %s: more than %s at once. companion sync --plan names them. %s",
                describe_held_back(held_back),
                held_back.limit,
                advise_on_held_back(held_back, restores_players=report.restores_players),
            )
        self._held_back = held_back

    def _log_availability(self, unavailable: str | None) -> None:
        if unavailable is not None and self._unavailable is None:
            log.warning("the sync is paused: %s", unavailable)
        elif unavailable is None and self._unavailable is not None:
            log.info("the sync continues: AuthMe's table is available again")
        self._unavailable = unavailable
