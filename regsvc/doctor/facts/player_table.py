"""AuthMe's table as it really is: its engine, its columns, and its rows in figures."""

# ruff: noqa: S608 - the names come from AuthMe's config, whose reader takes nothing but plain words

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from plugin_bridge.authme.config import ColumnNames
from regsvc.doctor.facts.player_rows import PlayerRows, look_at_rows
from regsvc.doctor.facts.readonly_db import Reading, Row, Unreadable

_WORD: Final = re.compile(r"\w+")
_BITS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32}
_OF_TABLE: Final = "WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ?"


@dataclass(frozen=True)
class PlayerColumn:
    """One column. `charset` and `collation` are None on SQLite and for numbers, `default` is SQL text or None."""

    name: str
    is_nullable: bool
    default: str | None
    fills_itself: bool = False
    charset: str | None = None
    collation: str | None = None
    highest: int | None = None
    """The highest number it can hold, where that is known and not far away."""


@dataclass(frozen=True)
class PlayerTable:
    """`engine` and `next_id` are None on SQLite, `rows` None where they are not known.

    `columns` are by their lower-case names; `next_id` is the number that the next player gets.
    """

    engine: str | None
    columns: Mapping[str, PlayerColumn]
    rows: PlayerRows | None
    next_id: int | None = None

    def find(self, name: str) -> PlayerColumn | None:
        """The column of this name, which no database here tells apart by case."""
        return self.columns.get(name.lower())


def look_at_table(reading: Reading, schema: str | None, table: str) -> PlayerTable | None:
    """The table without its rows; None if there is none, or it may not be seen.

    The names have been checked to be plain words. `schema` None: the connection's own, or SQLite. Raises `Unreadable`.
    """
    if reading.is_sqlite:
        columns, told = _sqlite_columns(reading, table), None
    else:
        columns, told = _mysql_columns(reading, schema, table), _mysql_table(reading, schema, table)
    if not columns:
        return None
    engine, next_id = (told["engine"], told["next_id"]) if told is not None else (None, None)
    return PlayerTable(engine, {column.name.lower(): column for column in columns}, None, next_id)


def with_rows(reading: Reading, schema: str | None, name: str, columns: ColumnNames, table: PlayerTable) -> PlayerTable:
    """The same with its rows, unless they are too many or have no names. Raises `Unreadable`."""
    if table.find(columns.username) is None:
        return table
    times = [name for name in (columns.register_date, columns.last_login) if table.find(name)]
    return replace(table, rows=look_at_rows(reading, place_of(schema, name), columns.username, times))


def place_of(schema: str | None, table: str) -> str:
    """The table's name in SQL. Backticks quote on SQLite, too."""
    return f"`{schema}`.`{table}`" if schema else f"`{table}`"


def _sqlite_columns(reading: Reading, table: str) -> list[PlayerColumn]:
    return [
        PlayerColumn(
            name=row["name"],
            is_nullable=not row["notnull"],
            default=row["dflt_value"],
            fills_itself=bool(row["pk"]),
        )
        for row in reading.rows(f"PRAGMA table_info(`{table}`)")
    ]


def _mysql_table(reading: Reading, schema: str | None, table: str) -> Row | None:
    return reading.row(
        f"SELECT engine AS engine, auto_increment AS next_id FROM information_schema.tables {_OF_TABLE}", schema, table
    )


def _mysql_columns(reading: Reading, schema: str | None, table: str) -> list[PlayerColumn]:
    rows = reading.rows(
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
            fills_itself="auto_increment" in row["extra"].lower() or "generated" in row["extra"].lower(),
            charset=row["charset"],
            collation=row["collation"],
            highest=_highest(str(row["kind"]).lower()),
        )
        for row in rows
    ]


def _highest(kind: str) -> int | None:
    """Of a type such as `mediumint(8) unsigned`."""
    bits = _BITS.get(kind.partition("(")[0].partition(" ")[0])
    return None if bits is None else (1 << (bits if "unsigned" in kind else bits - 1)) - 1


def tells_apart(reading: Reading, column: PlayerColumn, one: str, other: str) -> bool:
    """Whether the column takes these for two different texts; True where the database does not answer."""
    if column.charset is None or column.collation is None or reading.is_sqlite:
        return True
    if not _WORD.fullmatch(column.charset) or not _WORD.fullmatch(column.collation):
        return True
    converted = f"CONVERT(? USING {column.charset})"
    try:
        return not reading.value(f"SELECT {converted} COLLATE {column.collation} = {converted} AS same", one, other)
    except Unreadable:
        return True
