"""Facts from our own tables: which installation they belong to, and what in them needs attention."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, get_args

from plugin_bridge.server.operators import Operator
from regsvc.auth.rate_limits import REGISTRATIONS, WindowKey, Windows
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
from regsvc.doctor.facts.readonly_db import (
    DatabaseMigrating,
    DatabaseUnreadable,
    ReadOnlyDatabase,
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
    return frozenset(str(row["name"]) for row in database.rows(f"SELECT name FROM regsvc_lease WHERE {condition}"))  # noqa: S608


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
        "SELECT scope, subject, period_seconds, ends_at, hits FROM regsvc_rate_limit "  # noqa: S608
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
        "SELECT p.username_key AS name, p.conflict AS fields, o.username AS owner "  # noqa: S608
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
