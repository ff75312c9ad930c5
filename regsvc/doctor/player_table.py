"""AuthMe's table as it really is: its engine, its columns, and its rows in figures."""

# ruff: noqa: S608 - the names come from AuthMe's config, whose reader takes nothing but plain words

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from plugin_bridge.authme_config import ColumnNames
from regsvc.doctor.player_rows import PlayerRows, look_at_rows
from regsvc.doctor.reading import Reading, Unreadable

_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True)
class PlayerColumn:
    """One column. `charset` and `collation` are None on SQLite and for numbers, `default` is SQL text or None."""

    name: str
    is_nullable: bool
    default: str | None
    fills_itself: bool = False
    charset: str | None = None
    collation: str | None = None


@dataclass(frozen=True)
class PlayerTable:
    """`engine` is None on SQLite, `rows` None where they are not known; `columns` are by their lower-case names."""

    engine: str | None
    columns: Mapping[str, PlayerColumn]
    rows: PlayerRows | None

    def find(self, name: str) -> PlayerColumn | None:
        """The column of this name, which no database here tells apart by case."""
        return self.columns.get(name.lower())


def look_at_table(reading: Reading, schema: str | None, table: str) -> PlayerTable | None:
    """The table without its rows; None if there is none, or it may not be seen.

    The names have been checked to be plain words. `schema` None: the connection's own, or SQLite. Raises `Unreadable`.
    """
    if reading.is_sqlite:
        engine, found = None, _sqlite_columns(reading, table)
    else:
        engine, found = _mysql_columns(reading, schema, table)
    return PlayerTable(engine, {column.name.lower(): column for column in found}, None) if found else None


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


def _mysql_columns(reading: Reading, schema: str | None, table: str) -> tuple[str | None, list[PlayerColumn]]:
    where = "WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ?"
    engine = reading.value(f"SELECT engine AS engine FROM information_schema.tables {where}", schema, table)
    rows = reading.rows(
        "SELECT column_name AS name, is_nullable AS is_nullable, column_default AS dflt, extra AS extra,"
        f" character_set_name AS charset, collation_name AS collation FROM information_schema.columns {where}",
        schema,
        table,
    )
    return engine, [
        PlayerColumn(
            name=row["name"],
            is_nullable=row["is_nullable"] == "YES",
            default=row["dflt"],
            fills_itself="auto_increment" in row["extra"].lower() or "generated" in row["extra"].lower(),
            charset=row["charset"],
            collation=row["collation"],
        )
        for row in rows
    ]


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
