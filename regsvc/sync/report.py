"""Report of what a sync run did or would do: as JSON, and as an audit entry and warnings."""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final

from peewee import Database

from regsvc.core.clock import epoch_ms
from regsvc.database.audit import Audit

log = logging.getLogger("regsvc.sync.run")

_COUNTS: Final = ("scanned", "adopted", "provisioned", "updated", "locked", "restored", "removed")
_WORDS: Final = {
    "scanned": ("player looked at", "players looked at"),
    "provisioned": ("added to the game", "added to the game"),
}
"""Words for one and for several, of counts whose name alone would not say it."""


@dataclass
class HeldBack:
    """Counts of the actions that the mass-change guard held back, and the limit as the config writes it."""

    removed: int = 0
    locked: int = 0
    edited: int = 0
    passwords: int = 0
    """Passwords that became earlier ones again."""
    missing: int = 0
    """Those of the removed whose row is gone from AuthMe's table; the others were deleted. For sentences only."""
    limit: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the counts and the limit."""
        return {name: value for name, value in asdict(self).items() if name != "missing"}


@dataclass
class SyncReport:
    """Counts of what a run did, with conflicts and errors by name; a general error has the `username` None."""

    started_at: datetime
    duration_ms: int = 0
    scanned: int = 0
    adopted: int = 0
    provisioned: int = 0
    updated: int = 0
    locked: int = 0
    restored: int = 0
    removed: int = 0
    conflicts: list[dict[str, Any]] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)
    held_back: HeldBack | None = None
    is_enabled: bool = True
    unavailable: str | None = None
    """Why AuthMe's table could not be read or written; also among `errors`."""

    @property
    def has_effects(self) -> bool:
        """Return whether the run changed anything."""
        return any(name != "scanned" for name in self.counts())

    def add_error(self, username: str | None, error: str) -> None:
        """Add an error about one name, or about the run as a whole if `username` is None."""
        self.errors.append({"username": username, "error": error})

    def as_json(self) -> dict[str, Any]:
        """Return the `report` of `POST /api/admin/sync`."""
        return {
            "startedAt": epoch_ms(self.started_at),
            "durationMs": self.duration_ms,
            **{name: getattr(self, name) for name in _COUNTS},
            "conflicts": self.conflicts,
            "errors": self.errors,
            "braked": None if self.held_back is None else self.held_back.as_json(),
        }

    def counts(self) -> dict[str, int]:
        """Return the counts that are not 0, for the log and the audit."""
        return {name: getattr(self, name) for name in _COUNTS if getattr(self, name)}


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
            log.info("sync: %s", counts_in_words(report.counts()))
        self._record_held_back(report.held_back)
        self._log_availability(report.unavailable)

    def _record_held_back(self, held_back: HeldBack | None) -> None:
        if held_back is not None and held_back != self._held_back:
            with self._database.atomic():
                counts = {name: count for name, count in held_back.as_json().items() if name != "limit"}
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


def counts_in_words(counts: Mapping[str, int]) -> str:
    """Return counts by name as people read them: "3,002 players looked at, 2,997 adopted"."""
    return ", ".join(f"{count:,} {_words(name, count)}" for name, count in counts.items())


def _words(name: str, count: int) -> str:
    one, several = _WORDS.get(name, (name.replace("_", " "),) * 2)
    return one if count == 1 else several
