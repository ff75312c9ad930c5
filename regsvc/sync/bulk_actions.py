"""The actions that change our side alone, and many accounts at once: adoptions, changes of users, edits in SQL."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from peewee import IntegrityError

from plugin_bridge.authme.players import PlayerRow, locked_hash
from regsvc.core.clock import from_epoch_ms
from regsvc.core.email_address import EmailAddress
from regsvc.database.audit import SQL, SYNC, Audit
from regsvc.database.models import APPROVED, BANNED, VERIFIED, SyncRecord, User
from regsvc.sync.actions import REMOVED, Cases, Label, SyncAction
from regsvc.sync.effects import (
    NOTHING,
    Conflict,
    Effects,
    SyncContext,
    email_conflict,
    find_real_email,
    intent_effects,
    state_effects,
)
from regsvc.sync.records import UserRecord, base_of, tombstone
from regsvc.users.gates import EndCause


class BulkAction(SyncAction, ABC):
    """An action on our side alone, which is applied to many accounts at once."""

    @classmethod
    @abstractmethod
    def apply(cls, context: SyncContext, cases: Cases) -> Cases:
        """Apply the action in a transaction. Returns the cases that it was applied to."""


@dataclass(frozen=True)
class RowRequest:
    """Request that a decision that a user may play makes of the row, where it does not say which password counts."""

    intent: str | None = None
    """The intent to record; None: the row needs nothing, or stays as it is."""
    needs_password: bool = False
    """Whether the row does not let the user in before a password is set, or chosen by an approval."""


NO_REQUEST: Final = RowRequest()


@dataclass(frozen=True)
class StatusAction(BulkAction):
    """A change of the user's status or membership, with what it requests of the row where they may play from now on."""

    request: RowRequest = NO_REQUEST

    @classmethod
    def _change(cls, context: SyncContext, change: Callable[..., None], cases: Cases) -> Cases:
        lacking = {case.user.id for case in cases if case.action.request.needs_password}
        return cls._let_in(context, partial(change, lacking_password=lacking), cases)

    @classmethod
    def _let_in(cls, context: SyncContext, change: Callable[[list[User]], None], cases: Cases) -> Cases:
        _change_users(context, change, cases)
        for case in cases:
            case.effects = intent_effects(case.action.request.intent)
        return cases


class EndBan(StatusAction):
    """End a ban whose time is over."""

    label = Label("unbanned", "ban ends", "bans end")

    @classmethod
    def apply(cls, context: SyncContext, cases: Cases) -> Cases:
        return cls._change(context, context.transitions.end_bans, cases)


class ApplySqlEdit(StatusAction):
    """Do for a status edited in SQL what the API would have done."""

    label = Label("edited", "status change made in SQL is carried out", "status changes made in SQL are carried out")
    is_guarded = True

    @classmethod
    def apply(cls, context: SyncContext, cases: Cases) -> Cases:
        return cls._change(context, context.transitions.apply_sql_edits, cases)


@dataclass(frozen=True)
class EndMembership(BulkAction):
    """End a membership whose date has come, or that has lapsed."""

    label = Label("ended", "membership ends", "memberships end")
    is_guarded = True
    because: EndCause

    @classmethod
    def apply(cls, context: SyncContext, cases: Cases) -> Cases:
        because = {case.user.id: case.action.because for case in cases}
        _change_users(context, lambda users: context.memberships.end(users, because), cases)
        return cases


class ForgetLapse(BulkAction):
    """Forget that a membership lapses, where the host ends nobody for that cause any more."""

    @classmethod
    def apply(cls, context: SyncContext, cases: Cases) -> Cases:
        _change_users(context, context.memberships.forget_lapses, cases)
        return cases


@dataclass(frozen=True)
class KeepMembership(StatusAction):
    """Clear the end of the membership of a user who has come into the team, whose memberships never end."""

    label = Label("renewed", "membership of the team is kept", "memberships of the team are kept")

    @classmethod
    def apply(cls, context: SyncContext, cases: Cases) -> Cases:
        return cls._let_in(context, lambda users: context.memberships.renew(users, None, SYNC, is_silent=True), cases)


class ApplyMembershipEdit(StatusAction):
    """Do for a membership edited in SQL what the API would have done."""

    label = ApplySqlEdit.label
    is_guarded = True

    @classmethod
    def apply(cls, context: SyncContext, cases: Cases) -> Cases:
        return cls._let_in(context, context.memberships.apply_sql_edits, cases)


class RejectNameConflict(BulkAction):
    """Reject a registration whose name belongs to a player registered before it."""

    label = Label(
        "rejected",
        "registration is rejected: the name is a player's",
        "registrations are rejected: the names are players'",
    )

    @classmethod
    def apply(cls, context: SyncContext, cases: Cases) -> Cases:
        _change_users(context, context.transitions.reject_name_conflicts, cases)
        for case in cases:  # the player registered first: we have no intent for the row, and it stays as it is
            case.effects = state_effects(case.account, "conflict")
        return cases


def _change_users(context: SyncContext, change: Callable[[list[User]], None], cases: Cases) -> None:
    rows = {row.id: row for row in context.load_users([case.user for case in cases])}
    change(list(rows.values()))
    for case in cases:
        case.store(replace(case.account, user=UserRecord.from_row(rows[case.user.id])))
        case.next = "decide"


