"""Private MariaDB server on a loopback port: bootstrapped in a folder of its own, removed with the session.

Only the server binary is needed (Debian's `mariadb-server-core`), so the system tables are created here, by
`mariadbd --bootstrap`, from the SQL files in the package, as its `mariadb-install-db` does. With
`COMPANION_TEST_MYSQLD`, the path of a `mysqld`, it is MySQL's server instead, which no Debian has; what the tests call
"mariadb" is that one then.
"""

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from tests.support.ports import free_port

HOST = "127.0.0.1"
NO_MARIADB = "NO MariaDB HERE: mariadbd is missing (Debian: apt-get install mariadb-server-core)"
SYSTEM_TABLES = (
    "/usr/share/mariadb/mariadb_system_tables.sql",  # seen in Debian 13's package of 11.8
    "/usr/share/mysql/mysql_system_tables.sql",  # seen in 10.11, of Debian 12 and of Ubuntu 24.04
)
MYSQLD = "COMPANION_TEST_MYSQLD"
START_TIMEOUT = 30.0  # seconds; about one is usual

ROOT_LOGIN = ("root", "root-password")
AUTHME = ("authme", "authme-password")

# A test session needs no safety, little memory and no log for replication.
CHEAP = (
    "--innodb-buffer-pool-size=32M",
    # `loose`: not every server knows it
    "--loose-innodb-log-file-size=16M",
    "--loose-key-buffer-size=1M",
    "--loose-aria-pagecache-buffer-size=1M",
    "--loose-mysqlx=OFF",
    "--secure-file-priv=",  # else a folder that only the package creates
    "--performance-schema=OFF",
    "--skip-log-bin",
    "--loose-skip-ssl",  # 11.4 and later make themselves a certificate; options that name one turn it on again
    "--innodb-stats-persistent=OFF",  # else every table created, changed or dropped is written into two others
    # As Debian's configuration has them; the server's own defaults are latin1.
    "--character-set-server=utf8mb4",
    "--collation-server=utf8mb4_general_ci",
    "--max-connections=200",
)
FORGETFUL = (
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-doublewrite=0",
    "--innodb-flush-method=nosync",
    "--innodb-file-per-table=0",  # thousands of schemas are made and dropped: files for each table take a third of that
)

# The bootstrap's `root` may come from anywhere without a password: it must not be usable once the server listens.
# AuthMe's login gets no rights here: a host grants the plugin one schema only.
FORGET_ROOT = """\
DELETE FROM mysql.global_priv WHERE user <> 'mariadb.sys';
FLUSH PRIVILEGES;
"""
FIRST_STATEMENTS = f"""\
CREATE USER '{ROOT_LOGIN[0]}'@'%' IDENTIFIED BY '{ROOT_LOGIN[1]}';
GRANT ALL PRIVILEGES ON *.* TO '{ROOT_LOGIN[0]}'@'%' WITH GRANT OPTION;
CREATE USER '{AUTHME[0]}'@'%' IDENTIFIED BY '{AUTHME[1]}';
"""


def find_mariadbd() -> str | None:
    """Return the server's path, or None. Debian has it in `/usr/sbin`, which is not on every user's PATH."""
    if MYSQLD in os.environ:
        return os.environ[MYSQLD]
    return shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


@dataclass(frozen=True)
class Database:
    """A schema, and AuthMe's login to it."""

    port: int
    name: str
    host: str = HOST
    user: str = AUTHME[0]
    password: str = AUTHME[1]

    @property
    def url(self) -> str:
        """URL in the form of `database.url`."""
        return f"mysql://{self.user}:{self.password}@{self.host}:{self.port}/{self.name}"

    def connect(self) -> "Connection[Cursor]":
        """Open a connection in autocommit mode, as AuthMe's are; the caller closes it."""
        return pymysql.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            database=self.name,
            charset="utf8mb4",
            autocommit=True,
            ssl_disabled=True,  # else PyMySQL reads the system's certificates at each connect, for 16 ms
            # Matched rows, not changed ones: what JDBC counts.
            client_flag=pymysql.constants.CLIENT.FOUND_ROWS,
        )

    @contextmanager
    def cursor(self) -> "Iterator[Cursor]":
        """Return a cursor of such a connection, for one statement."""
        with _kept.connection(self) as connection, connection.cursor() as cursor:
            yield cursor

    def close_connections(self) -> None:
        """Close those that were kept for single statements, with whatever was set on them."""
        _kept.close(self)


