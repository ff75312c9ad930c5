"""Adoption: creation of users for players that have none. One at a login, thousands at the first start."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from peewee import Database, IntegrityError

from plugin_bridge.authme.players import PlayerRow, locked_hash
from regsvc.core.clock import from_epoch_ms
from regsvc.core.email_address import EmailAddress
from regsvc.database.audit import Audit
from regsvc.database.bulk import insert_rows
from regsvc.database.models import APPROVED, BANNED, VERIFIED, Player, User
from regsvc.sync.actions import Adopt, Conflict
from regsvc.sync.emails import find_real_email
from regsvc.sync.sync_records import NO_LOCK, base_columns

_SINGLE_ENTRIES_UP_TO = 20
"""More adoptions at once than this share one audit entry."""


def adopt(database: Database, audit: Audit, adoptions: list[Adopt], moment: datetime) -> dict[str, Conflict]:
    """Create the users in one transaction. Returns the conflicts by username: e-mails that could not be adopted.

    Raises `IntegrityError`, having changed nothing, if one of the names has a user by now.
    """
    conflicts: dict[str, Conflict] = {}
    with database.atomic():
        emails = claimable_emails(adoptions, conflicts, find_taken_emails)
        users = [_user_values(adoption, emails.get(adoption.player.username), moment) for adoption in adoptions]
        insert_rows(database, User, users)
        keys = [adoption.player.username for adoption in adoptions]
        rows: Any = User.select(User.username_key, User.id).where(User.username_key.in_(keys)).tuples()
        ids: dict[str, int] = {row[0]: row[1] for row in rows}
        Player.delete().where(Player.username_key.in_(keys)).execute()
        sync_records = [
            _record_values(adoption, ids[key], key in conflicts, moment)
            for key, adoption in zip(keys, adoptions, strict=True)
        ]
        insert_rows(database, Player, sync_records)
        _clear_changed_at([adoption.player.username for adoption in adoptions if adoption.status == APPROVED])
        _record(audit, adoptions, conflicts)
    return conflicts


@dataclass(frozen=True)
class AdoptionResult:
    """Number of created users, and the conflicts by username."""

    count: int
    conflicts: dict[str, Conflict]


def adopt_each(database: Database, audit: Audit, adoptions: list[Adopt], moment: datetime) -> AdoptionResult:
    """Adopt every player whose name still has no user; the others are left to the next run."""
    try:
        return AdoptionResult(len(adoptions), adopt(database, audit, adoptions, moment))
    except IntegrityError:
        if len(adoptions) == 1:
            return AdoptionResult(0, {})
    middle = len(adoptions) // 2
    first = adopt_each(database, audit, adoptions[:middle], moment)
    second = adopt_each(database, audit, adoptions[middle:], moment)
    return AdoptionResult(first.count + second.count, first.conflicts | second.conflicts)


def find_taken_emails(keys: Collection[str]) -> set[str]:
    """Return which of these e-mail keys belong to users."""
    if not keys:
        return set()
    rows: Any = User.select(User.email_key).where(User.email_key.in_(list(keys))).tuples()
    return {row[0] for row in rows}


def claimable_emails(
    adoptions: list[Adopt], conflicts: dict[str, Conflict], find_taken: Callable[[Collection[str]], set[str]]
) -> dict[str, EmailAddress]:
    """Return, by username, the valid and free e-mail of each player; of two players with one e-mail the first gets it.

    `find_taken` returns which of some e-mail keys are taken. The other players' conflicts are added to `conflicts`.
    """
    found: dict[str, EmailAddress] = {}
    for adoption in adoptions:
        raw = adoption.player.known_email
        address = find_real_email(raw)
        if address is not None:
            found[adoption.player.username] = address
        elif raw is not None:
            conflicts[adoption.player.username] = Conflict("email", "both")
    taken = find_taken({address.key for address in found.values()})
    free = {}
    for username, address in found.items():
        if address.key in taken:
            conflicts[username] = Conflict("email", "both")
        else:
            free[username] = address
            taken.add(address.key)
    return free


def _user_values(adoption: Adopt, email: EmailAddress | None, moment: datetime) -> dict[str, object]:
    return {
        "username": adoption.username,
        "username_key": adoption.player.username,
        "email": email.display if email else None,
        "email_key": email.key if email else None,
        "status": adoption.status,
        "applied_status": adoption.status,
        "banned_from": "approved" if adoption.status == BANNED else None,
        "reason": adoption.reason,
        "origin": "adopted",
        "created_at": _registered_at(adoption.player, moment),
    }


def _record_values(adoption: Adopt, user_id: int, has_conflict: bool, moment: datetime) -> dict[str, object]:
    player = adoption.player
    state = "locked" if player.is_locked else "conflict" if has_conflict else "synced"
    lock: dict[str, object] = dict(NO_LOCK)
    if player.is_locked:
        lock |= {
            "lock_reason": "earlier",
            "locked_at": moment,
            "kept_hash": locked_hash(player.hash),
            "kept_origin": VERIFIED,
        }
    return {
        "username_key": player.username,
        "user_id": user_id,
        "conflict": "email" if has_conflict else None,
        "plugin_state": state,
        "plugin_since": moment,
        **base_columns(player),
        **lock,
    }


def _clear_changed_at(keys: list[str]) -> None:
    """Clear the change marks: an adoption as approved entails nothing, so the next run need not look at it."""
    if keys:
        for table in (User, Player):
            table.update(changed_at=None).where(table.username_key.in_(keys)).execute()


def _registered_at(player: PlayerRow, moment: datetime) -> datetime:
    """Return when the player registered in the game, or `moment` where AuthMe's column does not say."""
    registered = player.registered_ms
    if not registered or registered < 0:
        return moment
    try:
        return min(from_epoch_ms(registered), moment)
    except (OverflowError, ValueError, OSError):  # outside the range of datetime
        return moment


def _record(audit: Audit, adoptions: list[Adopt], conflicts: dict[str, Conflict]) -> None:
    if len(adoptions) > _SINGLE_ENTRIES_UP_TO:
        names = [adoption.username for adoption in adoptions]
        detail = {"count": len(names), "first": names[0], "last": names[-1]}
        audit.record("user.adopted", "sync", None, detail)
    else:
        for adoption in adoptions:
            audit.record("user.adopted", "sync", adoption.username, {"status": adoption.status})
    audit.record_each("sync.conflict", "sync", list(conflicts), {"field": "email", "kept": "both"})
