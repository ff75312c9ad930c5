"""Hypothesis state machine of random operations: on the web, in the game, in SQL, and kills of the process.

After each operation of ours, `row_audit` checks AuthMe's table; after each sync run a second one changes nothing.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import wraps
from typing import Any, get_args
from unittest import mock

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from regsvc.core.errors import Refusal
from regsvc.database.failpoints import POINTS, Point
from regsvc.database.models import APPROVED, BANNED, PENDING, REJECTED, STATUSES, User
from tests.support.authme.authme_database import Row
from tests.support.authme.bukkit_server import BukkitServer, Step
from tests.support.authme.row_audit import Known, Snapshot, audit_changes, audit_state, is_locked, take_snapshot
from tests.support.crash.operator_rights import OPERATORS, OperatorRights
from tests.support.crash.random_services import OpenServices

NAMES = ("Alice", "Bob", "Carol", "Dave")
STEPS = 66  # most operations in a sequence: hypothesis ends some of them earlier
LIKELY = {
    PENDING: ("approve", "approve", "approve", "reject", "ban", "delete"),
    APPROVED: ("approve", "approve", "ban", "ban", "delete"),
    REJECTED: ("approve", "approve", "ban", "delete"),
    BANNED: ("unban", "unban", "ban", "delete"),
}
NEVER_PURGED = 10**14  # epoch milliseconds, long after everything
LONG_AGO = 1_577_836_800_000  # 2020: before the first start, so that an operator is adopted as approved
UNKNOWN_POINTS = 6  # a kill strikes at one of the first so many failpoints of its kind

some_name = st.sampled_from(NAMES)
some_operator = st.sampled_from(("Olivia", "Olivia", "Paul"))
some_emails = st.sampled_from(["", "your@email.com", "bob@example.org", "carol@example.org", "new@game.example.org"])


class Killed(BaseException):
    """Ends the process: no code of ours catches it."""


class KillSwitch:
    """Ends the process once, at a chosen failpoint; replaces `failpoints.reach` in this process."""

    def __init__(self) -> None:
        self._point: Point | None = None
        self._left = 0
        self._is_on = False

    def aim(self, point: Point, number: int) -> None:
        """Kill when this point is reached for the `number`th time from now on."""
        self._point, self._left = point, number

    def rest(self) -> None:
        self._point = None

    def reach(self, point: Point) -> None:
        if point != self._point or not self._is_on:
            return
        self._left -= 1
        if self._left == 0:
            self.rest()
            raise Killed

    @contextmanager
    def on(self) -> Iterator[None]:
        """Count the failpoints of the block; those of the checks in between do not count."""
        self._is_on = True
        try:
            yield
        finally:
            self._is_on = False

    @contextmanager
    def armed(self) -> Iterator[None]:
        # nor is a note awaited for a third of a second, since the game stands still meanwhile
        with (
            mock.patch("regsvc.database.failpoints.reach", self.reach),
            mock.patch("plugin_bridge.server.operators._WAIT", 0),
        ):
            yield


def operation(**drawn: Any) -> Callable[[Callable[..., None]], Any]:
    """Decorator for a counted rule of the machine."""

    def made(act: Callable[..., None]) -> Any:
        @wraps(act)
        def counted(self: "PromptStack", **given: Any) -> None:
            self.count()
            act(self, **given)
            self.rights.check()

        return rule(**drawn)(counted)  # type: ignore[no-untyped-call]

    return made


class PromptStack(RuleBasedStateMachine):
    """One sequence of operations at the game's login prompt, where everybody may join under an operator's name.

    `count` counts the operations of all sequences.
    """

    def __init__(self, open_services: OpenServices, count: Callable[[], None]) -> None:
        super().__init__()
        self.kill_switch = KillSwitch()
        self._opened = open_services()
        self._armed = self.kill_switch.armed()
        self.services = self._opened.__enter__()
        self._armed.__enter__()
        self.count = count
        self.people = {name.lower(): Known(name) for name in (*NAMES, *OPERATORS)}
        self.bukkit = BukkitServer(self.services.game, self.services.authme, self.services.clock, (6, 0))
        self.passwords = 0
        self.schema = self._schema()

    def teardown(self) -> None:
        self.kill_switch.rest()
        try:
            self._sync()
            assert self._schema() == self.schema
        finally:
            self._armed.__exit__(None, None, None)
            self._opened.__exit__(None, None, None)

    @initialize()
    def some_are_there(self) -> None:
        """Olivia keeps the table from ever being empty, Alice plays, Bob waits, Carol is known only in the game.

        Paul registered there before he became an operator, too, and waits for review.
        """
        self.bukkit.start()
        self._register_there("Olivia")
        self._write_there("Olivia", lastlogin=NEVER_PURGED, regdate=LONG_AGO)
        self._register_there("Paul")
        self._write_there("Paul", lastlogin=NEVER_PURGED)
        self.bukkit.op("Paul")
        self.services.sync()
        self.rights = OperatorRights(self.services, self.bukkit, self._end_lost_rights)
        self.bukkit.on_step = lambda step: self.rights.look()
        self._register_here("Alice", True)
        self._decide("Alice", "approve")
        self._register_here("Bob", True)
        self._register_there("Carol")

    # --- ours ---

    @operation()
    def sync(self) -> None:
        self._sync()

    @operation(point=st.sampled_from(POINTS), number=st.integers(1, UNKNOWN_POINTS))
    def kill_soon(self, point: Point, number: int) -> None:
        self.kill_switch.aim(point, number)

    @operation(hours=st.integers(1, 200))
    def wait(self, hours: int) -> None:
        self._advance(hours * 3600)

    # --- in the game ---

    @operation(name=some_operator, leaves=st.booleans())
    def a_stranger_joins(self, name: str, leaves: bool) -> None:
        self.bukkit.join(name)
        if leaves:
            self.bukkit.quit(name)
        self._end_game_operation()

    @operation(name=some_operator, then=st.sampled_from(["plays", "quits", "logs out", "quits in a boat"]))
    def join_as_an_operator(self, name: str, then: str) -> None:
        self.bukkit.join(name)
        self._log_in_at_prompt(name)
        if then.startswith("quits"):
            self.bukkit.quit(name, in_vehicle="boat" in then)
        elif then == "logs out" and self.services.authme.is_online(name):
            self.bukkit.logout(name)
        self._end_game_operation()

    @operation(name=some_operator, step=st.sampled_from(get_args(Step)), number=st.integers(1, 2), joins=st.booleans())
    def crash_there(self, name: str, step: Step, number: int, joins: bool) -> None:
        """Kill the game at a step of a join or of a login, or after it, and start it again."""
        if not joins:
            self.bukkit.join(name)
        self.bukkit.kill_at(step, lambda: self.bukkit.join(name) if joins else self._log_in_at_prompt(name), number)
        self.rights.check()
        if self.bukkit.is_running:
            self.bukkit.kill()
        self.bukkit.start()
        self._end_game_operation()

    @operation()
    def restart_there(self) -> None:
        self.bukkit.stop()
        self.bukkit.start()
        self._end_game_operation()

    @operation(name=some_operator, is_op=st.booleans())
    def type_op_there(self, name: str, is_op: bool) -> None:
        """Type `/op` or `/deop`; for some seconds after a real `/deop` nobody can tell it from a join."""
        (self.bukkit.op if is_op else self.bukkit.deop)(name)
        self.rights.check()
        self._pass(4)

    @operation(
        kind=st.sampled_from(["INDIVIDUAL_FILES", "DISTRIBUTED_FILES", "DISABLED"]),
        size=st.sampled_from(["ONE", "FOUR", "SIXTEEN"]),
    )
    def change_the_notes_there(self, kind: str, size: str) -> None:
        self.services.game.change_authme({"limbo.persistence.type": kind, "limbo.persistence.distributionSize": size})
        self.bukkit.reload_authme()
        self.services.apply_authme()

    @operation(seconds=st.sampled_from([1, 4, 25, 70]))
    def seconds_pass(self, seconds: int) -> None:
        self._pass(seconds)

    def _log_in_at_prompt(self, name: str) -> None:
        row = self._row(name)
        for password in self.people[name.lower()].opens(row) if row is not None else []:
            self.bukkit.login(name, password)

    def _end_game_operation(self) -> None:
        for name in OPERATORS:
            self._write_there(name, lastlogin=NEVER_PURGED)
        self._moment()

    def _pass(self, seconds: int) -> None:
        self._advance(seconds)
        self._end_game_operation()

    def _advance(self, seconds: int) -> None:
        """Let time pass, in which players are kicked from the prompt when theirs is over."""
        for part in (min(seconds, 30), max(seconds - 30, 0)):
            self.services.clock.advance(seconds=part)
            self.bukkit.kick_late()

    # --- implementation ---

    def _register_here(self, name: str, has_password: bool) -> None:
        person, password = self.people[name.lower()], self._new_password() if has_password else None
        was = self._identity(name)
        row_was_there = self._row(name) is not None

        def note(is_done: bool) -> None:
            user = self.services.find_user(name)
            if user is None or user.origin != "registered" or self._identity(name) == was:
                return
            person.forget()
            person.own = [password] if password is not None else []
            person.is_foreign = row_was_there

        self._do(lambda: self.services.register(name, password), note)

    def _register_there(self, name: str) -> None:
        person, password = self.people[name.lower()], self._new_password()
        is_taken = self.services.find_user(name) is not None
        if self._row(name) is not None:
            assert not self.services.authme.register(name, password)
            return
        assert self.services.authme.register(name, password)
        if is_taken:
            person.others.add(password)
            person.is_foreign = True
        else:
            person.own, person.is_foreign, person.has_left = [password], False, False
        self._moment()

    def _decide(self, name: str, transition: str, **details: Any) -> None:
        person = self.people[name.lower()]

        def note(is_done: bool) -> None:
            user = self.services.find_user(name)
            if transition == "approve" and user is not None and user.status == APPROVED:
                person.is_asked_back = True
                person.has_left = person.has_left and not is_done

        self._do(lambda: self.services.decide(transition, name, **details), note)

    def _sync(self) -> None:
        self._do(self.services.sync)
        self.kill_switch.rest()
        snapshot, report = take_snapshot(self.services.table), self.services.sync()
        assert (report.errors, report.has_effects) == ([], False), report
        assert take_snapshot(self.services.table).exact == snapshot.exact
        others = {key: person for key, person in self.people.items() if person.name != "Paul"}
        audit_state(snapshot, others, self._users())

    def _do(self, act: Callable[[], object], note: Callable[[bool], None] = lambda is_done: None) -> None:
        """Run an operation of ours and audit its changes to AuthMe's table. A killed process is restarted and syncs."""
        self._moment()
        before, is_done, is_killed = take_snapshot(self.services.table), False, False
        now, users = self.services.clock(), self._users()
        closed = [key for key, user in users.items() if not user.status == user.applied_status == APPROVED]
        over = [key for key, user in users.items() if user.ban_expires_at is not None and user.ban_expires_at <= now]
        try:
            with self.kill_switch.on():
                act()
            is_done = True
        except Refusal:
            pass
        except Killed:
            is_killed = True
            self._restart()
            self.services.sync()
        if is_done or is_killed:
            note(is_done)
        for key, user in self._users().items():
            if key in over or (key in closed and user.status == user.applied_status == APPROVED):
                person = self.people[key]
                person.is_asked_back = True  # each decision that a user may play requests the row
                if person.has_left:  # one that was registered anew stays locked
                    person.has_left = None if key in before.rows else False
        self._audit(before)

    def _end_lost_rights(self) -> None:
        """Look as the daemon's job does every two seconds."""
        try:
            with self.kill_switch.on():
                self.services.app.worker.run_here(self.services.app.lost_rights.end)
        except Killed:
            self._restart()
            self._end_lost_rights()

    def _restart(self) -> None:
        self.services.restart()
        self.rights.follow_clock()

    def _audit(self, before: Snapshot) -> None:
        users, after = self._users(), take_snapshot(self.services.table)
        audit_changes(before, after, self.people, users)
        for person in self.people.values():
            person.is_asked_back = False
            if person.key not in users and person.key not in after.rows:
                person.forget()
                person.is_foreign = False

    def _leave(self, act: Callable[[], object]) -> None:
        before = set(take_snapshot(self.services.table).rows)
        act()
        for key in before - set(take_snapshot(self.services.table).rows):
            person, user = self.people[key], self.services.find_user(key)
            if user is None:
                person.forget()
            elif not person.is_foreign:
                person.has_left = None if person.is_recorded is None else not person.is_recorded
                person.is_unsure = True
            person.is_foreign = False

    def _change_password_there(self, person: Known, change: Callable[[str], bool]) -> None:
        password = self._new_password()
        assert change(password)
        if person.is_foreign or person.is_recorded:
            person.others.add(password)
        else:  # where `is_recorded` is unknown, so is which of the two counts: `is_unsure` is set
            person.own.append(password)

    def _write_there(self, name: str, **columns: object) -> None:
        changes = ", ".join(f"{column} = ?" for column in columns)
        table = self.services.table
        table.database.execute(
            f"UPDATE {table.name} SET {changes} WHERE username = ?", (*columns.values(), name.lower())
        )

    def _moment(self) -> None:
        self._advance(1)

    def _new_password(self) -> str:
        self.passwords += 1
        return f"the-password-{self.passwords}"

    def _row(self, name: str) -> Row | None:
        return self.services.authme.find(name)

    def _users(self) -> dict[str, User]:
        return {user.username_key: user for user in User.select()}

    def _identity(self, name: str) -> object:
        user = self.services.find_user(name)
        return None if user is None else (user.id, user.created_at)

    def _schema(self) -> object:
        table = self.services.table
        if table.database.kind == "sqlite":
            return table.database.query("SELECT sql FROM sqlite_master ORDER BY name")
        [made] = table.database.query(f"SHOW CREATE TABLE {table.name}")
        return re.sub(r" AUTO_INCREMENT=\d+", "", str(made["Create Table"]))


