"""Facts from both databases: each is queried once, over one connection, with a short timeout."""

# ruff: noqa: S608 - the names come from AuthMe's config, whose reader takes nothing but plain words

import os
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeVar

from peewee import MySQLDatabase

from plugin_bridge.authme.config import AuthMeConfig, Backend
from regsvc.core.clock import Clock
from regsvc.database.durability import Lossy, describe_mount, find_lossy, read_lossy_of_server
from regsvc.database.location import DatabaseLocation
from regsvc.database.schema import Difference
from regsvc.doctor.abandonable import call_within
from regsvc.doctor.facts import own_tables
from regsvc.doctor.facts.own_tables import OwnTables
from regsvc.doctor.facts.player_table import (
    PlayerTable,
    find_names,
    ignores_accents,
    inspect_table,
    sql_name,
    with_row_counts,
)
from regsvc.doctor.facts.readonly_db import (
    DatabaseUnreadable,
    ReadOnlyDatabase,
    ReadOnlyMySql,
    ReadOnlySqlite,
)

T = TypeVar("T")

_TIMEOUT: Final = 4.0  # seconds in total, including a slow DNS lookup
# Columns of AuthMe's table that we write; those it lacks are skipped.
_WRITTEN_COLUMNS: Final = (
    "username",
    "realname",
    "password",
    "salt",
    "email",
    "register_date",
    "register_ip",
    "has_session",
)
_NO_SUCH_TABLE: Final = 1146
_NO_SUCH_COLUMN: Final = 1054
_READ_ONLY_SERVER: Final = 1290

# 1419: with binary logging only SUPER may create triggers
_DENIED_CODES: Final = {1044, 1142, 1143, 1227, 1370, 1419}
# 0: the connection was lost
_INCONCLUSIVE_CODES: Final = {0, 2006, 2013, _NO_SUCH_TABLE, _NO_SUCH_COLUMN, _READ_ONLY_SERVER}


# MySQL's name of the right → a statement that needs it and cannot succeed.
_SCHEMA_RIGHTS: Final[Mapping[str, str]] = {
    "SELECT": "EXPLAIN SELECT 1 FROM {missing}",
    "INSERT": "EXPLAIN INSERT INTO {missing} VALUES (1)",
    "UPDATE": "EXPLAIN UPDATE {missing} SET x = 1",
    "DELETE": "EXPLAIN DELETE FROM {missing}",
    "CREATE": "CREATE TABLE {probe} (x INT, x INT)",
    "ALTER": "ALTER TABLE {missing} ADD COLUMN x INT",
    "INDEX": "CREATE INDEX x ON {missing} (x)",
}
_TRIGGER: Final = "CREATE TRIGGER {probe} BEFORE INSERT ON {missing} FOR EACH ROW SET @x = 1"


@dataclass(frozen=True)
class ClusterNode:
    """Node of a Galera cluster. `is_causal`: it shows what other nodes have committed (wsrep_sync_wait)."""

    name: str
    cluster_size: int
    is_causal: bool


def find_cluster_node(database: ReadOnlyDatabase) -> ClusterNode | None:
    """Return the node that this connection leads to, None without Galera. Raises `DatabaseUnreadable`."""
    variables = _named(database, "SHOW VARIABLES LIKE 'wsrep_%'")
    if variables.get("wsrep_on") != "ON":
        return None
    size = _named(database, "SHOW STATUS LIKE 'wsrep_cluster_size'")["wsrep_cluster_size"]
    return ClusterNode(variables["wsrep_node_name"], int(size), is_causal=int(variables["wsrep_sync_wait"]) & 1 == 1)


def _named(database: ReadOnlyDatabase, statement: str) -> dict[str, str]:
    return {row["Variable_name"]: row["Value"] for row in database.rows(statement)}


@dataclass(frozen=True)
class OurDatabase:
    """Our tables (None before the first start), and for a database server: missing rights, its clock and our login.

    `clock_difference`: how far the server's clock is ahead. `login`: the account as a GRANT names it.
    """

    tables: OwnTables | None
    missing_rights: tuple[str, ...] = ()
    missing_triggers: tuple[str, ...] = ()
    users: frozenset[str] = frozenset()
    """Those of the names to look for that are users'."""
    is_read_only: bool = False
    clock_difference: timedelta = timedelta(0)
    login: str = ""
    cluster_nodes: tuple[ClusterNode, ...] = ()
    """Nodes that connections opened one after the other lead to."""
    lossy: tuple[Lossy, ...] = ()
    """Settings under which a commit can be lost."""


@dataclass(frozen=True)
class AuthMeDatabase:
    """AuthMe's table (None if it does not exist), the rights we lack on it, and whether it treats é and e as equal."""

    table: PlayerTable | None
    missing_rights: tuple[str, ...] = ()
    ignores_accents: bool = False
    registered_operators: frozenset[str] | None = None
    """The operators who have a row; None if the table's names cannot be read."""


