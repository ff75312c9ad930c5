"""One sync run: over the names that may need something, and once a day over all of them.

Neither table is ever loaded whole, and usually no row crosses the wire at all (`changes`). Guarded actions, such as
removals and locks, are collected first and applied last, unless they are too many at once.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TextIO

from peewee import Database, PeeweeException

from plugin_bridge.authme.players import NameCollides, PlayerRow, Players, PlayersUnavailable, is_findable
from regsvc.core.clock import Clock
from regsvc.core.errors import Refusal
from regsvc.core.progress import Progress
from regsvc.core.units import ChangeLimit
from regsvc.database.audit import Audit
from regsvc.database.engine import is_retryable, is_unreachable
from regsvc.database.models import APPROVED, PENDING, REJECTED, User
from regsvc.sync import actions
from regsvc.sync.adoption import adopt_each
from regsvc.sync.bulk.adoption import BulkAdoption
from regsvc.sync.bulk.in_sync_rows import BATCH, InSyncRows, KeyRange
from regsvc.sync.bulk.predicted_emails import PredictedEmails
from regsvc.sync.bulk.steps import BulkSteps, is_password_only
from regsvc.sync.changes.candidates import Candidates, count_users, pages_of
from regsvc.sync.changes.changed_rows import ChangedRows
from regsvc.sync.changes.run_inputs import LastRun, RunInputs, UserTally, fingerprint
from regsvc.sync.changes.table_digest import FULL_EVERY, TableChanges, TableDigest
from regsvc.sync.mass_change_guard import MassChangeGuard
from regsvc.sync.plan import decide, lock_after_adoption
from regsvc.sync.reconciler import USER_ONLY, Reconciler, ReconcileResult
from regsvc.sync.records import Account
from regsvc.sync.report import SyncReport
from regsvc.sync.run_log import RunLog
from regsvc.sync.run_state import RunState

log = logging.getLogger(__name__)

PAGE = 500
"""Rows a page; reading one locks AuthMe's SQLite file for a few milliseconds."""
_TRIES = 3
"""How often a name that loses a deadlock is tried in one run."""
_QUIET_FOR = 2.0
"""Seconds before a run shows its progress."""
_MAX_BUCKETS = 8_192
"""If more than this many of the 65,536 buckets changed, looking at every row is cheaper."""


