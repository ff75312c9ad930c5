"""Facts about AuthMe's actual table: its engine, its columns and row counts."""

# ruff: noqa: S608 - the names come from AuthMe's config, whose reader takes nothing but plain words

import re
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from plugin_bridge.authme.config import AuthMeConfig
from plugin_bridge.authme.players import LOCK_PREFIX, OLDEST_MS
from regsvc.doctor.facts.readonly_db import DatabaseUnreadable, ReadOnlyDatabase, ReadOnlyMySql, Row, StatementTimeout

_TIMEOUT: Final = 1.0  # seconds, for scanning all rows
_PAGE: Final = 10_000  # rows; a page locks AuthMe's SQLite file for some milliseconds
_MAX_NAMES: Final = 100
_NAMES: Final = 1000  # in one statement
_WORD: Final = re.compile(r"\w+")
_BITS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32}
_OF_TABLE: Final = "WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ?"


@dataclass(frozen=True)
class PlayerRowCounts:
    """Counts over all rows.

    `mixed_case`: names not in lower case that have no other row; `twice`: those with another row of the same lower-case
    name (at most 100 of each). `undated`: rows without any time; `old`: these, and rows whose newest time is in
    seconds; `in_seconds`: rows with any time in seconds. `unactivated`: names in the group that AuthMe lets nobody in
    with, without being locked by us (at most 100); `dotless`: names with the Turkish ı (at most 100).
    """

    mixed_case: tuple[str, ...]
    twice: tuple[str, ...]
    undated: int
    old: int
    in_seconds: int
    unactivated: tuple[str, ...] = ()
    dotless: tuple[str, ...] = ()


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


_DOTLESS_IN_MYSQL: Final = "LOCATE(CONVERT('ı' USING utf8mb4) COLLATE utf8mb4_bin, CONVERT(`{}` USING utf8mb4)) > 0"


def _rows_in_mysql(
    database: ReadOnlyMySql, table: str, username: str, times: list[str], unactivated: str | None
) -> PlayerRowCounts | None:
    is_mixed = f"BINARY `{username}` <> BINARY LOWER(`{username}`)"
    select = f"SELECT `{username}` AS name FROM {table}"
    try:
        with database.statement_timeout(_TIMEOUT):
            mixed = database.rows(f"{select} WHERE {is_mixed} LIMIT {_MAX_NAMES}")
            dotless = database.rows(f"{select} WHERE {_DOTLESS_IN_MYSQL.format(username)} LIMIT {_MAX_NAMES}")
            kept_out = database.rows(f"{select} WHERE {unactivated} LIMIT {_MAX_NAMES}") if unactivated else []
            sums = database.row(f"SELECT {_count_columns(times, is_sqlite=False)} FROM {table}") or {}
    except StatementTimeout:
        return None
    names = [str(row["name"]) for row in mixed]
    counts = _sum_up(names, _list_twice(database, table, username, names), [sums])
    return replace(
        counts,
        unactivated=tuple(str(row["name"]) for row in kept_out),
        dotless=tuple(str(row["name"]) for row in dotless),
    )


def _rows_in_sqlite(database: ReadOnlyDatabase, table: str, username: str, times: list[str]) -> PlayerRowCounts | None:
    ends_at = time.monotonic() + _TIMEOUT
    names: list[str] = []
    pages: list[Row] = []
    dotless: list[str] = []
    for page in _pages(database, table, username, times):
        if time.monotonic() > ends_at:
            return None
        pages.append(page)
        if page["mixed"] and len(names) < _MAX_NAMES:
            names += _names_in_page(database, table, username, page, f"`{username}` <> LOWER(`{username}`)")
        if page["dotless"] and len(dotless) < _MAX_NAMES:
            dotless += _names_in_page(database, table, username, page, f"INSTR(`{username}`, 'ı')")
    return replace(_sum_up(names, _list_twice(database, table, username, names), pages), dotless=tuple(dotless))


def _pages(database: ReadOnlyDatabase, table: str, username: str, times: list[str]) -> Iterator[Row]:
    """Yield the counts of one page of rows after the other; `first` and `last` are the row ids at its ends."""
    last = 0
    columns = "".join(f", `{name}`" for name in times)
    while True:
        page = database.row(
            f"SELECT {_count_columns(times, is_sqlite=True)}, MIN(rowid) AS first, MAX(rowid) AS last,"
            f" SUM(`{username}` <> LOWER(`{username}`)) AS mixed, SUM(INSTR(`{username}`, 'ı') > 0) AS dotless"
            f" FROM (SELECT rowid AS rowid, `{username}`{columns}"
            f" FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT {_PAGE})",
            last,
        )
        if page is None or page["last"] is None:
            return
        yield page
        last = page["last"]


