"""Report of what a sync run did or would do."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final

from regsvc.allowlist.run import ListReport
from regsvc.core.clock import epoch_ms

COUNTS: Final = ("scanned", "adopted", "provisioned", "updated", "locked", "restored", "removed")
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
        """Return the `braked` of the report."""
        return {name: value for name, value in asdict(self).items() if name != "missing"}

    def counts(self) -> dict[str, int]:
        """Return the counts, for the audit."""
        return {name: value for name, value in asdict(self).items() if name != "limit"}


@dataclass
class PlannedChanges:
    """Number of changes of a kind that a run would make or hold back, and the names of the first of them."""

    one: str
    several: str
    """Words for one and for several."""
    count: int = 0
    names: list[str] = field(default_factory=list)


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
    is_complete: bool = True
    """False if the process was told to stop first: the next run does the rest."""
    planned: dict[str, PlannedChanges] = field(default_factory=dict)
    """What a run would change, by kind (`actions.Label`); empty for a run."""
    planned_to_hold_back: dict[str, PlannedChanges] = field(default_factory=dict)
    """What it would hold back, by kind."""
    restores_players: bool = False
    """Whether rows that are gone are inserted again (`sync.on_player_removed`)."""
    allowlist: ListReport | None = None
    """What was done about the game's allowlist; None: nothing was to do."""
    missing_email_column: str | None = None
    """The configured e-mail column, if players were adopted from a table that has none of this name."""

    @property
    def has_held_back_changes(self) -> bool:
        """Return whether changes of any gate wait for a person."""
        return self.held_back is not None or (self.allowlist is not None and bool(self.allowlist.held_back))

    @property
    def has_effects(self) -> bool:
        """Return whether the run changed anything."""
        return any(name != "scanned" for name in self.counts())

    @property
    def is_idle(self) -> bool:
        """Return whether the run did nothing, and has nothing to tell."""
        found = self.conflicts or self.errors or self.allowlist is not None or self.held_back is not None
        return not (self.has_effects or found)

    def add_error(self, username: str | None, error: str) -> None:
        """Add an error about one name, or about the run as a whole if `username` is None."""
        self.errors.append({"username": username, "error": error})

    def as_json(self) -> dict[str, Any]:
        """Return the `report` of `POST /api/admin/sync`."""
        return {
            "startedAt": epoch_ms(self.started_at),
            "durationMs": self.duration_ms,
            **{name: getattr(self, name) for name in COUNTS},
            "conflicts": self.conflicts,
            "errors": self.errors,
            "braked": None if self.held_back is None else self.held_back.as_json(),
            "allowlist": None if self.allowlist is None else self.allowlist.as_json(),
        }

    def counts(self) -> dict[str, int]:
        """Return the counts that are not 0, for the log and the audit."""
        return {name: getattr(self, name) for name in COUNTS if getattr(self, name)}


def counts_in_words(counts: Mapping[str, int]) -> str:
    """Return counts by name as people read them: "3,002 players looked at, 2,997 adopted"."""
    return ", ".join(f"{count:,} {_words(name, count)}" for name, count in counts.items())


def _words(name: str, count: int) -> str:
    one, several = _WORDS.get(name, (name.replace("_", " "),) * 2)
    return one if count == 1 else several
