"""Brief outages of AuthMe's table."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from tests.support.authme.authme_database import SqliteFile
from tests.support.stack import Stack

Outage = Callable[[Stack], AbstractContextManager[None]]


@contextmanager
def table_missing(stack: Stack) -> Iterator[None]:
    """Renames the table, as if AuthMe had never started."""
    table = stack.table.name
    stack.table.database.execute(f"ALTER TABLE {table} RENAME TO elsewhere")
    try:
        yield
    finally:
        stack.table.database.execute(f"ALTER TABLE elsewhere RENAME TO {table}")


@contextmanager
def file_missing(stack: Stack) -> Iterator[None]:
    """Renames the file; SQLite only."""
    assert isinstance(stack.table.database, SqliteFile)
    path = stack.table.database.path
    elsewhere = path.rename(path.with_suffix(".elsewhere"))
    try:
        yield
    finally:
        elsewhere.rename(path)


@contextmanager
def file_busy(stack: Stack, lock: str = "EXCLUSIVE") -> Iterator[None]:
    """Holds a lock on the file; beside an "IMMEDIATE" one it can still be read. SQLite only."""
    assert isinstance(stack.table.database, SqliteFile)
    connection = stack.table.database.connect()
    connection.execute(f"BEGIN {lock}")
    try:
        yield
    finally:
        connection.rollback()
        connection.close()


def assert_synced(stack: Stack, **counts: int) -> None:
    """Runs the sync; it reports no errors, and these counts."""
    report = stack.sync()
    assert {name: report[name] for name in counts} | {"errors": report["errors"]} == counts | {"errors": []}
