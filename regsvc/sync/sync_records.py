"""Database access to sync records and the users they belong to, for one name or a page of names."""

from collections.abc import Collection
from typing import Any, Final

from peewee import Database, SqliteDatabase

from plugin_bridge.authme.players import PlayerRow, locked_hash
from regsvc.core.clock import Clock
from regsvc.database.models import PRESENT, Player, PluginState, User
from regsvc.sync.records import SyncRecord, UserRecord


class SyncRecords:
    """Repository of the rows of `regsvc_player`. All methods run inside the caller's transaction."""

    def __init__(self, database: Database, now: Clock) -> None:
        self._has_row_locks = not isinstance(database, SqliteDatabase)  # there a transaction locks the whole file
        self._now = now

    def find_user(self, key: str) -> UserRecord | None:
        """Return the user with this lower-case name, locked until the transaction ends, or None."""
        row = self._for_update(User.select().where(User.username_key == key)).first()
        return UserRecord.from_row(row) if row else None

    def find(self, key: str) -> SyncRecord | None:
        """Return the sync record of this name, locked until the transaction ends, or None."""
        row = self._for_update(Player.select().where(Player.username_key == key)).first()
        return SyncRecord.from_row(row) if row else None

    def find_users(self, keys: Collection[str], *, for_update: bool = False) -> dict[str, UserRecord]:
        """Return the existing users among these names, by name; `for_update` locks them until the transaction ends."""
        query = User.select().where(User.username_key.in_(list(keys)))
        rows = (self._for_update(query) if for_update else query) if keys else ()
        return {row.username_key: UserRecord.from_row(row) for row in rows}

    def find_many(self, keys: Collection[str], *, for_update: bool = False) -> dict[str, SyncRecord]:
        """Return the sync records of these names, by name; `for_update` locks them until the transaction ends."""
        query = Player.select().where(Player.username_key.in_(list(keys)))
        rows = (self._for_update(query) if for_update else query) if keys else ()
        return {row.username_key: SyncRecord.from_row(row) for row in rows}

    def find_users_by_id(self, ids: Collection[int]) -> dict[int, UserRecord]:
        """Return these users by id, whatever their names are now."""
        rows = User.select().where(User.id.in_(list(ids))) if ids else ()
        return {row.id: UserRecord.from_row(row) for row in rows}

    def find_names(self, user_ids: Collection[int]) -> dict[int, str]:
        """Return the name in the sync record of each of these users that has one, by user id."""
        rows = Player.select(Player.user_id, Player.username_key).where(Player.user_id.in_(list(user_ids)))
        return {row.user_id: row.username_key for row in rows if row.user_id is not None} if user_ids else {}

    def save(self, key: str, *, state: PluginState | None = None, **changes: Any) -> None:
        """Change fields of the sync record, creating it if needed. `plugin_since` is set when `state` is a new one."""
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

    def delete(self, key: str) -> None:
        """Delete the sync record of this name, if there is one."""
        Player.delete().where(Player.username_key == key).execute()

    def _for_update(self, query: Any) -> Any:
        return query.for_update() if self._has_row_locks else query


def base_columns(player: PlayerRow, **row_changes: Any) -> dict[str, Any]:
    """Return the columns that record this row as synced, after `row_changes` (named as in `PlayerRow`) went into it."""
    hash_ = row_changes.get("hash", player.hash)
    return (
        {
            "presence": PRESENT,
            "base_hash": locked_hash(hash_) if player.is_locked and hash_ == player.hash else hash_,
            "base_salt": row_changes.get("salt", player.salt),
            "base_email": row_changes.get("email", player.email),
            "base_realname": row_changes.get("realname", player.realname),
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
