"""State of one sync run while it is in progress, and the limit on mass changes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from plugin_bridge.authme.players import NameCollides
from regsvc.core.units import ChangeLimit
from regsvc.database.models import PRESENT, SyncRecord
from regsvc.sync import actions
from regsvc.sync.pages import ReconcileResult
from regsvc.sync.report import HeldBack, PlannedChanges, SyncReport

_KINDS: Final[dict[type, tuple[str | None, str]]] = {
    actions.Adopt: ("adopted", "adopted"),
    actions.Provision: ("provisioned", "provisioned"),
    actions.Merge: ("updated", "updated"),
    actions.TakeEarlierPassword: ("updated", "passwords"),
    actions.Lock: ("locked", "locked"),
    actions.EndPasswordlessLogin: ("locked", "locked"),
    actions.RestorePassword: ("restored", "restored"),
    actions.ReclaimRow: ("restored", "restored"),
    actions.TakeRow: ("restored", "restored"),
    actions.RemoveLock: ("restored", "restored"),
    actions.MarkMissing: ("removed", "missing"),
    actions.MarkUnverifiedMissing: ("removed", "missing"),
    actions.Remove: ("removed", "removed"),
    actions.MarkDeleted: (None, "removed"),
    actions.ApplySqlEdit: (None, "edited"),
    actions.EndBan: (None, "unbanned"),
    actions.RejectNameConflict: (None, "rejected"),
    actions.RevertRename: (None, "renamed"),
}
"""The counter of the report, and the kind of planned changes, as `words.PLANNED` describes it."""


@dataclass
class SyncRun:
    """A run in progress; a plan only reports what it would do."""

    report: SyncReport
    may_go_on: Callable[[], bool]
    is_full: bool = False
    is_plan: bool = False
    waiting: dict[str, type[actions.SyncAction]] = field(default_factory=dict)
    """Names whose next action is guarded, with its kind: done at the end of the run, when their number is known."""
    collided: set[str] = field(default_factory=set)
    """Names that AuthMe's table considers equal to others; they wait until those are gone."""
    failed: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    """Names with an action that was applied."""
    max_names: int = 0
    """In a plan: how many names of each kind are reported."""
    returning: set[str] = field(default_factory=set)
    """In a plan: names whose row is gone and would be inserted again."""
    planned: set[str] = field(default_factory=set)
    """In a plan: the names looked at, each of which is reported once."""

    def add_error(self, key: str, error: str) -> None:
        """Report the error, once for each name."""
        if key not in self.failed:
            self.failed.add(key)
            self.report.add_error(key, error)

    def add_conflict(self, key: str, conflict: actions.Conflict) -> None:
        """Report the conflict."""
        found = {"username": key, "field": conflict.field, "kept": conflict.kept}
        self.report.conflicts.append(found if conflict.why is None else {**found, "why": conflict.why})

    def count(self, kind: type[actions.SyncAction]) -> None:
        """Count an action of this kind in the report."""
        counter, _planned = _KINDS.get(kind, (None, None))
        if counter is not None:
            setattr(self.report, counter, getattr(self.report, counter) + 1)

    def plan(self, key: str, kind: type[actions.SyncAction]) -> None:
        """Report a change that a run would make, or that it would hold back."""
        _counter, label = _KINDS.get(kind, (None, None))
        if issubclass(kind, actions.MarkMissing) and key in self.returning:
            label = "returning"
        if label is not None:
            changes = self.report.planned.setdefault(label, PlannedChanges())
            changes.count += 1
            if len(changes.names) < self.max_names:
                changes.names.append(key)

    def record(self, key: str, result: ReconcileResult) -> None:
        """Report the outcome of the reconciliation of one name."""
        for action in result.applied:
            if not isinstance(action, actions.Adopt):  # a million of them would fill the memory
                self.changed.add(key)
            self.count(type(action))
        for conflict in result.conflicts:
            self.add_conflict(key, conflict)
        if result.postponed is not None:
            self.waiting[key] = type(result.postponed)
        if isinstance(result.refused, NameCollides):
            self.collided.add(key)
            self.add_conflict(key, actions.Conflict("name", "both", "collides"))
        elif result.refused is not None:
            self.add_error(key, str(result.refused))

    def unfinished(self) -> set[str]:
        """Return the names that the next run has to look at again, whether or not their rows change."""
        return self.waiting.keys() | self.failed | self.collided


def is_mass_change(
    kinds: list[type[actions.SyncAction]], limit: ChangeLimit, report: SyncReport, *, is_plan: bool
) -> bool:
    """Return whether guarded actions of these kinds, one for each name, are too many at once for `sync.max_changes`.

    Actions on rows are compared with the number of known rows, SQL edits with the number of all users. Rows that AuthMe
    deletes by itself do not count, however many they are, unless the table is empty. Blocking.
    """
    counted = len(kinds) - kinds.count(actions.MarkUnverifiedMissing)
    rows = counted - kinds.count(actions.ApplySqlEdit)
    enough = limit.min_rows_for(counted)  # no need to count further
    known = SyncRecord.select(SyncRecord.username_key).where(SyncRecord.presence == PRESENT).limit(enough).count()
    if report.scanned == 0 and known > 0 and _count_missing(kinds):
        return True
    if is_plan:
        known += report.adopted
    users = SyncRecord.select(SyncRecord.username_key).where(SyncRecord.user_id.is_null(False)).limit(enough).count()
    return limit.is_exceeded_by(rows, known) or limit.is_exceeded_by(counted, max(known, users))


def count_held_back(kinds: list[type[actions.SyncAction]], limit: ChangeLimit) -> HeldBack:
    """Return the report's counts of actions of these kinds."""
    locked, edited = kinds.count(actions.Lock), kinds.count(actions.ApplySqlEdit)
    passwords, missing = kinds.count(actions.TakeEarlierPassword), _count_missing(kinds)
    removed = len(kinds) - locked - edited - passwords
    return HeldBack(removed, locked, edited, passwords, missing, str(limit))


def _count_missing(kinds: list[type[actions.SyncAction]]) -> int:
    return sum(issubclass(kind, actions.MarkMissing) for kind in kinds)
