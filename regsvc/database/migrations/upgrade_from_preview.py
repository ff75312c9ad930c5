"""Upgrade of a database of the last preview version (commit 5980771, or a later one) to the baseline.

What has other names in the baseline is brought there; the baseline itself then creates what is missing. Each step finds
out by itself whether it is done, so that whoever was killed goes on: MySQL commits every change of a table at once.
"""

# ruff: noqa: S608 - names of our own tables alone

from collections.abc import Callable, Collection
from typing import Final

from peewee import Database, SqliteDatabase

BASELINE: Final = 100
"""Number of the first migration of version 1.0."""
_LAST_PREVIEW: Final = 15
"""Number of the newest migration that a database needs before it can be upgraded."""
_TOO_OLD: Final = (
    "The database was used last by a preview version from before commit 5980771 (its newest migration: {newest}). "
    "Start the companion of that commit on it once, then this version."
)

_VIEWS: Final = ("review_queue", "users", "sync_drift", "recent_audit", "outbox")
_OLD_NAMES: Final = {
    "intent": "wish",
    "intent_hash": "wish_hash",
    "intent_salt": "wish_salt",
    "intent_regdate": "wish_regdate",
}
_KEPT_ORIGIN: Final = "CASE kept_origin WHEN 'agreed' THEN 'verified' WHEN 'stranger' THEN 'unverified' END"
_ROWS_PER_STATEMENT: Final = 20_000


def find_problem(database: Database, applied: Collection[int]) -> str | None:
    """Return a sentence if the database is of a preview version that is too old; `applied`: its migrations."""
    newest = max(applied, default=0)
    if newest >= BASELINE or _LAST_PREVIEW in applied or not (applied or database.table_exists("regsvc_player")):
        return None
    return _TOO_OLD.format(newest=newest or "none")


def move_rows(database: Database, create_records: Callable[[], None], renew: Callable[[], None]) -> None:
    """Move the rows of renamed tables; does nothing to a database that has none of them.

    `create_records` creates the table `regsvc_sync_record` if it is missing; `renew` extends the migration's lease.
    """
    # first: SQLite renames nothing while a view of the host's own reads a table that is gone
    if database.table_exists("regsvc_digest"):
        database.execute_sql("ALTER TABLE regsvc_digest RENAME TO regsvc_bucket")
    if database.table_exists("regsvc_player"):
        for view in _VIEWS:
            database.execute_sql(f"DROP VIEW IF EXISTS regsvc_v_{view}")
        if isinstance(database, SqliteDatabase):  # others have no such trigger, and may refuse to drop any
            database.execute_sql("DROP TRIGGER IF EXISTS regsvc_user_is_gone")
        create_records()
        while _copy_records(database):
            renew()
        database.execute_sql("DROP TABLE regsvc_player")


def _copy_records(database: Database) -> int:
    """Copy the next sync records in the order of their keys; return how many."""
    there = {column.name for column in database.get_columns("regsvc_player")}
    columns = [column.name for column in database.get_columns("regsvc_sync_record")]
    sources = {name: _OLD_NAMES.get(name, name) for name in columns}
    copied = {name: source for name, source in sources.items() if source in there}  # the last two came with 16
    copied["kept_origin"] = _KEPT_ORIGIN
    [[last]] = database.execute_sql("SELECT MAX(username_key) FROM regsvc_sync_record").fetchall()
    after, values = ("", ()) if last is None else (f"WHERE username_key > {database.param}", (last,))
    cursor = database.execute_sql(
        f"INSERT INTO regsvc_sync_record ({', '.join(copied)}) SELECT {', '.join(copied.values())} FROM regsvc_player "
        f"{after} ORDER BY username_key LIMIT {_ROWS_PER_STATEMENT}",
        values,
    )
    return int(cursor.rowcount)
