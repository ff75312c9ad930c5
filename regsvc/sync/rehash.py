"""Replacement of a legacy algorithm's hash with one of the configured algorithm, as AuthMe does at a login.

The password stays the same. It must not look changed, so the copies we keep of the hash are replaced too.
"""

from regsvc.auth.hashing import StoredPassword
from regsvc.database import failpoints
from regsvc.database.models import User
from regsvc.sync.records import Account
from regsvc.sync.step_context import StepContext


def replace_hash(context: StepContext, account: Account, stored: StoredPassword, rehashed: StoredPassword) -> bool:
    """Write the row by compare-and-set, then our own rows. Returns False if row or base do not hold `stored`.

    Runs in one transaction of ours, also with AuthMe on SQLite, where the row is committed first. So no sync run sees
    the new hash before the new base and takes it for a password changed in the game. After a crash between the two
    writes it does, as it does when AuthMe itself rehashed first.
    """
    sync_record, player = account.sync_record, account.player
    if sync_record is None or player is None or not sync_record.is_playable(player):
        return False
    if not (player.hash, player.salt) == (sync_record.base_hash, sync_record.base_salt) == (stored.hash, stored.salt):
        return False
    failpoints.reach("before player write")
    is_written = context.players.update(player, {"hash": rehashed.hash, "salt": rehashed.salt})
    failpoints.reach("after player write")
    if is_written:
        context.sync_records.save(account.key, base_hash=rehashed.hash, base_salt=rehashed.salt)
        _move_own_password(account, stored, rehashed)
    return is_written


def _move_own_password(account: Account, stored: StoredPassword, rehashed: StoredPassword) -> None:
    """Replace the hash of the password set through us, if it is this one; else it would count as changed by us."""
    user = account.user
    own = user.password if user is not None else None
    if user is None or own is None or (own.hash, own.salt) != (stored.hash, stored.salt):
        return
    moved = {
        "password_hash": rehashed.hash,
        "password_salt": rehashed.salt,
        "password_algorithm": rehashed.algorithm,
    }
    User.update(moved).where(User.id == user.id).execute()
