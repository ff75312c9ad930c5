"""Kills of a stack's daemon in the middle of a story, and checks after the restart that nothing was lost."""

import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path

from regsvc.database.failpoints import VARIABLE, Point
from tests.support.authme.authme_database import DatabaseKind, SqliteFile
from tests.support.authme.authme_tables import dump_table
from tests.support.crash.crash_stories import (
    STORIES,
    Snapshot,
    Story,
    logins,
    subjects_mailed,
    take_snapshot,
    wait_for_letter,
)
from tests.support.daemon import Reply
from tests.support.other_user import OnlinePlayer, can_be_another, change_owner, check
from tests.support.our_tables import ago, our_database
from tests.support.peers.mariadb import MariaDBServer
from tests.support.peers.smtp import WAIT
from tests.support.stack import OPERATOR, Person, Stack
from tests.support.together import at_once

_LATEST_KILL = 0.5  # seconds after all stories have begun; about as long as they take


@dataclass(frozen=True)
class Outcome:
    """The end of a story when the process is not killed."""

    before: Snapshot
    after: Snapshot
    subjects: set[str]
    logins: dict[str, int]


@dataclass(frozen=True)
class Case:
    """A story in progress, with its person."""

    name: str
    person: Person
    usual: Outcome

    @property
    def story(self) -> Story:
        return STORIES[self.name]


class CrashTester:
    """Runs stories, kills the daemon and checks the state afterwards. Create it with `open_crash_tester`."""

    def __init__(self, stack: Stack, order: Path, walker: OnlinePlayer | None) -> None:
        self.stack = stack
        self._order = order
        self._walker = walker
        self._usual: dict[str, Outcome] = {}

    def kill_at(self, point: Point, number: int, name: str) -> bool:
        """Kill the process when the story reaches this failpoint for the `number`th time.

        Returns False if the story was done before, and the process was killed after its reply.
        """
        [case] = self._prepare([name])
        self._order.write_text(f"{point}:{number}", "utf-8")
        [reply] = self._act([case])
        self._finish_kill(case.name, f"{point}:{number}")
        self._resume([case], [reply])
        return reply is None

    def kill_at_random(self, seed: int) -> None:
        """Run all stories at once, and kill the process at some moment."""
        dice = random.Random(seed)
        cases = self._prepare(dice.sample(list(STORIES), len(STORIES)))
        replies = self._act(cases, dice.uniform(0, _LATEST_KILL))
        self._finish_kill("all at once", f"seed {seed}")
        self._resume(cases, replies)

    def _prepare(self, names: Sequence[str]) -> list[Case]:
        if not self.stack.daemon.is_running:  # the previous round failed
            self.stack.daemon.start()
        usual = [self._run_undisturbed(name) for name in names]
        self.stack.sync()
        people = [STORIES[name].prepare(self.stack) for name in names]
        self.stack.olivia()
        self._wait_for_mails()
        return [Case(*given) for given in zip(names, people, usual, strict=True)]

    def _run_undisturbed(self, name: str) -> Outcome:
        if name not in self._usual:
            stack, story = self.stack, STORIES[name]
            person = story.prepare(stack)
            self._wait_for_mails()  # an approval that was not mailed yet never is once the user is gone
            if story.is_asked:
                stack.sync()  # as after a restart
            before = take_snapshot(stack, person)
            reply = story.act(stack, person)
            assert 200 <= reply.status < 300, reply.text
            stack.sync()
            after = take_snapshot(stack, person)
            if letters := _number_of_mails(after):
                stack.smtp.wait_for(person.email, letters)
            self._usual[name] = Outcome(before, after, subjects_mailed(stack, person), logins(stack, person))
        return self._usual[name]

    def _act(self, cases: Sequence[Case], kill_after: float | None = None) -> list[Reply | None]:
        """Return the reply of each case, or None where there was none."""
        calls: list[Callable[[], Reply | None]] = [partial(self._try, case) for case in cases]
        if kill_after is not None:
            calls.append(partial(self._wait_and_kill, kill_after))
        return at_once(calls)[: len(cases)]

    def _try(self, case: Case) -> Reply | None:
        try:
            reply = case.story.act(self.stack, case.person)
        except (OSError, HTTPException):
            return None
        assert 200 <= reply.status < 300, f"{case.name}: {reply.text}"
        return reply

    def _wait_and_kill(self, seconds: float) -> None:
        threading.Event().wait(seconds)
        self.stack.daemon.kill()

    def _finish_kill(self, *what: str) -> None:
        """Make sure that the process is dead, and that AuthMe's file is valid for other readers."""
        self.stack.daemon.kill()
        self._order.unlink(missing_ok=True)
        place = self.stack.table.database
        if isinstance(place, SqliteFile):
            assert check(place.path, self.stack.daemon.state_dir) == "ok", what
        if self._walker is not None:
            assert self._walker.is_walking(), what

    def _resume(self, cases: Sequence[Case], replies: Sequence[Reply | None]) -> None:
        stack = self.stack
        self._let_claims_run_out()
        stack.daemon.start()
        assert stack.sync()["errors"] == []
        for case, reply in zip(cases, replies, strict=True):
            self._ask_again(case, reply)
        assert stack.sync()["errors"] == []
        for case in cases:
            assert take_snapshot(stack, case.person) == case.usual.after, case.name
        self._assert_in_sync()
        for case in cases:
            self._assert_mailed(case)
            assert logins(stack, case.person) == case.usual.logins, case.name

    def _ask_again(self, case: Case, reply: Reply | None) -> None:
        """Repeat a request without a reply if nothing happened; a request with a reply must have taken effect."""
        if case.story.is_asked and reply is None and take_snapshot(self.stack, case.person) == case.usual.before:
            assert self._try(case) is not None, case.name
        else:
            assert take_snapshot(self.stack, case.person) == case.usual.after, case.name

    def _assert_in_sync(self) -> None:
        """Assert that another sync run changes nothing."""
        rows = self._rows()
        report = self.stack.sync()
        counts = ("adopted", "provisioned", "updated", "locked", "restored", "removed")
        assert {name: report[name] for name in counts} == dict.fromkeys(counts, 0)
        assert self._rows() == rows

    def _rows(self) -> list[dict[str, object]]:
        """Dump AuthMe's table without the player who walks about all the while."""
        operator = OPERATOR.lower()
        hexed = operator.encode().hex().upper()
        return [row for row in dump_table(self.stack.table) if row["username"] not in (f"text '{operator}'", hexed)]

    def _assert_mailed(self, case: Case) -> None:
        for subject in case.usual.subjects:
            wait_for_letter(self.stack, case.person, subject)

    def _wait_for_mails(self) -> None:
        """Wait until no mail is being delivered, because those commits do not belong to the story."""
        under_way = "SELECT 1 FROM regsvc_outbox WHERE next_attempt_at IS NOT NULL"
        deadline = time.monotonic() + WAIT
        while our_database(self.stack).query(under_way):
            assert time.monotonic() < deadline, "mails are still under way"

    def _let_claims_run_out(self) -> None:
        """Let the claims of the dead process on mails expire, as they would after some minutes."""
        deadline = time.monotonic() + WAIT
        while self._has_dead_clients():  # the server may still carry out a claim that the process sent before it died
            assert time.monotonic() < deadline, "the server has not noticed that the process is dead"
        our_database(self.stack).execute(
            "UPDATE regsvc_outbox SET next_attempt_at = ? WHERE next_attempt_at IS NOT NULL", (ago(seconds=1),)
        )

    def _has_dead_clients(self) -> bool:
        """Return whether the database server still serves connections whose process is gone."""
        if self.stack.kind == "sqlite":
            return False
        served = our_database(self.stack).query(
            "SELECT host AS address FROM information_schema.processlist WHERE db = DATABASE()"
        )
        sockets = [line.split() for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]]
        connected = {
            int(local.rpartition(":")[2], 16) for _number, local, _remote, state, *_rest in sockets if state == "01"
        }
        return any(int(row["address"].rpartition(":")[2]) not in connected for row in served)


