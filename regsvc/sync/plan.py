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


def decide(subject: Account, policy: Policy) -> Decision | None:
    """The next step for this name."""
    user = subject.user
    if user is None:
        return _without_user(subject, policy)
    if subject.known_as is not None:
        return RevertRename(user, subject.known_as)
    if user.username.lower() != user.username_key:
        return RevertRename(user, user.username_key)
    if user.status != user.applied_status:
        return _edit(subject, user, policy)
    if user.status == BANNED and user.ban_expires_at and user.ban_expires_at <= subject.now:
        return EndBan()
    if not policy.is_bridge_on:
        return None
    agreement = subject.agreement or SyncRecord(subject.key, user_id=user.id)
    if subject.player is None:
        return _without_player(user, agreement, policy)
    return _with_both(subject, user, agreement, subject.player, policy)


def own_password(user: UserRecord, policy: Policy) -> StoredPassword | None:
    """The password set through us, if AuthMe as it is configured now could verify it."""
    if user.password is None or user.password.algorithm not in policy.algorithms:
        return None
    return user.password


def password_to_give(user: UserRecord, agreement: SyncRecord, policy: Policy) -> StoredPassword | None:
    """What a row of this user is provisioned or opened with: set through us, else that of the last agreement."""
    own = own_password(user, policy)
    if own is not None:
        return own
    if agreement.base_hash is not None:
        return StoredPassword(agreement.base_hash, agreement.base_salt, None)
    return None


def row_wish(user: UserRecord, agreement: SyncRecord, player: PlayerRow | None, policy: Policy) -> str | None:
    """What somebody asks of the row who may say that this user is to play; None: nothing there is to be asked."""
    if not policy.is_bridge_on or password_to_give(user, agreement, policy) is None:
        return None
    if player is None:
        return PROVISION if policy.may_provision else None
    return OPEN if agreement.is_of_another_row(player) else None


def lock_after(adoption: Adopt, is_operator: bool, policy: Policy) -> Lock | None:
    """The lock that follows from the status a player is adopted with; None: the row stays as it is."""
    if adoption.status not in (PENDING, REJECTED) or is_operator or policy.unapproved_players == "report":
        return None
    return Lock(adoption.player, adoption.status, VERIFIED, "locked")


def _edit(subject: Account, user: UserRecord, policy: Policy) -> ApplySqlEdit:
    is_approval = user.status == APPROVED and user.applied_status in (PENDING, REJECTED)
    if not is_approval or subject.agreement is None:
        return ApplySqlEdit()
    return ApplySqlEdit(row_wish(user, subject.agreement, subject.player, policy))


def _without_user(subject: Account, policy: Policy) -> Decision | None:
    agreement, player = subject.agreement, subject.player
    if agreement is not None and agreement.user_id is not None:
        return MarkDeleted() if subject.renamed is None else RevertRename(subject.renamed, subject.key)
    if player is None:
        return None
    if agreement is not None and agreement.tombstone_at is not None and _is_buried(agreement, player):
        return Remove(player)
    if not policy.is_bridge_on or not is_findable(player.username):
        return None
    return _adoption(subject, player, policy)


def _is_buried(agreement: SyncRecord, player: PlayerRow) -> bool:
    buried = agreement.tombstone_hash
    if buried is None or player.registered_ms != in_milliseconds(agreement.tombstone_regdate):
        return False
    return player.hash in (buried, lock_text(buried))


def _adoption(subject: Account, player: PlayerRow, policy: Policy) -> Adopt:
    realname = player.known_realname
    username = realname if realname and realname.lower() == player.username else player.username
    if player.is_locked:
        return Adopt(player, username, BANNED, LOCKED_EARLIER)
    if subject.is_operator:
        return Adopt(player, username, APPROVED)
    was_first = (player.registered_ms or 0) < epoch_ms(policy.first_started_at)
    return Adopt(player, username, policy.existing_players if was_first else policy.new_players)


def _without_player(user: UserRecord, agreement: SyncRecord, policy: Policy) -> Decision | None:
    if agreement.presence == PRESENT:
        return MarkMissing()
    if user.status == APPROVED and policy.may_provision and _may_provision(agreement, policy):
        password = password_to_give(user, agreement, policy)
        if password is not None:
            return Provision(password)
    presence = "absent" if agreement.presence == UNASKED else None
    return _state(agreement, "absent", presence)