def inspect_ours(
    location: DatabaseLocation, now: Clock, names: Collection[str], *, in_process: bool
) -> OurDatabase | DatabaseUnreadable:
    """Inspect our database. `names`: lower-case names to look for. `in_process`: this process has it open."""
    return _in_time(lambda: _inspect_ours(location, now, names, in_process))


def inspect_authme(
    location: DatabaseLocation, authme: AuthMeConfig, operators: Collection[str], *, in_process: bool
) -> AuthMeDatabase | DatabaseUnreadable:
    """Inspect AuthMe's database, as `inspect_ours`; `operators` are the names to look for."""
    return _in_time(lambda: _inspect_authme(location, authme, operators, in_process))


def inspect_schema(location: DatabaseLocation, *, in_process: bool) -> list[Difference] | DatabaseUnreadable:
    """Return how our tables differ from what this version makes, as `inspect_ours`."""
    return _in_time(lambda: _inspect_differences(location, in_process))


def _inspect_differences(location: DatabaseLocation, in_process: bool) -> list[Difference]:
    with closing(_open_ours(location, in_process)) as database:
        return own_tables.find_schema_differences(database)


def _open_ours(location: DatabaseLocation, in_process: bool) -> ReadOnlyDatabase:
    if isinstance(location.database, MySQLDatabase):
        return ReadOnlyMySql(location.database)
    return ReadOnlySqlite(Path(location.database.database), in_process=in_process)


def unwritable_paths(file: Path) -> list[Path]:
    """Return which of AuthMe's SQLite file and its folder (which holds the journal) we may not write."""
    return [path for path in (file, file.parent) if not os.access(path, os.W_OK)]


def _inspect_ours(location: DatabaseLocation, now: Clock, names: Collection[str], in_process: bool) -> OurDatabase:
    if not isinstance(location.database, MySQLDatabase):
        file = Path(location.database.database)
        lossy = _read_lossy(location)
        if not _is_there(file):
            return OurDatabase(None, lossy=lossy)
        with closing(ReadOnlySqlite(file, in_process=in_process)) as database:
            own_tables.require_no_migration(database)
            side = OurDatabase(own_tables.inspect_own_tables(database), lossy=lossy)
            return _with_users(database, side, names)
    with closing(ReadOnlyMySql(location.database)) as server:
        own_tables.require_no_migration(server)
        difference = own_tables.clock_difference(server, now())
        user, _at, host = str(server.value("SELECT CURRENT_USER() AS login")).rpartition("@")
        nodes = _list_cluster_nodes(server, location.database)
        lossy = _read_lossy(location, server)
        try:
            side = _with_users(server, _inspect_schema(server), names)
        except DatabaseUnreadable as error:
            if error.code != _READ_ONLY_SERVER:
                raise
            side = OurDatabase(None, is_read_only=True)
        login = f"'{user}'@'{host}'"
        return replace(side, clock_difference=difference, login=login, cluster_nodes=nodes, lossy=lossy)


def find_lossy_settings(location: DatabaseLocation) -> tuple[Lossy, ...] | DatabaseUnreadable:
    """Return the settings of our database under which a commit can be lost, or why they are unknown."""
    return _in_time(lambda: _connect_and_read_lossy(location))


def _connect_and_read_lossy(location: DatabaseLocation) -> tuple[Lossy, ...]:
    if not isinstance(location.database, MySQLDatabase):
        return _read_lossy(location)
    with closing(ReadOnlyMySql(location.database)) as server:
        return _read_lossy(location, server)


def _read_lossy(location: DatabaseLocation, server: ReadOnlyMySql | None = None) -> tuple[Lossy, ...]:
    """Return the lossy settings of the server; without one, those of our file, whose pragmas are ours."""
    if server is None:
        return tuple(find_lossy(describe_mount(Path(location.database.database))))
    return read_lossy_of_server(lambda statement: [tuple(row.values()) for row in server.rows(statement)])


def _list_cluster_nodes(server: ReadOnlyMySql, database: MySQLDatabase) -> tuple[ClusterNode, ...]:
    """Return the nodes that this connection and two more lead to: behind a balancer they may differ."""
    first = find_cluster_node(server)
    if first is None:
        return ()
    with closing(ReadOnlyMySql(database)) as second, closing(ReadOnlyMySql(database)) as third:
        others = (find_cluster_node(second), find_cluster_node(third))
    return (first, *(node for node in others if node is not None))


def _inspect_schema(database: ReadOnlyMySql) -> OurDatabase:
    missing = [right for right, statement in _SCHEMA_RIGHTS.items() if not _may(database, statement)]
    if "SELECT" in missing:
        return OurDatabase(None, tuple(missing))
    tables = own_tables.inspect_own_tables(database)
    triggers = own_tables.list_missing_triggers(database)
    if tables is None and _may(database, _TRIGGER):
        triggers = []  # the first start creates them
    return OurDatabase(tables, tuple(missing), tuple(triggers))


def _with_users(database: ReadOnlyDatabase, side: OurDatabase, names: Collection[str]) -> OurDatabase:
    if side.tables is None:
        return side
    return replace(side, users=find_names(database, "regsvc_user", "username_key", names))


