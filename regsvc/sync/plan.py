"""What should be, for one name: pure, records in, a decision out. None when everything is as it should be.

A decision is one step. Whoever carries it out asks again until there is none left.
"""

from plugin_bridge.authme.players import PlayerRow, in_milliseconds, is_findable, known_email, lock_text, locked_hash
from regsvc.auth.hashing import StoredPassword
from regsvc.core.clock import epoch_ms
from regsvc.database.models import (
    APPROVED,
    BANNED,
    GONE,
    OPEN,
    PASSWORD,
    PENDING,
    PRESENT,
    PROVISION,
    REJECTED,
    UNASKED,
    UNVERIFIED,
    VERIFIED,
    PluginState,
)
from regsvc.sync.decisions import (
    Adopt,
    Agree,
    ApplySqlEdit,
    Decision,
    EndBan,
    Lock,
    MarkDeleted,
    MarkMissing,
    Open,
    Provision,
    RejectNameConflict,
    Remove,
    Restore,
    RevertRename,
    Unlock,
    UpdateState,
)
from regsvc.sync.merge import merge, standing_conflict
from regsvc.sync.records import Account, Policy, SyncRecord, UserRecord

LOCKED_EARLIER = "locked by an earlier installation"


def decide(account: Account, policy: Policy) -> Decision | None:
    """The next step for this name."""
    user = account.user
    if user is None:
        return _without_user(account, policy)
    if account.known_as is not None:
        return RevertRename(user, account.known_as)
    if user.username.lower() != user.username_key:
        return RevertRename(user, user.username_key)
    if user.status != user.applied_status:
        return _edit(account, user, policy)
    if user.status == BANNED and user.ban_expires_at and user.ban_expires_at <= account.now:
        return EndBan()
    if not policy.is_bridge_on:
        return None
    sync_record = account.sync_record or SyncRecord(account.key, user_id=user.id)
    if account.player is None:
        return _without_player(user, sync_record, policy)
    return _with_both(account, user, sync_record, account.player, policy)


def own_password(user: UserRecord, policy: Policy) -> StoredPassword | None:
    """The password set through us, if AuthMe as it is configured now could verify it."""
    if user.password is None or user.password.algorithm not in policy.algorithms:
        return None
    return user.password


def password_for_row(user: UserRecord, sync_record: SyncRecord, policy: Policy) -> StoredPassword | None:
    """What a row of this user is provisioned or opened with: set through us, else that of the last agreement."""
    own = own_password(user, policy)
    if own is not None:
        return own
    if sync_record.base_hash is not None:
        return StoredPassword(sync_record.base_hash, sync_record.base_salt, None)
    return None


def row_intent(user: UserRecord, sync_record: SyncRecord, player: PlayerRow | None, policy: Policy) -> str | None:
    """What somebody asks of the row who may say that this user is to play; None: nothing there is to be asked."""
    if not policy.is_bridge_on or password_for_row(user, sync_record, policy) is None:
        return None
    if player is None:
        return PROVISION if policy.may_provision else None
    return OPEN if sync_record.is_different_row(player) else None


def lock_after(adoption: Adopt, is_operator: bool, policy: Policy) -> Lock | None:
    """The lock that follows from the status a player is adopted with; None: the row stays as it is."""
    if adoption.status not in (PENDING, REJECTED) or is_operator or policy.unapproved_players == "report":
        return None
    return Lock(adoption.player, adoption.status, VERIFIED, "locked")


def _edit(account: Account, user: UserRecord, policy: Policy) -> ApplySqlEdit:
    is_approval = user.status == APPROVED and user.applied_status in (PENDING, REJECTED)
    if not is_approval or account.sync_record is None:
        return ApplySqlEdit()
    return ApplySqlEdit(row_intent(user, account.sync_record, account.player, policy))


def _without_user(account: Account, policy: Policy) -> Decision | None:
    sync_record, player = account.sync_record, account.player
    if sync_record is not None and sync_record.user_id is not None:
        return MarkDeleted() if account.renamed is None else RevertRename(account.renamed, account.key)
    if player is None:
        return None
    if sync_record is not None and sync_record.tombstone_at is not None and _is_buried(sync_record, player):
        return Remove(player)
    if not policy.is_bridge_on or not is_findable(player.username):
        return None
    return _adoption(account, player, policy)


def _is_buried(sync_record: SyncRecord, player: PlayerRow) -> bool:
    buried = sync_record.tombstone_hash
    if buried is None or player.registered_ms != in_milliseconds(sync_record.tombstone_regdate):
        return False
    return player.hash in (buried, lock_text(buried))


