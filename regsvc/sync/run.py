"""One run of the sync over all names: a page of AuthMe's rows at a time, then a page of our users at a time.

Neither table is ever loaded whole. What a run believes removed or would lock is gathered first and done last, if it is
not too much at once.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from peewee import JOIN, Database, Field, PeeweeException

from plugin_bridge.players import NameCollides, PlayerRow, Players, PlayersAway
from regsvc.audit import Audit
from regsvc.clock import Clock
from regsvc.db import is_away, lost_a_race
from regsvc.errors import Refusal
from regsvc.models import BANNED, Player, User
from regsvc.sync import decisions as d
from regsvc.sync.adoption import adopt_each
from regsvc.sync.plan import decide, lock_after
from regsvc.sync.reconciler import OUR_SIDE, Reconciler, Settled
from regsvc.sync.records import PRESENT, Subject
from regsvc.sync.report import Braked, SyncReport
from regsvc.units import ChangeLimit

log = logging.getLogger(__name__)

PAGE = 500
"""Rows a page; reading one holds AuthMe's SQLite file for a few milliseconds."""
_TRIES = 3
"""How often a name is looked at in one run when it loses a deadlock."""


@dataclass
class _Run:
    """A run under way. `waiting` are the names whose next step may be too much at once, with its kind."""

    report: SyncReport
    is_plan: bool
    waiting: dict[str, type[d.Decision]] = field(default_factory=dict)

    def put_off(self, key: str, decision: d.Decision) -> None:
        """Leave this step to the end of the run, where it is known how many there are."""
        self.waiting[key] = type(decision)


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
        self._told_brake: Braked | None = None
        self._told_absence: str | None = None

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
            run.report.away = str(error)
            run.report.add_error(None, str(error))
            self._look_at_our_side(run)
            self._finish(run, allow_mass_changes, may_go_on)
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
        for subjects in self._users_without_player(run):
            self._reconcile(run, subjects)
            if not may_go_on():
                return False
        return True

    def _look_at_our_side(self, run: _Run) -> None:
        """While AuthMe is away: what was typed in SQL and the bans that are over wait for nobody."""
        run.waiting.clear()
        is_over = (User.status == BANNED) & (User.ban_expires_at <= self._now())
        users = User.select(User.username_key).where((User.is_edited == True) | is_over)  # noqa: E712 - SQL
        keys = [""]
        while keys := _page_of_names(users, User.username_key, keys[-1]):
            self._reconcile(run, self._subjects(run, keys, {}), OUR_SIDE)

    def _refresh_columns(self) -> None:
        refresh = getattr(self._players, "refresh", None)
        if refresh is not None:
            refresh()

    def _reconcile_players(self, run: _Run, page: list[PlayerRow]) -> None:
        run.report.scanned += len(page)
        rows = {row.username: row for row in page if self._is_findable(run, row)}
        self._reconcile(run, self._subjects(run, rows.keys(), rows))

    def _subjects(self, run: _Run, keys: Collection[str], rows: Mapping[str, PlayerRow]) -> list[Subject]:
        """SQLite lets people type dates that are none: such a user is told of, the others of the page go on."""
        try:
            return self._reconciler.subjects(keys, rows)
        except ValueError:
            if len(keys) == 1:
                run.report.add_error(next(iter(keys)), "a date in our table cannot be read")
                return []
            return [subject for key in keys for subject in self._subjects(run, [key], rows)]

    def _is_findable(self, run: _Run, row: PlayerRow) -> bool:
        """A name that is not in lower case is one AuthMe itself half loses: told, never written."""
        if row.username == row.username.lower():
            return True
        run.report.conflicts.append({"username": row.username, "field": "name", "kept": "both"})
        return False

    def _users_without_player(self, run: _Run) -> Iterator[list[Subject]]:
        """Subjects of our users whose row is not in AuthMe's table, and of players whose user is gone."""
        users = User.select(User.username_key)
        orphans = (
            Player.select(Player.username_key)
            .join(User, JOIN.LEFT_OUTER, on=(User.id == Player.user_id))
            .where(Player.user_id.is_null(False), User.id.is_null())
        )
        for query, name in ((users, User.username_key), (orphans, Player.username_key)):
            keys = [""]
            while keys := _page_of_names(query, name, keys[-1]):
                yield self._subjects_without_player(run, keys)

    def _subjects_without_player(self, run: _Run, keys: list[str]) -> list[Subject]:
        there = self._players.find_many(keys)
        return self._subjects(run, [key for key in keys if key not in there], {})

    def _reconcile(self, run: _Run, subjects: list[Subject], kinds: tuple[type, ...] = (object,)) -> None:
        """Take up what is to be done for these; of `kinds` only."""
        adoptions: list[tuple[Subject, d.Adopt]] = []
        for subject in subjects:
            decision = decide(subject, self._reconciler.policy)
            if not isinstance(decision, kinds):
                continue
            if isinstance(decision, d.Adopt):
                adoptions.append((subject, decision))
            elif decision is not None:
                self._take_up(run, subject.key, decision)
        self._adopt(run, adoptions)

    def _take_up(self, run: _Run, key: str, decision: d.Decision) -> None:
        if isinstance(decision, d.BRAKED):
            run.put_off(key, decision)
        elif run.is_plan:
            _count(run.report, key, type(decision), decision)
        else:
            self._settle(run, key)

    def _adopt(self, run: _Run, adoptions: list[tuple[Subject, d.Adopt]]) -> None:
        if run.is_plan:
            run.report.adopted += len(adoptions)
            for subject, adoption in adoptions:
                lock = lock_after(adoption, subject.is_operator, self._reconciler.policy)
                if lock is not None:
                    run.put_off(subject.key, lock)
        elif adoptions:
            moment = self._now()
            adopted = adopt_each(self._database, self._audit, [adoption for _subject, adoption in adoptions], moment)
            run.report.adopted += adopted.count
            for username, conflict in adopted.conflicts.items():
                _add_conflict(run.report, username, conflict)
            self._follow_adoptions(run, {adoption.player.username: adoption.player for _subject, adoption in adoptions})

    def _follow_adoptions(self, run: _Run, rows: dict[str, PlayerRow]) -> None:
        """What follows from the status the players got."""
        for subject in self._reconciler.subjects(rows.keys(), rows):
            following = decide(subject, self._reconciler.policy)
            if following is not None:
                self._take_up(run, subject.key, following)

    def _settle(self, run: _Run, key: str, *, is_finishing: bool = False) -> None:
        """One name; whatever is wrong with it is told, and the rest goes on."""
        try:
            settled = self._settle_stubbornly(run, key, is_finishing)
        except (PeeweeException, AssertionError, Refusal) as error:
            if isinstance(error, PeeweeException) and is_away(error):
                raise
            log.warning("the sync could not settle %s: %s", key, type(error).__name__)
            run.report.add_error(key, type(error).__name__)
            return
        for decision in settled.done:
            _count(run.report, key, type(decision), decision)
        if settled.left is not None:
            run.put_off(key, settled.left)
        if isinstance(settled.refused, NameCollides):
            _add_conflict(run.report, key, d.Conflict("name", "both"))
        elif settled.refused is not None:
            run.report.add_error(key, str(settled.refused))

    def _settle_stubbornly(self, run: _Run, key: str, is_finishing: bool) -> Settled:
        for _try in range(_TRIES - 1):
            try:
                return self._settle_once(run, key, is_finishing)
            except PeeweeException as error:
                if not lost_a_race(error):
                    raise
        return self._settle_once(run, key, is_finishing)

    def _settle_once(self, run: _Run, key: str, is_finishing: bool) -> Settled:
        if run.report.away is not None:
            return self._reconciler.settle_our_side(key, is_braked=not is_finishing)
        return self._reconciler.settle(key, is_braked=not is_finishing, believes_empty=is_finishing)

    def _finish(self, run: _Run, allow_mass_changes: bool, may_go_on: Callable[[], bool]) -> None:
        """Do what waited, if it is not too much at once; else leave all of it, and only it."""
        if not run.waiting:
            return
        is_too_much = self._is_too_much(run) and not allow_mass_changes
        if is_too_much:
            run.report.braked = _braked(run.waiting, str(self._max_changes))
            return
        for key, kind in list(run.waiting.items()):
            if run.is_plan:
                _count(run.report, key, kind)
            else:
                self._settle(run, key, is_finishing=True)
            if not may_go_on():
                return

    def _is_too_much(self, run: _Run) -> bool:
        """Of the rows we know players by for what is done to rows; of all users for what was typed."""
        known = Player.select().where(Player.presence == PRESENT).count()
        kinds = list(run.waiting.values())
        if run.report.scanned == 0 and known > 0 and d.NoteGone in kinds:
            return True
        if run.is_plan:
            known += run.report.adopted
        users = Player.select().where(Player.user_id.is_null(False)).count()
        rows = len(kinds) - kinds.count(d.CarryOutEdit)
        limit = self._max_changes
        return limit.is_exceeded_by(rows, known) or limit.is_exceeded_by(len(kinds), max(known, users))

    def _tell(self, report: SyncReport) -> None:
        if report.has_effects:
            with self._database.atomic():
                self._audit.record("sync.run", "sync", None, report.counts())
            log.info("sync: %s", report.counts())
        self._tell_of_brake(report.braked)
        self._tell_of_absence(report.away)

    def _tell_of_brake(self, braked: Braked | None) -> None:
        """Once, and not again at each run until somebody decides."""
        if braked is not None and braked != self._told_brake:
            with self._database.atomic():
                counts = {"removed": braked.removed, "locked": braked.locked, "edited": braked.edited}
                self._audit.record("sync.braked", "sync", None, counts)
            log.warning(
                "the sync left out %d removals, %d locks and %d typed status changes: more than %s at once. "
                "If they are meant, run `companion sync --allow-mass-changes`.",
                braked.removed,
                braked.locked,
                braked.edited,
                braked.limit,
            )
        self._told_brake = braked

    def _tell_of_absence(self, why: str | None) -> None:
        if why is not None and self._told_absence is None:
            log.warning("the sync waits: %s", why)
        elif why is None and self._told_absence is not None:
            log.info("the sync goes on: AuthMe's table is there again")
        self._told_absence = why


def _page_of_names(query: Any, name: Field, after: str) -> list[str]:
    rows = query.where(name > after).order_by(name).limit(PAGE)
    return [row.username_key for row in rows]


def _braked(waiting: dict[str, type[d.Decision]], limit: str) -> Braked:
    braked = Braked(limit=limit)
    for kind in waiting.values():
        if kind is d.Lock:
            braked.locked += 1
        elif kind is d.CarryOutEdit:
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
    d.NoteGone: "removed",
    d.Remove: "removed",
}


def _count(report: SyncReport, key: str, kind: type[d.Decision], decision: d.Decision | None = None) -> None:
    counter = _COUNTERS.get(kind)
    if counter is not None:
        setattr(report, counter, getattr(report, counter) + 1)
    if isinstance(decision, d.Merge):
        for conflict in decision.conflicts:
            _add_conflict(report, key, conflict)
    elif isinstance(decision, d.NoteState) and decision.state == "conflict":
        _add_conflict(report, key, d.Conflict("name", "both"))


def _add_conflict(report: SyncReport, username: str, conflict: d.Conflict) -> None:
    report.conflicts.append({"username": username, "field": conflict.field, "kept": conflict.kept})