class RandomStack(PromptStack):
    """One sequence of all operations."""

    # --- on the web and in our database ---

    @operation(name=some_name, has_password=st.booleans())
    def register_here(self, name: str, has_password: bool) -> None:
        self._register_here(name, has_password)

    @operation(name=some_name, data=st.data())
    def decide_here(self, name: str, data: st.DataObject) -> None:
        user = self.services.find_user(name)
        likely = LIKELY[user.status] if user is not None else ("approve",)
        self._decide(name, data.draw(st.sampled_from(likely)))

    @operation(name=some_name)
    def let_play_here(self, name: str) -> None:
        user = self.services.find_user(name)
        self._decide(name, "unban" if user is not None and user.status == BANNED else "approve")

    @operation(name=some_name, days=st.integers(1, 20))
    def ban_here_for_some_days(self, name: str, days: int) -> None:
        self._decide(name, "ban", expires_at=self.services.clock() + timedelta(days=days))

    @operation(name=some_name)
    def set_password_here(self, name: str) -> None:
        person, password = self.people[name.lower()], self._new_password()

        def note(is_done: bool) -> None:
            user = self.services.find_user(name)
            if user is None or (not is_done and user.password_hash is None):  # killed before it was set
                person.others.add(password)
                return
            person.own.append(password)
            person.is_asked_back = True
            person.has_left = person.has_left and not is_done
            person.is_unsure = person.is_unsure or not is_done
            row = self._row(name)
            is_locked_now = row is not None and is_locked(row)
            person.is_recorded = is_locked_now and (is_done or person.is_recorded or None)

        self._do(lambda: self.services.set_password(name, password), note)

    @operation(name=some_name, data=st.data())
    def log_in_here(self, name: str, data: st.DataObject) -> None:
        person = self.people[name.lower()]
        tried = sorted({*person.own, *person.others})
        if not tried:
            return
        password = data.draw(st.sampled_from(tried))

        def log_in() -> None:
            self.services.login(name, password)
            assert password in person.own, f"{name} was let in with {password}, own are {person.own}"

        self._do(log_in)

    @operation(name=some_name, status=st.sampled_from(sorted(STATUSES)))
    def edit_status_in_sql(self, name: str, status: str) -> None:
        user = self.services.find_user(name)
        if user is None:
            return
        self.services.ours.execute("UPDATE regsvc_user SET status = ? WHERE username_key = ?", (status, name.lower()))

    @operation(name=some_name)
    def delete_in_sql(self, name: str) -> None:
        self.services.ours.execute("DELETE FROM regsvc_user WHERE username_key = ?", (name.lower(),))
        self._sync()

    # --- in the game ---

    @operation(name=some_name)
    def register_there(self, name: str) -> None:
        self._register_there(name)

    @operation(
        name=some_name, then=st.sampled_from(["plays", "quits", "changes the password", "unregisters", "has a session"])
    )
    def log_in_there(self, name: str, then: str) -> None:
        person, row = self.people[name.lower()], self._row(name)
        opened = person.opens(row) if row is not None else []
        if not opened:
            return
        assert self.services.authme.login(name, opened[0])
        if then == "quits":
            self.services.authme.quit(name)
        elif then == "changes the password":
            self._change_password_there(person, lambda new: self.services.authme.change_password(name, opened[0], new))
        elif then == "unregisters":
            self._leave(lambda: self.services.authme.unregister(name, opened[0]))
        elif then == "has a session":
            self._write_there(name, hasSession=1, x=7.25, world="nether", yaw=1.5)
        self._moment()

    @operation(name=some_name)
    def recover_password_there(self, name: str) -> None:
        """Recover the password, also where the row is locked."""
        if self._row(name) is not None:
            self._change_password_there(
                self.people[name.lower()], lambda new: self.services.authme.set_password(name, new)
            )
            self._moment()

    @operation(name=some_name)
    def unregister_there(self, name: str) -> None:
        self._leave(lambda: self.services.authme.unregister_from_console(name))
        self._moment()

    @operation(name=some_name)
    def another_takes_the_name_there(self, name: str) -> None:
        self._leave(lambda: self.services.authme.unregister_from_console(name))
        self._moment()
        self._register_there(name)

    @operation(hours=st.integers(24, 400))
    def purge_there(self, hours: int) -> None:
        self._leave(lambda: self.services.authme.purge(self.services.clock() - timedelta(hours=hours)))

    @operation(name=some_name, email=some_emails)
    def change_email_there(self, name: str, email: str) -> None:
        self.services.authme.set_email(name, email)

    @operation(name=some_name, has_one=st.booleans())
    def change_second_factor_there(self, name: str, has_one: bool) -> None:
        self.services.authme.set_totp(name, "JBSWY3DPEHPK3PXP" if has_one else None)

    @operation(name=some_name)
    def buy_the_game(self, name: str) -> None:
        """Confirm `/premium`, also where the row was locked since it was typed."""
        row, person = self._row(name), self.people[name.lower()]
        if row is None:
            return
        self.services.authme.set_premium(name, f"premium-{name.lower()}")
        if not person.is_foreign:
            person.premium = f"premium-{name.lower()}"

    @operation(name=some_name, way=st.sampled_from(["session", "premium", "proxy"]), quits=st.booleans())
    def log_in_there_without_password(self, name: str, way: str, quits: bool) -> None:
        """Log in by what AuthMe believes instead of a password, locked or not, with sessions on."""
        authme = self.services.authme
        authme.has_sessions = True
        if way == "session":
            authme.resume_session(name)
        elif way == "premium":
            authme.join_as_premium(name, f"premium-{name.lower()}")
        else:
            authme.join_through_proxy(name)
        if quits:
            authme.quit(name)
        authme.has_sessions = False
        self._moment()


def run_sequences(kind: type[PromptStack], open_services: OpenServices, sequences: int, first_seed: int) -> int:
    """Run so many random sequences and return the number of operations in all of them."""
    operations = 0

    def count() -> None:
        nonlocal operations
        operations += 1

    def stack() -> PromptStack:
        return kind(open_services, count)

    run_state_machine_as_test(
        seed(first_seed)(stack),  # type: ignore[arg-type]
        settings=settings(
            max_examples=sequences,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=False,  # on a detected CI it would default to True, and the seed would have no effect
            database=None,
            print_blob=True,
            report_multiple_bugs=False,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )
    return operations
