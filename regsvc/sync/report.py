"""Report of what a sync run did, or would do."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from regsvc.core.clock import epoch_ms


@dataclass
class HeldBack:
    """Counts of the actions that the mass-change guard held back, and the limit as the config writes it."""

    removed: int = 0
    locked: int = 0
    edited: int = 0
    limit: str = ""


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
        return any((self.adopted, self.provisioned, self.updated, self.locked, self.restored, self.removed))

    def add_error(self, username: str | None, error: str) -> None:
        """Add an error about one name, or about the run as a whole if `username` is None."""
        self.errors.append({"username": username, "error": error})

    def as_json(self) -> dict[str, Any]:
        """Return the `report` of `POST /api/admin/sync`."""
        held_back = self.held_back
        return {
            "startedAt": epoch_ms(self.started_at),
            "durationMs": self.duration_ms,
            "scanned": self.scanned,
            "adopted": self.adopted,
            "provisioned": self.provisioned,
            "updated": self.updated,
            "locked": self.locked,
            "restored": self.restored,
            "removed": self.removed,
            "conflicts": self.conflicts,
            "errors": self.errors,
            "braked": None
            if held_back is None
            else {
                "removed": held_back.removed,
                "locked": held_back.locked,
                "edited": held_back.edited,
                "limit": held_back.limit,
            },
        }

    def counts(self) -> dict[str, int]:
        """Return the counts that are not 0, for the log and the audit."""
        names = ("scanned", "adopted", "provisioned", "updated", "locked", "restored", "removed")
        return {name: getattr(self, name) for name in names if getattr(self, name)}
