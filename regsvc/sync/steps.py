"""Effects of each action that concerns AuthMe's row, in three parts: promise, write and confirm.

The promise (our database) holds what is needed to finish or undo the write; the write changes AuthMe's row by
compare-and-set; the confirmation (our database) records that it is done. On one MySQL or MariaDB server the three are
one transaction. On SQLite each is a transaction of its own, so that a crash between two of them leaves either nothing
or a recorded intent, which the next reconciliation of the name carries out. A step never assumes that it runs for the
first time, and writes nothing itself: `pages` does, for a whole page of accounts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from plugin_bridge.authme.players import (
    NO_EMAIL,
    NewPlayer,
    PlayerRow,
    RowDelete,
    RowUpdate,
    RowWrite,
    java_address,
    lock_text,
)
from regsvc.auth.hashing import StoredPassword
from regsvc.core.clock import epoch_ms
from regsvc.database.models import BANNED, GONE, PASSWORD, PROVISION, UNVERIFIED, SyncRecord
from regsvc.notifications.rcon import Cause
from regsvc.sync import actions
from regsvc.sync.effects import NO_PASSWORD, NOTHING, AuditNote, Effects, state_effects
from regsvc.sync.merge import claim_unverified, email_conflict, find_real_email
from regsvc.sync.records import NO_INTENT, NO_LOCK, Account, SyncValues, base_columns
from regsvc.sync.sync_context import Case, Cases, SyncContext
from regsvc.users.password_notices import PasswordChange


@dataclass(frozen=True)
class Step:
    """The parts of one kind of action, as functions of a case."""

    confirm: Callable[[Case[Any]], Effects]
    """Effects on our side once the row is written."""
    promise: Callable[[Case[Any]], Effects] = lambda case: NOTHING
    """Effects on our side that are committed before the row is written."""
    write: Callable[[SyncContext, Case[Any]], RowWrite | None] = lambda context, case: None
    """Write to AuthMe's table, or None if the action needs none."""
    may_write: Callable[[SyncContext, Case[Any]], bool] = lambda context, case: True
    """Whether the row may be written now; False if something else has it written later."""
    claims_email: bool = False
    """Whether users may get the e-mails of their rows, of which each goes to one user (`claim_emails`)."""


def _promise_row(case: Case[actions.Provision]) -> Effects:
    known, password = case.account.sync_record, case.action.password
    collides = known is not None and known.conflict == "name"
    intended = {
        "intent": PROVISION,
        "intent_hash": password.hash,
        "intent_salt": password.salt,
        "intent_regdate": _chosen_regdate(case),
    }
    return Effects({"plugin_state": "conflict" if collides else "pending", "user_id": case.user.id, **intended})


def _may_insert(context: SyncContext, case: Case[actions.Provision]) -> bool:
    """Wait until a player online under this name is kicked: AuthMe would log them in to the new row."""
    return context.console.may_insert(case.user.username, case.user.id, _chosen_regdate(case))


def _insert_row(context: SyncContext, case: Case[actions.Provision]) -> NewPlayer:
    user, password = case.user, case.action.password
    return NewPlayer(
        realname=user.username,
        hash=password.hash,
        salt=password.salt,
        email=user.owned_email,
        regdate=_chosen_regdate(case),
        regip=java_address(user.registration_ip),
        uuid=context.find_uuid(user.username) if user.platform == "java" else None,
    )


def _confirm_insert(case: Case[actions.Provision]) -> Effects:
    is_refused = case.user.owned_email is not None and case.row.known_email is None
    changes = {**base_columns(case.row), **NO_LOCK, "conflict": "email" if is_refused else None}
    if not is_refused:
        return Effects({"plugin_state": "synced", **changes})
    note = ("sync.conflict", {"field": "email", "kept": "both"})
    return Effects({"plugin_state": "conflict", **changes}, audit=(note,))


def _chosen_regdate(case: Case[actions.Provision]) -> int:
    """Reuse the recorded time: two processes must insert the same row, or one would take it for a foreign row."""
    known = case.account.sync_record
    if known is not None and known.intent_hash == case.action.password.hash and known.intent_regdate is not None:
        return known.intent_regdate
    return epoch_ms(case.account.now)


