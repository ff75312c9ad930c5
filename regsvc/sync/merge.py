"""The three-way merge of one approved user with the row of the last agreement: ours, theirs, and the base."""

from plugin_bridge.authme.players import PlayerRow, known_email
from regsvc.auth.hashing import StoredPassword
from regsvc.database.models import PASSWORD
from regsvc.sync.decisions import Conflict, Merge
from regsvc.sync.records import SyncRecord, UserRecord


def merge(
    user: UserRecord, base: SyncRecord, player: PlayerRow, own: StoredPassword | None, policy: str
) -> Merge | None:
    """What to bring over, or None when neither side changed.

    `own` is the password set through us, if AuthMe could verify it; `policy` is `sync.conflict`.
    """
    password = _merge_password(base, player, own, policy)
    email = _merge_email(user, base, player, policy)
    realname = _merge_realname(user, base, player)
    merged = Merge(
        player,
        to_player={**password.to_player, **email.to_player, **realname.to_player},
        takes_password=password.takes_password,
        takes_email=email.takes_email,
        takes_realname=realname.takes_realname,
        conflicts=password.conflicts + email.conflicts + realname.conflicts,
    )
    return None if merged == Merge(player) else merged


def _merge_password(base: SyncRecord, player: PlayerRow, own: StoredPassword | None, policy: str) -> Merge:
    ours_is_theirs = own is not None and (own.hash, own.salt) == (player.hash, player.salt)
    if ours_is_theirs:
        return Merge(player)
    they_changed = (base.base_hash, base.base_salt) != (player.hash, player.salt)
    we_changed = own is not None and own.hash != base.base_hash
    if own is not None and base.intent == PASSWORD:
        return _write_password(player, own)  # set through us: the newest word, whatever the base was
    if own is not None and we_changed and they_changed:
        if policy == "companion":
            written = _write_password(player, own)
            return Merge(player, written.to_player, conflicts=(Conflict("password", "companion"),))
        return Merge(player, takes_password=True, conflicts=(Conflict("password", "plugin"),))
    if they_changed:
        return Merge(player, takes_password=True)
    if own is not None and we_changed:
        return _write_password(player, own)
    return Merge(player)


def _write_password(player: PlayerRow, own: StoredPassword) -> Merge:
    # an open session in the game does not look at the password
    return Merge(player, to_player={"hash": own.hash, "salt": own.salt, "has_session": 0})


def _merge_email(user: UserRecord, base: SyncRecord, player: PlayerRow, policy: str) -> Merge:
    theirs, agreed, ours = player.known_email, known_email(base.base_email), user.email
    if _same_email(theirs, ours):
        return Merge(player)
    if theirs is None and agreed is None and has_conflict(base, "email"):
        return Merge(player)  # their table cannot hold ours, told once
    if theirs is None:
        # theirs is gone or was never there: a proven address is worth writing, an unproven one is not
        return Merge(player, to_player={"email": ours}) if user.is_email_verified else Merge(player)
    they_changed = not _same_email(theirs, agreed)
    we_changed = not _same_email(ours, agreed)
    if not user.is_email_verified:
        return Merge(player, takes_email=theirs) if they_changed else Merge(player)
    if we_changed and not they_changed and has_conflict(base, "email"):
        return Merge(player)  # told once, and left as it is
    if we_changed and (not they_changed or policy == "companion"):
        conflicts = (Conflict("email", "companion"),) if they_changed else ()
        return Merge(player, to_player={"email": ours}, conflicts=conflicts)
    if they_changed:  # the game proves no e-mail: a proven one keeps its place
        return Merge(player, conflicts=(Conflict("email", "both"),))
    return Merge(player)


def has_conflict(base: SyncRecord, field: str) -> bool:
    """Whether this field is one the two sides could not agree on at the last agreement."""
    return base.conflict is not None and field in base.conflict.split(",")


def standing_conflict(user: UserRecord, base: SyncRecord, player: PlayerRow) -> str | None:
    """Of the fields that the two sides could not agree on, those they still differ in, joined by commas."""
    standing = []
    if has_conflict(base, "email") and not _same_email(player.known_email, user.email):
        standing.append("email")
    if has_conflict(base, "realname") and player.known_realname not in (None, user.username):
        standing.append("realname")
    return ",".join(standing) or None


def _same_email(one: str | None, other: str | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.strip().lower() == other.strip().lower()


def _merge_realname(user: UserRecord, base: SyncRecord, player: PlayerRow) -> Merge:
    theirs = player.known_realname
    if theirs is None or theirs == user.username:
        return Merge(player)
    if theirs == base.base_realname:
        return (
            Merge(player, to_player={"realname": user.username}) if _is_case_of(user.username, base) else Merge(player)
        )
    if theirs.lower() == user.username_key:
        return Merge(player, takes_realname=theirs)
    return Merge(player, conflicts=(Conflict("realname", "both"),))


def _is_case_of(username: str, base: SyncRecord) -> bool:
    """Whether the agreed name is the same but for its case: then we changed ours."""
    return base.base_realname is not None and base.base_realname.lower() == username.lower()
