"""Unlocks every player we locked, for a host who leaves us: nothing of ours stays in AuthMe's table."""

from peewee import Database

from plugin_bridge.players import PlayerRow, Players, locked_hash
from regsvc.sync.agreements import NO_LOCK, Agreements

_PAGE = 500


class Release:
    """Blocking, and works without our own database knowing anything: the hash stands in the lock."""

    def __init__(self, database: Database, players: Players, agreements: Agreements) -> None:
        self._database = database
        self._players = players
        self._agreements = agreements

    def run(self) -> tuple[int, list[str]]:
        """How many rows were unlocked, and the names of those whose hash is known nowhere any more.

        Raises `PlayersAway`.
        """
        unlocked, hopeless = 0, []
        for page in self._players.pages(_PAGE):
            for row in page:
                if not row.is_locked:
                    continue
                if self._unlock(row):
                    unlocked += 1
                else:
                    hopeless.append(row.username)
        return unlocked, hopeless

    def _unlock(self, row: PlayerRow) -> bool:
        agreement = self._agreements.find_many([row.username]).get(row.username)
        hash_ = locked_hash(row.hash) or (agreement.kept_hash if agreement else None)
        if hash_ is None:
            return False
        changes: dict[str, str | int | None] = {"hash": hash_}
        if agreement is not None and agreement.kept_premium_uuid:
            changes["premium_uuid"] = agreement.kept_premium_uuid
        if not self._players.update(row, changes):
            return False
        with self._database.atomic():
            if agreement is not None:
                self._agreements.save(row.username, **NO_LOCK)
        return True
