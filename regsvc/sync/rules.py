"""The rules of the sync as pure functions: records of one name in, the next action out.

`pages` applies the action and asks again until there is nothing left to do.
"""

from dataclasses import replace

from plugin_bridge.authme.players import PlayerRow, in_milliseconds, is_findable, known_email, lock_text, locked_hash
from regsvc.auth.hashing import StoredPassword
from regsvc.core.clock import epoch_ms
from regsvc.database.models import (
    APPROVED,
    BANNED,
    ENDED,
    GONE,
    OPEN,
    PASSWORD,
    PENDING,
    PRESENT,
    PROVISION,
    UNASKED,
    UNVERIFIED,
    VERIFIED,
    PluginState,
)
from regsvc.sync import actions
from regsvc.sync.actions import Merge, SyncAction
from regsvc.sync.bulk_actions import (
    NO_REQUEST,
    Adopt,
    ApplyMembershipEdit,
    ApplySqlEdit,
    EndBan,
    EndMembership,
    ForgetLapse,
    KeepMembership,
    MarkDeleted,
    RejectNameConflict,
    RevertRename,
    RowRequest,
)
from regsvc.sync.effects import Conflict
from regsvc.sync.records import Account, Policy, SyncValues, UserRecord
from regsvc.users.gates import find_membership_edit, membership


def merge(
    user: UserRecord, base: SyncValues, player: PlayerRow, own: StoredPassword | None, policy: str
) -> Merge | None:
    """Return what has to be copied to either side, or None when neither changed.

    `own` is the password set through us, or None if AuthMe could not verify it; `policy` is `sync.conflict`.
    """
    password, email = _merge_password(base, player, own, policy), _merge_email(user, base, player, policy)
    parts = list(filter(None, (password, email, _merge_realname(user, base, player))))
    if len(parts) < 2:
        return parts[0] if parts else None
    return Merge(
        player,
        to_player={name: value for part in parts for name, value in part.to_player.items()},
        takes_password=any(part.takes_password for part in parts),
        takes_email=next((part.takes_email for part in parts if part.takes_email is not None), None),
        takes_realname=next((part.takes_realname for part in parts if part.takes_realname is not None), None),
        conflicts=tuple(conflict for part in parts for conflict in part.conflicts),
    )


def _merge_password(base: SyncValues, player: PlayerRow, own: StoredPassword | None, policy: str) -> Merge | None:
    is_same = own is not None and (own.hash, own.salt) == (player.hash, player.salt)
    if is_same:
        return None
    player_changed = (base.base_hash, base.base_salt) != (player.hash, player.salt)
    user_changed = own is not None and own.hash != base.base_hash
    if own is not None and base.intent == PASSWORD:
        return _write_password(player, own)  # just set through us: the newest one, whatever the base is
    if own is not None and user_changed and player_changed:
        if policy == "companion":
            return _write_password(player, own, Conflict("password", "companion"))
        return Merge(player, takes_password=True, conflicts=(Conflict("password", "plugin"),))
    if player_changed:
        return Merge(player, takes_password=True)
    if own is not None and user_changed:
        return _write_password(player, own)
    return None


def _write_password(player: PlayerRow, own: StoredPassword, *conflicts: Conflict) -> Merge:
    # an open session in the game does not look at the password
    return Merge(player, to_player={"hash": own.hash, "salt": own.salt, "has_session": 0}, conflicts=conflicts)


def _merge_email(user: UserRecord, base: SyncValues, player: PlayerRow, policy: str) -> Merge | None:
    theirs, last_email, ours = player.known_email, known_email(base.base_email), user.owned_email
    if _same_email(theirs, ours):
        return None
    if theirs is None and last_email is None and has_conflict(base, "email"):
        return None  # AuthMe's table cannot hold ours, which was reported once
    if theirs is None:
        # the row has none, or none any more: a verified address is worth writing, an unverified one is not
        return Merge(player, to_player={"email": ours}) if user.is_email_verified else None
    player_changed = not _same_email(theirs, last_email)
    user_changed = not _same_email(ours, last_email)
    if not user.is_email_verified:
        return Merge(player, takes_email=theirs) if player_changed else None
    if not player_changed and has_conflict(base, "email"):
        return None  # reported once: the base moved to the game's value, so that ours looks changed
    if user_changed and (not player_changed or policy == "companion"):
        conflicts = (Conflict("email", "companion"),) if player_changed else ()
        return Merge(player, to_player={"email": ours}, conflicts=conflicts)
    # the game does not verify e-mails: our verified one stays
    return Merge(player, conflicts=(Conflict("email", "both", "unproven"),))