class _KeptConnections:
    """Connections for single statements, one for each thread, kept while their schema exists.

    To connect takes ten times as long as a statement, and a stand-in for a plugin runs thousands of them.
    """

    def __init__(self) -> None:
        self._schemas: set[tuple[int, str]] = set()
        self._connections: dict[tuple[Database, int], Connection[Cursor]] = {}

    @contextmanager
    def keep(self, database: Database) -> Iterator[None]:
        """Keep connections to this schema, and close all of them at the end."""
        place = (database.port, database.name)
        self._schemas.add(place)
        try:
            yield
        finally:
            self._schemas.remove(place)
            self.close(database)

    def close(self, database: Database) -> None:
        """Close the connections to this schema."""
        for key in [key for key in self._connections if key[0].port == database.port and key[0].name == database.name]:
            self._connections.pop(key).close()

    @contextmanager
    def connection(self, database: Database) -> "Iterator[Connection[Cursor]]":
        """Return this thread's connection, opened again if it was cut; one of its own for a schema elsewhere."""
        if (database.port, database.name) not in self._schemas:
            with closing(database.connect()) as connection:
                yield connection
            return
        key = (database, threading.get_ident())
        kept = self._connections.pop(key, None)
        if kept is None or not is_alive(kept):
            kept = database.connect()
        self._connections[key] = kept
        yield kept


_kept = _KeptConnections()


def is_alive(connection: "Connection[Cursor]") -> bool:
    """Return whether the server still answers on this connection, which is closed otherwise."""
    try:
        connection.ping()
    except pymysql.Error:
        return False
    return True


