"""Our database: open it by its URL, and the one door between the event loop and blocking code."""

import contextlib
import functools
import logging
import random
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from ssl import CERT_NONE, PROTOCOL_TLS_CLIENT, SSLContext
from typing import Any, ParamSpec, TypeVar
from urllib.parse import unquote

from peewee import (
    Database,
    IntegrityError,
    InterfaceError,
    InternalError,
    MySQLDatabase,
    OperationalError,
    PeeweeException,
    SqliteDatabase,
)
from pymysql.connections import Connection
from pymysql.constants import CLIENT

from regsvc.config.database_url import split_database_url
from regsvc.core.bounded_pool import BoundedPool
from regsvc.core.errors import DatabaseUnavailable
from regsvc.database import failpoints

log = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")

_LOST_A_RACE = {1213, 1205, 1020}  # deadlock, lock wait timeout, record changed
_CONNECTION_LOST = {0, 1927, 2006, 2013, 2055, 4031}
_CANNOT_CONNECT = {1040, 1044, 1045, 1049, 1129, 1130, 1053, 1158, 1159, 1160, 1161, 2002, 2003, 2005, 2026}
_CANNOT_WRITE = {3, 1021, 1026, 1114, 1290, 1836}  # MySQL's words for a full disk and for read-only
_CANNOT_WRITE_TEXTS = ("disk is full", "readonly database", "disk I/O error")  # and SQLite's
_MAX_RUNS = 5
_IDLE_SECONDS_BEFORE_PING = 5.0
_MAX_CALLS = 2000  # running or waiting


class _WithFailpoints(Database):
    """What both kinds of database of ours share."""

    def commit(self) -> None:
        failpoints.reach("before commit")
        super().commit()
        failpoints.reach("after commit")


class OwnSqlite(_WithFailpoints, SqliteDatabase):
    """A file of our own."""


def open_sqlite(path: Path, busy_timeout: timedelta) -> SqliteDatabase:
    """Our own file: WAL, and every commit on disk before it is answered. Transactions take the write lock at once."""
    return OwnSqlite(
        str(path),
        timeout=busy_timeout.total_seconds(),
        lock_type="IMMEDIATE",
        pragmas=[("journal_mode", "wal"), ("synchronous", "full"), ("foreign_keys", 1)],
    )


class _QuickConnection(Connection):
    """Connects without reading the system's certificates.

    Where nothing is said about TLS, PyMySQL uses it if the server has it, and checks nobody's certificate; yet it makes
    a context anew for each connection, which reads all certificates of the system: 20 ms.
    """

    def _create_ssl_ctx(self, asked: SSLContext | None) -> SSLContext:
        return asked or _unchecking()