@contextmanager
def open_crash_tester(kind: DatabaseKind, mariadb: MariaDBServer | None) -> Iterator[CrashTester]:
    """Open a tester with its own stack. On SQLite a player walks about meanwhile, under another user if possible."""
    with ExitStack() as exit_stack:
        home = Path(
            exit_stack.enter_context(tempfile.TemporaryDirectory())
        )  # the tests' own folders are closed to others
        home.chmod(0o711)
        (home / "daemon").mkdir(mode=0o700)
        order = home / "kill-at"
        stack = exit_stack.enter_context(Stack(kind, home, mariadb, environment={VARIABLE: str(order)}))
        walker = None
        if isinstance(stack.table.database, SqliteFile):
            if not can_be_another():
                _say("NOT ROOT: the processes that play and check AuthMe's file run under our own user.")
            change_owner(stack.game.authme_directory)
            walker = exit_stack.enter_context(OnlinePlayer(stack.table.database.path, OPERATOR))
        yield CrashTester(stack, order, walker)


def _number_of_mails(snapshot: Snapshot) -> int:
    """Return how many mails are sent whatever happens; a receipt is only sent if the decision does not come first."""
    mails = snapshot["mails"]
    assert isinstance(mails, list)
    return sum("received" not in str(mail) for mail in mails)


def _say(sentence: str) -> None:
    """Print past pytest's capture."""
    print(sentence, file=sys.__stderr__, flush=True)
