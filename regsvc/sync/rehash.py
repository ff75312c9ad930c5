"""Replacement of a legacy algorithm's hash with one of the configured algorithm, as AuthMe does at a login.

The password stays the same. It must not look changed, so the copies we keep of the hash are replaced too.
"""

from plugin_bridge.authme.players import Players
from regsvc.auth.hashing import StoredPassword
from regsvc.database import failpoints
from regsvc.sync.effects import Effects, EffectWriter
from regsvc.sync.records import Account


def replace_hash(
    players: Players, writer: EffectWriter, account: Account, stored: StoredPassword, rehashed: StoredPassword
) -> bool:
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
    hash_, salt = rehashed.hash, rehashed.salt
    failpoints.reach("before player write")
    is_written = players.update(player, {"hash": hash_, "salt": salt})
    failpoints.reach("after player write")
    if is_written:
        own, columns = account.user.password if account.user is not None else None, {}
        if own is not None and (own.hash, own.salt) == (
            stored.hash,
            stored.salt,
        ):  # else it would count as changed by us
            columns = {"password_hash": hash_, "password_salt": salt, "password_algorithm": rehashed.algorithm}
        writer.write([(account, Effects({"base_hash": hash_, "base_salt": salt}, columns))])
    return is_written
