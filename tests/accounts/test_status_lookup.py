"""Statuses asked for at the same time: few queries, and never an answer from before the question."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import ParamSpec, TypeVar

import pytest
from peewee import Database

from regsvc.accounts.status_lookup import NameStatusFields, StatusLookup
from regsvc.auth.derived_secrets import ApplicationTokens, DerivedSecrets
from regsvc.auth.verification_codes import VerificationCodes
from regsvc.config.live import LiveConfig
from regsvc.config.sections import Config
from regsvc.core.errors import DatabaseUnavailable
from regsvc.database.engine import Worker
from tests.support.database_fixtures import MakeUser
from tests.support.manual_clock import ManualClock

WAIT = 10.0  # seconds until a test fails
P = ParamSpec("P")
T = TypeVar("T")


class HeldWorker(Worker):
    """A real worker whose first call, its query done, keeps its thread until the test lets it go."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, 2)
        self.is_open = True
        self.calls = 0
        self.has_read, self.may_return = threading.Event(), threading.Event()

    def run_here(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self.calls += 1
        result = super().run_here(work, *args, **kwargs)
        self.has_read.set()
        assert self.may_return.wait(WAIT)
        return result


@pytest.fixture
def worker(our_database: Database) -> Iterator[HeldWorker]:
    worker = HeldWorker(our_database)
    yield worker
    worker.may_return.set()
    worker.close()


def make_lookup(database: Database, worker: Worker) -> StatusLookup:
    clock, secrets = ManualClock(), DerivedSecrets(b"k" * 32)
    codes = VerificationCodes(secrets, clock, valid=timedelta(minutes=5), max_tries=5, digits=6)
    return StatusLookup(database, worker, codes, ApplicationTokens(secrets), LiveConfig(Config()), clock)


def status_of(username: str, status: str) -> NameStatusFields:
    return NameStatusFields(registered=True, username=username, status=status)


async def test_fifty_questions_are_two_queries(our_database: Database, worker: HeldWorker, make_user: MakeUser) -> None:
    for number in range(10):
        make_user(f"Alice_{number}", status="approved", applied_status="approved")
    names = [f"ALICE_{number}" for number in range(49)]
    statuses = make_lookup(our_database, worker)
    first = asyncio.create_task(statuses.find("alice_0", None))
    await asyncio.to_thread(worker.has_read.wait, WAIT)
    others = [asyncio.create_task(statuses.find(name, None)) for name in names]
    await asyncio.sleep(0)
    worker.may_return.set()
    answers = await asyncio.gather(first, *others)
    expected = [status_of(f"Alice_{number}", "approved") for number in range(10)] + [None] * 39
    assert answers == [expected[0], *expected]
    assert worker.calls == 2


def test_a_ban_typed_in_sql_is_seen_by_the_next_question(
    our_database: Database, worker: HeldWorker, make_user: MakeUser
) -> None:
    make_user("Bob", status="approved", applied_status="approved")

    async def story() -> tuple[NameStatusFields | None, NameStatusFields | None]:
        statuses = make_lookup(our_database, worker)
        before = asyncio.create_task(statuses.find("Bob", None))
        await asyncio.to_thread(worker.has_read.wait, WAIT)
        our_database.execute_sql("UPDATE regsvc_user SET status = 'banned' WHERE username_key = 'bob'")
        after = asyncio.create_task(statuses.find("Bob", None))
        await asyncio.sleep(0)
        worker.may_return.set()
        return await before, await after

    assert asyncio.run(story()) == (status_of("Bob", "approved"), status_of("Bob", "banned"))


async def test_odd_names_do_not_spoil_the_answers_of_others(
    our_database: Database, worker: HeldWorker, make_user: MakeUser
) -> None:
    make_user("Bob")
    odd = ["", "x" * 16_000, "😀", "%s", "%", "bob'; --", "\\", "é", "ﬀ", "\x00", "\u202e"]
    worker.may_return.set()
    statuses = make_lookup(our_database, worker)
    *others, bob = await asyncio.gather(*(statuses.find(name, None) for name in (*odd, "BOB")))
    assert (others, bob and bob.username, worker.calls) == ([None] * len(odd), "Bob", 1)


def test_everyone_hears_that_the_database_is_away(our_database: Database, worker: HeldWorker) -> None:
    worker.is_open = False

    async def story() -> list[NameStatusFields | BaseException | None]:
        statuses = make_lookup(our_database, worker)
        return await asyncio.gather(*(statuses.find(name, None) for name in ("a", "b")), return_exceptions=True)

    assert [type(answer) for answer in asyncio.run(story())] == [DatabaseUnavailable] * 2
