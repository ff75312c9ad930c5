"""Tombstones: which row of AuthMe's is to go with a user who is deleted, however long that takes."""

from regsvc.database.models import ABSENT, PRESENT, UNASKED
from regsvc.sync.records import Account
from regsvc.sync.sync_records import SyncRecords


def record_tombstone(agreements: SyncRecords, subject: Account) -> None:
    """Put up the tombstone of a user who is deleted: what row is to go, should it still be there.

    A row that was never agreed on and that we could not ask about is somebody else's, and stays.
    """
    agreement, player = subject.agreement, subject.player
    agreements.forget(subject.key)
    if player is not None and agreement is not None and agreement.presence != UNASKED:
        _write_tombstone(agreements, subject, player.hash, player.regdate)


def record_unseen_tombstone(agreements: SyncRecords, subject: Account) -> None:
    """The same while AuthMe's table cannot be read: the row of the last agreement is the one to go."""
    agreement = subject.agreement
    agreements.forget(subject.key)
    if agreement is not None and agreement.presence == PRESENT and agreement.base_hash is not None:
        _write_tombstone(agreements, subject, agreement.base_hash, agreement.base_regdate)


def _write_tombstone(agreements: SyncRecords, subject: Account, hash_: str, regdate: int | None) -> None:
    agreements.save(
        subject.key,
        state="absent",
        presence=ABSENT,
        tombstone_hash=hash_,
        tombstone_regdate=regdate,
        tombstone_at=subject.now,
    )
