"""Reads and writes what we know of players, and the users they belong to, one name or a page of names at a time."""

from collections.abc import Collection
from typing import Any, Final

from peewee import Database, SqliteDatabase

from plugin_bridge.authme.players import PlayerRow, locked_hash
from regsvc.core.clock import Clock
from regsvc.database.models import PRESENT, Player, PluginState, User
from regsvc.sync.records import SyncRecord, UserRecord


class SyncRecords:
    """The rows of `regsvc_player`, beside the users. All of it runs inside the caller's transaction."""

    def __init__(self, database: Database, now: Clock) -> None:
        self._locks_rows = not isinstance(database, SqliteDatabase)  # there the transaction holds the whole file
        self._now = now

    def find_user(self, key: str) -> UserRecord | None:
        """The user of this lower-case name, held until the transaction ends."""
        row = self._for_update(User.select().where(User.username_key == key)).first()
        return UserRecord.of(row) if row else None

    def find(self, key: str) -> SyncRecord | None:
        """What we know of the player of this name, held until the transaction ends; None: nothing yet."""
        row = self._for_update(Player.select().where(Player.username_key == key)).first()
        return SyncRecord.of(row) if row else None

    def find_users(self, keys: Collection[str], *, for_update: bool = False) -> dict[str, UserRecord]:
        """The users of these names, by name, as they are now; `for_update`: until the transaction ends."""
        query = User.select().where(User.username_key.in_(list(keys)))
        rows = (self._for_update(query) if for_update else query) if keys else ()
        return {row.username_key: UserRecord.of(row) for row in rows}

    def find_many(self, keys: Collection[str], *, for_update: bool = False) -> dict[str, SyncRecord]:
        """What we know of these players, by name, as it is now; `for_update`: until the transaction ends."""
        query = Player.select().where(Player.username_key.in_(list(keys)))
        rows = (self._for_update(query) if for_update else query) if keys else ()
        return {row.username_key: SyncRecord.of(row) for row in rows}

    def find_users_by_id(self, ids: Collection[int]) -> dict[int, UserRecord]:
        """These users, by id, whatever they are called now."""
        rows = User.select().where(User.id.in_(list(ids))) if ids else ()
        return {row.id: UserRecord.of(row) for row in rows}

    def find_names(self, user_ids: Collection[int]) -> dict[int, str]:
        """Under which name the player of each of these users is known, by user id."""
        rows = Player.select(Player.user_id, Player.username_key).where(Player.user_id.in_(list(user_ids)))
        return {row.user_id: row.username_key for row in rows if row.user_id is not None} if user_ids else {}

    def save(self, key: str, *, state: PluginState | None = None, **changes: Any) -> None:
        """Change what we know of the player; a name not known yet gets a row. `state` also notes since when."""
        if state is not None:
            known = Player.select(Player.plugin_state).where(Player.username_key == key).first()
            if known is None or known.plugin_state != state:
                changes |= {"plugin_state": state, "plugin_since": self._now()}
        if not changes:
            return
        if Player.update(changes).where(Player.username_key == key).execute():
            return
        new = {"username_key": key, "presence": "unasked", "plugin_state": "off", "plugin_since": self._now()}
        Player.insert(new | changes).execute()

    def forget(self, key: str) -> None:
        """Know nothing of the player any more."""
        Player.delete().where(Player.username_key == key).execute()

    def _for_update(self, query: Any) -> Any:
        return query.for_update() if self._locks_rows else query


def base_columns(player: PlayerRow, **written: Any) -> dict[str, Any]:
    """The columns of a new agreement on this row, after `written` (fields named as in `PlayerRow`) went into it."""
    hash_ = written.get("hash", player.hash)
    return (
        {
            "presence": PRESENT,
            "base_hash": locked_hash(hash_) if player.is_locked and hash_ == player.hash else hash_,
            "base_salt": written.get("salt", player.salt),
            "base_email": written.get("email", player.email),
            "base_realname": written.get("realname", player.realname),
            "base_regdate": player.regdate,
        }
        | NO_INTENT
        | NO_TOMBSTONE
    )


NO_INTENT: Final[dict[str, Any]] = {"intent": None, "intent_hash": None, "intent_salt": None, "intent_regdate": None}
NO_LOCK: Final[dict[str, Any]] = {
    "lock_reason": None,
    "locked_at": None,
    "kept_hash": None,
    "kept_origin": None,
    "kept_premium_uuid": None,
}
NO_TOMBSTONE: Final[dict[str, Any]] = {
    "tombstone_hash": None,
    "tombstone_regdate": None,
    "tombstone_at": None,
}
