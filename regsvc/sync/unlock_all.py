"""Removal of all our locks from AuthMe's table, for a host who stops using the companion."""

from peewee import Database

from plugin_bridge.authme.players import PlayerRow, Players, locked_hash
from regsvc.sync.paging import PAGE
from regsvc.sync.records import SyncRecord
from regsvc.sync.sync_records import NO_LOCK, SyncRecords


class UnlockAll:
    """Command that unlocks every row that we locked.

    Blocking; works with an empty database of ours, for the lock holds the hash.
    """

    def __init__(self, database: Database, players: Players, sync_records: SyncRecords) -> None:
        self._database = database
        self._players = players
        self._sync_records = sync_records

    def run(self) -> tuple[int, list[str]]:
        """Return how many rows were unlocked, and the names whose hash is stored nowhere any more.

        Raises `PlayersUnavailable`.
        """
        unlocked, unrecoverable = 0, []
        for page in self._players.pages(PAGE):
            for row in page:
                if not row.is_locked:
                    continue
                sync_record = self._sync_records.find(row.username)
                hash_ = locked_hash(row.hash) or (sync_record.kept_hash if sync_record else None)
                if hash_ is None:
                    unrecoverable.append(row.username)
                elif self._unlock(row, hash_, sync_record):
                    unlocked += 1
        return unlocked, unrecoverable

    def _unlock(self, row: PlayerRow, hash_: str, sync_record: SyncRecord | None) -> bool:
        """Return False if the row has changed since it was read: then it no longer holds our lock."""
        changes: dict[str, str | int | None] = {"hash": hash_}
        if sync_record is not None and sync_record.kept_premium_uuid:
            changes["premium_uuid"] = sync_record.kept_premium_uuid
        if not self._players.update(row, changes):
            return False
        if sync_record is not None:
            with self._database.atomic():
                self._sync_records.save(row.username, **NO_LOCK)
        return True
