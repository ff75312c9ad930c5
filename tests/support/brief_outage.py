"""AuthMe's table, away for a while and back again."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from tests.support.authme_database import SqliteFile
from tests.support.stack import Stack

Outage = Callable[[Stack], AbstractContextManager[None]]


@contextmanager
def table_missing(stack: Stack) -> Iterator[None]:
    """As if AuthMe had never started: the table has another name meanwhile."""
    table = stack.table.name
    stack.table.database.execute(f"ALTER TABLE {table} RENAME TO elsewhere")
    try:
        yield
    finally:
        stack.table.database.execute(f"ALTER TABLE elsewhere RENAME TO {table}")


@contextmanager
def file_missing(stack: Stack) -> Iterator[None]:
    """SQLite alone: the file has another name meanwhile."""
    assert isinstance(stack.table.database, SqliteFile)
    path = stack.table.database.path
    elsewhere = path.rename(path.with_suffix(".elsewhere"))
    try:
        yield
    finally:
        elsewhere.rename(path)


@contextmanager
def file_busy(stack: Stack) -> Iterator[None]:
    """SQLite alone: somebody writes, and takes his time."""
    assert isinstance(stack.table.database, SqliteFile)
    connection = stack.table.database.connect()
    connection.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        connection.rollback()
        connection.close()


def assert_synced(stack: Stack, **counts: int) -> None:
    """A run of the sync meets no error, and does as much as these counts of its report say."""
    report = stack.sync()
    assert {name: report[name] for name in counts} | {"errors": report["errors"]} == counts | {"errors": []}
