"""Calls of the database's workers that lost a race are repeated as a whole, within bounds."""

import asyncio
from contextlib import nullcontext

import pytest
from peewee import Database, IntegrityError, OperationalError, ProgrammingError

from regsvc.core import errors
from regsvc.database import engine, failpoints
from regsvc.database.engine import Worker
from regsvc.database.models import User

pytestmark = pytest.mark.parametrize("database_kind", ["mariadb"])


@pytest.fixture(autouse=True)
def few_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MAX_RACE_RETRIES", 3)


class Failing:
    """A call whose first `times` attempts fail with an error of the server."""

    def __init__(self, database: Database, code: int, times: int) -> None:
        self._database = database
        self._statement = f"SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {code}, MESSAGE_TEXT = 'for a test'"
        self._times = times
        self.attempts = 0

    def __call__(self) -> str:
        self.attempts += 1
        with self._database.atomic():
            User.update(reason=f"attempt {self.attempts}").execute()
            if self.attempts <= self._times:
                self._database.execute_sql(self._statement)
        return "done"


@pytest.mark.parametrize(
    ("code", "retries"),
    [
        pytest.param(1213, 3, id="a deadlock"),
        pytest.param(1020, 3, id="a record that changed"),
        pytest.param(1452, 2, id="a parent row that was deleted"),
        pytest.param(1205, 4, id="a lock that was not released"),
    ],
)
def test_a_lost_race_is_repeated(our_database: Database, alice: User, code: int, retries: int) -> None:
    work = Failing(our_database, code, times=retries)
    assert Worker(our_database, 1).run_here(work) == "done"
    assert User.get_by_id(alice.id).reason == f"attempt {retries + 1}"


@pytest.mark.parametrize(
    ("code", "attempts", "outcome"),
    [(1213, 4, errors.Busy), (1205, 5, errors.Busy), (1452, 3, IntegrityError), (1146, 1, ProgrammingError)],
)
def test_the_repetitions_are_bounded(
    our_database: Database, alice: User, code: int, attempts: int, outcome: type[Exception]
) -> None:
    work = Failing(our_database, code, times=100)
    with pytest.raises(outcome):
        Worker(our_database, 1).run_here(work)
    assert work.attempts == attempts
    assert User.get_by_id(alice.id).reason is None


@pytest.mark.parametrize("code", [1021, 1114])
def test_a_full_disk_of_the_server_is_told_though_it_can_be_asked(
    our_database: Database, alice: User, code: int
) -> None:
    worker = Worker(our_database, 1)
    worker.is_open = True
    with pytest.raises(errors.DatabaseUnavailable) as refused:
        asyncio.run(worker.run(Failing(our_database, code, times=2)))
    assert refused.value.facts == {"fault": "unwritable"}
    asyncio.run(worker.run(worker.look_for_write_problem))
    worker.close()
    assert worker.outage_log.write_problem == "for a test"
    assert User.get_by_id(alice.id).reason is None


@pytest.mark.parametrize(("point", "attempts"), [("in the transaction", 2), ("before commit", 1), ("after commit", 1)])
def test_what_may_have_been_committed_is_not_done_twice(
    our_database: Database, alice: User, monkeypatch: pytest.MonkeyPatch, point: str, attempts: int
) -> None:
    """The connection is lost before anything is committed, or during a COMMIT: nobody knows whether it was done."""
    worker, made = Worker(our_database, 1), list[str]()
    worker.is_open = True

    def reach(at: str) -> None:
        if at == point and len(made) == 1:
            our_database.connection()._force_close()  # as PyMySQL does before it raises: a rollback fails, too
            raise OperationalError(2013, "Lost connection to server during query")

    def work() -> None:
        with our_database.atomic():
            made.append("work")
            User.update(reason="seen").execute()
            reach("in the transaction")

    monkeypatch.setattr(failpoints, "reach", reach)
    with nullcontext() if attempts == 2 else pytest.raises(errors.DatabaseUnavailable):
        asyncio.run(worker.run(work))
    worker.close()
    assert len(made) == attempts
