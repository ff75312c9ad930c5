"""Adoption: creation of users for players that have none. One at a login, thousands at the first start."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from peewee import Database, IntegrityError, SqliteDatabase

from plugin_bridge.authme.players import PlayerRow, locked_hash
from regsvc.core.clock import from_epoch_ms
from regsvc.core.email_address import EmailAddress
from regsvc.database.audit import Audit
from regsvc.database.bulk import insert_rows, select_rows
from regsvc.database.models import APPROVED, BANNED, VERIFIED, Player, User
from regsvc.sync.actions import Adopt, Conflict
from regsvc.sync.emails import claim_unverified
from regsvc.sync.records import USER_COLUMNS, SyncRecord, UserRecord
from regsvc.sync.sync_records import base_columns

_SINGLE_ENTRIES_UP_TO: Final = 20
"""More adoptions at once than this share one audit entry."""


@dataclass(frozen=True)
class Adopted:
    """A new user with its sync record, and the conflict if the player's e-mail could not be adopted."""

    user: UserRecord
    sync_record: SyncRecord
    conflicts: tuple[Conflict, ...]


def adopt_each(database: Database, audit: Audit, adoptions: Sequence[Adopt], moment: datetime) -> dict[str, Adopted]:
    """Adopt every player whose name still has no user, in the caller's transaction.

    Returns the new users by name; another process was faster with the others.
    """
    try:
        with database.atomic():
            return adopt(database, audit, adoptions, moment)
    except IntegrityError:
        if len(adoptions) == 1:
            return {}
    middle = len(adoptions) // 2
    first = adopt_each(database, audit, adoptions[:middle], moment)
    return first | adopt_each(database, audit, adoptions[middle:], moment)


def adopt(database: Database, audit: Audit, adoptions: Sequence[Adopt], moment: datetime) -> dict[str, Adopted]:
    """Create the users with few statements in the caller's transaction, and return them by name.

    None of the names has a sync record. Raises `IntegrityError` if one of them has a user or sync record by now.
    """
    keys = [adoption.player.username for adoption in adoptions]
    wanted = {a.player.username: a.player.known_email for a in adoptions if a.player.known_email is not None}
    emails = claim_unverified(wanted)
    marks = _change_marks(database, adoptions, moment)
    rows = [_user_columns(adoption, emails.get(adoption.player.username), moment) for adoption in adoptions]
    insert_rows(database, User, [row | {"changed_at": mark} for row, mark in zip(rows, marks, strict=True)])
    ids: dict[str, int] = dict(select_rows(database, User, [User.username_key, User.id], User.username_key, keys))
    adopted = {}
    for adoption, row in zip(adoptions, rows, strict=True):
        key = adoption.player.username
        has_conflict = key in wanted and key not in emails
        user = UserRecord.from_values([ids[key], *(row.get(name) for name in USER_COLUMNS[1:])])
        sync_record = _sync_record(adoption, ids[key], has_conflict, moment)
        adopted[key] = Adopted(user, sync_record, (Conflict("email", "both"),) if has_conflict else ())
    records = [one.sync_record.columns() for one in adopted.values()]
    insert_rows(database, Player, [row | {"changed_at": mark} for row, mark in zip(records, marks, strict=True)])
    if isinstance(database, SqliteDatabase):
        _clear_changed_at(database, [adoption.player.username for adoption in adoptions if adoption.status == APPROVED])
    _record(audit, adoptions, [key for key, one in adopted.items() if one.conflicts])
    return adopted


def _change_marks(database: Database, adoptions: Sequence[Adopt], moment: datetime) -> list[datetime | None]:
    """Return the change marks to insert: none where an adoption entails nothing, so that no run looks at it again.

    On SQLite every row gets one at first, since a trigger marks rows inserted without.
    """
    is_marked = isinstance(database, SqliteDatabase)
    return [moment if is_marked or adoption.status != APPROVED else None for adoption in adoptions]


def _clear_changed_at(database: Database, keys: Sequence[str]) -> None:
    if keys:
        marks = ", ".join("?" * len(keys))
        for table in ("regsvc_user", "regsvc_player"):
            database.execute_sql(f"UPDATE {table} SET changed_at = NULL WHERE username_key IN ({marks})", keys)  # noqa: S608


def _user_columns(adoption: Adopt, email: EmailAddress | None, moment: datetime) -> dict[str, Any]:
    return {
        "username": adoption.username,
        "username_key": adoption.player.username,
        "email": email.display if email else None,
        "email_key": email.key if email else None,
        "is_email_verified": False,
        "status": adoption.status,
        "applied_status": adoption.status,
        "platform": "java",
        "banned_from": APPROVED if adoption.status == BANNED else None,
        "reason": adoption.reason,
        "origin": "adopted",
        "created_at": _registered_at(adoption.player, moment),
    }


def _sync_record(adoption: Adopt, user_id: int, has_conflict: bool, moment: datetime) -> SyncRecord:
    player = adoption.player
    lock: dict[str, Any] = {}
    if player.is_locked:
        lock = {"lock_reason": "earlier", "locked_at": moment, "kept_hash": locked_hash(player.hash)}
        lock["kept_origin"] = VERIFIED
    return SyncRecord(
        player.username,
        user_id=user_id,
        conflict="email" if has_conflict else None,
        plugin_state="locked" if player.is_locked else "conflict" if has_conflict else "synced",
        plugin_since=moment,
        **base_columns(player),
        **lock,
    )


def _registered_at(player: PlayerRow, moment: datetime) -> datetime:
    """Return when the player registered in the game, or `moment` where AuthMe's column does not say."""
    registered = player.registered_ms
    if not registered or registered < 0:
        return moment
    try:
        return min(from_epoch_ms(registered), moment)
    except (OverflowError, ValueError, OSError):  # outside the range of datetime
        return moment


def _record(audit: Audit, adoptions: Sequence[Adopt], conflicting: Sequence[str]) -> None:
    if len(adoptions) > _SINGLE_ENTRIES_UP_TO:
        names = [adoption.username for adoption in adoptions]
        audit.record("user.adopted", "sync", None, {"count": len(names), "first": names[0], "last": names[-1]})
    else:
        for adoption in adoptions:
            audit.record("user.adopted", "sync", adoption.username, {"status": adoption.status})
    audit.record_each("sync.conflict", "sync", conflicting, {"field": "email", "kept": "both"})
