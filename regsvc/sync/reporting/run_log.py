"""Audit entries and log lines of a sync run, also about dates in our tables that cannot be read."""

import logging
from typing import Final

from peewee import Database

from regsvc.database.audit import SQL, SYNC, Audit
from regsvc.database.dates import UnreadableDate, list_unreadable_dates
from regsvc.sync.report import HeldBack, SyncReport, counts_in_words
from regsvc.sync.reporting.words import advise_on_held_back, describe_conflicts, describe_held_back

log = logging.getLogger("regsvc.sync.run")

_MAX_NAMED: Final = 20
"""More dates at once than this share one log line and one audit entry."""
_MAX_REMEMBERED: Final = 10_000
_IS_CHANGED: Final = "changed_at IS NOT NULL"
_IS_ANY: Final = "1 = 1"


class RunLog:
    """Audit entries and log lines of runs, repeating a warning only when its subject has changed."""

    def __init__(self, database: Database, audit: Audit) -> None:
        self._database = database
        self._audit = audit
        self._held_back: HeldBack | None = None
        self._unavailable: str | None = None
        self._missing_column: str | None = None
        self._recorded_dates: set[UnreadableDate] = set()

    def record(self, report: SyncReport) -> None:
        """Audit and log a finished run. Call it outside every transaction."""
        if report.has_effects:
            with self._database.atomic():
                self._audit.record("sync.run", SYNC, None, report.counts())
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
                self._audit.record("sync.braked", SYNC, None, held_back.counts())
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

    def report_dates(self, report: SyncReport, *, is_plan: bool, is_full: bool) -> None:
        """Add the unreadable dates of the users that changed since the last run, or of all users, to the report.

        Each is logged and audited once; a plan records nothing.
        """
        found = list_unreadable_dates(self._database, _IS_ANY if is_full or is_plan else _IS_CHANGED)
        for date in found:
            report.add_error(date.username.lower(), f"{date.column} is '{date.value}', which is no date")
        new = [date for date in found if date not in self._recorded_dates]
        if is_plan or not new:
            return
        with self._database.atomic():
            self._record_dates(new)
        for date in new[:_MAX_NAMED]:
            log.warning(
                "%s, which is no date: it counts as empty until it is corrected in SQL, such as '2031-06-01 18:30:00'",
                date,
            )
        if len(new) > _MAX_NAMED:
            log.warning("%d more dates in regsvc_user cannot be read (companion doctor)", len(new) - _MAX_NAMED)
        if len(self._recorded_dates) + len(new) > _MAX_REMEMBERED:
            self._recorded_dates.clear()
        self._recorded_dates.update(new)

    def _record_dates(self, dates: list[UnreadableDate]) -> None:
        named, others = dates[:_MAX_NAMED], dates[_MAX_NAMED:]
        details = [("sync.edit_refused", date.username, {"column": date.column, "value": date.value}) for date in named]
        self._audit.record_all(SQL, details)
        if others:
            detail = {"dates": len(others), "first": others[0].username, "last": others[-1].username}
            self._audit.record("sync.edit_refused", SQL, None, detail)
