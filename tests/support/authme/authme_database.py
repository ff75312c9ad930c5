"""Databases of AuthMe's table, used as the plugin does: one statement, one commit, `?` for a value."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from tests.support.peers.mariadb import Database

DatabaseKind = Literal["sqlite", "mariadb"]
Row = dict[str, Any]

# The time-out of the SQLite driver that AuthMe ships, in seconds.
SQLITE_BUSY_TIMEOUT = 3.0


class AuthMeDatabase(Protocol):
    """Interface of both kinds, so that a test is written once."""

    @property
    def kind(self) -> DatabaseKind: ...

    def execute(self, sql: str, values: Sequence[object] = ()) -> int:
        """Run and commit one statement; return the number of rows it matched."""

    def query(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        """Return all rows by column name; an empty list when there are none."""


@dataclass(frozen=True)
class SqliteFile:
    """The plugin's SQLite file. Each statement has a connection of its own, so that none stays open with a lock."""

    path: Path
    kind: DatabaseKind = "sqlite"

    def execute(self, sql: str, values: Sequence[object] = ()) -> int:
        with closing(self.connect()) as connection:
            return connection.execute(sql, values).rowcount

    def query(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        with closing(self.connect()) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(sql, values)]

    def connect(self) -> sqlite3.Connection:
        """Return a connection in autocommit, which the caller closes. Invalid UTF-8 becomes lone surrogates."""
        connection = sqlite3.connect(self.path, timeout=SQLITE_BUSY_TIMEOUT, isolation_level=None)
        connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        return connection


@dataclass(frozen=True)
class MariaDBSchema:
    """A schema on the private server, under the `authme` login."""

    database: Database
    kind: DatabaseKind = "mariadb"

    def execute(self, sql: str, values: Sequence[object] = ()) -> int:
        with self.database.cursor() as cursor:
            return cursor.execute(sql.replace("?", "%s"), tuple(values))

    def query(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        with self.database.cursor() as cursor:
            cursor.execute(sql.replace("?", "%s"), tuple(values))
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
