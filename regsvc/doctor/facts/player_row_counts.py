"""Statistics on the rows of AuthMe's table, computed by the database, so that no rows are transferred."""

# ruff: noqa: S608 - the names come from AuthMe's config, whose reader takes nothing but plain words

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from plugin_bridge.authme.players import OLDEST_MS
from regsvc.doctor.facts.readonly_db import ReadOnlyDatabase, ReadOnlyMySql, Row, StatementTimeout

_TIMEOUT: Final = 1.0  # seconds, for scanning all rows
_PAGE: Final = 10_000  # rows; a page locks AuthMe's SQLite file for some milliseconds
_MAX_NAMES: Final = 100


@dataclass(frozen=True)
class PlayerRowCounts:
    """Counts over all rows.

    `mixed_case`: names not in lower case that have no other row; `twice`: those with another row of the same lower-case
    name (at most 100 of each). `undated`: rows without any time; `old`: these, and rows whose newest time is in
    seconds; `in_seconds`: rows with any time in seconds. `unactivated`: names in the group that AuthMe lets nobody in
    with, without being locked by us (at most 100).
    """

    mixed_case: tuple[str, ...]
    twice: tuple[str, ...]
    undated: int
    old: int
    in_seconds: int
    unactivated: tuple[str, ...] = ()


def count_rows(
    database: ReadOnlyDatabase, table: str, username: str, times: list[str], unactivated: str | None = None
) -> PlayerRowCounts | None:
    """Count the rows; None if it takes too long. `table`: the table in SQL; `times`: its columns with milliseconds.

    `unactivated`: the condition of those rows in SQL; None on SQLite, and where there is no such group. Raises
    `DatabaseUnreadable`.
    """
    if isinstance(database, ReadOnlyMySql):
        return _rows_in_mysql(database, table, username, times, unactivated)
    return _rows_in_sqlite(database, table, username, times)


def _newest(times: list[str]) -> str:
    """Return SQL for the newest time of a row, 0 if it has none."""
    values = [f"COALESCE(CAST(`{name}` AS SIGNED), 0)" for name in times]
    return {0: "0", 1: values[0] if values else "0"}.get(len(values), f"GREATEST({', '.join(values)})")


def _count_columns(times: list[str], *, is_sqlite: bool) -> str:
    """Return SQL for the columns `undated`, `old` and `in_seconds`."""
    newest = _newest(times)
    any_in_seconds = " OR ".join(f"CAST(`{name}` AS SIGNED) BETWEEN 1 AND {OLDEST_MS}" for name in times) or "0 = 1"
    conditions = {
        "undated": f"{newest} <= 0",
        "old": f"{newest} < {OLDEST_MS}",
        "in_seconds": any_in_seconds,
    }
    selected = ", ".join(f"SUM(CASE WHEN {sql} THEN 1 ELSE 0 END) AS {name}" for name, sql in conditions.items())
    if is_sqlite:
        return selected.replace("AS SIGNED", "AS INTEGER").replace("GREATEST(", "MAX(")
    return selected


def _rows_in_mysql(
    database: ReadOnlyMySql, table: str, username: str, times: list[str], unactivated: str | None
) -> PlayerRowCounts | None:
    is_mixed = f"BINARY `{username}` <> BINARY LOWER(`{username}`)"
    select = f"SELECT `{username}` AS name FROM {table}"
    try:
        with database.statement_timeout(_TIMEOUT):
            mixed = database.rows(f"{select} WHERE {is_mixed} LIMIT {_MAX_NAMES}")
            kept_out = database.rows(f"{select} WHERE {unactivated} LIMIT {_MAX_NAMES}") if unactivated else []
            sums = database.row(f"SELECT {_count_columns(times, is_sqlite=False)} FROM {table}") or {}
    except StatementTimeout:
        return None
    names = [str(row["name"]) for row in mixed]
    counts = _sum_up(names, _list_twice(database, table, username, names), [sums])
    return replace(counts, unactivated=tuple(str(row["name"]) for row in kept_out))


def _rows_in_sqlite(database: ReadOnlyDatabase, table: str, username: str, times: list[str]) -> PlayerRowCounts | None:
    ends_at = time.monotonic() + _TIMEOUT
    names: list[str] = []
    pages: list[Row] = []
    for page in _pages(database, table, username, times):
        if time.monotonic() > ends_at:
            return None
        pages.append(page)
        if page["mixed"] and len(names) < _MAX_NAMES:
            names += _mixed_names(database, table, username, page)
    return _sum_up(names, _list_twice(database, table, username, names), pages)


def _pages(database: ReadOnlyDatabase, table: str, username: str, times: list[str]) -> Iterator[Row]:
    """Yield the counts of one page of rows after the other; `first` and `last` are the row ids at its ends."""
    last = 0
    columns = "".join(f", `{name}`" for name in times)
    while True:
        page = database.row(
            f"SELECT {_count_columns(times, is_sqlite=True)}, MIN(rowid) AS first, MAX(rowid) AS last,"
            f" SUM(`{username}` <> LOWER(`{username}`)) AS mixed FROM (SELECT rowid AS rowid, `{username}`{columns}"
            f" FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT {_PAGE})",
            last,
        )
        if page is None or page["last"] is None:
            return
        yield page
        last = page["last"]


def _mixed_names(database: ReadOnlyDatabase, table: str, username: str, page: Row) -> list[str]:
    rows = database.rows(
        f"SELECT `{username}` AS name FROM {table} WHERE rowid BETWEEN ? AND ?"
        f" AND `{username}` <> LOWER(`{username}`) LIMIT {_MAX_NAMES}",
        page["first"],
        page["last"],
    )
    return [str(row["name"]) for row in rows]


def _list_twice(database: ReadOnlyDatabase, table: str, username: str, names: list[str]) -> list[str]:
    """Return the names that share their lower-case form with another row."""
    keys = [name.lower() for name in names]
    if not names:
        return []
    marks = ", ".join("?" for _name in names)
    rows = database.rows(f"SELECT `{username}` AS name FROM {table} WHERE `{username}` IN ({marks})", *keys)
    lower = {str(row["name"]) for row in rows}
    return [name for name in names if name.lower() in lower or keys.count(name.lower()) > 1]


def _sum_up(names: list[str], twice: list[str], sums: list[Row]) -> PlayerRowCounts:
    def total(column: str) -> int:
        return sum(int(page.get(column) or 0) for page in sums)

    return PlayerRowCounts(
        mixed_case=tuple(name for name in names if name not in twice)[:_MAX_NAMES],
        twice=tuple(twice)[:_MAX_NAMES],
        undated=total("undated"),
        old=total("old"),
        in_seconds=total("in_seconds"),
    )