def _inspect_authme(
    location: DatabaseLocation, authme: AuthMeConfig, operators: Collection[str], in_process: bool
) -> AuthMeDatabase:
    if authme.backend == Backend.SQLITE:
        if not _is_there(authme.sqlite_file):
            return AuthMeDatabase(None)
        with closing(ReadOnlySqlite(authme.sqlite_file, in_process=in_process)) as database:
            found = inspect_table(database, None, authme.table)
            table = found and with_row_counts(database, None, authme, found)
            return AuthMeDatabase(table, registered_operators=_find_players(database, table, None, authme, operators))
    assert isinstance(location.database, MySQLDatabase)
    with closing(ReadOnlyMySql(location.database)) as server:
        return _inspect_shared_table(server, authme, operators)


def _find_players(
    database: ReadOnlyDatabase,
    table: PlayerTable | None,
    schema: str | None,
    authme: AuthMeConfig,
    names: Collection[str],
) -> frozenset[str] | None:
    """Return which of these lower-case names have a row; None if the table has no names."""
    if table is None or table.find(authme.columns.username) is None:
        return None
    return find_names(database, sql_name(schema, authme.table), authme.columns.username, names)


def _inspect_shared_table(database: ReadOnlyMySql, authme: AuthMeConfig, operators: Collection[str]) -> AuthMeDatabase:
    table = inspect_table(database, authme.database, authme.table)
    missing = _missing_row_rights(database, table, authme)
    found: frozenset[str] | None = None
    if table is not None and "SELECT" not in missing:
        table = with_row_counts(database, authme.database, authme, table)
        found = _find_players(database, table, authme.database, authme, operators)
    username = None if table is None else table.find(authme.columns.username)
    is_lenient = username is not None and ignores_accents(database, username)
    return AuthMeDatabase(table, tuple(missing), is_lenient, found)


def _missing_row_rights(database: ReadOnlyMySql, table: PlayerTable | None, authme: AuthMeConfig) -> list[str]:
    """Return the rights the login lacks, even if the table is hidden from it; empty if there is no table."""
    named = [getattr(authme.columns, name) for name in _WRITTEN_COLUMNS]
    present = [name for name in named if name and table is not None and table.find(name)]
    table_name = sql_name(authme.database, authme.table)
    try:
        return _list_missing_row_rights(database, table_name, present or [authme.columns.username])
    except DatabaseUnreadable as error:
        if error.code in (_NO_SUCH_TABLE, _NO_SUCH_COLUMN, _READ_ONLY_SERVER):
            return []
        raise


def _is_there(file: Path) -> bool:
    """Return whether the file exists. Raises `DatabaseUnreadable` if we may not find out."""
    try:
        file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise DatabaseUnreadable(str(error.strerror)) from error
    return True


def _in_time(look: Callable[[], T]) -> T | DatabaseUnreadable:
    """Return the result of `look`, or why there is none."""
    try:
        return call_within(_TIMEOUT, look)
    except TimeoutError:
        return DatabaseUnreadable("it does not answer in time")
    except DatabaseUnreadable as error:
        return error


def _list_missing_row_rights(database: ReadOnlyDatabase, table: str, columns: Iterable[str]) -> list[str]:
    """Return which of SELECT, INSERT, UPDATE and DELETE the login lacks on these columns of the table.

    Raises `DatabaseUnreadable`, also if there is no such table.
    """
    quoted = [f"`{name}`" for name in columns]
    listed, assigned = ", ".join(quoted), ", ".join(f"{name} = NULL" for name in quoted)
    nulls = ", ".join("NULL" for _name in quoted)
    statements = {
        "SELECT": f"EXPLAIN SELECT {listed} FROM {table}",
        "INSERT": f"EXPLAIN INSERT INTO {table} ({listed}) VALUES ({nulls})",
        "UPDATE": f"EXPLAIN UPDATE {table} SET {assigned} WHERE 1 = 0",
        "DELETE": f"EXPLAIN DELETE FROM {table} WHERE 1 = 0",
    }
    return [right for right, statement in statements.items() if not _is_allowed(database, statement)]


def _may(database: ReadOnlyDatabase, statement: str) -> bool:
    number = secrets.token_hex(8)  # no real table has this name
    names = {"probe": f"`regsvc_probe_{number}`", "missing": f"`regsvc_none_{number}`"}
    try:
        return _is_allowed(database, statement.format(**names))
    except DatabaseUnreadable as error:
        if error.code == _NO_SUCH_TABLE:
            return True
        raise


def _is_allowed(database: ReadOnlyDatabase, statement: str) -> bool:
    """Return whether the login may run the statement. Raises `DatabaseUnreadable` if the answer does not tell."""
    try:
        database.rows(statement)
    except DatabaseUnreadable as error:
        if error.code in _INCONCLUSIVE_CODES:
            raise
        return error.code not in _DENIED_CODES  # any other error was found after the rights were checked
    return True
