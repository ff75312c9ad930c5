"""Connections that only look: AuthMe's SQLite file, ours, and a schema on MySQL or MariaDB.

`open_database` would not do: it makes a file that is not there and switches it to WAL.
"""

import math
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pymysql
from peewee import MySQLDatabase
from pymysql.cursors import DictCursor

Row = dict[str, Any]

_CONNECT_TIMEOUT: Final = 1.0  # seconds
_ANSWER_TIMEOUT: Final = 1.5
_LOCK_TIMEOUT: Final = 0.5
_TIMEOUT_CODES: Final = {1969, 3024, 1317}  # MariaDB's word for it, MySQL's, and what an old one says
_LOCK_WAIT_TIMEOUT: Final = (
    "SET SESSION lock_wait_timeout = 1"  # whoever holds a lock on a table's shape is not waited for
)


class DatabaseUnreadable(Exception):
    """The database cannot be reached, or does not answer this. `str()` is what it says, without any secret.

    `code` is MySQL's number of the error, 0 where there is none.
    """

    def __init__(self, said: str, code: int = 0) -> None:
        super().__init__(said)
        self.code = code


class StatementTimeout(DatabaseUnreadable):
    """It took longer than `ReadOnlyMySql.statement_timeout` allows."""


class ReadOnlyDatabase(ABC):
    """A connection for looking. Statements have `?` for a value. Raises `DatabaseUnreadable`; close it."""

    is_sqlite: bool

    @abstractmethod
    def rows(self, sql: str, *values: object) -> list[Row]:
        """All rows, each by the names of its columns."""

    @abstractmethod
    def close(self) -> None: ...

    def row(self, sql: str, *values: object) -> Row | None:
        """The first row; None if there is none."""
        return next(iter(self.rows(sql, *values)), None)

    def value(self, sql: str, *values: object) -> Any:
        """The only value of the only row; None if there is none."""
        row = self.row(sql, *values)
        return None if row is None else next(iter(row.values()))


class ReadOnlySqlite(ReadOnlyDatabase):
    """A file, opened read-only: nothing is made, not even a journal."""

    is_sqlite = True

    def __init__(self, file: Path, *, in_process: bool = False) -> None:
        """`in_process`: other code of this process may have the file open. Raises `DatabaseUnreadable`."""
        # A journal beside the file means that it is in use. Without one it is complete and needs no lock, which in WAL
        # mode would leave two files behind.
        is_at_rest = not in_process and not file.with_name(f"{file.name}-wal").exists()
        uri = f"file:{quote(str(file.absolute()))}?mode=ro{'&immutable=1' if is_at_rest and _is_wal(file) else ''}"
        try:
            self._connection = sqlite3.connect(uri, uri=True, timeout=_LOCK_TIMEOUT, isolation_level=None)
        except sqlite3.Error as error:
            raise DatabaseUnreadable(str(error)) from error
        self._connection.row_factory = sqlite3.Row

    def rows(self, sql: str, *values: object) -> list[Row]:
        try:
            with closing(self._connection.execute(sql, values)) as cursor:
                return [dict(row) for row in cursor]
        except sqlite3.Error as error:
            raise DatabaseUnreadable(str(error)) from error

    def close(self) -> None:
        self._connection.close()


class ReadOnlyMySql(ReadOnlyDatabase):
    """A schema, with the login, and over the connection, that the companion uses itself."""

    is_sqlite = False

    def __init__(self, database: MySQLDatabase) -> None:
        """Raises `DatabaseUnreadable`."""
        given = {
            **database.connect_params,
            "connect_timeout": _CONNECT_TIMEOUT,
            "read_timeout": _ANSWER_TIMEOUT,
            "write_timeout": _ANSWER_TIMEOUT,
        }
        try:
            self._connection = pymysql.connect(
                database=database.database, autocommit=True, cursorclass=DictCursor, **given
            )
        except (pymysql.MySQLError, OSError, RuntimeError) as error:  # the last is what PyMySQL has no package for
            raise _unreadable(error) from error
        self.rows(_LOCK_WAIT_TIMEOUT)
        version = str(self.value("SELECT VERSION() AS version"))
        self._is_mariadb = "MariaDB" in version
        if not self._is_mariadb and not version.startswith("5."):  # MySQL 8 tells figures of tables a day old
            self.rows("SET SESSION information_schema_stats_expiry = 0")

    def rows(self, sql: str, *values: object) -> list[Row]:
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(sql.replace("?", "%s") if values else sql, values or None)
                return list(cursor.fetchall())
        except (pymysql.MySQLError, OSError) as error:
            raise _unreadable(error) from error

    @contextmanager
    def statement_timeout(self, seconds: float) -> Iterator[None]:
        """No statement within takes longer: `StatementTimeout` then."""
        if self._is_mariadb:
            name, limit = "max_statement_time", str(seconds)
        else:
            name, limit = "max_execution_time", str(math.ceil(seconds * 1000))  # 0 would be for ever
        self.rows(f"SET SESSION {name} = {limit}")
        try:
            yield
        finally:
            self.rows(f"SET SESSION {name} = DEFAULT")

    def close(self) -> None:
        self._connection.close()


def _is_wal(file: Path) -> bool:
    """Whether the file's header says WAL; False for what cannot be read.

    Not for a file that this process works on: whoever closes one loses all locks that his process has on it.
    """
    try:
        with file.open("rb") as opened:
            return opened.read(20)[18:20] == b"\x02\x02"
    except OSError:
        return False


def _unreadable(error: Exception) -> DatabaseUnreadable:
    code, said = (*error.args, "")[:2] if error.args and isinstance(error.args[0], int) else (0, str(error))
    kind = StatementTimeout if code in _TIMEOUT_CODES else DatabaseUnreadable
    return kind(str(said) or type(error).__name__, code)
