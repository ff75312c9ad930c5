"""State of one sync run while it is in progress."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from plugin_bridge.authme.players import NameCollides
from regsvc.sync import actions
from regsvc.sync.pages import ReconcileResult
from regsvc.sync.report import PlannedChanges, SyncReport

_COUNTERS: Final[dict[type, str]] = {
    actions.Adopt: "adopted",
    actions.Provision: "provisioned",
    actions.Merge: "updated",
    actions.TakeEarlierPassword: "updated",
    actions.Lock: "locked",
    actions.EndPasswordlessLogin: "locked",
    actions.RestorePassword: "restored",
    actions.ReclaimRow: "restored",
    actions.TakeRow: "restored",
    actions.RemoveLock: "restored",
    actions.MarkMissing: "removed",
    actions.MarkUnverifiedMissing: "removed",
    actions.Remove: "removed",
}
_PLANNED: Final[dict[type, str]] = {
    actions.Adopt: "adopted",
    actions.Provision: "provisioned",
    actions.Merge: "updated",
    actions.TakeEarlierPassword: "passwords",
    actions.Lock: "locked",
    actions.EndPasswordlessLogin: "locked",
    actions.RestorePassword: "restored",
    actions.ReclaimRow: "restored",
    actions.TakeRow: "restored",
    actions.RemoveLock: "restored",
    actions.MarkMissing: "missing",
    actions.MarkUnverifiedMissing: "missing",
    actions.Remove: "removed",
    actions.MarkDeleted: "removed",
    actions.ApplySqlEdit: "edited",
    actions.EndBan: "unbanned",
    actions.RejectNameConflict: "rejected",
    actions.RevertRename: "renamed",
}
"""Kinds of planned changes, as `words.PLANNED` describes them."""


@dataclass
class RunState:
    """A run in progress; a plan only reports what it would do."""

    report: SyncReport
    may_go_on: Callable[[], bool]
    is_full: bool = False
    is_plan: bool = False
    waiting: dict[str, type[actions.SyncAction]] = field(default_factory=dict)
    """Names whose next action is guarded, with its kind."""
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

    def postpone(self, key: str, action: actions.SyncAction) -> None:
        """Leave the action to the end of the run, when the number of guarded actions is known."""
        self.waiting[key] = type(action)

    def add_error(self, key: str, error: str) -> None:
        """Report the error, once for each name."""
        if key not in self.failed:
            self.failed.add(key)
            self.report.add_error(key, error)

    def add_conflict(self, key: str, conflict: actions.Conflict) -> None:
        """Report the conflict."""
        self.report.conflicts.append({"username": key, "field": conflict.field, "kept": conflict.kept})

    def count(self, kind: type[actions.SyncAction]) -> None:
        """Count an action of this kind in the report."""
        counter = _COUNTERS.get(kind)
        if counter is not None:
            setattr(self.report, counter, getattr(self.report, counter) + 1)

    def plan(self, key: str, kind: type[actions.SyncAction]) -> None:
        """Report a change that a run would make, or that it would hold back."""
        label = "returning" if issubclass(kind, actions.MarkMissing) and key in self.returning else _PLANNED.get(kind)
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
            self.postpone(key, result.postponed)
        if isinstance(result.refused, NameCollides):
            self.collided.add(key)
            self.add_conflict(key, actions.Conflict("name", "both"))
        elif result.refused is not None:
            self.add_error(key, str(result.refused))

    def unfinished(self) -> set[str]:
        """Return the names that the next run has to look at again, whether or not their rows change."""
        return self.waiting.keys() | self.failed | self.collided
