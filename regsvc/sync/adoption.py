"""Adoption: creation of users for players that have none. One at a login, thousands at the first start.

In SQL alone the first adoption of a million players took a sixth of the time, once in an installation's life; but it
would be a second description of who is adopted, as what, and with which address.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from peewee import Database, IntegrityError, fn

from plugin_bridge.authme.players import PlayerRow, locked_hash
from regsvc.core.clock import from_epoch_ms
from regsvc.core.email_address import EmailAddress
from regsvc.database.audit import SYNC, Audit
from regsvc.database.bulk import insert_rows
from regsvc.database.models import APPROVED, BANNED, VERIFIED, SyncRecord, User
from regsvc.sync.actions import Adopt, Conflict
from regsvc.sync.merge import claim_unverified, email_conflict, find_real_email
from regsvc.sync.records import base_of

_SINGLE_ENTRIES_UP_TO: Final = 20
"""More adoptions at once than this share one audit entry."""


def adopt_each(
    database: Database, audit: Audit, adoptions: Sequence[Adopt], moment: datetime
) -> dict[str, Conflict | None]:
    """Adopt every player whose name still has no user, in the caller's transaction.

    Returns the new users' names, with a conflict if the e-mail could not be adopted; another process was faster with
    the other names.
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


def adopt(database: Database, audit: Audit, adoptions: Sequence[Adopt], moment: datetime) -> dict[str, Conflict | None]:
    """Create the users with few statements in the caller's transaction, and return their names and conflicts.

    None of the names has a sync record. Raises `IntegrityError` if one of them has a user or sync record by now.

    Reading the next page on another thread meanwhile saves 15 %, which is not worth a second connection.
    """
    adoptions = sorted(adoptions, key=lambda adoption: adoption.player.username)  # as the indexes are
    keys = [adoption.player.username for adoption in adoptions]
    wanted = {a.player.username: a.player.known_email for a in adoptions if a.player.known_email is not None}
    emails = claim_unverified(wanted)
    users, records, locked = list[dict[str, Any]](), list[dict[str, Any]](), list[dict[str, Any]]()
    for adoption in adoptions:
        # an adoption as approved entails nothing, so that no run looks at it again
        mark = moment if adoption.status != APPROVED else None
        users.append(_user_columns(adoption, emails.get(adoption.player.username), moment, mark))
    newest = User.select(fn.MAX(User.id)).scalar() or 0
    insert_rows(database, User, users)
    created = database.execute_sql(f"SELECT username_key, id FROM regsvc_user WHERE id > {newest:d}")  # noqa: S608
    ids: dict[str, int] = dict(created.fetchall())  # the key's range: quicker than by thousands of names
    for adoption, user in zip(adoptions, users, strict=True):
        key = adoption.player.username
        has_conflict = key in wanted and key not in emails
        record = _record_columns(adoption.player, ids[key], has_conflict, moment) | {"changed_at": user["changed_at"]}
        (locked if adoption.player.is_locked else records).append(record)
    insert_rows(database, SyncRecord, records)
    insert_rows(database, SyncRecord, locked)
    conflicting = [key for key in wanted if key not in emails]
    _record(audit, adoptions, conflicting)
    return dict.fromkeys(keys, None) | {key: email_conflict(wanted[key]) for key in conflicting}


def _user_columns(
    adoption: Adopt, email: EmailAddress | None, moment: datetime, changed_at: datetime | None
) -> dict[str, Any]:
    # without its key where it is another user's, which must not show
    noted = email or find_real_email(adoption.player.known_email)
    return {
        "username": adoption.username,
        "username_key": adoption.player.username,
        "email": noted.display if noted else None,
        "email_key": email.key if email else None,
        "status": adoption.status,
        "applied_status": adoption.status,
        "banned_from": APPROVED if adoption.status == BANNED else None,
        "reason": adoption.reason,
        "origin": "adopted",
        "created_at": _registered_at(adoption.player, moment),
        "changed_at": changed_at,
    }


def _record_columns(player: PlayerRow, user_id: int, has_conflict: bool, moment: datetime) -> dict[str, Any]:
    lock = {}
    if player.is_locked:
        kept = {"kept_hash": locked_hash(player.hash), "kept_origin": VERIFIED}
        group = 0 if player.lock_group is not None and player.group == player.lock_group else None  # nobody knows it
        lock = {"lock_reason": "earlier", "locked_at": moment, "kept_group": group, **kept}
    return {
        "username_key": player.username,
        "user_id": user_id,
        "conflict": "email" if has_conflict else None,
        "plugin_state": "locked" if player.is_locked else "conflict" if has_conflict else "synced",
        "plugin_since": moment,
        **base_of(player),
        **lock,
    }


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
        audit.record("user.adopted", SYNC, None, {"count": len(names), "first": names[0], "last": names[-1]})
    else:
        for adoption in adoptions:
            audit.record("user.adopted", SYNC, adoption.username, {"status": adoption.status})
    audit.record_each("sync.conflict", SYNC, conflicting, {"field": "email", "kept": "both"})
