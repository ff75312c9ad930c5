"""Our database: opened by its URL, and used from the event loop only through `Worker`."""

import contextlib
import errno
import functools
import importlib
import logging
import math
import operator
import os
import random
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from ssl import CERT_NONE, PROTOCOL_TLS_CLIENT, SSLContext
from traceback import walk_tb
from typing import Any, Final, ParamSpec, TypeVar
from urllib.parse import unquote

import pymysql
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
from pymysql import _auth
from pymysql.connections import Connection
from pymysql.constants import CLIENT

from regsvc import allow_cryptography
from regsvc.config.host_sections import CausalReads
from regsvc.config.value_checks import split_database_url
from regsvc.core.bounded_pool import BoundedPool
from regsvc.core.errors import Busy, DatabaseUnavailable
from regsvc.database import failpoints
from regsvc.database.durability import Lossy, read_lossy

log = logging.getLogger(__name__)

_REPEAT_AFTER: Final = 60.0
"""Seconds between two lines about a database that answers but accepts no changes."""
_REFUSES_FOR: Final = 65.0
"""Seconds for which a refused write counts: longer than `sync.every`, since each sync run writes, too."""


class OutageLog:
    """Outages of one database, however many threads and jobs meet them. May be shared by threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` counts seconds and never goes back."""
        self._clock = clock
        self._lock = threading.Lock()
        self.is_away = False
        """Whether the last call that needed the database could not reach it."""
        self._logged_at: float | None = None  # that it cannot be written
        self._write_problem = ""
        self._refused_at = -math.inf
        self._is_found = False

    def begin(self, reason: str) -> bool:
        """Record that the database cannot be reached; returns whether this is the first to notice."""
        with self._lock:
            is_new, self.is_away = not self.is_away, True
        if is_new:
            log.error("the database is away; requests get 503 until it is back (%s)", reason)
        return is_new

    def end(self) -> None:
        """Record that the database answers."""
        if not self.is_away:
            return
        with self._lock:
            is_over, self.is_away = self.is_away, False
        if is_over:
            log.info("the database is back")

    @property
    def write_problem(self) -> str | None:
        """Why the database accepts no changes, in its own words or the system's; None if it does."""
        return self._write_problem if self._clock() < self._refused_at + _REFUSES_FOR else None

    def refuse_write(self, reason: str) -> None:
        """Record that the database answers but accepts no changes. Nothing says when that is over: reads succeed."""
        with self._lock:
            moment = self._refused_at = self._clock()
            self._write_problem = reason
            is_due = self._logged_at is None or moment >= self._logged_at + _REPEAT_AFTER
            if is_due:
                self._logged_at = moment
        if is_due:
            log.error("the database cannot be written: its disk is full or read-only (%s)", reason)

    def note_look(self, problem: str | None) -> None:
        """Record what `find_write_problem` returned. Only what it found is over once it finds nothing.

        A refusal that it cannot see, such as that of a table that is full, counts for a while.
        """
        if problem is not None:
            self._is_found = True
            self.refuse_write(problem)
        elif self._is_found:
            self.allow_write()

    def allow_write(self) -> None:
        """Record that the database accepts changes."""
        with self._lock:
            was_refused, self._refused_at = self._refused_at > -math.inf, -math.inf
            self._is_found, self._logged_at = False, None
        if was_refused:
            log.info("the database can be written again")


P = ParamSpec("P")
T = TypeVar("T")

