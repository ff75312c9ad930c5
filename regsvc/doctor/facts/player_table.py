"""Facts about AuthMe's actual table: its engine, its columns and row counts."""

# ruff: noqa: S608 - the names come from AuthMe's config, whose reader takes nothing but plain words

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from plugin_bridge.authme.config import AuthMeConfig
from plugin_bridge.authme.players import LOCK_PREFIX
from regsvc.doctor.facts.player_row_counts import PlayerRowCounts, count_rows
from regsvc.doctor.facts.readonly_db import DatabaseUnreadable, ReadOnlyDatabase, Row

_WORD: Final = re.compile(r"\w+")
_BITS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32}
_OF_TABLE: Final = "WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ?"


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
        columns, details = _mysql_columns(database, schema, table), _mysql_table(database, schema, table)
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
    return replace(
        table, rows=count_rows(database, sql_name(schema, authme.table), columns.username, times, unactivated)
    )


def find_names(database: ReadOnlyDatabase, table: str, column: str, names: Collection[str]) -> frozenset[str]:
    """Return which of these lower-case names the column contains. `table` in SQL. Raises `DatabaseUnreadable`."""
    marks = ", ".join("?" * len(names)) or "NULL"
    rows = database.rows(f"SELECT `{column}` AS name FROM {table} WHERE `{column}` IN ({marks})", *names)
    return frozenset(str(row["name"]).lower() for row in rows)


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


def _mysql_table(database: ReadOnlyDatabase, schema: str | None, table: str) -> Row | None:
    return database.row(
        f"SELECT engine AS engine, auto_increment AS next_id FROM information_schema.tables {_OF_TABLE}", schema, table
    )


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


def distinguishes(database: ReadOnlyDatabase, column: PlayerColumn, one: str, other: str) -> bool:
    """Return whether the column treats these texts as different; True if the database does not answer."""
    if column.charset is None or column.collation is None or database.is_sqlite:
        return True
    if not _WORD.fullmatch(column.charset) or not _WORD.fullmatch(column.collation):
        return True
    converted = f"CONVERT(? USING {column.charset})"
    try:
        return not database.value(f"SELECT {converted} COLLATE {column.collation} = {converted} AS same", one, other)
    except DatabaseUnreadable:
        return True
