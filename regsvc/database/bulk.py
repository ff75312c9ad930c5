"""Bulk statements on thousands of rows, bypassing the query builder, which is slower than the database here."""

from collections.abc import Mapping, Sequence
from typing import Any

from peewee import Database, Model
from peewee import __exception_wrapper__ as translating_exceptions  # type: ignore[attr-defined]


def execute_many(database: Database, sql: str, rows: Sequence[Sequence[Any]]) -> None:
    """Run the statement, with `?` as placeholder, once for each row. Raises peewee's exceptions."""
    with translating_exceptions:
        database.cursor().executemany(sql.replace("?", str(database.param)), rows)


def insert_rows(database: Database, model: type[Model], rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows that all name the same fields; the others get the database's defaults."""
    if not rows:
        return
    fields = [model._meta.fields[name] for name in rows[0]]
    columns = ", ".join(field.column_name for field in fields)
    marks = ", ".join(["?"] * len(fields))
    values = [[field.db_value(row[field.name]) for field in fields] for row in rows]
    execute_many(database, f"INSERT INTO {model._meta.table_name} ({columns}) VALUES ({marks})", values)  # noqa: S608


def update_rows(database: Database, model: type[Model], rows: Sequence[Mapping[str, Any]]) -> None:
    """Update rows that all name the same fields, the primary key first. MySQL and MariaDB only.

    One statement: a thousand separate ones, however short, take as long as a scan of a million rows.
    """
    if not rows:
        return
    key, *fields = [model._meta.fields[name] for name in rows[0]]
    assert key.primary_key, "the primary key comes first"
    table, mark = model._meta.table_name, str(database.param)
    first = f"SELECT {mark} COLLATE utf8mb4_bin AS {key.column_name}"
    first += "".join(f", {mark} AS {field.column_name}" for field in fields)
    others = f" UNION ALL SELECT {', '.join([mark] * len(rows[0]))}" * (len(rows) - 1)
    changes = ", ".join(f"t.{field.column_name} = new.{field.column_name}" for field in fields)
    database.execute_sql(
        f"UPDATE {table} t JOIN ({first}{others}) new USING ({key.column_name}) SET {changes}",  # noqa: S608
        [field.db_value(row[field.name]) for row in rows for field in (key, *fields)],
    )