class Sync:
    """One sync run. Blocking: has a thread of its own."""

    def __init__(
        self,
        database: Database,
        players: Players,
        reconciler: Reconciler,
        audit: Audit,
        max_changes: ChangeLimit,
        now: Clock,
    ) -> None:
        self._database = database
        self._players = players
        self._reconciler = reconciler
        self._audit = audit
        self._guard = MassChangeGuard(max_changes)
        self._now = now
        self._run_log = RunLog(database, audit)
        self._digest = TableDigest(database, players)
        self._candidates = Candidates(database, players)
        self._changed_rows = ChangedRows(database)
        self._bulk_steps = BulkSteps(database, reconciler)
        self.terminal: TextIO | None = None
        """Where a long run draws its progress; None: it is logged."""

    def run(
        self,
        *,
        is_plan: bool = False,
        is_full: bool = False,
        allow_mass_changes: bool = False,
        may_go_on: Callable[[], bool] = lambda: True,
    ) -> SyncReport:
        """Bring both sides in sync, or with `is_plan` only report the differences; `is_full` compares every row.

        `may_go_on` is called between pages; when it returns False, the run reports what it did, and the next run does
        the rest.

        AuthMe's table being unavailable is an error in the report, never an exception; our database being so is one.
        """
        report = SyncReport(self._now(), is_enabled=self._reconciler.is_enabled)
        run = RunState(report, may_go_on, is_full, PredictedEmails() if is_plan else None)
        started = time.monotonic()
        try:
            self._players.refresh()
            self._reconcile_all(run, allow_mass_changes)
        except PlayersUnavailable as error:
            run.report.unavailable = str(error)
            run.report.add_error(None, str(error))
            self._reconcile_without_players(run)
            self._finish(run, allow_mass_changes)
        run.report.duration_ms = round((time.monotonic() - started) * 1000)
        if not is_plan:
            self._run_log.record(run.report)
        return run.report

    def _reconcile_all(self, run: RunState, allow_mass_changes: bool) -> None:
        """Go over all candidates, and store the new digest only if none was left out."""
        last, inputs = LastRun.find(), self._inputs()
        is_full = run.is_full or last is None or last.inputs.policy != inputs.policy
        is_full = is_full or last is None or self._now() - last.compared_at >= FULL_EVERY
        is_full = is_full or (self._digest.is_empty() and not self._players.is_empty())  # the first players
        changes = self._digest.compare(is_full=is_full, may_write=not run.is_plan)
        run.report.scanned = changes.total
        last_inputs = last.inputs if last is not None else None
        for may_go_on in self._reconcile_candidates(run, changes, last_inputs, inputs):
            if not may_go_on:
                return
        if self._finish(run, allow_mass_changes) and not run.is_plan:
            self._store(run, changes, last, inputs)

    def _inputs(self) -> RunInputs:
        reconciler = self._reconciler
        return RunInputs(fingerprint(reconciler.policy), reconciler.operators, count_users(self._database))

    def _store(self, run: RunState, changes: TableChanges, last: LastRun | None, inputs: RunInputs) -> None:
        names = run.unfinished()
        bucket_of_name = self._players.buckets_of(names)
        unfinished = set(bucket_of_name.values())
        if names:
            inputs = replace(inputs, users=UserTally(-1, 0, 0))  # a user deleted in SQL may be among them
        has_new_inputs = last is None or inputs != last.inputs
        if not (names or changes.changed or changes.is_full or has_new_inputs):
            self._digest.store(changes, unfinished, run.report.started_at)
            return
        with self._database.atomic():
            self._changed_rows.mark(names - bucket_of_name.keys(), self._now())
            self._digest.store(changes, unfinished, run.report.started_at)
            inputs.save(run.report.started_at if changes.is_full or last is None else last.compared_at)

    def _reconcile_candidates(
        self, run: RunState, changes: TableChanges, last_inputs: RunInputs | None, inputs: RunInputs
    ) -> Iterator[bool]:
        """Yield after each page whether the run may go on."""
        is_every_row = changes.is_full or len(changes.changed) > _MAX_BUCKETS
        if is_every_row:
            newest: int = User.select(User.id).order_by(User.id.desc()).limit(1).scalar() or 0
            yield from self._reconcile_all_rows(run, changes.total)
            yield from self._reconcile_pages(run, self._candidates.of_users_without_player(newest))
        else:
            changed = self._candidates.in_changed_buckets(changes)
            yield from self._reconcile_pages(run, (self._apply_password_changes(run, names) for names in changed))
        yield from self._reconcile_pages(run, self._candidates.deleted_in_sql(last_inputs, inputs))
        if run.is_plan and is_every_row:
            return  # every name has been reported
        if last_inputs is not None:
            yield from self._reconcile_pages(run, pages_of(sorted(last_inputs.operators ^ inputs.operators)))
        yield from self._reconcile_pages(run, self._candidates.expired_bans(self._now()))
        yield from self._reconcile_changed_rows(run)

    def _reconcile_all_rows(self, run: RunState, total: int) -> Iterator[bool]:
        progress = Progress("sync", total, self.terminal, unit="players", quiet_for=_QUIET_FOR)
        try:
            table = self._players.shared_table()
            if table is None:
                for page in self._players.pages(PAGE):
                    self._reconcile_rows(run, [row.username for row in page], {row.username: row for row in page})
                    progress.advance(len(page))
                    yield run.may_go_on()
                return
            rows = InSyncRows(self._database, table)
            bulk = BulkAdoption(self._database, table, self._audit, self._reconciler.policy)
            for within in rows.ranges():
                for names in pages_of(self._adopt_in_bulk(run, bulk, rows, within)):
                    self._reconcile_names(run, names)
                progress.advance(BATCH)
                yield run.may_go_on()
        finally:
            progress.end()

    def _adopt_in_bulk(self, run: RunState, bulk: BulkAdoption, rows: InSyncRows, within: KeyRange) -> list[str]:
        """Adopt the players that SQL can decide on. Returns the names that still need individual reconciliation."""
        operators = self._reconciler.operators
        if run.predicted_emails is None:
            adopted = bulk.adopt(within, operators, self._now())
            run.report.adopted += adopted.count
            return list(adopted.not_approved) if adopted.is_whole_range else rows.out_of_sync_within(within)
        plan = bulk.plan(within, operators, run.predicted_emails.maybe_taken)
        run.report.adopted += plan.count
        if self._reconciler.policy.unapproved_players == "lock":
            run.waiting |= {
                key: actions.Lock for key, status in plan.not_approved.items() if status in (PENDING, REJECTED)
            }
        return list(plan.remaining)

    def _apply_password_changes(self, run: RunState, names: Sequence[str]) -> Sequence[str]:
        """Apply plain password changes, the most frequent ones, in bulk. Returns the names that may need more."""
        return names if run.is_plan else self._apply_in_bulk(run, names, (actions.Merge,))

    def _apply_in_bulk(self, run: RunState, keys: Sequence[str], kinds: tuple[type, ...]) -> list[str]:
        """Apply the bulk-safe actions of these kinds. Returns the names that may need more."""
        result = self._bulk_steps.apply(keys, kinds)
        for key, applied in result.applied.items():
            for action in applied:
                run.count(key, type(action), action)
        return [key for key in keys if key not in result.in_sync]

    def _reconcile_pages(self, run: RunState, pages: Iterator[Sequence[str]]) -> Iterator[bool]:
        for names in pages:
            self._reconcile_names(run, names)
            yield run.may_go_on()

    def _reconcile_changed_rows(self, run: RunState) -> Iterator[bool]:
        """Reconcile the names that changed on our side, and clear the marks of those in sync."""
        for page in self._changed_rows.pages():
            names = sorted({mark.username_key for mark in page} - run.waiting.keys())
            in_sync = self._reconcile_names(run, names)
            if not run.is_plan:
                with self._database.atomic():
                    self._changed_rows.clear([mark for mark in page if mark.username_key in in_sync])
            yield run.may_go_on()

    def _reconcile_names(self, run: RunState, names: Sequence[str]) -> set[str]:
        """Return the names that were already in sync."""
        if run.is_plan:
            names = [name for name in names if name not in run.planned]
            run.planned.update(names)
        return self._reconcile_rows(run, names, self._players.find_many(names))

    def _reconcile_rows(self, run: RunState, names: Sequence[str], rows: Mapping[str, PlayerRow]) -> set[str]:
        keys = [name for name in names if self._is_findable(run, name)]
        return self._reconcile_accounts(run, self._load(run, keys, rows))

    def _reconcile_without_players(self, run: RunState) -> None:
        """Apply SQL edits and end bans even while AuthMe's table is unavailable."""
        run.waiting.clear()
        for keys in chain(self._candidates.edited(), self._candidates.expired_bans(self._now())):
            self._reconcile_accounts(run, self._load(run, keys, {}), USER_ONLY)

    def _load(self, run: RunState, keys: Collection[str], rows: Mapping[str, PlayerRow]) -> list[Account]:
        """Load these accounts; a user with an invalid date, which SQLite accepts, is reported and left out."""
        try:
            return self._reconciler.load_many(keys, rows)
        except ValueError:
            if len(keys) == 1:
                run.add_error(next(iter(keys)), "a date in our table cannot be read")
                return []
            return [account for key in keys for account in self._load(run, [key], rows)]

    def _is_findable(self, run: RunState, name: str) -> bool:
        """Report a name that is not a valid lower-case one, and leave it: AuthMe itself does not find it reliably."""
        if is_findable(name):
            return True
        run.add_conflict(name, actions.Conflict("name", "both"))
        return False

    def _reconcile_accounts(
        self, run: RunState, accounts: list[Account], kinds: tuple[type, ...] = (object,)
    ) -> set[str]:
        """Apply the next actions of these accounts, of `kinds` only. Returns the names that were already in sync."""
        adoptions: list[tuple[Account, actions.Adopt]] = []
        passwords: list[str] = []
        in_sync = set()
        for account in accounts:
            action = decide(account, self._reconciler.policy)
            if action is None:
                in_sync.add(account.key)
            if not isinstance(action, kinds):
                continue
            if isinstance(action, actions.Adopt):
                adoptions.append((account, action))
            elif action is not None and is_password_only(action) and not run.is_plan:
                passwords.append(account.key)
            elif action is not None:
                self._apply(run, account.key, action)
        self._reconcile_page(run, passwords, (actions.Merge,), is_finishing=False)
        self._adopt(run, adoptions)
        return in_sync

    def _reconcile_page(
        self, run: RunState, keys: Sequence[str], kinds: tuple[type, ...], *, is_finishing: bool
    ) -> bool:
        """Reconcile these names, in bulk where possible, the others one by one. Returns False if stopped."""
        for key in keys if run.report.unavailable is not None else self._apply_in_bulk(run, keys, kinds):
            self._reconcile_name(run, key, is_finishing=is_finishing)
            if is_finishing and not run.may_go_on():
                return False
        return True

    def _apply(self, run: RunState, key: str, action: actions.SyncAction) -> None:
        if isinstance(action, actions.GUARDED):
            run.postpone(key, action)
        elif run.predicted_emails is not None:
            run.count(key, type(action), run.predicted_emails.predict_conflicts(key, action))
        else:
            self._reconcile_name(run, key)

    def _adopt(self, run: RunState, adoptions: list[tuple[Account, actions.Adopt]]) -> None:
        if not adoptions:
            return
        new = [adoption for _account, adoption in adoptions]
        if run.predicted_emails is not None:
            adopted = run.predicted_emails.adopt(new)
        else:
            adopted = adopt_each(self._database, self._audit, new, self._now())
        run.report.adopted += adopted.count
        for username, conflict in adopted.conflicts.items():
            run.add_conflict(username, conflict)
        if run.is_plan:
            for account, adoption in adoptions:
                lock = lock_after_adoption(adoption, account.is_operator, self._reconciler.policy)
                if lock is not None:
                    run.postpone(account.key, lock)
        else:
            self._apply_after_adoption(run, {a.player.username: a.player for a in new if a.status != APPROVED})

    def _apply_after_adoption(self, run: RunState, rows: dict[str, PlayerRow]) -> None:
        """Apply what the status of the adopted players entails."""
        for account in self._reconciler.load_many(rows.keys(), rows):
            action = decide(account, self._reconciler.policy)
            if action is not None:
                self._apply(run, account.key, action)

    def _reconcile_name(self, run: RunState, key: str, *, is_finishing: bool = False) -> None:
        """Reconcile one name; a problem with it is reported, and the run goes on."""
        try:
            result = self._reconcile_with_retry(run, key, is_finishing)
        except (PeeweeException, AssertionError, Refusal) as error:
            if isinstance(error, PeeweeException) and is_unreachable(error):
                raise
            log.warning("the sync could not reconcile %s: %s", key, type(error).__name__)
            run.add_error(key, type(error).__name__)
            return
        for action in result.applied:
            run.count(key, type(action), action)
        if result.postponed is not None:
            run.postpone(key, result.postponed)
        if isinstance(result.refused, NameCollides):
            run.collided.add(key)
            run.add_conflict(key, actions.Conflict("name", "both"))
        elif result.refused is not None:
            run.add_error(key, str(result.refused))

    def _reconcile_with_retry(self, run: RunState, key: str, is_finishing: bool) -> ReconcileResult:
        for _try in range(_TRIES - 1):
            try:
                return self._reconcile_once(run, key, is_finishing)
            except PeeweeException as error:
                if not is_retryable(error):
                    raise
        return self._reconcile_once(run, key, is_finishing)

    def _reconcile_once(self, run: RunState, key: str, is_finishing: bool) -> ReconcileResult:
        if run.report.unavailable is not None:
            return self._reconciler.reconcile_without_player(key, is_guarded=not is_finishing)
        return self._reconciler.reconcile(key, is_guarded=not is_finishing, accept_empty_table=is_finishing)

    def _finish(self, run: RunState, allow_mass_changes: bool) -> bool:
        """Apply the guarded actions, or hold back all of them if they are too many. Returns False if stopped."""
        if not run.waiting:
            return True
        kinds = list(run.waiting.values())
        if not allow_mass_changes and self._guard.is_exceeded(kinds, run.report, is_plan=run.is_plan):
            run.report.held_back = self._guard.count_held_back(run.waiting)
            return True
        for keys in pages_of(list(run.waiting)):
            for key in keys:
                kind = run.waiting[key] if run.is_plan else run.waiting.pop(key)
                if run.is_plan:
                    run.count(key, kind)
            if not run.is_plan and not self._reconcile_page(run, keys, (object,), is_finishing=True):
                return False
            if not run.may_go_on():
                return False
        return True