def has_conflict(base: SyncValues, field: str) -> bool:
    """Return whether this field was in conflict when the accounts were last synced."""
    return base.conflict is not None and field in base.conflict.split(",")


def standing_conflict(user: UserRecord, base: SyncValues, player: PlayerRow) -> str | None:
    """Return the recorded conflicts in which the two sides still differ, joined by commas, or None."""
    standing = []
    if has_conflict(base, "email") and not _same_email(player.known_email, user.owned_email):
        standing.append("email")
    if has_conflict(base, "realname") and player.known_realname not in (None, user.username):
        standing.append("realname")
    return ",".join(standing) or None


def _same_email(one: str | None, other: str | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.strip().lower() == other.strip().lower()


def _merge_realname(user: UserRecord, base: SyncValues, player: PlayerRow) -> Merge | None:
    theirs = player.known_realname
    if theirs is None or theirs == user.username:
        return None
    if theirs == base.base_realname:
        is_same_name = theirs.lower() == user.username.lower()  # then it was changed on our side
        return Merge(player, to_player={"realname": user.username}) if is_same_name else None
    if theirs.lower() == user.username_key:
        return Merge(player, takes_realname=theirs)
    return Merge(player, conflicts=(Conflict("realname", "both"),))


LOCKED_EARLIER = "locked by an earlier installation"
"""Reason of the ban that a player is adopted with whose row already bears our lock."""


def decide(account: Account, policy: Policy, *, may_end: bool = True) -> SyncAction | None:
    """Return the next action for this name, or None when both sides are in sync.

    `may_end`: whether a membership that is due may end; if not, the rest is decided as if it were not due.
    """
    user = account.user
    if user is None:
        return _without_user(account, policy) if account.is_player_known else None
    if account.known_as is not None:
        return RevertRename(user, account.known_as)
    if user.username.lower() != user.username_key:
        return RevertRename(user, user.username_key)
    if user.status != user.applied_status:
        return ApplySqlEdit(_request_if_approved(user.status, account, policy))
    if user.status == BANNED and user.ban_expires_at and user.ban_expires_at <= account.now:
        return EndBan(_request_if_approved(user.status_without_ban, account, policy))
    changed = _change_membership(account, user, policy)
    if changed is not None and (may_end or not isinstance(changed, EndMembership)):
        return changed
    if not policy.is_bridge_on or not account.is_player_known:
        return None
    sync_record, player = account.sync_record or SyncValues(account.key, user_id=user.id), account.player
    if player is None and sync_record.presence == PRESENT:
        is_authmes = _is_deleted_by_authme(account, sync_record, policy)
        return actions.MarkUnverifiedMissing() if is_authmes else actions.MarkMissing()
    if player is None:
        return _without_player(user, sync_record, policy)
    action = _with_both(account, user, sync_record, player, policy)
    stays_locked = player.is_locked and (action is None or isinstance(action, actions.UpdateState))
    if stays_locked and (player.admits_without_password or sync_record.has_new_login(player)):
        return actions.EndPasswordlessLogin(player)
    return action


def _change_membership(account: Account, user: UserRecord, policy: Policy) -> SyncAction | None:
    """Return the action on a membership that was edited in SQL, is due to end, or must not end; None: nothing is."""
    edit, state = find_membership_edit(user, account.now), membership(user, account.now)
    if edit is not None:
        is_open = edit == "renewed" or user.ended_because is None
        return ApplyMembershipEdit(request_row(account, policy) if is_open else NO_REQUEST)
    is_due = state is not None and state.ends_at is not None and state.ends_at <= account.now
    if state is None or not (is_due or state.state == "ended"):
        return None
    if account.is_operator or user.role is not None:
        return KeepMembership(request_row(account, policy))
    if not is_due or state.because is None:
        return None
    if state.because == "role" and not policy.looks_at_roles:
        return ForgetLapse()
    if state.because == "idle" and not _is_idle(account, policy):
        return ForgetLapse() if policy.idle is None else None
    return EndMembership(state.because)


def _is_idle(account: Account, policy: Policy) -> bool:
    """Return whether idleness ends memberships, and the player is known not to be logged in."""
    if policy.idle is None or (policy.is_bridge_on and not account.is_player_known):
        return False
    player = account.player
    return player is None or not player.is_logged


def own_password(user: UserRecord, policy: Policy) -> StoredPassword | None:
    """Return the password set through us, or None if AuthMe as it is configured now could not verify it."""
    if user.password is None or user.password.algorithm not in policy.algorithms:
        return None
    return user.password


def password_for_row(user: UserRecord, sync_record: SyncValues, policy: Policy) -> StoredPassword | None:
    """Return the password to provision or reclaim a row with: the one set through us, else the last synced one."""
    own = own_password(user, policy)
    if own is not None:
        return own
    if sync_record.base_hash is not None:
        return StoredPassword(sync_record.base_hash, sync_record.base_salt, None)
    return None


def row_intent(account: Account, policy: Policy) -> str | None:
    """Return the intent to record when it is decided that this user may play; None if the row needs nothing."""
    user, sync_record, player = account.user, account.sync_record, account.player
    if user is None or sync_record is None or not policy.is_bridge_on:
        return None
    if not account.is_player_known:
        return OPEN if sync_record.kept_origin == UNVERIFIED else PROVISION
    if password_for_row(user, sync_record, policy) is None:
        return None
    if player is None:
        return PROVISION if policy.may_provision else None
    return OPEN if sync_record.is_different_row(player) else None


def request_row(account: Account, policy: Policy) -> RowRequest:
    """Return what a decision that this user may play requests of the row; the account is as it was before.

    Every such decision asks here: an approval, the end of a ban, both of them in SQL, the allowlist, an import. Only an
    approval through us can say which password counts where the row was registered anew; after any other decision such
    a row stays locked until that is said, or a password is set.
    """
    user, sync_record, player = account.user, account.sync_record, account.player
    if user is None or sync_record is None or not policy.is_bridge_on:
        return NO_REQUEST
    if is_registered_anew(account, policy):
        return RowRequest(needs_password=True)
    if player is None or sync_record.is_different_row(player):
        needs_password = password_for_row(user, sync_record, policy) is None
        if player is None and account.is_player_known and not policy.may_provision:
            needs_password = False  # which would not help: the forum inserts the rows
    else:
        under_lock = _find_password_under_lock(user, sync_record, player, policy)
        needs_password = player.is_locked and under_lock is None
    return RowRequest(row_intent(account, policy), needs_password)


def _request_if_approved(status: str, account: Account, policy: Policy) -> RowRequest:
    is_member = status == APPROVED and account.user is not None and account.user.ended_because is None
    return request_row(account, policy) if is_member else NO_REQUEST


def is_registered_anew(account: Account, policy: Policy) -> bool:
    """Return whether the row of a user who could play is another by now, registered in the game under the name.

    The same person may have done that, with a new password, because they had forgotten the old one: an approval must
    say which password counts. The last known state counts while the row cannot be read. A registration that was never
    approved, and never had a row, is not meant: the password chosen with it counts.
    """
    user, sync_record, player = account.user, account.sync_record, account.player
    if user is None or sync_record is None or not policy.is_bridge_on:
        return False
    is_approved, had_row = user.status_without_ban == APPROVED, sync_record.base_hash is not None
    if not account.is_player_known:
        is_locked = had_row and sync_record.kept_origin == UNVERIFIED
        return is_locked or (is_approved and sync_record.plugin_state == "returned")
    if player is None or sync_record.is_own_insert(player) or not sync_record.is_different_row(player):
        return False
    is_earlier_player = sync_record.presence == UNASKED and _registered_before(user, player)
    return (is_approved or had_row) and not is_earlier_player


def find_new_hash(account: Account) -> str | None:
    """Return the hash of the password that a row was registered anew with, locked or not; None if it is not known."""
    sync_record, player = account.sync_record, account.player
    kept = sync_record.kept_hash if sync_record is not None and sync_record.kept_origin == UNVERIFIED else None
    if player is None:
        return kept
    if not player.is_locked:
        return player.hash
    return kept if kept is not None and player.hash == lock_text(kept) else locked_hash(player.hash)


def _locks_unapproved(is_operator: bool, policy: Policy) -> bool:
    """Return whether the row of a pending or rejected user is locked, rather than only reported."""
    return not is_operator and policy.unapproved_players != "report"


def _without_user(account: Account, policy: Policy) -> SyncAction | None:
    sync_record, player = account.sync_record, account.player
    if sync_record is not None and sync_record.user_id is not None:
        return MarkDeleted() if account.renamed is None else RevertRename(account.renamed, account.key)
    if player is None:
        return None
    if sync_record is not None and sync_record.tombstone_at is not None and _matches_tombstone(sync_record, player):
        return actions.Remove(player)
    if not policy.is_bridge_on or not is_findable(player.username):
        return None
    return _adopt(account, player, policy)


def _matches_tombstone(sync_record: SyncValues, player: PlayerRow) -> bool:
    hash_ = sync_record.tombstone_hash
    if hash_ is None or player.registered_ms != in_milliseconds(sync_record.tombstone_regdate):
        return False
    return player.hash in (hash_, lock_text(hash_))


def _adopt(account: Account, player: PlayerRow, policy: Policy) -> Adopt:
    realname = player.known_realname
    username = realname if realname and realname.lower() == player.username else player.username
    if player.is_locked:
        return Adopt(player, username, BANNED, LOCKED_EARLIER)
    was_first = (player.registered_ms or 0) < epoch_ms(policy.first_started_at)
    if account.is_operator:  # a name in ops.json without a row is free for any player to register in the game
        return Adopt(player, username, APPROVED if was_first else PENDING)
    return Adopt(player, username, policy.existing_players if was_first else policy.new_players)


def returns(account: Account, policy: Policy) -> bool:
    """Return whether a row that is gone would be inserted again (`sync.on_player_removed`)."""
    user, sync_record = account.user, account.sync_record
    if user is None or sync_record is None:
        return False
    return isinstance(_without_player(user, replace(sync_record, presence=GONE), policy), actions.Provision)


def _without_player(user: UserRecord, sync_record: SyncValues, policy: Policy) -> SyncAction | None:
    # a row that disappeared stays gone until it is requested, unless the host wants such rows restored
    is_requested = sync_record.intent in (PROVISION, PASSWORD)
    is_wanted = sync_record.presence != GONE or is_requested or policy.on_player_removed == "restore"
    if user.access == APPROVED and policy.may_provision and is_wanted:
        password = password_for_row(user, sync_record, policy)
        if password is not None:
            return actions.Provision(password)
    presence = "absent" if sync_record.presence == UNASKED else None
    return _update_state(sync_record, "absent", presence)


def _is_deleted_by_authme(account: Account, sync_record: SyncValues, policy: Policy) -> bool:
    """Return whether the row is as old as those that AuthMe deletes by itself, and was registered in the game.

    AuthMe counts ticks, of which a busy game server makes half as many, and the run comes later; clocks differ.
    """
    registered, minutes = in_milliseconds(sync_record.base_regdate), policy.unverified_minutes
    has_own_password = account.user is not None and account.user.password is not None
    if not minutes or not registered or has_own_password:
        return False
    return minutes - 1 <= (epoch_ms(account.now) - registered) / 60_000 <= 2 * minutes + 5


def _with_both(
    account: Account, user: UserRecord, sync_record: SyncValues, player: PlayerRow, policy: Policy
) -> SyncAction | None:
    if sync_record.is_own_insert(player):
        return actions.RecordSynced(player)
    is_foreign = sync_record.is_different_row(player)
    if user.status == BANNED:
        return _keep_locked(sync_record, player, BANNED, "locked", is_foreign)
    if sync_record.presence == UNASKED and _registered_before(user, player):
        return _row_of_earlier_player(user, sync_record, player)
    if user.access != APPROVED:
        state: PluginState = "conflict" if is_foreign else "locked"
        if user.access != ENDED and not _locks_unapproved(account.is_operator, policy):
            return _update_state(sync_record, "conflict")
        return _keep_locked(sync_record, player, user.access, state, is_foreign)
    if is_foreign:
        return _foreign_row(account, user, sync_record, player, policy)
    if player.is_locked:
        return _restore(user, sync_record, player, policy)
    merged = merge(user, sync_record, player, own_password(user, policy), policy.conflict)
    if merged is not None and merged.takes_password and sync_record.had_earlier(player.hash):
        return actions.TakeEarlierPassword(**vars(merged))
    return merged or _record_if_behind(user, sync_record, player)


def _registered_before(user: UserRecord, player: PlayerRow) -> bool:
    """Return whether the player registered before the user; an unknown registration time counts as earliest."""
    return (player.registered_ms or 0) < epoch_ms(user.created_at)


def _row_of_earlier_player(user: UserRecord, sync_record: SyncValues, player: PlayerRow) -> SyncAction | None:
    """Handle the row of a player who registered before this user did while AuthMe could not be asked."""
    if user.status == PENDING:
        return RejectNameConflict()
    if player.is_locked and sync_record.kept_hash is not None:  # by a ban that is over
        return actions.RemoveLock(player, StoredPassword(sync_record.kept_hash, player.salt, None))
    return _update_state(sync_record, "conflict")


def _keep_locked(
    sync_record: SyncValues, player: PlayerRow, reason: str, state: PluginState, is_foreign: bool
) -> SyncAction | None:
    if player.is_locked:
        return _update_state(sync_record, state)
    return actions.Lock(player, reason, UNVERIFIED if is_foreign else VERIFIED, state)


def _foreign_row(
    account: Account, user: UserRecord, sync_record: SyncValues, player: PlayerRow, policy: Policy
) -> SyncAction | None:
    """Handle a row that an unverified player registered in the game under an approved user's name."""
    password = None
    if sync_record.taken_hash is not None:
        if player.hash in (sync_record.taken_hash, lock_text(sync_record.taken_hash)):
            return actions.TakeRow(player, StoredPassword(sync_record.taken_hash, player.salt, None))
    elif sync_record.intent in (OPEN, PROVISION):  # the row came before the one that an approval had requested
        password = password_for_row(user, sync_record, policy)
        if password is not None and sync_record.intent == PROVISION and password.hash == sync_record.base_hash:
            password = None  # the row that was gone was requested, but the player has registered anew meanwhile
    elif sync_record.intent == PASSWORD:
        password = own_password(user, policy)
    if password is not None:
        return actions.ReclaimRow(player, password)
    if account.is_operator or player.is_locked:
        return _update_state(sync_record, "returned")
    return actions.Lock(player, "returned", UNVERIFIED, "returned")


def _restore(user: UserRecord, sync_record: SyncValues, player: PlayerRow, policy: Policy) -> SyncAction | None:
    """Replace our lock on the user's own row with the newest of the user's passwords."""
    password = _find_password_under_lock(user, sync_record, player, policy)
    return _update_state(sync_record, "locked") if password is None else actions.RestorePassword(player, password)


def _find_password_under_lock(
    user: UserRecord, sync_record: SyncValues, player: PlayerRow, policy: Policy
) -> StoredPassword | None:
    """Return the newest password known for the user's own, locked row, or None."""
    own = own_password(user, policy)
    if own is not None:
        return own
    kept = sync_record.kept_hash if sync_record.kept_origin == VERIFIED else None
    hash_ = kept or locked_hash(player.hash) or sync_record.base_hash
    return None if hash_ is None else StoredPassword(hash_, player.salt, None)


def _record_if_behind(user: UserRecord, sync_record: SyncValues, player: PlayerRow) -> SyncAction | None:
    """Both sides are equal; return `RecordSynced` where the sync record does not say so yet, else None."""
    conflict = standing_conflict(user, sync_record, player)
    is_behind = (
        sync_record.intent is not None
        or sync_record.locked_at is not None
        or sync_record.plugin_state != ("conflict" if conflict else "synced")
        or sync_record.conflict != conflict
        or sync_record.base_hash != player.hash
        or sync_record.base_regdate != player.regdate
        or known_email(sync_record.base_email) != player.known_email
        or sync_record.base_realname != player.realname
    )
    return actions.RecordSynced(player, conflict) if is_behind else None


def _update_state(sync_record: SyncValues, state: PluginState, presence: str | None = None) -> SyncAction | None:
    if sync_record.plugin_state == state and presence is None:
        return None
    return actions.UpdateState(state, presence)
