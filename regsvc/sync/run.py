"""Sync runs: over the names that may need something, and once a day over all of them.

Neither table is ever loaded whole, and usually no row crosses the wire at all (`changes`). Guarded actions, such as
removals and locks, are collected first and applied last, unless they are too many at once. Every account is decided on
by `rules.decide`, also in a full run.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Final, TextIO

from msgspec import UNSET
from peewee import Database, PeeweeException

from plugin_bridge.authme.players import NameCollides, PlayerRow, Players, PlayersUnavailable, is_findable
from regsvc.core.clock import Clock
from regsvc.core.errors import Refusal
from regsvc.core.progress import Progress
from regsvc.core.units import ChangeLimit
from regsvc.database.audit import Audit
from regsvc.database.engine import is_retryable, is_unreachable, waited_for_lock
from regsvc.database.models import APPROVED, PRESENT, SyncRecord, User
from regsvc.sync.actions import (
    MarkMissing,
    MarkUnverifiedMissing,
    Provision,
    SyncAction,
)
from regsvc.sync.bulk_actions import Adopt, ApplyMembershipEdit, ApplySqlEdit, EndMembership
from regsvc.sync.candidates import (
    FULL_EVERY,
    Candidates,
    ChangedRows,
    RunInputs,
    TableChanges,
    TableComparison,
    fingerprint,
)
from regsvc.sync.effects import Conflict
from regsvc.sync.pages import ReconcileResult, Scope
from regsvc.sync.planning import PlannedReconciler
from regsvc.sync.reconciler import Reconciler
from regsvc.sync.records import Account, pages_of
from regsvc.sync.report import Changes, HeldBack, RunLog, SyncConflictFields, SyncReport
from regsvc.users.gates import ROLES_EVERY


@dataclass
class SyncRun:
    """A run in progress; a plan only reports what it would do."""

    report: SyncReport
    may_go_on: Callable[[], bool]
    reconciler: Reconciler
    """That of a plan works in memory."""
    is_full: bool = False
    is_plan: bool = False
    max_names: int = 0
    """In a plan: how many names of each kind are reported."""
    lapses: Mapping[str, datetime | None] = field(default_factory=dict)
    """In a plan: what a run would note of members first."""
    waiting: dict[str, type[SyncAction]] = field(default_factory=dict)
    """Names whose next action is guarded, with its kind: done at the end of the run, when their number is known."""
    collided: set[str] = field(default_factory=set)
    """Names that AuthMe's table considers equal to others; they wait until those are gone."""
    failed: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    """Names with an action that was applied."""
    planned: set[str] = field(default_factory=set)
    """In a plan: the names looked at, each of which is reported once."""
    last: tuple[RunInputs, datetime] | None = None
    """What the last completed run decided with, and when every row was last compared; None: there was none."""
    pause: timedelta = timedelta()
    """Time since the last run, by a clock that may have been set since."""

    @property
    def has_doubtful_ends(self) -> bool:
        """Whether memberships are to end after a pause so long that the clock may have been set forward."""
        return self.pause > _LONGEST_PAUSE and EndMembership in self.waiting.values()

    def add_error(self, key: str, error: str) -> None:
        """Report the error, once for each name."""
        if key not in self.failed:
            self.failed.add(key)
            self.report.add_error(key, error)

    def add_conflict(self, key: str, conflict: Conflict) -> None:
        """Report the conflict."""
        why = conflict.why or UNSET
        self.report.conflicts.append(
            SyncConflictFields(username=key, field=conflict.field, kept=conflict.kept, why=why)
        )

    def count(self, kind: type[SyncAction]) -> None:
        """Count an action of this kind in the report."""
        if kind.counter is not None:
            setattr(self.report, kind.counter, getattr(self.report, kind.counter) + 1)

    def _add_changes(self, found: dict[str, Changes], key: str, applied: Sequence[SyncAction]) -> None:
        """Add the actions applied to a name to changes by kind, each kind once."""
        labels = dict.fromkeys(action.label for action in applied if action.label is not None)
        if MarkMissing.label in labels and Provision.label in labels:
            del labels[Provision.label]
            labels = dict.fromkeys(MarkMissing.returning if one == MarkMissing.label else one for one in labels)
        for label in labels:
            changes = found.setdefault(label.name, Changes(label.one, label.several))
            changes.count += 1
            if len(changes.names) < self.max_names:
                changes.names.append(key)

    def record(self, key: str, result: ReconcileResult) -> None:
        """Report the outcome of the reconciliation of one name."""
        if self.report.held_back is not None:  # what a plan looks at then is what the guard holds back
            self._add_changes(self.report.changes_held_back, key, result.applied)
            return
        self._add_changes(self.report.changes, key, result.applied)
        for action in result.applied:
            if not isinstance(action, Adopt):  # a million of them would fill the memory
                self.changed.add(key)
            self.count(type(action))
            if isinstance(action, EndMembership):
                self.report.memberships_ended[action.because] += 1
        for conflict in result.conflicts:
            self.add_conflict(key, conflict)
        if result.postponed is not None:
            self.waiting[key] = type(result.postponed)
        if isinstance(result.refused, NameCollides):
            self.collided.add(key)
            self.add_conflict(key, Conflict("name", "both", "collides"))
        elif result.refused is not None:
            self.add_error(key, str(result.refused))

    def unfinished(self) -> set[str]:
        """Return the names that the next run has to look at again, whether or not their rows change."""
        return self.waiting.keys() | self.failed | self.collided