class MarkDeleted(BulkAction):
    """Do for a user deleted in SQL what a deletion through us does, with an unknown actor."""

    label = REMOVED
    is_guarded = True

    @classmethod
    def apply(cls, context: SyncContext, cases: Cases) -> Cases:
        records = {case.key: case.account.sync_record for case in cases}
        context.transitions.record_deletions(
            {key: record.base_realname if record is not None else None for key, record in records.items()}
        )
        for case in cases:
            case.store(replace(case.account, sync_record=tombstone(case.account)))
            case.next = "decide"
        context.replace_records([(case.key, case.account.sync_record) for case in cases])
        return cases


@dataclass(frozen=True)
class RevertRename(BulkAction):
    """Undo a rename made in SQL, which is no supported way to rename a user; `key` is the correct name."""

    label = Label("renamed", "rename made in SQL is undone", "renames made in SQL are undone")
    user: UserRecord
    key: str

    @classmethod
    def apply(cls, context: SyncContext, cases: Cases) -> Cases:
        """Undo the renames, each once; the accounts are loaded again, as their names change."""
        renamed, applied = [], {case.action.user.id: case for case in cases}
        for case in applied.values():
            user, key = case.action.user, case.action.key
            known = SyncRecord.get_or_none(SyncRecord.username_key == key)
            spellings = (user.username, known.base_realname if known is not None else None)
            username = next((name for name in spellings if name and name.lower() == key), key)
            renamed.append((user, replace(user, username=username, username_key=key)))
            context.audit.record("sync.edit_refused", SQL, username, {"username": user.username})
        context.rename_users(renamed)
        return list(applied.values())


# --- Adoption ---


@dataclass(frozen=True)
class Adopt(BulkAction):
    """Create a user for a player that has none."""

    label = Label("adopted", "player gets a user here", "players get users here")
    counter = "adopted"
    player: PlayerRow
    username: str
    status: str
    reason: str | None = None

    @classmethod
    def apply(cls, context: SyncContext, cases: Cases) -> Cases:
        """Create the users; another process may have been faster with some."""
        known = [(case.key, None) for case in cases if case.account.sync_record is not None]
        context.replace_records(known)  # tombstones of former users
        adopted = adopt_each(context, [case.action for case in cases], context.now())
        found = [case for case in cases if case.key in adopted]
        for case in found:
            conflict = adopted[case.key]
            case.effects = Effects(conflicts=(conflict,)) if conflict is not None else NOTHING
            if case.action.status in (APPROVED, BANNED):  # which entails nothing; the others are loaded again
                case.next = "nothing"
        return found


_SINGLE_ENTRIES_UP_TO: Final = 20
"""More adoptions at once than this share one audit entry."""


def adopt_each(context: SyncContext, adoptions: Sequence[Adopt], moment: datetime) -> dict[str, Conflict | None]:
    """Adopt every player whose name still has no user, in the caller's transaction.

    Returns the new users' names, with a conflict if the e-mail could not be adopted; another process was faster with
    the other names.
    """
    try:
        with context.atomic():
            return adopt(context, adoptions, moment)
    except IntegrityError:
        if len(adoptions) == 1:
            return {}
    middle = len(adoptions) // 2
    first = adopt_each(context, adoptions[:middle], moment)
    return first | adopt_each(context, adoptions[middle:], moment)


def adopt(context: SyncContext, adoptions: Sequence[Adopt], moment: datetime) -> dict[str, Conflict | None]:
    """Create the users with few statements in the caller's transaction, and return their names and conflicts.

    None of the names has a sync record. Raises `IntegrityError` if one of them has a user or sync record by now.

    Reading the next page on another thread meanwhile saves 15 %, which is not worth a second connection.
    """
    adoptions = sorted(adoptions, key=lambda adoption: adoption.player.username)  # as the indexes are
    keys = [adoption.player.username for adoption in adoptions]
    wanted = {a.player.username: a.player.known_email for a in adoptions if a.player.known_email is not None}
    emails = context.claim_unverified(wanted)
    users, records, locked = list[dict[str, Any]](), list[dict[str, Any]](), list[dict[str, Any]]()
    for adoption in adoptions:
        # an adoption as approved entails nothing, so that no run looks at it again
        mark = moment if adoption.status != APPROVED else None
        users.append(_user_columns(adoption, emails.get(adoption.player.username), moment, mark))
    ids = context.insert_users(users)
    for adoption, user in zip(adoptions, users, strict=True):
        key = adoption.player.username
        has_conflict = key in wanted and key not in emails
        record = _record_columns(adoption.player, ids[key], has_conflict, moment) | {"changed_at": user["changed_at"]}
        (locked if adoption.player.is_locked else records).append(record)
    context.insert_records(records)
    context.insert_records(locked)
    conflicting = [key for key in wanted if key not in emails]
    _record(context.audit, adoptions, conflicting)
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
    except OverflowError:  # outside the range of datetime
        return moment


def _record(audit: Audit, adoptions: Sequence[Adopt], conflicting: Sequence[str]) -> None:
    if len(adoptions) > _SINGLE_ENTRIES_UP_TO:
        names = [adoption.username for adoption in adoptions]
        audit.record("user.adopted", SYNC, None, {"count": len(names), "first": names[0], "last": names[-1]})
    else:
        for adoption in adoptions:
            audit.record("user.adopted", SYNC, adoption.username, {"status": adoption.status})
    audit.record_each("sync.conflict", SYNC, conflicting, {"field": "email", "kept": "both"})
