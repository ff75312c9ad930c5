"""Tombstones: the record of which of AuthMe's rows is to be deleted along with a user, however long that takes."""

from regsvc.database.models import ABSENT, PRESENT, UNASKED
from regsvc.sync.records import Account
from regsvc.sync.sync_records import SyncRecords


def record_tombstone(sync_records: SyncRecords, account: Account) -> None:
    """Replace the sync record of a deleted user with a tombstone for the player's row, if there is one.

    A row that was never synced, and could not be looked up at the registration, belongs to another player and stays.
    """
    sync_record, player = account.sync_record, account.player
    sync_records.delete(account.key)
    if player is not None and sync_record is not None and sync_record.presence != UNASKED:
        _write_tombstone(sync_records, account, player.hash, player.regdate)


def record_unseen_tombstone(sync_records: SyncRecords, account: Account) -> None:
    """Replace the sync record with a tombstone for the last synced row, while AuthMe's table cannot be read."""
    sync_record = account.sync_record
    sync_records.delete(account.key)
    if sync_record is not None and sync_record.presence == PRESENT and sync_record.base_hash is not None:
        _write_tombstone(sync_records, account, sync_record.base_hash, sync_record.base_regdate)


def _write_tombstone(sync_records: SyncRecords, account: Account, hash_: str, regdate: int | None) -> None:
    sync_records.save(
        account.key,
        state="absent",
        presence=ABSENT,
        tombstone_hash=hash_,
        tombstone_regdate=regdate,
        tombstone_at=account.now,
    )
