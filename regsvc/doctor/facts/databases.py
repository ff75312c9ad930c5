"""Facts from both databases, each queried once, over one connection, with a short timeout.

Those from our own tables: which installation they belong to, and what in them needs attention.
"""

# ruff: noqa: S608 - the names come from AuthMe's config, whose reader takes nothing but plain words

import json
import os
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

from peewee import MySQLDatabase

from plugin_bridge.authme.config import AuthMeConfig, Backend
from plugin_bridge.server.operators import Operator
from regsvc.auth.rate_limits import REGISTRATIONS, WindowKey, Windows
from regsvc.core.clock import Clock
from regsvc.database.durability import Lossy, describe_mount, find_lossy, read_lossy_of_server
from regsvc.database.location import DatabaseLocation
from regsvc.database.migrations.upgrade_from_preview import BASELINE
from regsvc.database.migrator import MIGRATION, list_migrations
from regsvc.database.models import OutboxEntry, RateLimitWindow, UtcDateTimeField
from regsvc.database.schema import (
    TRIGGER,
    Difference,
    expected_schema,
    find_differences,
    query_schema,
    read_server_triggers,
    server_triggers,
)
from regsvc.doctor.abandonable import call_within
from regsvc.doctor.facts import databases
from regsvc.doctor.facts.player_table import (
    PlayerTable,
    find_names,
    ignores_accents,
    inspect_table,
    sql_name,
    with_row_counts,
)
from regsvc.doctor.facts.readonly_db import (
    DatabaseMigrating,
    DatabaseUnreadable,
    ReadOnlyDatabase,
    ReadOnlyMySql,
    ReadOnlySqlite,
)
from regsvc.notifications.mail.queue import Budget, total_of
from regsvc.notifications.outbox import describe_for_log
from regsvc.users.gates import HELD_BACK

_NO_SUCH_TABLE: Final = 1146

_NEWEST_MAILS: Final = (
    "SELECT id, recipient, recipient_key, outcome, last_error FROM regsvc_outbox WHERE kind = 'mail'"
    " AND (outcome IN ('sent', 'failed') OR (outcome IS NULL AND last_error IS NOT NULL)) ORDER BY id DESC LIMIT 20"
)
_ALLOWLIST: Final = 105  # the migration that makes its table
_OPERATORS: Final = 109  # the migration that made their table
_TEAM: Final = 106
"""The migration that made the table of API tokens."""
_LONG_AGO_SQLITE: Final = "since < strftime('%Y-%m-%d %H:%M:%f', 'now', '-10 minutes')"
_LONG_AGO_MYSQL: Final = "since < UTC_TIMESTAMP(3) - INTERVAL 10 MINUTE"
_HELD_SQLITE: Final = (
    "expires_at > strftime('%Y-%m-%d %H:%M:%f', 'now') "
    "AND expires_at < strftime('%Y-%m-%d %H:%M:%f', 'now', '+1 hour')"  # else from before the clock was set back
)
_HELD_MYSQL: Final = "expires_at BETWEEN UTC_TIMESTAMP(3) AND UTC_TIMESTAMP(3) + INTERVAL 1 HOUR"
MAX_NAMES: Final = 3
_MIGRATING_SQLITE: Final = (
    "SELECT holder FROM regsvc_lease WHERE name = ? AND expires_at > strftime('%Y-%m-%d %H:%M:%f', 'now') "
    "AND expires_at < strftime('%Y-%m-%d %H:%M:%f', 'now', '+10 minutes')"  # else from before the clock was set back
)
_MIGRATING_MYSQL: Final = (
    "SELECT holder FROM regsvc_lease WHERE name = ? "
    "AND expires_at BETWEEN UTC_TIMESTAMP(3) AND UTC_TIMESTAMP(3) + INTERVAL 10 MINUTE"
)


@dataclass(frozen=True)
class PlayerSample:
    """Number of players, and the names of the first few."""

    count: int
    examples: tuple[str, ...] = ()

    @property
    def names(self) -> str:
        """The first names, for a title."""
        return f"{', '.join(self.examples)}{', …' if self.count > len(self.examples) else ''}"


