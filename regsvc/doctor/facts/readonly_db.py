"""Read-only connections to SQLite files and to a schema on MySQL or MariaDB.

`open_database` is unsuitable: it creates a missing file and switches it to WAL.
"""

import math
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pymysql
from peewee import MySQLDatabase
from pymysql.cursors import DictCursor

from plugin_bridge.server.files import require_regular_file
from regsvc.database.engine import QuickConnection

Row = dict[str, Any]

_CONNECT_TIMEOUT: Final = 1.0  # seconds
_ANSWER_TIMEOUT: Final = 1.5
_LOCK_TIMEOUT: Final = 0.5
_TIMEOUT_CODES: Final = {1969, 3024, 1317}  # MariaDB, MySQL, and old versions of MySQL
_CLIENT_ERRORS: Final = 2000
_LOCK_WAIT_TIMEOUT: Final = "SET SESSION lock_wait_timeout = 1"  # seconds, for metadata locks


class DatabaseUnreadable(Exception):
    """The database cannot be reached or refuses a statement. `str()` is its message, without any secret.

    `code` is MySQL's error number, 0 if there is none.
    """

    def __init__(self, message: str, code: int = 0, *, is_connected: bool = True) -> None:
        super().__init__(message)
        self.code = code
        self.is_away = not is_connected or code == 0 or code >= _CLIENT_ERRORS
        """Whether no connection could be opened, or it was lost: the error is the client's (2000 and up), or none."""
        self.is_locked = code == 0 and "locked" in message
        """Whether another program has an SQLite file to itself, which is no fault of the file."""


class StatementTimeout(DatabaseUnreadable):
    """A statement took longer than `ReadOnlyMySql.statement_timeout` allows."""


class DatabaseMigrating(DatabaseUnreadable):
    """A process is changing our tables, which is no fault: they can be read once it is done."""


class ReadOnlyDatabase(ABC):
    """A read-only connection, to be closed. Placeholders are `?`. Methods raise `DatabaseUnreadable`."""

    is_sqlite: bool

    @abstractmethod
    def rows(self, sql: str, *values: object) -> list[Row]:
        """Return all rows as dicts by column name."""

    @abstractmethod
    def close(self) -> None: ...

    def row(self, sql: str, *values: object) -> Row | None:
        """Return the first row; None if there is none."""
        return next(iter(self.rows(sql, *values)), None)

    def value(self, sql: str, *values: object) -> Any:
        """Return the first value of the first row; None if there is none."""
        row = self.row(sql, *values)
        return None if row is None else next(iter(row.values()))


class ReadOnlySqlite(ReadOnlyDatabase):
    """A SQLite file opened read-only: nothing is created, not even a journal."""

    is_sqlite = True

    def __init__(self, file: Path, *, in_process: bool = False) -> None:
        """`in_process`: other code of this process may have the file open. Raises `DatabaseUnreadable`."""
        # A journal beside the file means that it is in use. Without one it is complete and needs no lock, which in WAL
        # mode would leave two files behind.
        is_at_rest = not in_process and not file.with_name(f"{file.name}-wal").exists()
        try:
            require_regular_file(file)
            is_immutable = is_at_rest and _is_wal(file)
            uri = f"file:{quote(str(file.absolute()))}?mode=ro{'&immutable=1' if is_immutable else ''}"
            self._connection = sqlite3.connect(uri, uri=True, timeout=_LOCK_TIMEOUT, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise DatabaseUnreadable(str(error)) from error
        self._connection.row_factory = sqlite3.Row
        self._connection.text_factory = partial(str, encoding="utf-8", errors="replace")

    def rows(self, sql: str, *values: object) -> list[Row]:
        try:
            with closing(self._connection.execute(sql, values)) as cursor:
                return [dict(row) for row in cursor]
        except sqlite3.Error as error:
            raise DatabaseUnreadable(str(error)) from error

    def close(self) -> None:
        self._connection.close()


class ReadOnlyMySql(ReadOnlyDatabase):
    """A schema on a server, with the login and connection parameters of the companion itself."""

    is_sqlite = False

    def __init__(self, database: MySQLDatabase) -> None:
        """Connect. Raises `DatabaseUnreadable`."""
        parameters = {
            **database.connect_params,
            "connect_timeout": _CONNECT_TIMEOUT,
            "read_timeout": _ANSWER_TIMEOUT,
            "write_timeout": _ANSWER_TIMEOUT,
        }
        try:
            self._connection = QuickConnection(
                database=database.database, autocommit=True, cursorclass=DictCursor, **parameters
            )
        except Exception as error:  # PyMySQL lacks a package, or the server's answer makes no sense
            raise _unreadable(error, is_connected=False) from error
        self.rows(_LOCK_WAIT_TIMEOUT)
        version = str(self.value("SELECT VERSION() AS version"))
        self._is_mariadb = "MariaDB" in version
        if not self._is_mariadb and not version.startswith("5."):  # MySQL 8 caches statistics for a day
            self.rows("SET SESSION information_schema_stats_expiry = 0")

    def rows(self, sql: str, *values: object) -> list[Row]:
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(sql.replace("?", "%s") if values else sql, values or None)
                found: Any = cursor.fetchall()  # dicts, as the class of cursors says
                return list(found)
        except (pymysql.MySQLError, OSError) as error:
            raise _unreadable(error) from error

    @contextmanager
    def statement_timeout(self, seconds: float) -> Iterator[None]:
        """Context manager that limits each statement; a longer one raises `StatementTimeout`."""
        if self._is_mariadb:
            name, limit = "max_statement_time", str(seconds)
        else:
            name, limit = "max_execution_time", str(math.ceil(seconds * 1000))  # 0 would mean no limit
        self.rows(f"SET SESSION {name} = {limit}")
        try:
            yield
        finally:
            self.rows(f"SET SESSION {name} = DEFAULT")

    def close(self) -> None:
        self._connection.close()


def _is_wal(file: Path) -> bool:
    """Return whether the file's header says WAL; False if it cannot be read.

    Do not use for a file that this process has open: closing it would release all locks that the process holds on it.
    """
    try:
        with file.open("rb") as opened:
            return opened.read(20)[18:20] == b"\x02\x02"
    except OSError:
        return False


def _unreadable(error: Exception, *, is_connected: bool = True) -> DatabaseUnreadable:
    code, message = (*error.args, "")[:2] if error.args and isinstance(error.args[0], int) else (0, str(error))
    kind = StatementTimeout if code in _TIMEOUT_CODES else DatabaseUnreadable
    return kind(str(message) or type(error).__name__, code, is_connected=is_connected)
