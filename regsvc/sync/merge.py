"""Three-way merge of an approved user with the player's row, on the last synced state as the base."""

from collections.abc import Mapping

from plugin_bridge.authme.lenient_sqlite import UNREADABLE
from plugin_bridge.authme.players import PlayerRow, known_email
from regsvc.auth.hashing import StoredPassword
from regsvc.core.email_address import EmailAddress, parse_email
from regsvc.core.errors import Refusal
from regsvc.database.models import PASSWORD
from regsvc.sync.actions import Conflict, Merge
from regsvc.sync.records import SyncValues, UserRecord
from regsvc.users.email_owners import Claimant, grant_unverified


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
    if user_changed and not player_changed and has_conflict(base, "email"):
        return None  # reported once: the base moved to the game's value, so that ours looks changed
    if user_changed and (not player_changed or policy == "companion"):
        conflicts = (Conflict("email", "companion"),) if player_changed else ()
        return Merge(player, to_player={"email": ours}, conflicts=conflicts)
    if player_changed:  # the game does not verify e-mails: our verified one stays
        return Merge(player, conflicts=(Conflict("email", "both", "unproven"),))
    return None


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


def claim_unverified(wanted: Mapping[Claimant, str]) -> dict[Claimant, EmailAddress]:
    """Return the claimants who get the e-mail of their row, as an address: it is valid, and `grant_unverified`."""
    found = {claimant: address for claimant, raw in wanted.items() if (address := find_real_email(raw)) is not None}
    return grant_unverified(found)


def email_conflict(raw: str) -> Conflict:
    """Return the conflict about the e-mail of a row that `claim_unverified` grants nobody."""
    return Conflict("email", "both", "invalid" if find_real_email(raw) is None else "taken")


def find_real_email(raw: str | None) -> EmailAddress | None:
    """Return the address in AuthMe's column, or None if it is empty or holds no valid address."""
    if raw is None or UNREADABLE in raw:
        return None
    try:
        return parse_email(raw)
    except Refusal:
        return None