class MariaDBServer:
    """A server in `directory` (created here). `start` and `stop` may alternate; the data stays. Skips without MariaDB.

    `is_durable` keeps the flush to disk at each commit that a real host has: the stories about durability ask for it.
    Without it what was committed still survives `kill`, but not a power cut. `environment` replaces this process's own.
    """

    keeps_connections = True
    """Whether single statements in its schemas reuse a connection: not those of a server that may hang."""

    def __init__(
        self,
        directory: Path,
        *,
        is_durable: bool = False,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        binary = find_mariadbd()
        if binary is None:
            pytest.skip(NO_MARIADB)
        self.port = free_port()
        self._directory = directory
        self.data_folder = directory / "data"
        # a server that starts sweeps its temporary folder: one that is shared loses the others' tables
        places = (f"--datadir={directory / 'data'}", f"--tmpdir={directory / 'tmp'}")
        self._options = [binary, "--no-defaults", *places, *CHEAP]
        if not is_durable:
            self._options += FORGETFUL
        self._options += options  # for an option given twice the server uses the last
        if os.geteuid() == 0:
            self._options.append("--user=root")
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._database_numbers = count(1)

    def start(self, wrapper: Sequence[str] = ()) -> None:
        """Start the server and wait until it accepts connections. Raises RuntimeError with its log if it never does.

        `wrapper` precedes the command.
        """
        if not (self._directory / "data").exists():
            self._bootstrap()
        listening = [
            f"--bind-address={HOST}",
            f"--port={self.port}",
            "--socket=mariadb.sock",
            "--skip-name-resolve",
        ]
        with (self._directory / "log").open("ab") as log:
            command = [*wrapper, *self._options, *listening, *self._list_start_options()]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=self._environment)
        deadline = time.monotonic() + START_TIMEOUT
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"mariadbd did not start:\n{self._log_tail()}")

    @property
    def pid(self) -> int:
        """Of the running process; AssertionError when it does not run."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def _list_start_options(self) -> Sequence[str]:
        """Return further options of this start."""
        return ()

    def stop(self) -> None:
        """Shut down in good order; does nothing if the server is not running."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=START_TIMEOUT)
            self._process = None

    def kill(self) -> None:
        """Send SIGKILL, as the out-of-memory killer does; `start` then recovers."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @contextmanager
    def fresh_database(self) -> Iterator[Database]:
        """An empty schema, dropped afterwards, on which the `authme` login has all rights."""
        database = Database(port=self.port, name=f"companion_{next(self._database_numbers)}")
        self.run_as_root(
            f"CREATE DATABASE `{database.name}`",
            f"GRANT ALL PRIVILEGES ON `{database.name}`.* TO '{database.user}'@'%'",
        )
        try:
            with _kept.keep(database) if self.keeps_connections else nullcontext():
                yield database
        finally:
            self.run_as_root(
                f"REVOKE ALL PRIVILEGES ON `{database.name}`.* FROM '{database.user}'@'%'",
                f"DROP DATABASE `{database.name}`",
            )

    def end_connections(self, user: str = AUTHME[0]) -> None:
        """Cuts every connection of this login, as an idle time-out or a restart of the server does."""
        self.run_as_root(f"KILL USER '{user}'")

    def run_as_root(self, *statements: str) -> None:
        """Runs SQL with every right there is, one statement after the other."""
        with closing(self.connect_as_root()) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def ask_as_root(self, query: str) -> list[tuple[object, ...]]:
        """The rows of a question that only the server's root may ask."""
        with closing(self.connect_as_root()) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    @contextmanager
    def new_log(self) -> Iterator[Callable[[], str]]:
        """Yield a function that returns what the server has logged since."""
        file = self._directory / "log"
        size = file.stat().st_size
        yield lambda: file.read_bytes()[size:].decode(errors="replace")

    def connect_as_root(self) -> "Connection[Cursor]":
        """Return a connection with every right there is, to be closed by the caller."""
        user, password = ROOT_LOGIN
        return pymysql.connect(
            host=HOST, port=self.port, user=user, password=password, autocommit=True, ssl_disabled=True
        )

    def _is_ready(self) -> bool:
        """Tries to connect; a refusal is followed by a short wait that a dying server ends at once."""
        try:
            self.connect_as_root().close()
        except pymysql.err.OperationalError:
            if self._process is not None:
                try:
                    self._process.wait(timeout=0.02)
                except subprocess.TimeoutExpired:
                    return False
            return False
        return True

    def _bootstrap(self) -> None:
        for folder in ("data", "tmp"):
            (self._directory / folder).mkdir(parents=True)
        if MYSQLD in os.environ:
            self._initialize()
            return
        tables = next((Path(file) for file in SYSTEM_TABLES if Path(file).exists()), None)
        if tables is None:
            raise FileNotFoundError(
                f"mariadbd came without its system tables: {' and '.join(SYSTEM_TABLES)} are missing"
            )
        files = (tables, tables.with_stem(f"{tables.stem}_data"))
        system_tables = "".join(file.read_text(encoding="utf-8") for file in files)
        # The bootstrap reads one statement a line; @auth_root_socket is read by the second file.
        prologue = "create database mysql;\nuse mysql;\nSET @auth_root_socket=NULL;\n"
        done = subprocess.run(
            [*self._options, "--bootstrap"],
            input=(prologue + system_tables + FORGET_ROOT + FIRST_STATEMENTS).encode(),
            capture_output=True,
            check=False,
        )
        self._require_made(done)

    def _initialize(self) -> None:
        """MySQL makes its own system tables; its `root` may only come by the socket in the folder."""
        file = self._directory / "first.sql"
        file.write_text(FIRST_STATEMENTS, encoding="utf-8")
        command = [*self._options, "--initialize-insecure", f"--init-file={file}"]
        self._require_made(subprocess.run(command, capture_output=True, check=False))

    def _require_made(self, done: "subprocess.CompletedProcess[bytes]") -> None:
        (self._directory / "log").write_bytes(done.stdout + done.stderr)
        if done.returncode != 0:
            raise RuntimeError(f"the server could not make its tables:\n{self._log_tail()}")

    def _log_tail(self) -> str:
        return (self._directory / "log").read_text(encoding="utf-8", errors="replace")[-4000:]