_LONGEST_PAUSE: Final = timedelta(days=3)
"""Time without a run after which ends of memberships wait for a person: longer than a machine is off over a weekend.

It is shorter than the notice of which `membership.remind` gives users by default: who ends within it knows.
"""

_OF_USERS: Final = (ApplySqlEdit, ApplyMembershipEdit, EndMembership)
"""Guarded actions on users, who need have no row."""


def is_mass_change(run: SyncRun, limit: ChangeLimit) -> bool:
    """Return whether the guarded actions that wait, one for each name, are too many at once for `sync.max_changes`.

    Actions on rows are compared with the number of known rows, those on users alone with the number of all users, or
    without AuthMe of those who are approved. Rows that AuthMe deletes by itself do not count, however many they are,
    unless the table is empty. Blocking.
    """
    kinds, unstored = list(run.waiting.values()), run.reconciler.unstored
    counted = len(kinds) - kinds.count(MarkUnverifiedMissing)
    rows = counted - sum(kind in _OF_USERS for kind in kinds)
    if EndMembership in kinds:
        counted += _count_ended_with_roles(run.report.started_at)
    enough = limit.min_rows_for(counted)  # no need to count further
    known = SyncRecord.select(SyncRecord.username_key).where(SyncRecord.presence == PRESENT).limit(enough).count()
    known += unstored["rows"]
    if run.report.scanned == 0 and known > 0 and any(issubclass(kind, MarkMissing) for kind in kinds):
        return True
    users = SyncRecord.select(SyncRecord.username_key).where(SyncRecord.user_id.is_null(False)).limit(enough).count()
    users += unstored["users"]
    if not run.reconciler.is_enabled:  # where there is no AuthMe, users have no sync record
        users = User.select(User.id).where(User.status == APPROVED).limit(enough).count()
    return limit.is_exceeded_by(rows, known) or limit.is_exceeded_by(counted, max(known, users))


def _count_ended_with_roles(now: datetime) -> int:
    """Return how many memberships ended with a role within the time in which all members are looked at once.

    They come one after the other, a few in each run, also when all have lost their roles by a mistake.
    """
    is_recent = User.ended_at.between(now - ROLES_EVERY, now)
    return int(User.select(User.id).where(is_recent, User.ended_because == "role").count())


def count_held_back(kinds: list[type[SyncAction]], limit: ChangeLimit, days: int = 0) -> HeldBack:
    """Return the report's counts of actions of these kinds; `days`: see `HeldBack`."""
    counts = Counter(kind.label.name for kind in kinds if kind.label is not None)
    missing = counts["missing"]
    return HeldBack(
        removed=counts["removed"] + missing,
        locked=counts["locked"] + counts["ended"],
        edited=counts["edited"],
        passwords=counts["passwords"],
        limit=str(limit),
        missing=missing,
        ended=counts["ended"],
        days=days,
    )


log = logging.getLogger(__name__)

_ROWS = 2_000
"""Rows of AuthMe's table read at once in a full run, which locks an SQLite file for twenty milliseconds."""
_TRIES = 3
"""How often a page that loses a deadlock is tried in one run."""
_PAUSE = 0.1
"""Seconds before a page is tried again, and again as many."""
_QUIET_FOR = 2.0
"""Seconds before a run shows its progress."""
_MAX_BUCKETS = 8_192
"""If more than this many of the 65,536 buckets changed, or of the rows on SQLite, looking at every row is cheaper."""


