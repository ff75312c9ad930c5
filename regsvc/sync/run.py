"""One run of the sync: over the names that may have something to do, and once a day over all of them.

Neither table is ever loaded whole, and mostly neither crosses the wire at all (`digest`). What a run believes removed
or would lock is gathered first and done last, if it is not too much at once.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, TextIO

from peewee import Database, PeeweeException

from plugin_bridge.authme.players import NameCollides, PlayerRow, Players, PlayersUnavailable, is_findable
from regsvc.core.clock import Clock
from regsvc.core.errors import Refusal
from regsvc.core.progress import Progress
from regsvc.core.units import ChangeLimit
from regsvc.database.audit import Audit
from regsvc.database.engine import is_retryable, is_unreachable
from regsvc.database.models import APPROVED, PENDING, PRESENT, REJECTED, Player, User
from regsvc.sync import decisions as d
from regsvc.sync.adoption import adopt_each
from regsvc.sync.bulk.adoption import BulkAdoption
from regsvc.sync.bulk.in_sync_rows import BATCH, KeyRange, SettledRows
from regsvc.sync.bulk.planned_emails import PredictedEmails
from regsvc.sync.bulk.steps import BulkSteps, is_password_alone
from regsvc.sync.changes.candidates import Candidates, count_users, pages_of
from regsvc.sync.changes.changed_rows import ChangedRows
from regsvc.sync.changes.table_digest import FULL_EVERY, Digest, RunInputs, TableChanges, UserTally, fingerprint
from regsvc.sync.plan import decide, lock_after
from regsvc.sync.reconciler import USER_ONLY, Reconciler, ReconcileResult
from regsvc.sync.records import Account
from regsvc.sync.report import HeldBack, SyncReport
from regsvc.sync.run_log import RunLog

log = logging.getLogger(__name__)

PAGE = 500
"""Rows a page; reading one holds AuthMe's SQLite file for a few milliseconds."""
_TRIES = 3
"""How often a name is looked at in one run when it loses a deadlock."""
_QUIET_FOR = 2.0
"""Seconds before a run shows its progress."""
_MOST_BUCKETS = 8_192
"""When more than this many of the 65,536 buckets changed, looking at everything is cheaper."""


@dataclass
class _Run:
    """A run under way. `waiting` are the names whose next step may be too much at once, with its kind."""

    report: SyncReport
    is_plan: bool
    may_go_on: Callable[[], bool]
    is_full: bool = False
    waiting: dict[str, type[d.Decision]] = field(default_factory=dict)
    collided: set[str] = field(default_factory=set)
    """Names that AuthMe's table takes for others; they wait for those to go."""
    wrong: set[str] = field(default_factory=set)
    told: set[str] = field(default_factory=set)
    """With `is_plan`: names looked at, each of which is told of once."""
    emails: PredictedEmails = field(default_factory=PredictedEmails)

    def put_off(self, key: str, decision: d.Decision) -> None:
        """Leave this step to the end of the run, where it is known how many there are."""
        self.waiting[key] = type(decision)

    def add_error(self, key: str, error: str) -> None:
        """Tell of it, once, however often the name is looked at."""
        if key not in self.wrong:
            self.wrong.add(key)
            self.report.add_error(key, error)

    def left(self) -> set[str]:
        """All names that the next run has to look at again, whatever becomes of their rows."""
        return self.waiting.keys() | self.wrong | self.collided


