"""Removal of all our locks from AuthMe's table, for a host who stops using the companion."""

from plugin_bridge.authme.players import PlayerRow, Players, locked_hash
from regsvc.database.models import Player
from regsvc.sync.paging import PAGE
from regsvc.sync.steps import kept_group
from regsvc.sync.sync_records import NO_LOCK


class UnlockAll:
    """Command that unlocks every row that we locked.

    Blocking; works with an empty database of ours, for the lock holds the hash.
    """

    def __init__(self, players: Players) -> None:
        self._players = players

    def run(self) -> tuple[int, list[str]]:
        """Return how many rows were unlocked, and the names whose hash is stored nowhere any more.

        Raises `PlayersUnavailable`.
        """
        unlocked, unrecoverable = 0, []
        for page in self._players.pages(PAGE):
            for row in page:
                if not row.is_locked:
                    continue
                known = Player.get_or_none(Player.username_key == row.username)
                hash_ = locked_hash(row.hash) or (known.kept_hash if known else None)
                if hash_ is None:
                    unrecoverable.append(row.username)
                elif self._unlock(row, hash_, known):
                    unlocked += 1
        return unlocked, unrecoverable

    def _unlock(self, row: PlayerRow, hash_: str, known: Player | None) -> bool:
        """Return False if the row has changed since it was read: then it no longer holds our lock."""
        changes: dict[str, str | int | None] = {"hash": hash_, "has_session": 0, **kept_group(known, row)}
        if known is not None and known.kept_premium_uuid:
            changes["premium_uuid"] = known.kept_premium_uuid
        if not self._players.update(row, changes):
            return False
        if known is not None:
            Player.update(NO_LOCK).where(Player.username_key == row.username).execute()
        return True
