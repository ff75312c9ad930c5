"""Tombstones: the record of which of AuthMe's rows is to be deleted along with a user, however long that takes."""

from regsvc.database.models import ABSENT, PRESENT, UNASKED
from regsvc.sync.records import Account, SyncRecord


def tombstone(account: Account) -> SyncRecord | None:
    """Return the sync record that replaces a deleted user's: a tombstone for the player's row, or None without one.

    A row that was never synced, and could not be looked up at the registration, belongs to another player and stays.
    """
    known, player = account.sync_record, account.player
    if player is None or known is None or known.presence == UNASKED:
        return None
    return _tombstone(account, player.hash, player.regdate)


def unseen_tombstone(account: Account) -> SyncRecord | None:
    """Return a tombstone for the last synced row while AuthMe's table cannot be read, or None without such a row."""
    known = account.sync_record
    if known is None or known.presence != PRESENT or known.base_hash is None:
        return None
    return _tombstone(account, known.base_hash, known.base_regdate)


def _tombstone(account: Account, hash_: str, regdate: int | None) -> SyncRecord:
    return SyncRecord(
        account.key,
        presence=ABSENT,
        plugin_state="absent",
        plugin_since=account.now,
        tombstone_hash=hash_,
        tombstone_regdate=regdate,
        tombstone_at=account.now,
    )
