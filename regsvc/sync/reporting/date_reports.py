"""Report of dates typed in SQL that cannot be read: named once, while everything else goes on."""

import logging
from typing import Final

from peewee import Database

from regsvc.database.audit import SQL, Audit
from regsvc.database.dates import UnreadableDate, list_unreadable_dates
from regsvc.sync.report import SyncReport

log = logging.getLogger("regsvc.sync.run")

_MAX_NAMED: Final = 20
"""More dates at once than this share one log line and one audit entry."""
_MAX_REMEMBERED: Final = 10_000
_IS_CHANGED: Final = "changed_at IS NOT NULL"
_IS_ANY: Final = "1 = 1"


class DateReports:
    """Reports of unreadable dates: in the run's report, and once for each in the log and the audit log."""

    def __init__(self, database: Database, audit: Audit) -> None:
        self._database = database
        self._audit = audit
        self._recorded: set[UnreadableDate] = set()

    def add_to(self, report: SyncReport, *, is_plan: bool, is_full: bool) -> None:
        """Report the dates of the users that changed since the last run, or of all users; a plan records nothing."""
        found = list_unreadable_dates(self._database, _IS_ANY if is_full or is_plan else _IS_CHANGED)
        for date in found:
            report.add_error(date.username.lower(), f"{date.column} is '{date.value}', which is no date")
        new = [date for date in found if date not in self._recorded]
        if is_plan or not new:
            return
        with self._database.atomic():
            self._record(new)
        for date in new[:_MAX_NAMED]:
            log.warning(
                "%s, which is no date: it counts as empty until it is corrected in SQL, such as '2031-06-01 18:30:00'",
                date,
            )
        if len(new) > _MAX_NAMED:
            log.warning("%d more dates in regsvc_user cannot be read (companion doctor)", len(new) - _MAX_NAMED)
        if len(self._recorded) + len(new) > _MAX_REMEMBERED:
            self._recorded.clear()
        self._recorded.update(new)

    def _record(self, dates: list[UnreadableDate]) -> None:
        named, others = dates[:_MAX_NAMED], dates[_MAX_NAMED:]
        details = [("sync.edit_refused", date.username, {"column": date.column, "value": date.value}) for date in named]
        self._audit.record_all(SQL.name, details)
        if others:
            detail = {"dates": len(others), "first": others[0].username, "last": others[-1].username}
            self._audit.record("sync.edit_refused", SQL.name, None, detail)
