"""What has to be true, by what people were told: small, and without the product's own rules.

Each operation is begun, and ends "done", "refused" or "unknown": what was acknowledged is there once, what was refused
is not, the rest may be. `check` holds at every moment, `check_settled` once the product had time without faults, which
is longer than a sync run needs.
"""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any, Final, Literal

from regsvc.core.errors import Refusal
from regsvc.database.models import APPROVED, BANNED, MODELS, PENDING, REJECTED, AuditEntry, OutboxEntry, Review, User
from tests.simulation.world import World
from tests.support.authme.authme_database import Row
from tests.support.authme.authme_like import StoredPassword
from tests.support.crash.operator_rights import OPERATORS

Outcome = Literal["done", "refused", "unknown"]
Status = str | None
"""None: there is no such user."""
TARGETS: Final[Mapping[str, Status]] = {
    "approve": APPROVED,
    "reject": REJECTED,
    "ban": BANNED,
    "unban": APPROVED,
    "delete": None,
}
EVENTS: Final = {name: f"user.{status}" for name, status in TARGETS.items()} | {"unban": "user.unbanned"}
EVENTS["delete"] = "user.deleted"
MAILED: Final = ("approved", "rejected", "banned", "unbanned", "deleted")
OPERATOR_KEYS: Final = frozenset(name.lower() for name in OPERATORS)
MOST_ROWS: Final = 3000
"""Of a table that no retention of two years bounds: for a dozen people it is not to grow with the years."""
KEPT_LONG: Final = frozenset({"audit", "review", "outbox"})


@dataclass
class Known:
    """What is known of one name. `owner`: the password that has to let its owner in; None: that is in doubt.

    `strangers`: those with which others registered the name in the game; they open nothing as long as the user lives.
    `possible`: statuses that the user may have got by so many `events` since the last look; `told`: those that were
    acknowledged. `edited`: statuses typed in SQL, or by the allowlist, that may count later.
    """

    status: Status = None
    user_id: int | None = None
    ban_ends_at: datetime | None = None
    banned_from: Status = None
    owner: str | None = None
    ever: list[str] = field(default_factory=list)
    strangers: set[str] = field(default_factory=set)
    possible: set[Status] = field(default_factory=set)
    told: list[Status] = field(default_factory=list)
    events: int = 0
    edited: set[Status] = field(default_factory=set)
    ban_was: datetime | None = None
    banned_from_was: Status = None
    status_was: Status = None
    is_listed_before: bool = False
    """Whether the game's allowlist had the name before there was a user: whoever takes it is approved by that."""
    is_added: bool = False
    """Whether somebody put the name on the list in the game, which may count later."""
    is_taken_off: bool = False
    """Whether somebody took the name off the list in the game, where it then stays off."""
    ended_before: int = 0
    """Which logins are over: those before the begin of what ended them, and was acknowledged."""

    def is_over(self, now: datetime) -> bool:
        """Return whether the ban that was there has ended by now."""
        return self.status_was == BANNED and self.ban_was is not None and self.ban_was <= now


@dataclass(frozen=True)
class Login:
    key: str
    token: str
    at: datetime
    number: int
    user_id: int | None