def _names_in_page(database: ReadOnlyDatabase, table: str, username: str, page: Row, condition: str) -> list[str]:
    rows = database.rows(
        f"SELECT `{username}` AS name FROM {table} WHERE rowid BETWEEN ? AND ? AND {condition} LIMIT {_MAX_NAMES}",
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


@dataclass(frozen=True)
class PlayerColumn:
    """One column. `charset` and `collation` are None on SQLite and for numbers; `default` is SQL text or None."""

    name: str
    is_nullable: bool
    default: str | None
    is_generated: bool = False
    charset: str | None = None
    collation: str | None = None
    max_value: int | None = None
    """The largest number it can hold; None if unknown or practically unlimited."""


@dataclass(frozen=True)
class PlayerTable:
    """The table. `engine` and `next_id` (of the next row) are None on SQLite; `rows` is None if unknown.

    `columns` are keyed by lower-case name.
    """

    engine: str | None
    columns: Mapping[str, PlayerColumn]
    rows: PlayerRowCounts | None
    next_id: int | None = None

    def find(self, name: str) -> PlayerColumn | None:
        """Return the column with this name in any case, as databases do; None if there is none."""
        return self.columns.get(name.lower())


def inspect_table(database: ReadOnlyDatabase, schema: str | None, table: str) -> PlayerTable | None:
    """Return the table without row counts; None if there is none, or our login may not see it.

    The names have been checked to be plain words. `schema` None: the connection's own, or SQLite.
    Raises `DatabaseUnreadable`.
    """
    if database.is_sqlite:
        columns, details = _sqlite_columns(database, table), None
    else:
        columns = _mysql_columns(database, schema, table)
        found = "SELECT engine AS engine, auto_increment AS next_id FROM information_schema.tables"
        details = database.row(f"{found} {_OF_TABLE}", schema, table)
    if not columns:
        return None
    engine, next_id = (details["engine"], details["next_id"]) if details is not None else (None, None)
    return PlayerTable(engine, {column.name.lower(): column for column in columns}, None, next_id)


def with_row_counts(
    database: ReadOnlyDatabase, schema: str | None, authme: AuthMeConfig, table: PlayerTable
) -> PlayerTable:
    """Return the table with row counts, if it has names and can be counted in time. Raises `DatabaseUnreadable`."""
    columns = authme.columns
    if table.find(columns.username) is None:
        return table
    times = [name for name in (columns.register_date, columns.last_login) if table.find(name)]
    unactivated = None
    if authme.lock_group is not None and table.find(columns.group) and table.find(columns.password):
        unactivated = f"COALESCE(`{columns.group}`, 0) = {authme.lock_group}"  # AuthMe reads NULL as 0
        unactivated += f" AND LEFT(`{columns.password}`, {len(LOCK_PREFIX)}) <> '{LOCK_PREFIX}'"
    name = sql_name(schema, authme.table)
    if isinstance(database, ReadOnlyMySql):
        return replace(table, rows=_rows_in_mysql(database, name, columns.username, times, unactivated))
    return replace(table, rows=_rows_in_sqlite(database, name, columns.username, times))


def find_names(database: ReadOnlyDatabase, table: str, column: str, names: Collection[str]) -> frozenset[str]:
    """Return which of these lower-case names the column contains. `table` in SQL. Raises `DatabaseUnreadable`."""
    wanted, found = list(names), set()
    for start in range(0, len(wanted), _NAMES):
        part = wanted[start : start + _NAMES]
        query = f"SELECT `{column}` AS name FROM {table} WHERE `{column}` IN ({', '.join('?' * len(part))})"
        found |= {str(row["name"]).lower() for row in database.rows(query, *part)}
    return frozenset(found)


def sql_name(schema: str | None, table: str) -> str:
    """Quote the table's name for SQL. SQLite accepts backticks, too."""
    return f"`{schema}`.`{table}`" if schema else f"`{table}`"


def _sqlite_columns(database: ReadOnlyDatabase, table: str) -> list[PlayerColumn]:
    return [
        PlayerColumn(
            name=row["name"],
            is_nullable=not row["notnull"],
            default=row["dflt_value"],
            is_generated=bool(row["pk"]),
        )
        for row in database.rows(f"PRAGMA table_info(`{table}`)")
    ]


def _mysql_columns(database: ReadOnlyDatabase, schema: str | None, table: str) -> list[PlayerColumn]:
    rows = database.rows(
        "SELECT column_name AS name, is_nullable AS is_nullable, column_default AS dflt, extra AS extra,"
        " character_set_name AS charset, collation_name AS collation, column_type AS kind"
        f" FROM information_schema.columns {_OF_TABLE}",
        schema,
        table,
    )
    return [
        PlayerColumn(
            name=row["name"],
            is_nullable=row["is_nullable"] == "YES",
            default=row["dflt"],
            is_generated="auto_increment" in row["extra"].lower() or "generated" in row["extra"].lower(),
            charset=row["charset"],
            collation=row["collation"],
            max_value=_max_value(str(row["kind"]).lower()),
        )
        for row in rows
    ]


def _max_value(kind: str) -> int | None:
    """Return the largest value of a type such as `mediumint(8) unsigned`; None if unknown."""
    bits = _BITS.get(kind.partition("(")[0].partition(" ")[0])
    return None if bits is None else (1 << (bits if "unsigned" in kind else bits - 1)) - 1


def ignores_accents(database: ReadOnlyDatabase, column: PlayerColumn) -> bool:
    """Return whether the column treats é and e as equal; False if the database does not answer."""
    charset, collation = column.charset or "", column.collation or ""
    if not _WORD.fullmatch(charset) or not _WORD.fullmatch(collation):
        return False
    converted = f"CONVERT(? USING {charset})"
    try:
        return bool(database.value(f"SELECT {converted} COLLATE {collation} = {converted} AS same", "é", "e"))
    except DatabaseUnreadable:
        return False