@dataclass(frozen=True)
class OwnTables:
    """Contents of our tables that the checks need.

    Until the first start has finished, `recorded_location` is "", `installation_id` and the fingerprints of keys are
    None.
    `newest_entry_at` is that of the audit log; `failed` counts the failed outbox messages by kind.
    `last_run_held_back_changes`: the newest audit entry of the sync is `sync.braked`; `held_back`: its counts.
    """

    newest_migration: int
    recorded_location: str
    installation_id: str | None
    key_fingerprint: str | None
    signing_key_fingerprint: str | None
    """That of the daemon that started last."""
    players_table: str | None
    """AuthMe's table that the daemons use, as database.table; None if it is not there, or not on this server."""
    newest_entry_at: datetime | None
    conflicts: PlayerSample
    """Players that need a decision by an operator."""
    disputed: PlayerSample
    """Players whose e-mail, or the case of whose name, differs between both sides."""
    failed: Mapping[str, int]
    recipients_tried: int
    """Recipients of the newest mails that were sent or refused."""
    refusals: tuple[str, ...]
    """What the mail server said to each of them whose mails were refused, newest first, without addresses."""
    oldest_message_at: datetime | None
    last_run_held_back_changes: bool
    held_back: Mapping[str, Any]
    held_back_on_list: int
    """Changes of the game's allowlist that wait for a person."""
    waiting_on_list: Mapping[str, PlayerSample]
    """Users who are to be put on the game's allowlist, or taken off it, by the reason why they wait."""
    taken_off_list: PlayerSample
    """Users who may play, and whom an operator took off the allowlist in the game."""
    mail_totals: Windows
    """Windows of the limits on mails in total."""
    users: Mapping[str, int]
    """Their number by status."""
    waiting_mails: int
    token_uses: Mapping[str, datetime | None]
    """When each active API token was last used, or made, by its name."""
    leases: frozenset[str]
    """Names of the leases that are held."""
    operators: tuple[Operator, ...]
    """Operators as the daemon last saw them."""
    former_operators: tuple[Operator, ...]


def require_no_migration(database: ReadOnlyDatabase) -> None:
    """Raise `DatabaseMigrating` while a process migrates our tables."""
    try:
        holder = database.value(_MIGRATING_SQLITE if database.is_sqlite else _MIGRATING_MYSQL, MIGRATION)
    except DatabaseUnreadable:  # there is no such table yet, or what follows tells what is wrong
        return
    if holder is not None:
        raise DatabaseMigrating("a process is migrating it")


def inspect_own_tables(database: ReadOnlyDatabase) -> OwnTables | None:
    """Read our tables; None before the first start has created them. Raises `DatabaseUnreadable`."""
    try:
        newest = database.value("SELECT MAX(number) AS number FROM regsvc_migration")
    except DatabaseUnreadable as error:
        if error.code == _NO_SUCH_TABLE or "no such table" in str(error):
            return None
        raise
    if newest is None:
        return None
    operators = _operators(database) if int(newest) >= _OPERATORS else ((), ())
    # before this version's first start the tables are those of an older one: all columns, and a table's old name
    records = "regsvc_sync_record" if int(newest) >= BASELINE else "regsvc_player"
    listed = "regsvc_allowlist" if int(newest) >= _ALLOWLIST else ""
    installation = database.row("SELECT * FROM regsvc_installation WHERE id = 1") or {}
    last_sync = database.row(
        "SELECT action FROM regsvc_audit WHERE action IN ('sync.run', 'sync.braked') ORDER BY id DESC LIMIT 1"
    )
    failed = database.rows("SELECT kind, COUNT(*) AS n FROM regsvc_outbox WHERE outcome = 'failed' GROUP BY kind")
    mails = database.rows(_NEWEST_MAILS)
    oldest = database.value(
        "SELECT MIN(created_at) AS at FROM regsvc_outbox "
        "WHERE next_attempt_at IS NOT NULL AND template <> 'host'"  # which may wait until the player has joined
    )
    users = database.rows("SELECT status, COUNT(*) AS n FROM regsvc_user GROUP BY status ORDER BY status")
    waiting = database.value(
        "SELECT COUNT(*) AS n FROM regsvc_outbox WHERE kind = 'mail' AND next_attempt_at IS NOT NULL"
    )
    return OwnTables(
        newest_migration=int(newest),
        recorded_location=str(installation.get("home", "")),
        installation_id=installation.get("installation_id"),
        key_fingerprint=installation.get("key_fingerprint"),
        signing_key_fingerprint=installation.get("signing_key_fingerprint"),
        players_table=_find_players_table(database, installation.get("players_table")),
        newest_entry_at=_moment(
            database.value("SELECT created_at AS at FROM regsvc_audit ORDER BY created_at DESC LIMIT 1")
        ),
        conflicts=_players(database, records, "plugin_state IN ('conflict', 'returned') AND conflict IS NULL"),
        disputed=_disputed(database, records),
        failed={str(row["kind"]): int(row["n"]) for row in failed},
        recipients_tried=len({row["recipient_key"] for row in mails}),
        refusals=_refusals(mails),
        oldest_message_at=_moment(oldest),
        last_run_held_back_changes=last_sync is not None and last_sync["action"] == "sync.braked",
        held_back=_held_back(database),
        held_back_on_list=_players(database, listed, "reason = ?", HELD_BACK).count if listed else 0,
        waiting_on_list=_waiting_on_list(database) if listed else {},
        taken_off_list=_players(database, listed, "state = 'taken_off'") if listed else PlayerSample(0),
        mail_totals=_mail_totals(database),
        users={str(row["status"]): int(row["n"]) for row in users},
        waiting_mails=int(waiting),
        token_uses=_token_uses(database) if int(newest) >= _TEAM else {},
        leases=_leases(database),
        operators=operators[0],
        former_operators=operators[1],
    )


