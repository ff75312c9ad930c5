"""One run of the sync over all names: a page of AuthMe's rows at a time, then a page of our users at a time.

Neither table is ever loaded whole. What a run believes removed or would lock is gathered first and done last, if it is
not too much at once.
"""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from peewee import JOIN, Database, PeeweeException

from plugin_bridge.players import PlayerRefused, PlayerRow, Players, PlayersAway
from regsvc.audit import Audit
from regsvc.clock import Clock
from regsvc.models import Player, User
from regsvc.sync import decisions as d
from regsvc.sync.adoption import adopt_each
from regsvc.sync.agreements import Agreements
from regsvc.sync.plan import decide
from regsvc.sync.reconciler import Reconciler, Settled
from regsvc.sync.records import PRESENT, Subject
from regsvc.sync.report import Braked, SyncReport
from regsvc.units import ChangeLimit

log = logging.getLogger(__name__)

PAGE = 500
"""Rows a page; reading one holds AuthMe's SQLite file for a few milliseconds."""


@dataclass
class _Run:
    """A run under way. `waiting` are the names whose next step may be too much at once, with that step."""

    report: SyncReport
    is_plan: bool
    waiting: dict[str, d.Decision] = field(default_factory=dict)
    adoptions_left: int = 0


class Sync:
    """Goes over all names. Blocking: runs on a thread of its own."""

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
        self._agreements = Agreements(database, now)

    def run(
        self,
        *,
        is_plan: bool = False,
        allow_mass_changes: bool = False,
        may_go_on: Callable[[], bool] = lambda: True,
    ) -> SyncReport:
        """Close every difference, or with `is_plan` only tell them.

        `may_go_on` is asked between pages; a run that is stopped tells what it did, and the next one does the rest.

        AuthMe being away is an error in the report, never an exception; the database being away is one.
        """
        run = _Run(SyncReport(self._now(), is_enabled=self._reconciler.is_enabled), is_plan)
        started = time.monotonic()
        try:
            self._refresh_columns()
            if self._look_at_everybody(run, may_go_on):
                self._finish(run, allow_mass_changes, may_go_on)
        except PlayersAway as error:
            run.report.add_error(None, str(error))
        run.report.duration_ms = round((time.monotonic() - started) * 1000)
        if not is_plan:
            self._tell(run.report)
        return run.report

    def _look_at_everybody(self, run: _Run, may_go_on: Callable[[], bool]) -> bool:
        """Players first, then users without one. False: stopped on the way."""
        for page in self._players.pages(PAGE):
            self._reconcile_players(run, page)
            if not may_go_on():
                return False
        for subjects in self._users_without_player():
            self._reconcile(run, subjects)
            if not may_go_on():
                return False
        return True

    def _refresh_columns(self) -> None:
        refresh = getattr(self._players, "refresh", None)
        if refresh is not None:
            refresh()

    def _reconcile_players(self, run: _Run, page: list[PlayerRow]) -> None:
        run.report.scanned += len(page)
        rows = {row.username: row for row in page if self._is_findable(run, row)}
        users = self._agreements.find_users(rows)
        agreements = self._agreements.find_many(rows)
        subjects = [
            self._reconciler.subject(key, users.get(key), agreements.get(key), row) for key, row in rows.items()
        ]
        self._reconcile(run, subjects)

    def _is_findable(self, run: _Run, row: PlayerRow) -> bool:
        """A name that is not in lower case is one AuthMe itself half loses: told, never written."""
        if row.username == row.username.lower():
            return True
        run.report.conflicts.append({"username": row.username, "field": "name", "kept": "both"})
        return False

    def _users_without_player(self) -> Iterator[list[Subject]]:
        """Subjects of our users whose row is not in AuthMe's table, and of players whose user is gone."""
        after = 0
        while True:
            query = User.select(User.id, User.username_key).where(User.id > after).order_by(User.id).limit(PAGE)
            page = list(query)
            if not page:
                break
            after = page[-1].id
            yield self._subjects_without_player([row.username_key for row in page])
        orphans = (
            Player.select(Player.username_key)
            .join(User, JOIN.LEFT_OUTER, on=(User.id == Player.user_id))
            .where(Player.user_id.is_null(False), User.id.is_null(), Player.tombstone_at.is_null())
        )
        yield self._subjects_without_player([row.username_key for row in orphans])

    def _subjects_without_player(self, keys: list[str]) -> list[Subject]:
        there = self._players.find_many(keys)
        missing = [key for key in keys if key not in there]
        users, agreements = self._agreements.find_users(missing), self._agreements.find_many(missing)
        return [self._reconciler.subject(key, users.get(key), agreements.get(key), None) for key in missing]

    def _reconcile(self, run: _Run, subjects: list[Subject]) -> None:
        adoptions = []
        for subject in subjects:
            decision = decide(subject, self._reconciler.policy)
            if decision is None:
                continue
            if isinstance(decision, d.BRAKED):
                run.waiting[subject.key] = decision
            elif isinstance(decision, d.Adopt):
                adoptions.append(decision)
            elif run.is_plan:
                _count(run.report, subject.key, decision)
            else:
                self._settle(run, subject.key)
        self._adopt(run, adoptions)

    def _adopt(self, run: _Run, adoptions: list[d.Adopt]) -> None:
        if not adoptions:
            return
        if run.is_plan:
            run.report.adopted += len(adoptions)
            return
        adopted = adopt_each(self._database, self._audit, adoptions, self._now())
        run.report.adopted += adopted.count
        for username, conflict in adopted.conflicts.items():
            _add_conflict(run.report, username, conflict)
        keys = [adoption.player.username for adoption in adoptions]
        # what follows from the status they got
        players = {adoption.player.username: adoption.player for adoption in adoptions}
        users, agreements = self._agreements.find_users(keys), self._agreements.find_many(keys)
        for key in keys:
            subject = self._reconciler.subject(key, users.get(key), agreements.get(key), players[key])
            following = decide(subject, self._reconciler.policy)
            if following is not None and isinstance(following, d.BRAKED):
                run.waiting[key] = following

    def _settle(self, run: _Run, key: str, *, is_braked: bool = True) -> None:
        """One name; whatever is wrong with it is told, and the rest goes on."""
        try:
            settled = self._reconciler.settle(key, is_braked=is_braked)
        except PlayersAway:
            raise
        except (PlayerRefused, PeeweeException, AssertionError) as error:
            log.warning("the sync could not settle %s: %s", key, type(error).__name__)
            text = str(error) if isinstance(error, PlayerRefused) else type(error).__name__
            run.report.add_error(key, text)
            return
        self._count_settled(run, key, settled)

    def _count_settled(self, run: _Run, key: str, settled: Settled) -> None:
        for decision in settled.done:
            _count(run.report, key, decision)
        if settled.left is not None:
            run.waiting[key] = settled.left

    def _finish(self, run: _Run, allow_mass_changes: bool, may_go_on: Callable[[], bool]) -> None:
        """Do what waited, if it is not too much at once; else leave all of it, and only it."""
        if not run.waiting:
            return
        is_too_much = self._is_too_much(run) and not allow_mass_changes
        if is_too_much:
            run.report.braked = _braked(run.waiting, str(self._max_changes))
            return
        for key, decision in run.waiting.items():
            if run.is_plan:
                _count(run.report, key, decision)
            else:
                self._settle(run, key, is_braked=False)
            if not may_go_on():
                return

    def _is_too_much(self, run: _Run) -> bool:
        known = Player.select().where(Player.presence == PRESENT).count()
        is_suddenly_empty = run.report.scanned == 0 and known > 0
        removals = any(isinstance(decision, d.NoteGone) for decision in run.waiting.values())
        return (is_suddenly_empty and removals) or self._max_changes.is_exceeded_by(len(run.waiting), known)

    def _tell(self, report: SyncReport) -> None:
        if report.has_effects or report.braked:
            with self._database.atomic():
                if report.has_effects:
                    self._audit.record("sync.run", "sync", None, report.counts())
                if report.braked:
                    braked = {"removed": report.braked.removed, "locked": report.braked.locked}
                    self._audit.record("sync.braked", "sync", None, braked)
            log.info("sync: %s", report.counts())
        if report.braked:
            log.warning(
                "the sync left out %d removals, %d locks and %d typed status changes: more than %s at once. "
                "If they are meant, run `companion sync --allow-mass-changes`.",
                report.braked.removed,
                report.braked.locked,
                report.braked.edited,
                report.braked.limit,
            )


def _braked(waiting: dict[str, d.Decision], limit: str) -> Braked:
    braked = Braked(limit=limit)
    for decision in waiting.values():
        if isinstance(decision, d.Lock):
            braked.locked += 1
        elif isinstance(decision, d.CarryOutEdit):
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
    d.NoteGone: "removed",
    d.Remove: "removed",
}


def _count(report: SyncReport, key: str, decision: d.Decision) -> None:
    counter = _COUNTERS.get(type(decision))
    if counter is not None:
        setattr(report, counter, getattr(report, counter) + 1)
    conflicts: tuple[Any, ...] = getattr(decision, "conflicts", ())
    for conflict in conflicts:
        _add_conflict(report, key, conflict)


def _add_conflict(report: SyncReport, username: str, conflict: d.Conflict) -> None:
    report.conflicts.append({"username": username, "field": conflict.field, "kept": conflict.kept})