class _Stopped(Exception):
    """The process was told to stop: the next run does the rest."""


class SyncRunner:
    """Runner of the sync over all accounts, each time with a `SyncRun`. Blocking: it has a thread of its own."""

    def __init__(
        self, database: Database, players: Players, reconciler: Reconciler, audit: Audit, limit: ChangeLimit, now: Clock
    ) -> None:
        self._database = database
        self._players = players
        self._reconciler = reconciler
        self._max_changes = limit
        self._now = now
        self._run_log = RunLog(database, audit)
        self._comparison = TableComparison(database, players)
        self._candidates = Candidates(database, players)
        self._changed_rows = ChangedRows(database)
        self._ran_at: datetime | None = None
        """When this process last completed a run; while ends wait as the clock may be wrong: the last time before."""
        self._doubted: timedelta | None = None
        """The pause for which ends wait; None: they do not."""
        self._compared_at: datetime | None = None
        """When this process last compared every row."""
        self.terminal: TextIO | None = None
        """Where a long run draws its progress; None: it is logged."""

    def run(
        self,
        *,
        is_plan: bool = False,
        is_full: bool = False,
        allow_mass_changes: bool = False,
        max_names: int = 0,
        lapses: Mapping[str, datetime | None] = MappingProxyType({}),
        may_go_on: Callable[[], bool] = lambda: True,
    ) -> SyncReport:
        """Bring both sides in sync, or with `is_plan` only report the differences; `is_full` compares every row.

        Of a plan: `max_names` of each kind of change are reported; `lapses`: what a run would note of members first,
        by name.

        `may_go_on` is called between pages; when it returns False, the run reports what it did, and the next run does
        the rest.

        AuthMe's table being unavailable is an error in the report, never an exception; our database being so is one.
        """
        report = SyncReport(started_at=self._now(), is_enabled=self._reconciler.is_enabled)
        report.restores_players = self._reconciler.policy.on_player_removed == "restore"
        reconciler = PlannedReconciler(self._reconciler, lapses) if is_plan else self._reconciler
        last = RunInputs.find_last()
        known = [at for at in (self._ran_at, last and last[1]) if at is not None]
        pause = report.started_at - max(known) if known else timedelta()
        pause = pause if self._doubted is None else min(pause, self._doubted)  # it is over since ends wait
        run = SyncRun(report, may_go_on, reconciler, is_full, is_plan, max_names, lapses, last=last, pause=pause)
        started = time.monotonic()
        self._run_log.report_dates(report, is_plan=is_plan, is_full=is_full)
        try:
            try:
                self._players.refresh()
                self._reconcile_all(run, allow_mass_changes)
            except PlayersUnavailable as error:
                report.unavailable = str(error)
                report.add_error(None, str(error))
                self._reconcile_without_players(run)
                self._finish(run, allow_mass_changes)
        except _Stopped:
            report.is_complete = False
        if report.is_complete and not is_plan:
            self._doubted = pause if run.has_doubtful_ends else None
            self._ran_at = self._ran_at if run.has_doubtful_ends else report.started_at
        if report.adopted and report.unavailable is None:
            report.missing_email_column = self._players.find_missing_email_column()
        report.for_list = reconciler.for_list
        report.duration_ms = round((time.monotonic() - started) * 1000)
        if not is_plan:
            self._run_log.record(report)
        return report

    def _reconcile_all(self, run: SyncRun, allow_mass_changes: bool) -> None:
        """Go over all candidates, and store the new checksums only if none was left out."""
        last, reconciler = run.last, self._reconciler
        inputs = RunInputs(fingerprint(reconciler.policy), reconciler.operators)
        is_full = run.is_full or last is None or last[0].policy != inputs.policy
        known = [at for at in (self._compared_at, last and last[1]) if at is not None]
        is_full = is_full or all(abs(self._now() - at) >= FULL_EVERY for at in known)
        is_full = is_full or (self._comparison.is_empty() and not self._players.is_empty())  # the first players
        changes = self._comparison.compare(is_full=is_full)
        run.report.scanned = changes.total
        self._reconcile_candidates(run, changes, last[0] if last is not None else None, inputs)
        self._finish(run, allow_mass_changes)
        if not run.is_plan:
            self._store(run, changes, inputs)

    def _store(self, run: SyncRun, changes: TableChanges, inputs: RunInputs) -> None:
        names, last = run.unfinished(), run.last
        is_new = (changes.is_full and not run.has_doubtful_ends) or last is None
        if names or changes.changed or changes.is_full or last is None or inputs != last[0]:

            def store() -> None:
                self._changed_rows.mark(names, self._now())
                self._comparison.store(changes, names)
                inputs.save(run.report.started_at if is_new or last is None else last[1])

            if not self._write_unless_held(store):
                return
        self._comparison.keep(changes, names, run.report.started_at)
        if changes.is_full:
            self._compared_at = run.report.started_at

    def _reconcile_candidates(
        self, run: SyncRun, changes: TableChanges, last_inputs: RunInputs | None, inputs: RunInputs
    ) -> None:
        marks = self._changed_rows.newest()  # before this run makes any
        rows = changes.scan.changed if changes.scan is not None else ()
        is_every_row = changes.is_full or len(changes.changed) + len(rows) > _MAX_BUCKETS
        if is_every_row:
            newest: int = User.select(User.id).order_by(User.id.desc()).limit(1).scalar() or 0
            self._reconcile_all_rows(run, changes.total)
            self._reconcile_pages(run, self._candidates.of_users_without_player(newest))
        else:
            self._reconcile_pages(run, self._candidates.in_changed_buckets(changes))
            self._reconcile_pages(run, pages_of(changes.open_locks))
        self._reconcile_pages(run, self._candidates.deleted_in_sql(is_full=changes.is_full))
        if run.is_plan and is_every_row:
            return  # every name has been reported
        if last_inputs is not None:
            self._reconcile_pages(run, pages_of(sorted(last_inputs.operators ^ inputs.operators)))
        self._reconcile_pages(run, pages_of(sorted(run.lapses)))
        self._reconcile_pages(run, self._due(run))
        self._reconcile_changed_rows(run, marks)

    def _due(self, run: SyncRun) -> Iterator[Sequence[str]]:
        return self._candidates.due(self._now(), self._reconciler.policy.notice, run.report.ending)

    def _reconcile_all_rows(self, run: SyncRun, total: int) -> None:
        progress = Progress("sync", total, self.terminal, unit="players", quiet_for=_QUIET_FOR)
        try:
            for page in self._players.pages(_ROWS):
                self._reconcile_rows(run, [row.username for row in page], {row.username: row for row in page})
                progress.advance(len(page))
                _stop_if_told(run)
        finally:
            progress.end()

    def _reconcile_pages(self, run: SyncRun, pages: Iterable[Sequence[str]]) -> None:
        for names in pages:
            self._reconcile_names(run, names)
            _stop_if_told(run)

    def _reconcile_changed_rows(self, run: SyncRun, newest: Sequence[datetime | None]) -> None:
        """Reconcile the names that changed on our side, and clear the marks of those in sync."""
        for page in self._changed_rows.pages(newest):
            # what this run wrote stays marked: the next one looks again, since the checksums stored now are from before
            names = sorted({mark.username_key for mark in page} - run.waiting.keys() - run.changed)
            in_sync = self._reconcile_names(run, names)
            if in_sync and not run.is_plan:
                marks = [mark for mark in page if mark.username_key in in_sync]
                self._write_unless_held(partial(self._changed_rows.clear, marks))
            _stop_if_told(run)

    def _write_unless_held(self, write: Callable[[], None]) -> bool:
        """Write in a transaction what spares the next run some work, or not if another transaction holds a row of it.

        A person's shell may hold one for hours; returns whether it was written.
        """
        try:
            with self._database.atomic():
                write()
        except PeeweeException as error:
            if not waited_for_lock(error):
                raise
            log.warning("another transaction holds rows of ours for long: the next sync run looks at them again")
            return False
        return True

    def _reconcile_names(self, run: SyncRun, names: Sequence[str]) -> set[str]:
        """Return the names that were already in sync."""
        if run.is_plan:
            names = [name for name in names if name not in run.planned]
            run.planned.update(names)
        return self._reconcile_rows(run, names, self._players.find_many(names))

    def _reconcile_rows(self, run: SyncRun, names: Sequence[str], rows: Mapping[str, PlayerRow]) -> set[str]:
        strange = [name for name in names if not is_findable(name)]
        for name in strange:  # AuthMe itself does not find it reliably
            run.add_conflict(name, Conflict("name", "both", "unfindable"))
        accounts = run.reconciler.loader.load(list(filter(is_findable, names)) if strange else names, rows)
        return self._reconcile(run, accounts, Scope(is_guarded=True, ends_memberships=True))

    def _reconcile_without_players(self, run: SyncRun) -> None:
        """Apply SQL edits and end bans even while AuthMe's table is unavailable."""
        run.waiting.clear()
        if run.is_plan:
            run.report.held_back, run.report.changes_held_back = None, {}
        for keys in chain(self._candidates.edited(), self._due(run)):
            left = [key for key in keys if key not in run.changed] if run.is_plan else keys
            accounts = run.reconciler.loader.load(left, None)
            self._reconcile(run, accounts, Scope(is_guarded=True, has_players=False, ends_memberships=True))

    def _reconcile(self, run: SyncRun, accounts: Sequence[Account], scope: Scope) -> set[str]:
        """Reconcile a page; a name with a problem is reported, and the run goes on. Returns the names in sync before.

        What fails for a whole page is done in halves, down to the one name that it fails for; what has to wait for
        another transaction is done name by name, so that the wait is not repeated for each half.
        """
        if not accounts:
            return set()
        try:
            results = self._reconcile_with_retry(run, accounts, scope)
        except (PeeweeException, AssertionError, Refusal, ValueError) as error:
            if isinstance(error, PeeweeException) and is_unreachable(error):
                raise
            if len(accounts) > 1:
                size = 1 if is_retryable(error) else (len(accounts) + 1) // 2
                return {key for part in pages_of(accounts, size) for key in self._reconcile(run, part, scope)}
            log.warning("the sync could not reconcile %s: %s", accounts[0].key, type(error).__name__)
            run.add_error(accounts[0].key, type(error).__name__)
            return set()
        for key, result in results.items():
            run.record(key, result)
        return {account.key for account in accounts} - results.keys()

    def _reconcile_with_retry(
        self, run: SyncRun, accounts: Sequence[Account], scope: Scope
    ) -> dict[str, ReconcileResult]:
        attempt = 1
        while True:
            try:
                return run.reconciler.reconcile_many(accounts, scope)
            except PeeweeException as error:
                if attempt == _TRIES or not is_retryable(error):
                    raise
                time.sleep(_PAUSE * attempt)  # AuthMe is writing one of the rows, for which we do not wait
                attempt += 1

    def _finish(self, run: SyncRun, allow_mass_changes: bool) -> None:
        """Apply the guarded actions, or hold back all of them if they are too many, and ends if the clock may be wrong.

        A plan goes on without what is held back, and reports that apart.
        """
        if not run.waiting:
            return
        held, days = dict[str, type[SyncAction]](), 0
        if not allow_mass_changes and is_mass_change(run, self._max_changes):
            held = dict(run.waiting)
        elif not allow_mass_changes and run.has_doubtful_ends:
            held = {key: kind for key, kind in run.waiting.items() if kind is EndMembership}
            days = run.pause.days
        counts = count_held_back(list(held.values()), self._max_changes, days)
        has_players = run.report.unavailable is None
        scope = Scope(
            accept_empty_table=True, has_players=has_players, ends_memberships=True, is_told_before=run.is_plan
        )
        self._reconcile_waiting(run, [key for key in run.waiting if key not in held], scope)
        if not held:
            return
        ends = [key for key, kind in held.items() if kind is EndMembership]
        self._reconcile_waiting(run, ends, Scope(is_guarded=True, has_players=has_players))  # the rest goes on
        run.waiting.update(held)
        run.report.held_back = counts
        if run.is_plan:
            run.reconciler = PlannedReconciler(self._reconciler, run.lapses)
            self._reconcile_waiting(run, list(held), scope)

    def _reconcile_waiting(self, run: SyncRun, names: Sequence[str], scope: Scope) -> None:
        for keys in pages_of(names):
            for key in keys:
                del run.waiting[key]
            rows = self._players.find_many(keys) if scope.has_players else None
            self._reconcile(run, run.reconciler.loader.load(keys, rows), scope)
            _stop_if_told(run)


def _stop_if_told(run: SyncRun) -> None:
    """Raise `_Stopped`, after a page, if the run may not go on."""
    if not run.may_go_on():
        raise _Stopped