_UNKNOWN_VARIABLE = 1193
_LOST_RACE = {1213, 1020}  # deadlock, or certification failure of a cluster's node; record changed
_LOCK_WAIT_TIMEOUT = 1205
_PARENT_IS_GONE = 1452  # a row that is referred to was deleted by another transaction after it was read
_WRONG_PASSWORD = {1045, 1698}  # the second from MariaDB, without a password
# of an open connection: it was lost or killed, the server ends, or a limit per hour of the login is used up
_CONNECTION_LOST = {0, 1053, 1158, 1159, 1160, 1161, 1226, 1927, 2006, 2013, 2055, 4031}
_WRONG_CONFIG = _WRONG_PASSWORD | {
    1044,  # ER_DBACCESS_DENIED_ERROR, as the next ones from MariaDB's list of errors
    1049,  # ER_BAD_DB_ERROR: there is no such database
    1193,  # ER_UNKNOWN_SYSTEM_VARIABLE: `database.causal_reads = "always"` without Galera
    1251,  # ER_NOT_SUPPORTED_AUTH_MODE: the login's way to log in is not known to the driver
    2059,  # CR_AUTH_PLUGIN_CANNOT_LOAD, from the driver: the same
}
"""Codes with which a connection is refused until the config, or what it names, is changed; all others may pass."""
_NO_DATABASE = ("file is not a database", "database disk image is malformed")
"""SQLite's words for a file that only a backup replaces."""
_CUT_OFF = {1047, 1180}  # a cluster's node without the others: when it is asked, and when it loses them during COMMIT
_CANNOT_WRITE = {3, 1021, 1026, 1036, 1114, 1290, 1836}  # MySQL's codes for a full disk and for read-only
_CANNOT_WRITE_TEXTS = ("disk is full", "readonly database", "disk I/O error", "Errcode: 28", "Got error 28")
"""SQLite's messages, and what MySQL adds to other codes."""
_DISK_PROBLEMS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}
_LEAST_ROOM = 128 * 1024  # bytes: less than the commits of a few requests
_REREAD_AFTER = 2.0  # seconds between two looks at the config while the database refuses the password
MAX_RACE_RETRIES = 12
"""How often a call is repeated that lost a race against another transaction."""
_MAX_LOCK_RETRIES = 4  # fewer: each has waited for `database.busy_timeout`
_MAX_PARENT_RETRIES = 2
_LONGEST_PAUSE = 0.5
_IDLE_SECONDS_BEFORE_PING = 60.0  # rarely: a call that finds its connection lost is repeated, too
_MAX_CALLS = 2000  # running or waiting
MAX_LISTS: Final = 64
"""Searches and lists that run or wait: as many as one client address may have connections.

They have a thread of their own, so that what takes seconds keeps no login waiting; not that of the sync, whose runs may
take minutes. They see what other threads committed before: each of their statements has a new snapshot.
"""


class _Untranslated(Exception):
    """First base of what peewee shall not translate: it looks at the name of that, and would make a copy."""


class CannotConnect(_Untranslated, OperationalError):
    """No connection could be opened, whatever the other side answered; `args` are a code, 0 for none, and a sentence.

    On SQLite there is the sentence alone.
    """


class _OwnDatabase(Database):
    """Failpoints around every commit, and one exception if no connection can be opened, on both kinds of database."""

    def connect(self, reuse_if_open: bool = False) -> bool:
        """Open this thread's connection; return whether there was none. Raises `CannotConnect`."""
        if not self.is_closed():
            return bool(super().connect(reuse_if_open))
        try:
            return bool(super().connect(reuse_if_open))
        except Exception as error:  # a server that starts or ends, or what is in its place, may answer anything
            with contextlib.suppress(Exception):  # it may be half open
                self.close()
            if _waited_for_lock(error):
                raise
            raise CannotConnect(*_describe_failure(error)) from error

    def commit(self) -> None:
        failpoints.reach("before commit")
        super().commit()
        failpoints.reach("after commit")


class TolerantSqlite(SqliteDatabase):
    """SQLite file with texts that were typed in another encoding than UTF-8: read with U+FFFD, as in AuthMe's file."""

    def _connect(self) -> Any:
        return _as_text(super()._connect())  # type: ignore[misc]  # peewee's stubs lack it