def _may_provision(agreement: SyncRecord, policy: Policy) -> bool:
    """A row that was there and went stays gone, unless somebody wants it back."""
    is_wanted = agreement.wish in (PROVISION, PASSWORD)
    return agreement.presence != GONE or is_wanted or policy.on_player_removed == "restore"


def _with_both(
    subject: Account, user: UserRecord, agreement: SyncRecord, player: PlayerRow, policy: Policy
) -> Decision | None:
    if agreement.is_own_wish(player):
        return Agree(player)
    appeared = agreement.is_of_another_row(player)
    if user.status == BANNED:
        return _locked(agreement, player, BANNED, "locked", appeared)
    if agreement.presence == UNASKED and _was_there_first(user, player):
        return _of_another(user, agreement, player)
    if user.status != APPROVED:
        state: PluginState = "conflict" if appeared else "locked"
        if subject.is_operator or policy.unapproved_players == "report":
            return _state(agreement, "conflict")
        return _locked(agreement, player, user.status, state, appeared)
    if appeared:
        return _returned(subject, user, agreement, player, policy)
    if player.is_locked:
        return _restoration(user, agreement, player, policy)
    merged = merge(user, agreement, player, own_password(user, policy), policy.conflict)
    return merged or _settled(user, agreement, player)


def _was_there_first(user: UserRecord, player: PlayerRow) -> bool:
    """A player whose registration nobody knows was there before anybody else."""
    return (player.registered_ms or 0) < epoch_ms(user.created_at)


def _of_another(user: UserRecord, agreement: SyncRecord, player: PlayerRow) -> Decision | None:
    """The row belongs to a player who was there before a user of this name registered without AuthMe."""
    if user.status == PENDING:
        return RejectNameConflict()
    if player.is_locked and agreement.kept_hash is not None:  # by a ban that is over
        return Unlock(player, StoredPassword(agreement.kept_hash, player.salt, None))
    return _state(agreement, "conflict")


def _locked(
    agreement: SyncRecord, player: PlayerRow, reason: str, state: PluginState, appeared: bool
) -> Decision | None:
    if player.is_locked:
        return _state(agreement, state)
    return Lock(player, reason, UNVERIFIED if appeared else VERIFIED, state)


def _returned(
    subject: Account, user: UserRecord, agreement: SyncRecord, player: PlayerRow, policy: Policy
) -> Decision | None:
    """An approved user's name that somebody unproven registered in the game."""
    password = None
    if agreement.wish == OPEN:
        password = password_to_give(user, agreement, policy)
    elif agreement.wish == PASSWORD:
        password = own_password(user, policy)
    if password is not None:
        return Open(player, password)
    if subject.is_operator or player.is_locked:
        return _state(agreement, "returned")
    return Lock(player, "returned", UNVERIFIED, "returned")


def _restoration(user: UserRecord, agreement: SyncRecord, player: PlayerRow, policy: Policy) -> Decision | None:
    """Our lock on a row that is the user's own: back to the password that is the newest of theirs."""
    own = own_password(user, policy)
    kept = agreement.kept_hash if agreement.kept_origin == VERIFIED else None
    hash_ = kept or locked_hash(player.hash) or agreement.base_hash
    if own is not None:
        return Restore(player, own)
    if hash_ is not None:
        return Restore(player, StoredPassword(hash_, player.salt, None))
    return _state(agreement, "locked")


def _settled(user: UserRecord, agreement: SyncRecord, player: PlayerRow) -> Decision | None:
    """No difference left; only what we wrote down of it may be behind."""
    conflict = standing_conflict(user, agreement, player)
    is_behind = (
        agreement.wish is not None
        or agreement.locked_at is not None
        or agreement.plugin_state != ("conflict" if conflict else "synced")
        or agreement.conflict != conflict
        or agreement.base_hash != player.hash
        or agreement.base_regdate != player.regdate
        or known_email(agreement.base_email) != player.known_email
        or agreement.base_realname != player.realname
    )
    return Agree(player, conflict) if is_behind else None


def _state(agreement: SyncRecord, state: PluginState, presence: str | None = None) -> UpdateState | None:
    if agreement.plugin_state == state and presence is None:
        return None
    return UpdateState(state, presence)