def _operators(database: ReadOnlyDatabase) -> tuple[tuple[Operator, ...], tuple[Operator, ...]]:
    """Return operators and former operators."""
    found: tuple[list[Operator], list[Operator]] = [], []
    for row in database.rows("SELECT * FROM regsvc_operator ORDER BY username_key"):
        operator = Operator(row["username"], row["level"], row["uuid"], note=row["note"])
        found[row["left_at"] is not None].append(operator)
    return tuple(found[0]), tuple(found[1])


def _leases(database: ReadOnlyDatabase) -> frozenset[str]:
    condition = _HELD_SQLITE if database.is_sqlite else _HELD_MYSQL
    return frozenset(str(row["name"]) for row in database.rows(f"SELECT name FROM regsvc_lease WHERE {condition}"))


def _token_uses(database: ReadOnlyDatabase) -> dict[str, datetime | None]:
    rows = database.rows(
        "SELECT name, COALESCE(last_used_at, created_at) AS at FROM regsvc_token WHERE revoked_at IS NULL ORDER BY name"
    )
    return {str(row["name"]): _moment(row["at"]) for row in rows}


def _find_players_table(database: ReadOnlyDatabase, recorded: str | None) -> str | None:
    if recorded is None or database.is_sqlite:
        return None
    query = "SELECT 1 FROM information_schema.tables WHERE table_schema = ? AND table_name = ?"
    schema, _dot, table = recorded.partition(".")
    return recorded if database.rows(query, schema, table) else None


def clock_difference(database: ReadOnlyDatabase, now: datetime) -> timedelta:
    """Return how far the clock of a database server is ahead of ours. Raises `DatabaseUnreadable`."""
    theirs = _moment(database.value("SELECT UTC_TIMESTAMP(3) AS at"))
    return timedelta(0) if theirs is None else theirs - now


def list_missing_triggers(database: ReadOnlyDatabase) -> list[str]:
    """Return our triggers that are missing; a login that may not create triggers does not see any either."""
    found = read_server_triggers(partial(_query, database))
    return sorted(part.name for part in server_triggers(list_migrations()) if part not in found)


def find_schema_differences(database: ReadOnlyDatabase) -> list[Difference]:
    """Return how our tables differ from what this version makes; none if it has not migrated them yet.

    Triggers that are missing on a server are not among them: `list_missing_triggers`. Raises `DatabaseUnreadable`.
    """
    known = list_migrations()
    applied = {int(row["number"]) for row in database.rows("SELECT number FROM regsvc_migration")}
    if applied != {migration.number for migration in known}:
        return []
    found = query_schema(partial(_query, database), is_sqlite=database.is_sqlite)
    differences = find_differences(found, expected_schema(known, is_sqlite=database.is_sqlite))
    return [it for it in differences if database.is_sqlite or it.part.kind != TRIGGER or it.found is not None]