def _as_text(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.text_factory = operator.methodcaller("decode", "utf-8", "replace")
    return connection


class OwnSqlite(_OwnDatabase, TolerantSqlite):
    """SQLite file of our own."""

    may_create = True
    """Whether a missing file is created. False once it is in use: a new one in its place would be empty."""

    def _connect(self) -> Any:
        if self.may_create:
            return super()._connect()
        place = f"{Path(self.database).absolute().as_uri()}?mode=rw"  # who looks first can be overtaken by a removal
        connection = sqlite3.connect(place, timeout=self.timeout, isolation_level=None, uri=True)
        try:
            self._add_conn_hooks(connection)  # type: ignore[attr-defined]  # peewee's stubs lack it
        except sqlite3.Error:
            connection.close()
            raise
        return _as_text(connection)


def open_sqlite(path: Path, busy_timeout: timedelta) -> SqliteDatabase:
    """Open our own file: WAL mode, commits are flushed to disk, transactions take the write lock at once.

    EXTRA is FULL in WAL mode; where there can be none, it also flushes the folder from which the journal is removed.
    """
    return OwnSqlite(
        str(path),
        timeout=busy_timeout.total_seconds(),
        lock_type="IMMEDIATE",
        pragmas=[("journal_mode", "wal"), ("synchronous", "extra"), ("foreign_keys", 1)],
    )


def _encrypt_password(password: bytes, salt: bytes, public_key: bytes) -> bytes:
    """Encrypt for MySQL's logins by SHA-256 without TLS: only they need the library that `regsvc` hides."""
    with _encrypt_lock:
        if not vars(_auth)["_have_cryptography"]:
            allow_cryptography()
            importlib.reload(_auth)
    encrypted: bytes = _auth.sha2_rsa_encrypt(password, salt, public_key)
    return encrypted


_encrypt_lock: Final = threading.Lock()
if not vars(_auth)["_have_cryptography"]:
    _auth.sha2_rsa_encrypt = _encrypt_password


class QuickConnection(Connection):
    """MySQL connection that does not read the system's certificates.

    Without TLS settings PyMySQL uses TLS if the server offers it, and verifies no certificate; yet it creates a context
    for each connection, which reads all certificates of the system: 20 ms.
    """

    def _create_ssl_ctx(self, given: SSLContext | None) -> SSLContext:
        return given or _unverified_context()


@functools.cache
def _unverified_context() -> SSLContext:
    context = SSLContext(PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = CERT_NONE
    return context


class ReadCommittedMySQL(_OwnDatabase, MySQLDatabase):
    """MySQL with READ COMMITTED transactions: under the default level an adoption would delay players' logins."""

    causal_reads: CausalReads = "auto"
    """Whether reads wait until the node of a cluster has applied what was committed before on others."""
    is_cluster: bool | None = None
    """Whether the server is a node of a cluster; None: not asked yet (see `catch_up`)."""
    read_password: Callable[[], str | None] | None = None
    """Returns the password of the config as it is now, None if there is none for this database. Blocking."""
    _reread_at = -math.inf
    _reread_lock = threading.Lock()

    def _connect(self) -> Any:
        password = self.connect_params["password"]
        try:
            connection = self._log_in(password)
        except pymysql.OperationalError as error:
            if _code(error) not in _WRONG_PASSWORD:
                raise
            with self._reread_lock:
                connection = self._log_in(self._find_other_password(password, error))
        with connection.cursor() as cursor:  # the variable's name differs between MySQL and MariaDB
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            if self.causal_reads == "always":
                cursor.execute("SET SESSION wsrep_sync_wait = 1")
        return connection

    def _log_in(self, password: str) -> Connection:
        params = self.connect_params | {"password": password}
        connection = QuickConnection(database=self.database, autocommit=True, **params)
        if self.connect_params["password"] != password:
            self.connect_params = params
            log.info("the database refused the password in use; the one that the config has now is used")
        return connection

    def _find_other_password(self, refused: str, error: Exception) -> str:
        """Return the password to try after this one. Raises the error if there is none, or none yet."""
        password: str = self.connect_params["password"]  # another thread's
        if password == refused and self.read_password and time.monotonic() > self._reread_at + _REREAD_AFTER:
            self._reread_at = time.monotonic()
            password = self.read_password() or refused
        if password == refused:
            raise error
        return password


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
    """Open a MySQL or MariaDB schema.

    FOUND_ROWS: an UPDATE reports the rows it matched instead of those it changed, as compare-and-set needs.
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


def catch_up(database: Database) -> bool:
    """Wait until our node of a cluster (Galera) has applied what was committed on any other; returns whether it had to.

    False, at once, without a cluster, and if `database.causal_reads` is not "auto". Blocking; never inside a
    transaction.
    """
    if not isinstance(database, ReadCommittedMySQL) or database.causal_reads != "auto" or not _is_cluster(database):
        return False
    run: Callable[[str], Any] = database.execute_sql
    run("SET SESSION wsrep_sync_wait = 1")
    try:
        run("SELECT 1")
    finally:
        run("SET SESSION wsrep_sync_wait = DEFAULT")  # the server's own value, which may be 1
    return True


def _is_cluster(database: ReadCommittedMySQL) -> bool:
    """Return whether the server is a node of a cluster; asked once."""
    if database.is_cluster is None:
        try:
            run: Callable[[str], Any] = database.execute_sql
            [[is_on]] = run("SELECT @@GLOBAL.wsrep_on").fetchall()
        except OperationalError as error:
            if error.args[0] != _UNKNOWN_VARIABLE:
                raise
            is_on = 0
        database.is_cluster = bool(is_on)
    return database.is_cluster


def open_database(url: str, busy_timeout: timedelta, tls: SSLContext | None = None) -> Database:
    """Open `sqlite:///path` or `mysql://user:password@host:port/name`. Raises ValueError with a sentence."""
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
    """Return whether the same call may succeed when repeated: after a deadlock, a lock wait, SQLite's BUSY.

    A deadlock inside a savepoint surfaces as the failure to roll back to that savepoint, because MySQL has rolled back
    everything; so the chain of causes is searched.
    """
    return waited_for_lock(error) or any(_lost_race(cause) for cause in _causes(error))


def waited_for_lock(error: Exception) -> bool:
    """Return whether the call has waited for another transaction's lock until its time was over."""
    return any(_waited_for_lock(cause) for cause in _causes(error))


def _lost_race(error: BaseException) -> bool:
    return isinstance(error, OperationalError | InternalError) and _code(error) in _LOST_RACE


def _waited_for_lock(error: BaseException) -> bool:
    """Return whether a statement waited for another transaction's lock until its time was over."""
    if not isinstance(error, OperationalError | InternalError):
        return False
    is_locked = "database is locked" in str(error) or "database table is locked" in str(error)
    return is_locked or _code(error) == _LOCK_WAIT_TIMEOUT


def _describe_failure(error: Exception) -> tuple[Any, ...]:
    """Return the arguments of the database's own error; of another exception, 0 and what it is."""
    if isinstance(error, PeeweeException) and (len(error.args) == 1 or isinstance(error.args[0], int)):
        return error.args if len(error.args) == 2 else (0, *error.args)
    return 0, f"the server's answer makes no sense: {type(error).__name__}"


def _code(error: BaseException) -> Any:
    """Return MySQL's code of the error; of SQLite's errors it is their text."""
    return error.args[0] if error.args else 0


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, its cause, the cause of that, and so on."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def error_sentence(error: Exception) -> str:
    """Return the database's own message, without the SQL: of what follows a refused write, the refusal."""
    cause = find_refused_write(error) or error
    return str(cause.args[-1] if cause.args else cause)


def is_config_wrong(error: Exception) -> bool:
    """Return whether no connection can be opened until the config, or the file that it names, is another one."""
    is_no_database = any(words in str(error) for words in _NO_DATABASE)
    return isinstance(error, CannotConnect) and (_code(error) in _WRONG_CONFIG or is_no_database)


def is_unreachable(error: Exception) -> bool:
    """Return whether the database cannot be reached or written, as opposed to having rejected a statement."""
    if isinstance(error, CannotConnect):
        return True
    if not isinstance(error, OperationalError | InterfaceError | InternalError):
        return False
    code = _code(error)
    if code in _CONNECTION_LOST or code in _CUT_OFF:
        return True
    return "unable to open database file" in str(error) or find_refused_write(error) is not None


def find_refused_write(error: BaseException) -> BaseException | None:
    """Return the cause that says that the database is reachable, but its disk is full or read-only; None: none does.

    SQLite rolls back by itself then, so that the error surfaces as the failure of our own rollback.
    """
    for cause in _causes(error):
        if _code(cause) in _CANNOT_WRITE or any(text in str(cause) for text in _CANNOT_WRITE_TEXTS):
            return cause
    return None


def explain_refused_write(error: Exception, database: Database) -> str | None:
    """Return why the database accepts no changes, if this error is a consequence of that; None if it is another."""
    if find_refused_write(error) is not None:
        return error_sentence(error)
    # where SQLite cannot create the files beside its own it only says that it cannot open it
    return _find_disk_problem(Path(database.database).parent) if isinstance(database, SqliteDatabase) else None


def find_write_problem(database: Database) -> str | None:
    """Return why the database accepts no changes, or None; cheap, and changes nothing. Blocking.

    A server is asked for a transaction that may write, which it refuses while it is read-only.
    """
    if isinstance(database, SqliteDatabase):
        return _find_disk_problem(Path(database.database).parent)
    run: Callable[[str], Any] = database.execute_sql
    try:
        run("START TRANSACTION READ WRITE")
        run("ROLLBACK")
    except (OperationalError, InternalError) as error:
        if find_refused_write(error) is None:
            raise
        return error_sentence(error)
    return None


def _find_disk_problem(folder: Path) -> str | None:
    """Return why nothing can be written to the folder; tried only where its disk seems to be full or read-only."""
    try:
        disk = os.statvfs(folder)
        if disk.f_bavail * disk.f_frsize >= _LEAST_ROOM and not disk.f_flag & os.ST_RDONLY:
            return None
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_LEAST_ROOM // 2))
    except OSError as error:
        return error.strerror if error.errno in _DISK_PROBLEMS else None  # other files have checks of their own
    return None


def violates_unique(error: IntegrityError) -> bool:
    """Return whether a unique index was violated (and not, say, a CHECK or a NOT NULL)."""
    return bool(error.args) and (error.args[0] == 1062 or "UNIQUE constraint failed" in str(error.args[0]))


def _pause(attempt: int) -> float:
    """Return the seconds before a call is repeated: growing, and random, so that rivals do not meet again."""
    return random.uniform(0.2, 1) * min(0.02 * 1.5 ** (attempt - 1), _LONGEST_PAUSE)  # noqa: S311 - jitter


class Worker:
    """Worker threads for blocking database code, the only way to it from the event loop: `await worker.run(work, …)`.

    A call runs whole on one thread, which keeps its connection open. A call that lost a race against another
    transaction is repeated, so it must be repeatable and do nothing but SQL.
    """

    def __init__(
        self,
        database: Database,
        threads: int,
        name: str = "worker",
        also_close: Callable[[], None] | None = None,
        outage_log: OutageLog | None = None,
        max_calls: int = _MAX_CALLS,
    ) -> None:
        """`also_close` closes the calling thread's other connections; workers of one database share `outage_log`.

        At most `max_calls` run or wait.
        """
        self._database = database
        self._pool = BoundedPool(name, threads, max_waiting=max_calls - threads)
        self._also_close = also_close
        self.outage_log = outage_log or OutageLog()
        self._local = threading.local()
        self.is_open = False
        """False until the migrations have run: before that `run` raises `DatabaseUnavailable`."""

    @property
    def waiting(self) -> int:
        """Number of calls that wait for a thread."""
        return self._pool.waiting

    def look_for_write_problem(self) -> None:
        """Let `outage_log` know whether the database accepts changes, on the calling thread."""
        self.outage_log.note_look(find_write_problem(self._database))

    def read_lossy(self) -> tuple[Lossy, ...]:
        """Return the settings under which the database can lose a commit, on the calling thread."""
        return read_lossy(self._database)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` on a worker thread and return its result, or raise its error.

        Raises `DatabaseUnavailable`, `Busy` or `Overloaded` instead of waiting for ever.
        """
        self._require_open()
        return await self._pool.run(functools.partial(self._run_if_open, work, *args, **kwargs))

    def _require_open(self) -> None:
        if not self.is_open:
            raise DatabaseUnavailable(retry_after=2)

    def _run_if_open(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self._require_open()  # which may have changed while the call waited
        return self.run_here(work, *args, **kwargs)

    def run_here(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` on the calling thread, with the same retries, for commands and tests."""
        for attempt in count(1):
            try:
                self._connect()
                result = work(*args, **kwargs)
                self.outage_log.end()
                return result
            except (OperationalError, InterfaceError, InternalError, IntegrityError) as error:
                if is_unreachable(error):
                    self._note_outage(error, attempt)
                elif attempt > self._allowed_retries(error):
                    if is_retryable(error):
                        raise Busy from error
                    raise
                time.sleep(_pause(attempt))
            finally:
                self._local.used_at = time.monotonic()
        raise AssertionError("unreachable")

    def _note_outage(self, error: Exception, attempt: int) -> None:
        """Drop the lost connection. Raises `DatabaseUnavailable` if it makes no sense to repeat the call at once."""
        self._disconnect()
        sentence, write_problem = error_sentence(error), explain_refused_write(error, self._database)
        if write_problem is not None:
            self.outage_log.refuse_write(write_problem)
        if attempt > 1 or self._may_have_committed(error):
            if write_problem is not None:
                raise DatabaseUnavailable("unwritable", retry_after=2) from error
            self.outage_log.begin(sentence)
            raise DatabaseUnavailable(retry_after=2) from error

    @staticmethod
    def _allowed_retries(error: Exception) -> int:
        """Return how often a call that failed with this error is repeated."""
        for cause in _causes(error):
            if _lost_race(cause):
                return MAX_RACE_RETRIES
            if _waited_for_lock(cause):
                return _MAX_LOCK_RETRIES
        misses_parent = isinstance(error, IntegrityError) and _code(error) == _PARENT_IS_GONE
        return _MAX_PARENT_RETRIES if misses_parent else 0

    def close(self) -> None:
        """Let running and waiting calls finish, then close every thread's connections."""
        self._pool.drain(self.close_here)

    def close_here(self) -> None:
        """Close the calling thread's connections."""
        self._disconnect()
        if self._also_close is not None:
            self._also_close()

    def _connect(self) -> None:
        """Open a connection, or reopen one that the server dropped."""
        idle = time.monotonic() - getattr(self._local, "used_at", 0.0)
        if self._database.is_closed():
            self._database.connect()
            return
        # while the database is away, a call that needs nothing of it must not seem to prove that it is back
        may_be_lost = idle > _IDLE_SECONDS_BEFORE_PING or self.outage_log.is_away
        if may_be_lost and isinstance(self._database, MySQLDatabase) and not self._database.is_connection_usable():
            self._disconnect()
            self._database.connect()

    def _disconnect(self) -> None:
        with contextlib.suppress(Exception):  # it is lost already
            self._database.close()

    def _may_have_committed(self, error: Exception) -> bool:
        """Return whether the connection was lost during a commit: repeating the call might then do its work twice.

        What surfaces may be that nothing can be rolled back on the lost connection.
        """
        frames = (frame for cause in _causes(error) for frame, _line in walk_tb(cause.__traceback__))
        return any(frame.f_code.co_name == "commit" for frame in frames)


class ListWorker(Worker):
    """Worker for lists and searches, which may be slow: nobody else waits for them."""


class SyncWorker(Worker):
    """Worker for the sync, whose runs take their time."""