def _confirm_synced(case: Case[actions.RecordSynced]) -> Effects:
    conflict = case.action.conflict
    state = {"plugin_state": "conflict" if conflict else "synced", "conflict": conflict}
    return Effects({**state, "user_id": case.user.id, **base_columns(case.action.player), **NO_LOCK})


def _promise_lock(case: Case[actions.Lock]) -> Effects:
    action, known, player = case.action, case.account.sync_record, case.action.player
    changes: dict[str, Any] = {
        "user_id": case.user.id,
        "lock_reason": action.reason,
        "locked_at": case.account.now,
        "kept_hash": player.hash,
        "kept_origin": action.origin,
    }
    changes |= _kept_login(known, player)
    # the row was locked before, so the game has replaced our lock with another hash
    is_locked_again = known is not None and known.locked_at is not None
    effects = Effects(changes, kick=_lock_kick(action.reason) if is_locked_again else None)
    if action.origin != UNVERIFIED and known is not None and known.base_hash != player.hash:
        # the player changed the password in the last synced row: it is the player's own, and newer than ours
        own = NO_PASSWORD if known.intent != PASSWORD else {}
        told = _password_change(case, "game", player.hash, player.salt) if own else None
        changed = {"base_hash": player.hash, "base_salt": player.salt}
        effects |= Effects(changed, own, ends_sessions=True, password=told)
    return effects


def _lock_row(context: SyncContext, case: Case[actions.Lock]) -> RowUpdate:
    player = case.action.player
    return RowUpdate(player, {"hash": lock_text(player.hash), **_without_passwordless_login(player)})


def _kept_login(known: SyncValues | None, player: PlayerRow) -> dict[str, Any]:
    """Return the columns that keep for the unlock what a locked row loses."""
    kept: dict[str, Any] = {"kept_premium_uuid": player.premium_uuid} if player.premium_uuid else {}
    # of a row that was locked into this group before we kept groups, nobody knows the one before
    is_unknown = known is not None and known.locked_at is not None and player.group == player.lock_group
    is_kept = known is not None and known.kept_group is not None
    if player.lock_group is not None and not is_kept and not is_unknown:
        kept["kept_group"] = player.group or 0  # as which AuthMe reads NULL
    return kept


def _without_passwordless_login(player: PlayerRow) -> dict[str, str | int | None]:
    """Return the fields of a row whose player AuthMe lets in by no other means than the password."""
    changes: dict[str, str | int | None] = {"has_session": 0, "premium_uuid": None}
    return changes | ({"group": player.lock_group} if player.lock_group is not None else {})


def _end_passwordless_login(context: SyncContext, case: Case[actions.EndPasswordlessLogin]) -> RowUpdate | None:
    player = case.action.player
    return RowUpdate(player, _without_passwordless_login(player)) if player.admits_without_password else None


def _confirm_lock(case: Case[actions.Lock]) -> Effects:
    state = state_effects(case.account, case.action.state) | _kicked_login(case.action.player)
    return state | _lock_effects(case.account, case.action.reason)


def _kicked_login(player: PlayerRow) -> Effects:
    """Record, with the kick itself, for which login the player is kicked."""
    return Effects({"kicked_login": player.last_login or 0})


def _lock_effects(account: Account, reason: str | None) -> Effects:
    """Audit a lock that is no ban, which has its own entry, and kick the player who may be playing at this moment.

    A player who registered another user's name in the game may be, also where AuthMe has not marked them as online yet.
    """
    known, player = account.sync_record, account.player
    audit = () if reason in (None, BANNED) else (("sync.player_locked", {"reason": reason}),)
    is_foreign = known is not None and known.kept_origin == UNVERIFIED
    may_be_online = is_foreign or (player is not None and bool(player.is_logged))
    return Effects(audit=audit, kick=_lock_kick(reason) if may_be_online else None)


def _lock_kick(reason: str | None) -> Cause:
    return "banned" if reason == BANNED else "locked"


def _unlock_row(
    context: SyncContext, case: Case[actions.RestorePassword] | Case[actions.RemoveLock] | Case[actions.TakeRow]
) -> RowUpdate:
    return unlock(case.action.player, case.action.password, case.account.sync_record)


def unlock(player: PlayerRow, password: StoredPassword, known: SyncValues | SyncRecord | None) -> RowUpdate:
    """Return the write that gives a locked row this password, and back what the lock took from it."""
    changes: dict[str, str | int | None] = {"hash": password.hash, "salt": password.salt, "has_session": 0}
    if known is not None and known.kept_premium_uuid:
        changes["premium_uuid"] = known.kept_premium_uuid
    return RowUpdate(player, changes | _kept_group(known, player))


