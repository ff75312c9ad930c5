"""Tombstones: which row of AuthMe's is to go with a user who is deleted, however long that takes."""

from regsvc.database.models import ABSENT, PRESENT, UNASKED
from regsvc.sync.records import Account
from regsvc.sync.sync_records import SyncRecords


def record_tombstone(sync_records: SyncRecords, account: Account) -> None:
    """Put up the tombstone of a user who is deleted: what row is to go, should it still be there.

    A row that was never agreed on and that we could not ask about is somebody else's, and stays.
    """
    sync_record, player = account.sync_record, account.player
    sync_records.forget(account.key)
    if player is not None and sync_record is not None and sync_record.presence != UNASKED:
        _write_tombstone(sync_records, account, player.hash, player.regdate)


def record_unseen_tombstone(sync_records: SyncRecords, account: Account) -> None:
    """The same while AuthMe's table cannot be read: the row of the last agreement is the one to go."""
    sync_record = account.sync_record
    sync_records.forget(account.key)
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