class Sync:
    """Goes over the names. Blocking: runs on a thread of its own."""

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
        self._max_changes = max_changes
        self._now = now
        self._telling = RunLog(database, audit)
        self._digest = Digest(database, players)
        self._names = Candidates(database, players)
        self._marks = ChangedRows(database)
        self._bulk_steps = BulkSteps(database, players, reconciler)
        self.terminal: TextIO | None = None
        """Where a long run draws a bar; None: it writes to the log."""

    def run(
        self,
        *,
        is_plan: bool = False,
        is_full: bool = False,
        allow_mass_changes: bool = False,
        may_go_on: Callable[[], bool] = lambda: True,
    ) -> SyncReport:
        """Close every difference, or with `is_plan` only tell them; `is_full`: look at every row.

        `may_go_on` is asked between pages; a run that is stopped tells what it did, and the next one does the rest.

        AuthMe being away is an error in the report, never an exception; the database being away is one.
        """
        report = SyncReport(self._now(), is_enabled=self._reconciler.is_enabled)
        run = _Run(report, is_plan, may_go_on, is_full)
        started = time.monotonic()
        try:
            self._players.refresh()
            self._go_over_everybody(run, allow_mass_changes)
        except PlayersUnavailable as error:
            run.report.away = str(error)
            run.report.add_error(None, str(error))
            self._look_at_our_side(run)
            self._finish(run, allow_mass_changes)
        run.report.duration_ms = round((time.monotonic() - started) * 1000)
        if not is_plan:
            self._telling.tell(run.report)
        return run.report

    def _go_over_everybody(self, run: _Run, allow_mass_changes: bool) -> None:
        """The digest moves only here, and only when all of it was gone through."""
        before, now = RunInputs.find(), self._circumstances()
        is_whole = run.is_full or before is None or before[0].policy != now.policy
        is_whole = is_whole or before is None or self._now() - before[1] >= FULL_EVERY
        is_whole = is_whole or (self._digest.is_empty() and not self._players.is_empty())  # the first to be adopted
        seen = self._digest.look(is_whole=is_whole, may_write=not run.is_plan)
        run.report.scanned = seen.total
        known = before[0] if before is not None else None
        for is_done in self._look_at_everybody(run, seen, known, now):
            if not is_done:
                return
        if self._finish(run, allow_mass_changes) and not run.is_plan:
            self._keep(run, seen, before, now)

    def _circumstances(self) -> RunInputs:
        reconciler = self._reconciler
        return RunInputs(fingerprint(reconciler.policy), reconciler.operators, count_users(self._database))

    def _keep(self, run: _Run, seen: TableChanges, before: Any, now: RunInputs) -> None:
        names = run.left()
        placed = self._players.buckets_of(names)
        left, is_whole = set(placed.values()), seen.is_whole or before is None
        if names:
            now = replace(now, users=UserTally(-1, 0, 0))  # somebody deleted in SQL may be among them
        if not names and not seen.changed and not is_whole and now == before[0]:
            self._digest.keep(seen, left, run.report.started_at)
            return
        with self._database.atomic():
            self._marks.make(names - placed.keys(), self._now())
            self._digest.keep(seen, left, run.report.started_at)
            now.keep(run.report.started_at if is_whole else before[1])

    def _look_at_everybody(
        self, run: _Run, seen: TableChanges, before: RunInputs | None, now: RunInputs
    ) -> Iterator[bool]:
        """A page at a time; False: stopped on the way."""
        looks_at_all = seen.is_whole or len(seen.changed) > _MOST_BUCKETS
        if looks_at_all:
            newest: int = User.select(User.id).order_by(User.id.desc()).limit(1).scalar() or 0
            yield from self._look_at_all_rows(run, seen.total)
            yield from self._look_at_names(run, self._names.of_users_without_player(newest))
        else:
            changed = self._names.in_changed_buckets(seen)
            yield from self._look_at_names(run, (self._take_first(run, names) for names in changed))
        yield from self._look_at_names(run, self._names.deleted_in_sql(before, now))
        if run.is_plan and looks_at_all:
            return  # everybody has been told of
        if before is not None:
            yield from self._look_at_names(run, pages_of(sorted(before.operators ^ now.operators)))
        yield from self._look_at_names(run, self._names.bans_over(self._now()))
        yield from self._look_at_marks(run)

    def _look_at_all_rows(self, run: _Run, total: int) -> Iterator[bool]:
        progress = Progress("sync", total, self.terminal, unit="players", quiet_for=_QUIET_FOR)
        try:
            table = self._players.shared_table()
            if table is None:
                for page in self._players.pages(PAGE):
                    self._look_at_rows(run, [row.username for row in page], {row.username: row for row in page})
                    progress.advance(len(page))
                    yield run.may_go_on()
                return
            rows = SettledRows(self._database, table)
            bulk = BulkAdoption(self._database, table, self._audit, self._reconciler.policy)
            for within in rows.ranges():
                for names in pages_of(self._adopt_in_bulk(run, bulk, rows, within)):
                    self._look_at(run, names)
                progress.advance(BATCH)
                yield run.may_go_on()
        finally:
            progress.end()

    def _adopt_in_bulk(self, run: _Run, bulk: BulkAdoption, rows: SettledRows, within: KeyRange) -> list[str]:
        """Adopt whom SQL can decide; comes back with the names that are to be looked at afterwards."""
        operators = self._reconciler.operators
        if not run.is_plan:
            adopted = bulk.adopt(within, operators, self._now())
            run.report.adopted += adopted.count
            return list(adopted.unsettled) if adopted.is_everybody else rows.unsettled_within(within)
        planned = bulk.plan(within, operators, run.emails.contested)
        run.report.adopted += planned.count
        if self._reconciler.policy.unapproved_players == "lock":
            run.waiting |= {key: d.Lock for key, status in planned.unsettled.items() if status in (PENDING, REJECTED)}
        return list(planned.names)

    def _take_first(self, run: _Run, names: Sequence[str]) -> Sequence[str]:
        """Most rows that changed have another password, and are done with by this. Comes back with the other names."""
        return names if run.is_plan else self._take(run, names, (d.Merge,))

    def _take(self, run: _Run, keys: Sequence[str], kinds: tuple[type, ...]) -> list[str]:
        """The steps of these kinds that can be taken together; comes back with the names that may have others left."""
        taken = self._bulk_steps.take(keys, kinds)
        for key, decisions in taken.done.items():
            for decision in decisions:
                _count(run.report, key, type(decision), decision)
        return [key for key in keys if key not in taken.quiet]

    def _look_at_names(self, run: _Run, pages: Iterator[Sequence[str]]) -> Iterator[bool]:
        for names in pages:
            self._look_at(run, names)
            yield run.may_go_on()

    def _look_at_marks(self, run: _Run) -> Iterator[bool]:
        """What changed on our side; where nothing is to be done, the mark has done its work."""
        for page in self._marks.pages():
            names = sorted({mark.username_key for mark in page} - run.waiting.keys())
            quiet = self._look_at(run, names)
            if not run.is_plan:
                with self._database.atomic():
                    self._marks.clear([mark for mark in page if mark.username_key in quiet])
            yield run.may_go_on()

    def _look_at(self, run: _Run, names: Sequence[str]) -> set[str]:
        """Comes back with the names where nothing is to be done."""
        if run.is_plan:
            names = [name for name in names if name not in run.told]
            run.told.update(names)
        return self._look_at_rows(run, names, self._players.find_many(names))

    def _look_at_rows(self, run: _Run, names: Sequence[str], rows: Mapping[str, PlayerRow]) -> set[str]:
        keys = [name for name in names if self._is_findable(run, name)]
        return self._reconcile(run, self._subjects(run, keys, rows))

    def _look_at_our_side(self, run: _Run) -> None:
        """While AuthMe is away: what was typed in SQL and the bans that are over wait for nobody."""
        run.waiting.clear()
        for keys in chain(self._names.edited(), self._names.bans_over(self._now())):
            self._reconcile(run, self._subjects(run, keys, {}), USER_ONLY)

    def _subjects(self, run: _Run, keys: Collection[str], rows: Mapping[str, PlayerRow]) -> list[Account]:
        """SQLite lets people type dates that are none: such a user is told of, the others of the page go on."""
        try:
            return self._reconciler.load_many(keys, rows)
        except ValueError:
            if len(keys) == 1:
                run.add_error(next(iter(keys)), "a date in our table cannot be read")
                return []
            return [account for key in keys for account in self._subjects(run, [key], rows)]

    def _is_findable(self, run: _Run, name: str) -> bool:
        """A name that is not in lower case, or no name, is one AuthMe itself half loses: told, never written."""
        if is_findable(name):
            return True
        run.report.conflicts.append({"username": name, "field": "name", "kept": "both"})
        return False

    def _reconcile(self, run: _Run, subjects: list[Account], kinds: tuple[type, ...] = (object,)) -> set[str]:
        """Take up what is to be done for these, of `kinds` only. Comes back with those where it is nothing at all."""
        adoptions: list[tuple[Account, d.Adopt]] = []
        passwords: list[str] = []
        quiet = set()
        for account in subjects:
            decision = decide(account, self._reconciler.policy)
            if decision is None:
                quiet.add(account.key)
            if not isinstance(decision, kinds):
                continue
            if isinstance(decision, d.Adopt):
                adoptions.append((account, decision))
            elif decision is not None and is_password_alone(decision) and not run.is_plan:
                passwords.append(account.key)
            elif decision is not None:
                self._take_up(run, account.key, decision)
        self._settle_page(run, passwords, (d.Merge,), is_finishing=False)
        self._adopt(run, adoptions)
        return quiet

    def _settle_page(self, run: _Run, keys: Sequence[str], kinds: tuple[type, ...], *, is_finishing: bool) -> bool:
        """These names, as many as can be together, and the others one by one. False: stopped."""
        for key in keys if run.report.away is not None else self._take(run, keys, kinds):
            self._settle(run, key, is_finishing=is_finishing)
            if is_finishing and not run.may_go_on():
                return False
        return True

    def _take_up(self, run: _Run, key: str, decision: d.Decision) -> None:
        if isinstance(decision, d.GUARDED):
            run.put_off(key, decision)
        elif run.is_plan:
            _count(run.report, key, type(decision), run.emails.predict_conflicts(key, decision))
        else:
            self._settle(run, key)

    def _adopt(self, run: _Run, adoptions: list[tuple[Account, d.Adopt]]) -> None:
        if not adoptions:
            return
        new = [adoption for _subject, adoption in adoptions]
        adopted = run.emails.adopt(new) if run.is_plan else adopt_each(self._database, self._audit, new, self._now())
        run.report.adopted += adopted.count
        for username, conflict in adopted.conflicts.items():
            _add_conflict(run.report, username, conflict)
        if run.is_plan:
            for account, adoption in adoptions:
                lock = lock_after(adoption, account.is_operator, self._reconciler.policy)
                if lock is not None:
                    run.put_off(account.key, lock)
        else:
            self._follow_adoptions(run, {a.player.username: a.player for a in new if a.status != APPROVED})

    def _follow_adoptions(self, run: _Run, rows: dict[str, PlayerRow]) -> None:
        """What follows from the status the players got."""
        for account in self._reconciler.load_many(rows.keys(), rows):
            following = decide(account, self._reconciler.policy)
            if following is not None:
                self._take_up(run, account.key, following)

    def _settle(self, run: _Run, key: str, *, is_finishing: bool = False) -> None:
        """One name; whatever is wrong with it is told, and the rest goes on."""
        try:
            settled = self._settle_stubbornly(run, key, is_finishing)
        except (PeeweeException, AssertionError, Refusal) as error:
            if isinstance(error, PeeweeException) and is_unreachable(error):
                raise
            log.warning("the sync could not settle %s: %s", key, type(error).__name__)
            run.add_error(key, type(error).__name__)
            return
        for decision in settled.done:
            _count(run.report, key, type(decision), decision)
        if settled.left is not None:
            run.put_off(key, settled.left)
        if isinstance(settled.refused, NameCollides):
            run.collided.add(key)
            _add_conflict(run.report, key, d.Conflict("name", "both"))
        elif settled.refused is not None:
            run.add_error(key, str(settled.refused))

    def _settle_stubbornly(self, run: _Run, key: str, is_finishing: bool) -> ReconcileResult:
        for _try in range(_TRIES - 1):
            try:
                return self._settle_once(run, key, is_finishing)
            except PeeweeException as error:
                if not is_retryable(error):
                    raise
        return self._settle_once(run, key, is_finishing)

    def _settle_once(self, run: _Run, key: str, is_finishing: bool) -> ReconcileResult:
        if run.report.away is not None:
            return self._reconciler.reconcile_without_player(key, is_guarded=not is_finishing)
        return self._reconciler.reconcile(key, is_guarded=not is_finishing, accept_empty_table=is_finishing)

    def _finish(self, run: _Run, allow_mass_changes: bool) -> bool:
        """Do what waited, if it is not too much at once; else leave all of it, and only it. False: stopped."""
        if not run.waiting:
            return True
        is_too_much = self._is_too_much(run) and not allow_mass_changes
        if is_too_much:
            run.report.held_back = _braked(run.waiting, str(self._max_changes))
            return True
        for keys in pages_of(list(run.waiting)):
            for key in keys:
                kind = run.waiting[key] if run.is_plan else run.waiting.pop(key)
                if run.is_plan:
                    _count(run.report, key, kind)
            if not run.is_plan and not self._settle_page(run, keys, (object,), is_finishing=True):
                return False
            if not run.may_go_on():
                return False
        return True

    def _is_too_much(self, run: _Run) -> bool:
        """Of the rows we know players by for what is done to rows; of all users for what was typed."""
        kinds, limit = list(run.waiting.values()), self._max_changes
        rows = len(kinds) - kinds.count(d.ApplySqlEdit)
        enough = limit.enough_for(len(kinds))  # as many as are to be counted, and no more
        known = Player.select(Player.username_key).where(Player.presence == PRESENT).limit(enough).count()
        if run.report.scanned == 0 and known > 0 and d.MarkMissing in kinds:
            return True
        if run.is_plan:
            known += run.report.adopted
        users = Player.select(Player.username_key).where(Player.user_id.is_null(False)).limit(enough).count()
        return limit.is_exceeded_by(rows, known) or limit.is_exceeded_by(len(kinds), max(known, users))