def _kept_group(known: SyncValues | SyncRecord | None, player: PlayerRow) -> dict[str, str | int | None]:
    """Return the group that the player of a locked row had before; nothing where the lock changed none.

    Where nothing is known of the lock at all, that is 0, as which AuthMe reads NULL.
    """
    if known is not None:
        return {} if known.kept_group is None else {"group": known.kept_group}
    return {"group": 0} if player.is_locked and player.group == player.lock_group is not None else {}


def _confirm_restored(case: Case[actions.RestorePassword]) -> Effects:
    base = base_columns(case.row)
    # other fields that the player changed while the row was locked are merged next
    del base["base_email"], base["base_realname"]
    has_conflict = case.account.sync_record is not None and case.account.sync_record.conflict
    state = "conflict" if has_conflict else "synced"
    return Effects({"plugin_state": state, "user_id": case.user.id, **base, **NO_LOCK})


def _reclaim_row(context: SyncContext, case: Case[actions.ReclaimRow]) -> RowUpdate:
    """Write every field by which the other player could log in, or the owner be kept out."""
    user, password = case.user, case.action.password
    changes: dict[str, str | int | None] = {
        "hash": password.hash,
        "salt": password.salt,
        "realname": user.username,
        "has_session": 0,
        "premium_uuid": None,
        "totp": None,
        **_kept_group(case.account.sync_record, case.action.player),
    }
    if user.owned_email is not None:
        changes["email"] = user.owned_email
    elif case.action.player.known_email is not None:
        changes["email"] = NO_EMAIL  # the other player's, to which AuthMe mails new passwords
    return RowUpdate(case.action.player, changes)


def _confirm_reclaimed(case: Case[actions.ReclaimRow]) -> Effects:
    changes = {**base_columns(case.row), **NO_LOCK, "conflict": None}
    is_open = not case.action.player.is_locked  # the other player may be in the game with it
    return Effects({"plugin_state": "synced", "user_id": case.user.id, **changes}, kick="approved" if is_open else None)


def _confirm_taken(case: Case[actions.TakeRow]) -> Effects:
    changes = {**base_columns(case.row), **NO_LOCK, "plugin_state": "synced", "conflict": None, "user_id": case.user.id}
    if not case.user.is_email_verified:
        changes["base_email"] = None  # so that the row's address, too, is taken over
    note = ("user.password_changed", {"where": "in the game"})
    told = _password_change(case, "taken", case.row.hash, case.row.salt)
    return Effects(changes, NO_PASSWORD, ends_sessions=True, audit=(note,), password=told)


def _password_change(
    case: Case[Any], place: Literal["game", "taken"], new_hash: str, salt: str | None
) -> PasswordChange:
    """Return the change from the password that counted for the user so far."""
    known, before = case.account.sync_record, case.user.password
    if known is not None and known.base_hash is not None:
        before = StoredPassword(known.base_hash, known.base_salt, None)
    return PasswordChange(case.user.id, place, before, StoredPassword(new_hash, salt, None))


def _merge_row(context: SyncContext, case: Case[actions.Merge]) -> RowUpdate | None:
    return RowUpdate(case.action.player, case.action.to_player) if case.action.to_player else None


def claim_emails(cases: Cases[actions.Merge]) -> None:
    """Decide which of the users get the e-mails of their rows."""
    wanted = {case.user.id: case.action.takes_email for case in cases if case.action.takes_email is not None}
    claimed = claim_unverified(wanted)
    given_up = {case.user.email_key for case in cases if case.user.id in claimed}
    for case in cases:
        case.email = claimed.get(case.user.id)
        taken = find_real_email(case.action.takes_email) if case.email is None else None
        case.is_email_handed_over = taken is not None and taken.key in given_up