class Oracle:
    """The truth, as far as people know it, by lower-case name."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.known: dict[str, Known] = defaultdict(Known)
        self.role: set[Status] = {None}
        """The roles that Rita may have."""
        self._role_changed_at = 0
        self._decided: Counter[tuple[str, str, str]] = Counter()
        self._perhaps: Counter[tuple[str, str, str]] = Counter()
        self._seen: dict[Any, int] = {}
        self._logins: list[Login] = []
        self._numbers = count(1)
        self._foreign: list[Any] = []
        self.users: dict[str, User] = {}
        """As they were at the last look, with the rows that are new since the one before."""
        self.entries: list[AuditEntry] = []
        self.messages: list[OutboxEntry] = []
        self._open: list[Callable[[Any], None]] = []

    def start(self) -> None:
        """Look for the first time."""
        self._seen = {model: _newest(model) for model in (Review, AuditEntry, OutboxEntry)}
        self._foreign = self._list_foreign()
        self._look()

    def end_open(self) -> None:
        """The process died: nobody knows what came of what was under way."""
        for end in self._open.copy():
            end("unknown")

    def begin(self, end: Callable[[Any], None]) -> Callable[[Any], None]:
        def end_once(outcome: Any) -> None:
            self._open.remove(end_once)
            end(outcome)

        self._open.append(end_once)
        return end_once

    def any_password(self, name: str, chance: random.Random) -> str | None:
        ever = self.known[name.lower()].ever
        return chance.choice(ever[-6:]) if ever else None

    # --- what people do ---

    def begin_registration(self, name: str, password: str) -> Callable[[Outcome], None]:
        known = self.known[name.lower()]
        known.ever.append(password)

        def end(outcome: Outcome) -> None:
            if outcome != "refused":
                known.events += 1
                known.possible.add(PENDING)
                known.owner = password if outcome == "done" and not known.strangers else None

        return self.begin(end)

    def begin_decision(self, name: str, transition: str, by: str) -> Callable[[Outcome], None]:
        known, what = self.known[name.lower()], (name.lower(), transition, by)
        self._perhaps[what] += 1
        number, has_none = next(self._numbers), by == "Rita" and self.role == {None}

        def end(outcome: Outcome) -> None:
            self._perhaps[what] -= outcome != "unknown"
            if outcome == "refused":
                return
            known.events += 1
            known.possible.add(TARGETS[transition])
            if outcome == "done":
                is_refused = has_none and self._role_changed_at < number
                assert not is_refused, f"{by}, who has no role, decided: {transition} {name}"
                self._decided[what] += 1
                known.told.append(TARGETS[transition])
                known.is_taken_off &= TARGETS[transition] != APPROVED
                if transition in ("ban", "delete"):
                    known.ended_before = number
            if transition == "delete":
                known.owner = None

        return self.begin(end)

    def begin_password(self, name: str, password: str) -> Callable[[Outcome], None]:
        """Begin a change of the password on the web."""
        known, number = self.known[name.lower()], next(self._numbers)
        known.ever.append(password)

        def end(outcome: Outcome) -> None:
            if outcome == "refused":
                return
            known.ended_before = number if outcome == "done" else known.ended_before
            known.owner = password if outcome == "done" and not known.strangers else None

        return self.begin(end)

    def begin_role(self, role: Status) -> Callable[[Outcome], None]:
        before, self._role_changed_at = set(self.role), next(self._numbers)
        self.role = before | {role}

        def end(outcome: Outcome) -> None:
            if outcome == "refused":
                self.role = before
            elif outcome == "done":
                self.role = {role}

        return self.begin(end)

    def begin_game_registration(self, name: str, password: str) -> Callable[[bool], None]:
        known = self.known[name.lower()]
        is_taken = self._world.services.find_user(name) is not None
        known.ever.append(password)

        def end(is_done: bool) -> None:
            if is_done:
                known.owner = None
                known.events += 1
                known.possible |= {PENDING, REJECTED} if not is_taken else {REJECTED}  # its name is taken in the game
                if is_taken and self._world.services.find_user(name) is not None:
                    known.strangers.add(password)

        return self.begin(end)

    def note_game_password(self, name: str, old: str, new: str) -> None:
        known = self.known[name.lower()]
        known.ever.append(new)
        known.owner = new if known.owner == old else None

    def note_gone(self, name: str) -> None:
        """Their row leaves the game."""
        self.known[name.lower()].owner = None

    def note_sql_edit(self, name: str, status: Status) -> None:
        known = self.known[name.lower()]
        known.edited |= {status, known.status, known.banned_from}
        if status is None:
            known.owner = None

    def note_list_edit(self, name: str, *, is_added: bool) -> None:
        """The list in the game was changed: who is added there is approved, who is removed does not play."""
        known = self.known[name.lower()]
        known.edited |= {APPROVED, known.status} if is_added or known.is_listed_before else {known.status}
        known.is_added |= is_added
        known.is_listed_before = is_added and known.status is None
        known.is_taken_off = not is_added

    def note_login(self, name: str, token: str) -> None:
        user = self._world.services.find_user(name)
        user_id = None if user is None else int(user.id)
        login = Login(name.lower(), token, self._world.clock(), next(self._numbers), user_id)
        self._logins = [*self._logins[-5:], login]

    # --- what is true at every moment ---

    def check(self) -> None:
        assert not self._world.errors.found, self._world.errors.found
        self._check_decisions()
        self._check_statuses()
        self._check_logins()

    def _check_decisions(self) -> None:
        """Each acknowledged decision is there once, with one audit entry and one mail at most."""
        reviews, self.entries, self.messages = map(self._new_rows, (Review, AuditEntry, OutboxEntry))
        audits = Counter((str(row.target).lower(), row.action, row.operator) for row in self.entries)
        mails = Counter((row.template, row.row_id) for row in self.messages if row.template in MAILED)
        found = Counter((row.username_key, row.transition, row.operator) for row in reviews)
        for key in {*found, *self._decided}:
            name, transition, by = key
            if by in ("Olivia", "Olivia (Discord)", "Rita", "Kurt"):
                least, most = self._decided[key], self._decided[key] + self._perhaps[key]
                assert least <= found[key] <= most, f"{by}, {transition} {name}: {found[key]}, told {least} to {most}"
                audited = audits[name, EVENTS[transition], by]
                assert audited == found[key], f"{by}, {transition} {name}: {found[key]} times, {audited} audited"
        twice = [key for key, number in mails.items() if number > 1 and key[1] is not None]
        assert not twice, f"mailed twice: {twice}"
        self._decided.clear()
        self._perhaps.clear()

    def _check_statuses(self) -> None:
        for known in self.known.values():
            known.status_was, known.ban_was, known.banned_from_was = known.status, known.ban_ends_at, known.banned_from
        self._look()
        for key, known in self.known.items():
            had, has = known.status_was, known.status
            allowed = {had, *known.possible, *known.edited}
            if len(known.told) == known.events == 1 and not known.edited and not known.is_over(self._world.clock()):
                allowed = set(known.told)
            elif known.is_listed_before:
                allowed |= {PENDING, APPROVED}
            elif had is None:  # players become users
                allowed |= {PENDING, APPROVED, BANNED}
            if known.is_over(self._world.clock()):
                allowed.add(known.banned_from_was)
            assert has in allowed, f"{key} was {had} and is {has}, not {sorted(map(str, allowed))}"
            known.possible, known.told, known.events = set(), [], 0

    def _look(self) -> None:
        self.users = users = {user.username_key: user for user in User.select()}
        for key in {*self.known, *users}:
            known, user = self.known[key], users.get(key)
            if user is None or user.id != known.user_id:  # whoever has the name next is somebody else
                known.strangers = set()
            known.status = None if user is None else str(user.status)
            known.user_id = None if user is None else int(user.id)
            known.ban_ends_at = None if user is None else user.ban_expires_at
            known.banned_from = None if user is None else user.banned_from

    def _check_logins(self) -> None:
        """No session works after what ended it."""
        app = self._world.app
        for login in self._logins:
            known = self.known[login.key]
            try:
                works = app.worker.run_here(app.sessions.authenticate, login.token) is not None
            except Refusal:
                works = False
            is_gone = known.user_id != login.user_id or known.status == BANNED
            has_ended = login.number < known.ended_before or is_gone
            assert not (works and has_ended), f"{login.key}, {known.status}: the session of {login.at} works"

    def _new_rows(self, model: Any) -> list[Any]:
        rows = list(model.select().where(model.id > self._seen[model]).order_by(model.id))
        if rows:
            self._seen[model] = rows[-1].id
        return rows

    # --- what is true once nothing is left to do ---

    def check_settled(self) -> Mapping[str, Row]:
        """Return AuthMe's rows."""
        services = self._world.services
        reports = [app.sync.last_report for app in self._world.apps]
        report = max((it for it in reports if it is not None), key=lambda it: it.started_at)
        assert (report.unavailable, report.errors) == (None, []), report
        users, table = self.users, services.table
        rows = {row["username"]: row for row in table.database.query(f"SELECT * FROM {table.name}")}
        for key in sorted({*users, *rows} - OPERATOR_KEYS):
            self._check_gate(key, users.get(key), rows.get(key))
        self._check_allowlist(users)
        for user in users.values():
            assert user.status == user.applied_status, f"{user.username}: SQL says {user.status}, and nothing follows"
        for known in self.known.values():
            known.edited, known.is_added = set(), False
        assert self._list_foreign() == self._foreign, "foreign rows or entries changed"
        return rows

    def _check_gate(self, key: str, user: User | None, row: Row | None) -> None:
        known, told = self.known[key], f"{key}, {_access_of(user)}"
        stored = None if row is None else StoredPassword(row["password"])
        opened = [it for it in known.ever if stored is not None and stored.is_made_from(it)]
        if user is None or _access_of(user) != APPROVED:
            assert not opened, f"{told}, can log in with {opened}"
            assert row is None or not (row["hasSession"] or row["premiumUUID"]), f"{told}, needs no password"
        else:
            assert not set(opened) & known.strangers, f"{told}: a stranger's password opens"
            assert known.owner in (None, *opened), f"{told}, cannot log in with {known.owner}, but {opened}"

    def _check_allowlist(self, users: Mapping[str, User]) -> None:
        listed = {str(entry["name"]).lower() for entry in self._read_list()}
        for key, user in users.items():
            is_approved, known = _access_of(user) == APPROVED, self.known[key]
            may_be = is_approved or key in OPERATOR_KEYS or known.is_listed_before
            assert may_be or key not in listed, f"{key}, {_access_of(user)}, is on the allowlist"
            assert key in listed or not is_approved or known.is_taken_off, f"{key}, approved, is not on the allowlist"
            known.is_listed_before &= not is_approved

    def _read_list(self) -> list[dict[str, str]]:
        file = self._world.services.game.directory / "whitelist.json"
        entries: list[dict[str, str]] = json.loads(file.read_text(encoding="utf-8"))
        return entries

    def _list_foreign(self) -> list[Any]:
        """Return what is nobody's of ours: a table of another plugin, and a player of no name that we know."""
        return self._world.services.table.database.query("SELECT * FROM other_plugin ORDER BY id")

    def check_end(self) -> None:
        """Nothing waits, nothing is due, and no table grew beyond what such a few people need."""
        app = self._world.app
        plan = self._world.services.plan()
        assert not plan.has_effects, plan
        waiting = [row.template for row in OutboxEntry.select().where(OutboxEntry.done_at.is_null())]
        assert not waiting, f"never delivered: {waiting}"
        for model in MODELS:
            name = model._meta.table_name.removeprefix("regsvc_")
            assert name in KEPT_LONG or model.select().count() < MOST_ROWS, f"{name}: {model.select().count()} rows"
        assert app.worker.outage_log.is_away is False


def _access_of(user: User | None) -> str | None:
    """Return the status, but for an approved user whose membership has ended."""
    has_ended = user is not None and user.status == APPROVED and user.ended_because is not None
    return "ended" if has_ended else None if user is None else str(user.status)


def _newest(model: Any) -> int:
    row = model.select(model.id).order_by(model.id.desc()).first()
    return int(row.id) if row is not None else 0