def _braked(waiting: dict[str, type[d.Decision]], limit: str) -> HeldBack:
    braked = HeldBack(limit=limit)
    for kind in waiting.values():
        if kind is d.Lock:
            braked.locked += 1
        elif kind is d.ApplySqlEdit:
            braked.edited += 1
        else:
            braked.removed += 1
    return braked


_COUNTERS: dict[type, str] = {
    d.Adopt: "adopted",
    d.Provision: "provisioned",
    d.Merge: "updated",
    d.Lock: "locked",
    d.Restore: "restored",
    d.Open: "restored",
    d.Unlock: "restored",
    d.MarkMissing: "removed",
    d.Remove: "removed",
}


def _count(report: SyncReport, key: str, kind: type[d.Decision], decision: d.Decision | None = None) -> None:
    counter = _COUNTERS.get(kind)
    if counter is not None:
        setattr(report, counter, getattr(report, counter) + 1)
    if isinstance(decision, d.Merge):
        for conflict in decision.conflicts:
            _add_conflict(report, key, conflict)
    elif isinstance(decision, d.UpdateState) and decision.state == "conflict":
        _add_conflict(report, key, d.Conflict("name", "both"))


def _add_conflict(report: SyncReport, username: str, conflict: d.Conflict) -> None:
    report.conflicts.append({"username": username, "field": conflict.field, "kept": conflict.kept})