def _query(database: ReadOnlyDatabase, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in database.rows(sql)]


def _waiting_on_list(database: ReadOnlyDatabase) -> Mapping[str, PlayerSample]:
    rows = database.rows("SELECT DISTINCT reason FROM regsvc_allowlist WHERE reason IS NOT NULL")
    reasons = sorted(str(row["reason"]) for row in rows)
    since = _LONG_AGO_SQLITE if database.is_sqlite else _LONG_AGO_MYSQL
    found = {reason: _players(database, "regsvc_allowlist", f"reason = ? AND {since}", reason) for reason in reasons}
    return {reason: sample for reason, sample in found.items() if sample.count}


def _players(database: ReadOnlyDatabase, records: str, condition: str, *values: object) -> PlayerSample:
    where = f"FROM {records} WHERE {condition}"
    count = int(database.value(f"SELECT COUNT(*) AS n {where}", *values))
    rows = database.rows(f"SELECT username_key AS name {where} ORDER BY username_key LIMIT {MAX_NAMES}", *values)
    return PlayerSample(count, tuple(str(row["name"]) for row in rows))


def _held_back(database: ReadOnlyDatabase) -> Mapping[str, Any]:
    """Return the newest counts of what the sync held back, by name."""
    detail = database.value("SELECT detail FROM regsvc_audit WHERE action = 'sync.braked' ORDER BY id DESC LIMIT 1")
    return json.loads(detail) if detail else {}


def _refusals(mails: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    refused = {row["recipient_key"]: row for row in reversed(mails) if row["outcome"] != "sent"}
    newest_first = sorted(refused.values(), key=lambda row: -int(row["id"]))
    return tuple(describe_for_log(OutboxEntry(**row), str(row["last_error"])) for row in newest_first)


def _mail_totals(database: ReadOnlyDatabase) -> Windows:
    scopes = [REGISTRATIONS, *(total_of(budget, ()).scope for budget in get_args(Budget))]
    rows = database.rows(
        "SELECT scope, subject, period_seconds, ends_at, hits FROM regsvc_rate_limit "
        f"WHERE scope IN ({', '.join('?' * len(scopes))})",
        *scopes,
    )
    windows = [RateLimitWindow(**{**row, "ends_at": _moment(row["ends_at"])}) for row in rows]
    return {WindowKey(window.scope, window.subject, window.period_seconds): window for window in windows}


def _disputed(database: ReadOnlyDatabase, records: str) -> PlayerSample:
    """Return the players that differ, the first few with the owner of their address in the game.

    The address itself is not told: reports are shown to others who help.
    """
    found = _players(database, records, "plugin_state = 'conflict' AND conflict IS NOT NULL")
    marks = ", ".join("?" * len(found.examples)) or "NULL"
    rows = database.rows(
        "SELECT p.username_key AS name, p.conflict AS fields, o.username AS owner "
        f"FROM {records} p LEFT JOIN regsvc_user o ON o.email_key = LOWER(p.base_email) "
        f"WHERE p.username_key IN ({marks}) ORDER BY p.username_key",
        *found.examples,
    )
    owners = {
        str(row["name"]): f" (the address is {row['owner']}’s)" if row["owner"] and "email" in row["fields"] else ""
        for row in rows
    }
    return PlayerSample(found.count, tuple(f"{name}{owner}" for name, owner in owners.items()))


def _moment(value: Any) -> datetime | None:
    """Parse a time as our tables store it; None for NULL and for hand-typed values that are not a time."""
    return UtcDateTimeField(null=True).python_value(value)


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
        return databases.find_schema_differences(database)


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
            databases.require_no_migration(database)
            side = OurDatabase(databases.inspect_own_tables(database), lossy=lossy)
            return _with_users(database, side, names)
    with closing(ReadOnlyMySql(location.database)) as server:
        databases.require_no_migration(server)
        difference = databases.clock_difference(server, now())
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
    tables = databases.inspect_own_tables(database)
    triggers = databases.list_missing_triggers(database)
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