def _confirm_merge(case: Case[actions.Merge]) -> Effects:
    action, known, conflicts = case.action, case.account.sync_record, list(case.action.conflicts)
    email, is_handed_over = case.email, case.is_email_handed_over
    user: dict[str, Any] = {}
    audit: list[AuditNote] = []
    if case.result.is_email_refused:
        conflicts.append(actions.Conflict("email", "both", "refused"))
    if action.takes_password:
        user |= NO_PASSWORD
        audit.append(("user.password_changed", {"where": "in the game"}))
    if action.takes_realname is not None:
        user["username"] = action.takes_realname
    noted = find_real_email(action.takes_email) if email is None and not is_handed_over else email
    if noted is not None:  # without its key where it is another user's, which must not show
        user |= {"email": noted.display, "email_key": email and email.key, "is_email_verified": False}
        audit.append(("user.email_changed", {"where": "in the game"}))
    if action.takes_email is not None and email is None and not is_handed_over:
        conflicts.append(email_conflict(action.takes_email))
    audit += [("sync.conflict", {"field": one.field, "kept": one.kept}) for one in conflicts]
    standing: set[str] = {conflict.field for conflict in conflicts if conflict.kept == "both"}
    if known is not None and known.conflict:
        standing |= set(known.conflict.split(","))
    changes = {
        "plugin_state": "conflict" if standing else "synced",
        "conflict": ",".join(sorted(standing)) or None,
        **base_columns(case.row),
        **NO_LOCK,
    }
    if is_handed_over:
        del changes["base_email"]  # so that the account is merged once more
    told = _password_change(case, "game", case.row.hash, case.row.salt) if action.takes_password else None
    ends_sessions, all_conflicts = action.takes_password, tuple(conflicts)
    return Effects(changes, user, ends_sessions, tuple(audit), password=told, conflicts=all_conflicts)


def _confirm_missing(case: Case[actions.MarkMissing]) -> Effects:
    known = case.account.sync_record
    changes: dict[str, Any] = {"presence": GONE, "plugin_state": "absent", **NO_LOCK}
    if known is None or known.intent not in (PROVISION, PASSWORD):
        changes |= NO_INTENT  # else the row was requested again before we noticed that it was gone
    return Effects(changes, audit=(("sync.player_removed", None),))


def _confirm_state(case: Case[actions.UpdateState]) -> Effects:
    account, action, known = case.account, case.action, case.account.sync_record
    effects = state_effects(account, action.state)
    if action.presence is not None:
        effects |= Effects({"presence": action.presence})
    is_new = known is not None and known.plugin_state != action.state
    if account.player is not None and account.player.is_locked and known is not None and is_new:
        effects |= _lock_effects(account, known.lock_reason)  # a crash prevented it at the time
    if action.state == "conflict":
        is_own = account.own_player is not None
        effects |= Effects(conflicts=(actions.Conflict("name", "both", "unapproved" if is_own else "foreign"),))
    return effects


def collision_effects(account: Account) -> Effects:
    """Return the effects of a name that AuthMe's table considers equal to another one that it has. Audited once."""
    return Effects({"conflict": "name", **NO_INTENT}) | state_effects(account, "conflict")


STEPS: Final[dict[type, Step]] = {
    actions.Provision: Step(_confirm_insert, _promise_row, _insert_row, _may_insert),
    actions.RecordSynced: Step(_confirm_synced),
    actions.Lock: Step(_confirm_lock, _promise_lock, _lock_row),
    actions.EndPasswordlessLogin: Step(
        lambda case: _kicked_login(case.action.player) | Effects(kick=_lock_kick(case.user.status)),
        lambda case: Effects(_kept_login(case.account.sync_record, case.action.player)),
        _end_passwordless_login,
    ),
    actions.RestorePassword: Step(_confirm_restored, write=_unlock_row),
    actions.ReclaimRow: Step(_confirm_reclaimed, write=_reclaim_row),
    actions.TakeRow: Step(_confirm_taken, write=_unlock_row),
    actions.RemoveLock: Step(lambda case: Effects({"plugin_state": "conflict", **NO_LOCK}), write=_unlock_row),
    actions.Merge: Step(_confirm_merge, write=_merge_row, claims_email=True),
    actions.TakeEarlierPassword: Step(_confirm_merge, write=_merge_row, claims_email=True),
    actions.MarkMissing: Step(_confirm_missing),
    actions.MarkUnverifiedMissing: Step(_confirm_missing),
    actions.UpdateState: Step(_confirm_state),
    actions.Remove: Step(
        lambda case: Effects({"plugin_state": "absent"}), write=lambda context, case: RowDelete(case.action.player)
    ),
}
"""The other actions, which change our side alone and a list of accounts at once, are in `pages.OWN_STEPS`."""
