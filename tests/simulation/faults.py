"""What the database and the process do to the product: by chance, at hand-overs, while `is_on`."""

import random
from collections.abc import Callable
from typing import Any, Final
from unittest import mock

from peewee import Database, OperationalError, SqliteDatabase

from regsvc.database import engine, failpoints
from tests.simulation.scheduler import Killed, Scheduler, Trace

_OWN: Final = engine._OwnDatabase
_DEADLOCK: Final = 1213, "Deadlock found when trying to get lock; try restarting transaction"
_LOST: Final = 2013, "Lost connection to MySQL server during query"
FAULTS: Final = ("deadlock", "lost", "lost before commit", "lost after commit", "slow", "kill")


class Faults:
    """One fault at a time is due, after so many points where it can happen."""

    def __init__(self, chance: random.Random, trace: Trace) -> None:
        self._chance = chance
        self._trace = trace
        self.is_on = False
        self.due: str | None = None
        self.count = 0
        self._left = 0

    def plan(self, kind: str) -> None:
        """Let this happen at one of the next points of its kind."""
        self.due, self._left = kind, self._chance.choice([1, 1, 2, 3, 5, 9, 20])

    def stop(self) -> None:
        self.is_on, self.due = False, None

    def _is_now(self, *kinds: str) -> str | None:
        if not self.is_on or self.due not in kinds:
            return None
        self._left -= 1
        if self._left > 0:
            return None
        kind, self.due = self.due, None
        self.count += 1
        self._trace.note(f"  fault: {kind}")
        return kind

    def meet(self, point: str, database: Database | None, scheduler: Scheduler) -> None:
        """Do what is due at this point. Raises what the database would, and `Killed`."""
        if point == "statement":
            kind = self._is_now("deadlock", "lost", "slow")
        elif point == "before commit":
            kind = self._is_now("lost before commit", "kill", "slow")
        elif point == "after commit":
            kind = self._is_now("lost after commit", "kill")
        elif point in ("before player write", "after player write"):
            kind = self._is_now("kill")
        else:
            return
        if kind == "kill":
            scheduler.is_dead = True
            raise Killed
        if kind == "slow":
            scheduler.clock.advance(seconds=self._chance.choice([0.2, 3, 20, 45]))
        elif kind is not None and database is not None:
            _break(database, kind)


def _break(database: Database, kind: str) -> None:
    """Raise what the database does, once it has done it."""
    connection: Any = database.connection()
    if isinstance(database, SqliteDatabase):
        if kind == "deadlock":
            raise OperationalError("database is locked")
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise OperationalError("disk I/O error")
    if kind == "deadlock":
        connection.rollback()
        raise OperationalError(*_DEADLOCK)
    connection._force_close()
    raise OperationalError(*_LOST)


def hook(scheduler: Scheduler) -> Any:
    """Return a context in which the product's statements and commits are hand-overs."""
    execute: Callable[..., Any] = _OWN.execute_sql

    def execute_sql(self: Database, sql: str, params: Any = None) -> Any:
        if scheduler.is_running_a_thread:
            is_free = self.transaction_depth() == 0
            scheduler.hand_over("statement", database=self, may_switch=is_free)
        return execute(self, sql, params)

    def commit(self: Database) -> None:
        scheduler.hand_over("before commit", database=self, may_switch=False)
        super(_OWN, self).commit()  # type: ignore[misc]  # it is one
        scheduler.hand_over("after commit", database=self)

    def reach(point: str) -> None:
        if "commit" not in point:
            scheduler.hand_over(point, may_switch=False)

    return mock.patch.multiple(_OWN, execute_sql=execute_sql, commit=commit), mock.patch.object(
        failpoints, "reach", reach
    )
