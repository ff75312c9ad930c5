"""Sync records that replace others, and the columns that several actions write."""

from collections.abc import Sequence
from typing import Any, Final

from peewee import Database

from plugin_bridge.authme.players import PlayerRow, locked_hash
from regsvc.database.bulk import insert_rows
from regsvc.database.models import ABSENT, PRESENT, UNASKED, Player
from regsvc.sync.records import Account, SyncRecord


def replace_records(database: Database, records: Sequence[tuple[str, SyncRecord | None]]) -> None:
    """Replace the sync records of these names with new ones, or with nothing. Runs in the caller's transaction."""
    if not records:
        return
    keys = [key for key, _new in records]
    Player.delete().where(Player.username_key.in_(keys)).execute()
    insert_rows(database, Player, [new.columns() for _key, new in records if new is not None])


def tombstone(account: Account) -> SyncRecord | None:
    """Return the sync record that replaces a deleted user's: a tombstone for the player's row, or None without one.

    It says which row is to be deleted along with the user, however long that takes; while AuthMe's table cannot be
    read, that is the last synced one. A row that was never synced, and could not be looked up at the registration,
    belongs to another player and stays.
    """
    known, row = account.sync_record, account.player
    if known is None or known.presence == UNASKED:
        return None
    if row is not None:
        hash_, regdate = row.hash, row.regdate
    elif not account.is_player_known and known.presence == PRESENT and known.base_hash is not None:
        hash_, regdate = known.base_hash, known.base_regdate
    else:
        return None
    return SyncRecord(
        account.key,
        presence=ABSENT,
        plugin_state="absent",
        plugin_since=account.now,
        tombstone_hash=hash_,
        tombstone_regdate=regdate,
        tombstone_at=account.now,
    )


def base_columns(player: PlayerRow) -> dict[str, Any]:
    """Return the columns that record this row as synced, with nothing pending."""
    return {**base_of(player), **NO_INTENT, **NO_TOMBSTONE}


def base_of(player: PlayerRow) -> dict[str, Any]:
    """Return the columns with the values of this row; of a locked row the hash inside the lock."""
    return {
        "presence": PRESENT,
        "base_hash": locked_hash(player.hash) if player.is_locked else player.hash,
        "base_salt": player.salt,
        "base_email": player.email,
        "base_realname": player.realname,
        "base_regdate": player.regdate,
    }


NO_INTENT: Final = dict.fromkeys(("intent", "intent_hash", "intent_salt", "intent_regdate"))
NO_LOCK: Final = dict.fromkeys(
    ("lock_reason", "locked_at", "kept_hash", "kept_origin", "kept_premium_uuid", "kept_group", "kicked_login")
)
NO_TOMBSTONE: Final = dict.fromkeys(("tombstone_hash", "tombstone_regdate", "tombstone_at"))