@functools.cache
def _unchecking() -> SSLContext:
    context = SSLContext(PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = CERT_NONE
    return context


class ReadCommittedMySQL(_WithFailpoints, MySQLDatabase):
    """Every transaction READ COMMITTED: under the default an adoption would hold a player's login back."""

    def _connect(self) -> Any:
        connection = _QuickConnection(database=self.database, autocommit=True, **self.connect_params)
        with connection.cursor() as cursor:  # the variable's name differs between MySQL and MariaDB
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        return connection


def open_mysql(
    *,
    host: str,
    port: int,
    user: str,
    password: str,
    name: str,
    busy_timeout: timedelta,
    ssl: SSLContext | None = None,
) -> MySQLDatabase:
    """A MySQL or MariaDB schema.

    FOUND_ROWS: an UPDATE answers how many rows it found, which is what compare-and-set asks.
    """
    seconds = max(1, round(busy_timeout.total_seconds()))
    return ReadCommittedMySQL(
        name,
        host=host,
        port=port,
        user=user,
        password=password,
        ssl=ssl,
        connect_timeout=5,
        read_timeout=60,
        write_timeout=60,
        client_flag=CLIENT.FOUND_ROWS,
        init_command=(
            f"SET SESSION innodb_lock_wait_timeout = {seconds}, time_zone = '+00:00', "
            "sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'"
        ),
    )


def open_database(url: str, busy_timeout: timedelta, tls: SSLContext | None = None) -> Database:
    """By URL: `sqlite:///path` or `mysql://user:password@host:port/name`. Raises ValueError with a sentence."""
    parts = split_database_url(url)
    if parts.scheme == "sqlite":
        return open_sqlite(Path(unquote(parts.path.removeprefix("/"))), busy_timeout)
    return open_mysql(
        host=parts.hostname or "",
        port=parts.port or 3306,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        name=unquote(parts.path.strip("/")),
        busy_timeout=busy_timeout,
        ssl=tls,
    )


def is_retryable(error: Exception) -> bool:
    """Whether the same rule, run again, may succeed: a deadlock, a lock wait, SQLite's BUSY.

    A deadlock inside a savepoint comes as the failure to go back to that savepoint: MySQL has rolled back everything.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OperationalError | InternalError) and _is_lost_race(cause):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _is_lost_race(error: OperationalError | InternalError) -> bool:
    code = error.args[0] if error.args else None
    return code in _LOST_A_RACE or "database is locked" in str(error) or "database table is locked" in str(error)


def error_sentence(error: PeeweeException) -> str:
    """What a database says went wrong, without the SQL."""
    return str(error.args[-1] if error.args else error)


def is_unreachable(error: Exception) -> bool:
    """Whether the database cannot be reached or written, as opposed to having been asked something wrong."""
    if not isinstance(error, OperationalError | InterfaceError | InternalError):
        return False
    code = error.args[0] if error.args else 0
    if code in _CONNECTION_LOST or code in _CANNOT_CONNECT:
        return True
    return "unable to open database file" in str(error) or cannot_write(error)


def cannot_write(error: Exception) -> bool:
    """Whether the database is there, but its disk is full or read-only.

    SQLite rolls back by itself then, so that it comes as the failure to roll back once more.
    """
    cause: BaseException | None = error
    while cause is not None:
        code = cause.args[0] if cause.args else 0
        if code in _CANNOT_WRITE or any(text in str(cause) for text in _CANNOT_WRITE_TEXTS):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def violates_unique(error: IntegrityError) -> bool:
    """Whether a unique index said no (and not, say, a CHECK or a NOT NULL)."""
    return bool(error.args) and (error.args[0] == 1062 or "UNIQUE constraint failed" in str(error.args[0]))


class Worker:
    """The only door to blocking database code: `await worker.run(rule, …)`.

    A rule runs whole on a thread that keeps its connection open. One that lost a deadlock is run again, so rules are
    repeatable and do nothing but SQL.
    """

    def __init__(
        self, database: Database, threads: int, name: str = "worker", also_close: Callable[[], None] | None = None
    ) -> None:
        """`also_close` closes what else a thread may have opened."""
        self._database = database
        self._pool = BoundedPool(name, threads, max_waiting=_MAX_CALLS - threads)
        self._also_close = also_close
        self._local = threading.local()
        self.is_open = False
        """False until the database has our tables: nothing is run before, `DatabaseUnavailable` is raised instead."""

    @property
    def waiting(self) -> int:
        """How many rules wait for a thread."""
        return self._pool.waiting

    async def run(self, rule: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the rule and return its result. Raises `DatabaseUnavailable` or `Overloaded` rather than wait."""
        if not self.is_open:
            raise DatabaseUnavailable(retry_after=2)
        return await self._pool.run(functools.partial(self.run_here, rule, *args, **kwargs))

    def run_here(self, rule: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same on the calling thread, for commands and tests."""
        for attempt in range(1, _MAX_RUNS + 1):
            try:
                self._connect()
                return rule(*args, **kwargs)
            except (OperationalError, InterfaceError, InternalError) as error:
                if is_unreachable(error):
                    self._disconnect()
                    if cannot_write(error):
                        log.error("the database cannot be written: its disk is full or read-only")
                    if attempt > 1 or self._is_unsure(error):
                        raise DatabaseUnavailable(retry_after=2) from error
                elif not is_retryable(error):
                    raise
                elif attempt == _MAX_RUNS:
                    raise DatabaseUnavailable(retry_after=1) from error
                time.sleep(random.uniform(0.2, 1) * 0.02 * attempt)  # noqa: S311 - jitter
            finally:
                self._local.used_at = time.monotonic()
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Let running rules finish, then close every thread's connections."""
        self._pool.drain(self.close_here)

    def close_here(self) -> None:
        """Close the calling thread's connections."""
        self._disconnect()
        if self._also_close is not None:
            self._also_close()

    def _connect(self) -> None:
        """An open connection; one that idled is asked whether the server still knows it."""
        idle = time.monotonic() - getattr(self._local, "used_at", 0.0)
        if self._database.is_closed():
            self._database.connect()
            return
        may_be_lost = idle > _IDLE_SECONDS_BEFORE_PING and isinstance(self._database, MySQLDatabase)
        if may_be_lost and not self._database.is_connection_usable():
            self._disconnect()
            self._database.connect()

    def _disconnect(self) -> None:
        with contextlib.suppress(Exception):  # it is lost already
            self._database.close()

    def _is_unsure(self, error: Exception) -> bool:
        """Whether the connection was lost while committing: then running the rule again might do it twice."""
        frame = error.__traceback__
        while frame is not None:
            if frame.tb_frame.f_code.co_name == "commit":
                return True
            frame = frame.tb_next
        return False
