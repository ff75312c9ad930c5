"""Our own tables as the doctor sees them: whether they are ours, and what in them waits for a person."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from regsvc.database.migrator import list_migrations
from regsvc.database.models import UtcDateTimeField
from regsvc.doctor.facts.readonly_db import Reading, Row, Unreadable

_NO_SUCH_TABLE: Final = 1146
_MOST_NAMES: Final = 3


@dataclass(frozen=True)
class Waiting:
    """`count` of something, and a few words for each kind of it."""

    count: int
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class OwnTables:
    """What stands there. Before the first start has ended `home` is "", `installation_id` and `key_fingerprint` None.

    `newest_entry_at`: of the audit log. `failed`: errands that were given up, by kind. `is_braked_at_rest`: the last
    thing the sync wrote down is that it left something out.
    """

    newest_migration: int
    home: str
    installation_id: str | None
    key_fingerprint: str | None
    newest_entry_at: datetime | None
    conflicts: Waiting
    """Players who wait for a decision of ours."""
    disputed: Waiting
    """Players of whom something stands differently on both sides: an e-mail, the case of the name."""
    failed: Mapping[str, int]
    oldest_errand_at: datetime | None
    is_braked_at_rest: bool


def look_at_own_tables(reading: Reading) -> OwnTables | None:
    """None before the first start has made them. Raises `Unreadable`."""
    try:
        newest = reading.value("SELECT MAX(number) AS number FROM regsvc_migration")
    except Unreadable as error:
        if error.code == _NO_SUCH_TABLE or "no such table" in str(error):
            return None
        raise
    if newest is None:
        return None
    installation = (
        reading.row("SELECT home, installation_id, key_fingerprint FROM regsvc_installation WHERE id = 1") or {}
    )
    last_sync = reading.row(
        "SELECT action FROM regsvc_audit WHERE action IN ('sync.run', 'sync.braked') ORDER BY id DESC LIMIT 1"
    )
    failed = reading.rows("SELECT kind, COUNT(*) AS n FROM regsvc_outbox WHERE outcome = 'failed' GROUP BY kind")
    oldest = reading.value("SELECT MIN(created_at) AS at FROM regsvc_outbox WHERE next_attempt_at IS NOT NULL")
    return OwnTables(
        newest_migration=int(newest),
        home=str(installation.get("home", "")),
        installation_id=installation.get("installation_id"),
        key_fingerprint=installation.get("key_fingerprint"),
        newest_entry_at=_moment(reading.value("SELECT MAX(created_at) AS at FROM regsvc_audit")),
        conflicts=_players(reading, "plugin_state IN ('conflict', 'returned') AND conflict IS NULL"),
        disputed=_players(reading, "plugin_state = 'conflict' AND conflict IS NOT NULL"),
        failed={str(row["kind"]): int(row["n"]) for row in failed},
        oldest_errand_at=_moment(oldest),
        is_braked_at_rest=last_sync is not None and last_sync["action"] == "sync.braked",
    )


def clock_difference(reading: Reading, now: datetime) -> timedelta:
    """How far the database's clock is ahead of ours. SQLite has ours. Raises `Unreadable`."""
    if reading.is_sqlite:
        return timedelta(0)
    theirs = _moment(reading.value("SELECT UTC_TIMESTAMP(3) AS at"))
    return timedelta(0) if theirs is None else theirs - now


def list_missing_triggers(reading: Reading) -> list[str]:
    """Of those our migrations make; a login without the right to make any does not see any either."""
    rows = reading.rows(
        "SELECT trigger_name AS name FROM information_schema.triggers WHERE trigger_schema = DATABASE()"
    )
    return sorted(_names_in_migrations("TRIGGER") - _names(rows))


def list_missing_views(reading: Reading) -> list[str]:
    """Of those our migrations make."""
    rows = reading.rows("SELECT table_name AS name FROM information_schema.views WHERE table_schema = DATABASE()")
    return sorted(_names_in_migrations("VIEW") - _names(rows))


def _names_in_migrations(kind: str) -> set[str]:
    """What the migrations make on MySQL: `kind` is TRIGGER or VIEW."""
    texts: list[str] = []
    for migration in list_migrations():
        texts += getattr(migration.module, "TRIGGERS", {}).get("mysql", [])
        texts.append(getattr(migration.module, "VIEWS", ""))
    made = rf"^\s*CREATE (?:{kind}|{{{kind.lower()}}}) (\w+)"
    return {name for text in texts for name in re.findall(made, text, re.MULTILINE)}


def _names(rows: list[Row]) -> set[str]:
    return {str(row["name"]) for row in rows}


def _players(reading: Reading, condition: str) -> Waiting:
    where = f"FROM regsvc_player WHERE {condition}"
    count = int(reading.value(f"SELECT COUNT(*) AS n {where}"))
    rows = reading.rows(f"SELECT username_key AS name {where} ORDER BY username_key LIMIT {_MOST_NAMES}")
    return Waiting(count, tuple(str(row["name"]) for row in rows))


def _moment(value: Any) -> datetime | None:
    """A moment as our tables hold it; None for none, and for what somebody typed that is none."""
    try:
        moment = UtcDateTimeField().python_value(value)
    except ValueError:
        return None
    return None if moment is None else moment.astimezone(UTC)
