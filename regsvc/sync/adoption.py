"""Makes users of players that have none: one at a login, thousands at the first start beside a server in use."""

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
from regsvc.sync.decisions import Adopt, Conflict
from regsvc.sync.emails import find_real_email
from regsvc.sync.sync_records import NO_LOCK, base_columns

_ONE_ENTRY_ABOVE = 20
"""More adoptions than this at once leave one audit entry together."""


def adopt(database: Database, audit: Audit, adoptions: list[Adopt], moment: datetime) -> dict[str, Conflict]:
    """Make the users, in one transaction. Returns the conflicts by username: an e-mail that could not be taken over.

    Raises IntegrityError, with nothing done, when one of the names has a user by now.
    """
    conflicts: dict[str, Conflict] = {}
    with database.atomic():
        emails = free_emails(adoptions, conflicts, held_emails)
        users = [_user_values(adoption, emails.get(adoption.player.username), moment) for adoption in adoptions]
        insert_rows(database, User, users)
        keys = [adoption.player.username for adoption in adoptions]
        rows: Any = User.select(User.username_key, User.id).where(User.username_key.in_(keys)).tuples()
        ids: dict[str, int] = {row[0]: row[1] for row in rows}
        Player.delete().where(Player.username_key.in_(keys)).execute()
        agreed = [
            _agreement_values(adoption, ids[key], key in conflicts, moment)
            for key, adoption in zip(keys, adoptions, strict=True)
        ]
        insert_rows(database, Player, agreed)
        _note_looked_at([adoption.player.username for adoption in adoptions if adoption.status == APPROVED])
        _record(audit, adoptions, conflicts)
    return conflicts


@dataclass(frozen=True)
class Adopted:
    """How many users were made, and the conflicts by username."""

    count: int
    conflicts: dict[str, Conflict]


def adopt_each(database: Database, audit: Audit, adoptions: list[Adopt], moment: datetime) -> Adopted:
    """The same, but a name that has a user by now is left to the next look."""
    try:
        return Adopted(len(adoptions), adopt(database, audit, adoptions, moment))
    except IntegrityError:
        if len(adoptions) == 1:
            return Adopted(0, {})
    middle = len(adoptions) // 2
    first = adopt_each(database, audit, adoptions[:middle], moment)
    second = adopt_each(database, audit, adoptions[middle:], moment)
    return Adopted(first.count + second.count, first.conflicts | second.conflicts)


def held_emails(keys: Collection[str]) -> set[str]:
    """Those of these e-mails, as they are compared, that users of ours have."""
    if not keys:
        return set()
    rows: Any = User.select(User.email_key).where(User.email_key.in_(list(keys))).tuples()
    return {row[0] for row in rows}


def free_emails(
    adoptions: list[Adopt], conflicts: dict[str, Conflict], held: Callable[[Collection[str]], set[str]]
) -> dict[str, EmailAddress]:
    """The e-mail of each player that has a real one which nobody else has; the first of two players gets it.

    `held` says which of some e-mails somebody has. The others' are added to `conflicts`, by username.
    """
    found: dict[str, EmailAddress] = {}
    for adoption in adoptions:
        raw = adoption.player.known_email
        address = find_real_email(raw)
        if address is not None:
            found[adoption.player.username] = address
        elif raw is not None:
            conflicts[adoption.player.username] = Conflict("email", "both")
    taken = held({address.key for address in found.values()})
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


def _agreement_values(adoption: Adopt, user_id: int, has_conflict: bool, moment: datetime) -> dict[str, object]:
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


def _note_looked_at(keys: list[str]) -> None:
    """Nothing follows from an adoption as approved, and the next run need not find that out."""
    if keys:
        for table in (User, Player):
            table.update(changed_at=None).where(table.username_key.in_(keys)).execute()


def _registered_at(player: PlayerRow, moment: datetime) -> datetime:
    """When the player registered in the game; `moment` where the column does not know."""
    registered = player.registered_ms
    if not registered or registered < 0:
        return moment
    try:
        return min(from_epoch_ms(registered), moment)
    except (OverflowError, ValueError, OSError):  # no calendar holds it
        return moment


def _record(audit: Audit, adoptions: list[Adopt], conflicts: dict[str, Conflict]) -> None:
    if len(adoptions) > _ONE_ENTRY_ABOVE:
        names = [adoption.username for adoption in adoptions]
        detail = {"count": len(names), "first": names[0], "last": names[-1]}
        audit.record("user.adopted", "sync", None, detail)
    else:
        for adoption in adoptions:
            audit.record("user.adopted", "sync", adoption.username, {"status": adoption.status})
    audit.record_each("sync.conflict", "sync", list(conflicts), {"field": "email", "kept": "both"})