def _adoption(account: Account, player: PlayerRow, policy: Policy) -> Adopt:
    realname = player.known_realname
    username = realname if realname and realname.lower() == player.username else player.username
    if player.is_locked:
        return Adopt(player, username, BANNED, LOCKED_EARLIER)
    if account.is_operator:
        return Adopt(player, username, APPROVED)
    was_first = (player.registered_ms or 0) < epoch_ms(policy.first_started_at)
    return Adopt(player, username, policy.existing_players if was_first else policy.new_players)


def _without_player(user: UserRecord, sync_record: SyncRecord, policy: Policy) -> Decision | None:
    if sync_record.presence == PRESENT:
        return MarkMissing()
    if user.status == APPROVED and policy.may_provision and _may_provision(sync_record, policy):
        password = password_for_row(user, sync_record, policy)
        if password is not None:
            return Provision(password)
    presence = "absent" if sync_record.presence == UNASKED else None
    return _state(sync_record, "absent", presence)


def _may_provision(sync_record: SyncRecord, policy: Policy) -> bool:
    """A row that was there and went stays gone, unless somebody wants it back."""
    is_wanted = sync_record.intent in (PROVISION, PASSWORD)
    return sync_record.presence != GONE or is_wanted or policy.on_player_removed == "restore"


def _with_both(
    account: Account, user: UserRecord, sync_record: SyncRecord, player: PlayerRow, policy: Policy
) -> Decision | None:
    if sync_record.is_own_insert(player):
        return Agree(player)
    appeared = sync_record.is_different_row(player)
    if user.status == BANNED:
        return _locked(sync_record, player, BANNED, "locked", appeared)
    if sync_record.presence == UNASKED and _was_there_first(user, player):
        return _of_another(user, sync_record, player)
    if user.status != APPROVED:
        state: PluginState = "conflict" if appeared else "locked"
        if account.is_operator or policy.unapproved_players == "report":
            return _state(sync_record, "conflict")
        return _locked(sync_record, player, user.status, state, appeared)
    if appeared:
        return _returned(account, user, sync_record, player, policy)
    if player.is_locked:
        return _restoration(user, sync_record, player, policy)
    merged = merge(user, sync_record, player, own_password(user, policy), policy.conflict)
    return merged or _settled(user, sync_record, player)


def _was_there_first(user: UserRecord, player: PlayerRow) -> bool:
    """A player whose registration nobody knows was there before anybody else."""
    return (player.registered_ms or 0) < epoch_ms(user.created_at)


def _of_another(user: UserRecord, sync_record: SyncRecord, player: PlayerRow) -> Decision | None:
    """The row belongs to a player who was there before a user of this name registered without AuthMe."""
    if user.status == PENDING:
        return RejectNameConflict()
    if player.is_locked and sync_record.kept_hash is not None:  # by a ban that is over
        return Unlock(player, StoredPassword(sync_record.kept_hash, player.salt, None))
    return _state(sync_record, "conflict")


def _locked(
    sync_record: SyncRecord, player: PlayerRow, reason: str, state: PluginState, appeared: bool
) -> Decision | None:
    if player.is_locked:
        return _state(sync_record, state)
    return Lock(player, reason, UNVERIFIED if appeared else VERIFIED, state)


def _returned(
    account: Account, user: UserRecord, sync_record: SyncRecord, player: PlayerRow, policy: Policy
) -> Decision | None:
    """An approved user's name that somebody unproven registered in the game."""
    password = None
    if sync_record.intent == OPEN:
        password = password_for_row(user, sync_record, policy)
    elif sync_record.intent == PASSWORD:
        password = own_password(user, policy)
    if password is not None:
        return Open(player, password)
    if account.is_operator or player.is_locked:
        return _state(sync_record, "returned")
    return Lock(player, "returned", UNVERIFIED, "returned")


def _restoration(user: UserRecord, sync_record: SyncRecord, player: PlayerRow, policy: Policy) -> Decision | None:
    """Our lock on a row that is the user's own: back to the password that is the newest of theirs."""
    own = own_password(user, policy)
    kept = sync_record.kept_hash if sync_record.kept_origin == VERIFIED else None
    hash_ = kept or locked_hash(player.hash) or sync_record.base_hash
    if own is not None:
        return Restore(player, own)
    if hash_ is not None:
        return Restore(player, StoredPassword(hash_, player.salt, None))
    return _state(sync_record, "locked")


def _settled(user: UserRecord, sync_record: SyncRecord, player: PlayerRow) -> Decision | None:
    """No difference left; only what we wrote down of it may be behind."""
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
    return Agree(player, conflict) if is_behind else None


def _state(sync_record: SyncRecord, state: PluginState, presence: str | None = None) -> UpdateState | None:
    if sync_record.plugin_state == state and presence is None:
        return None
    return UpdateState(state, presence)
