"""Comparison of a database's tables, columns, keys, indexes, triggers and views with those that the migrations make.

A schema is a dict: what there is, by kind, table and name, with a description that is the same however it was made.
What migrations make is known by applying them to an empty SQLite database in memory, for servers with their types.
"""

# ruff: noqa: S608 - names of our own tables alone

import re
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import groupby
from typing import Any, Final, NamedTuple

from peewee import Database, SqliteDatabase

from regsvc.core.i18n import Sentence
from regsvc.database.migrator import (
    MIGRATION_TABLE,
    MYSQL_TYPES,
    SQLITE_TYPES,
    NumberedMigration,
    in_sqlite,
    statements_of,
)

Query = Callable[[str], Iterable[tuple[Any, ...]]]
"""Runs a statement without placeholders on an open connection and returns the rows."""

TABLE: Final = "table"
COLUMN: Final = "column"
INDEX: Final = "index"
TRIGGER: Final = "trigger"
VIEW: Final = "view"
_UNIQUE: Final = "unique index"
_KEY: Final = "foreign key"
_CHECK: Final = "condition"
_TEXT: Final = "text"
"""Words that only two databases of one kind can be compared by: definitions of views, collations, comments."""


class Part(NamedTuple):
    """Name of one thing in a schema; `name` is "" for a table. Foreign keys are named by their column."""

    kind: str
    table: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} of {self.table}" if self.name else f"{self.kind} {self.table}"


Schema = dict[Part, str]


class Difference(NamedTuple):
    """Part of the schema that is not as the migrations make it; `found` is None if it is missing."""

    part: Part
    expected: str
    found: str | None

    @property
    def sentence(self) -> Sentence:
        """The difference in words, for people who read SQL."""
        if self.found is None:
            return Sentence("The {part} is missing.", part=str(self.part))
        if self.part.kind in (TRIGGER, VIEW):
            return Sentence("The {part} is another one than ours.", part=str(self.part))
        return Sentence(
            "The {part} is {found}, and should be {expected}.",
            part=str(self.part),
            found=self.found,
            expected=self.expected,
        )


def find_differences(found: Schema, expected: Schema) -> list[Difference]:
    """Return what is missing or differs. More than is expected, and columns that hold more, are the host's business.

    What is in a missing table is not named; nor is a condition of a column that is missing.
    """
    missing = {part.table for part in expected if part.kind in (TABLE, VIEW) and part not in found}
    return [
        Difference(part, text, found.get(part))
        for part, text in expected.items()
        if not _fits(part, found.get(part), text) and (part.kind in (TABLE, VIEW) or part.table not in missing)
    ]


def _fits(part: Part, found: str | None, expected: str) -> bool:
    if found is None or found == expected or part.kind != COLUMN:
        return found == expected
    (found_type, found_rest), (type_, rest) = (text.split(" ", 1) for text in (found, expected))
    (family, size), (found_family, found_size) = _measure(type_), _measure(found_type)
    return (found_family, found_rest) == (family, rest) and found_size >= size


_SIZES: Final = {
    "tinyint": ("int", 1),
    "smallint": ("int", 2),
    "mediumint": ("int", 3),
    "int": ("int", 4),
    "bigint": ("int", 8),
    "text": ("text", 65_535),
    "mediumtext": ("text", 2**24 - 1),
    "longtext": ("text", 2**32 - 1),
}


def _measure(type_: str) -> tuple[str, int]:
    """Return the family of a type, and how much it holds."""
    if type_ in _SIZES:
        return _SIZES[type_]
    name, _, length = type_.partition("(")
    return "text" if name == "varchar" else name, int(length.rstrip(")") or 0) if length.rstrip(")").isdigit() else 0


# --- expected ---

_WORDS_OF_SERVERS: Final = MYSQL_TYPES | {
    "id": "BIGINT NOT NULL DEFAULT 'auto_increment' PRIMARY KEY",
    "touched": "DATETIME(3) DEFAULT 'touched'",
    "view": "VIEW",
    "generated": "VIRTUAL",
}
_PARTS: Final = ("TABLES", "CHANGES", "VIEWS")
_STORED: Final = re.compile(r"(\{[\w:]+\} GENERATED ALWAYS AS .*) \{generated\}")


def expected_schema(migrations: Iterable[NumberedMigration], *, is_sqlite: bool) -> Schema:
    """Return what these migrations make, the first of all among them."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        migrations = list(migrations)
        texts = [text for it in migrations for name in _PARTS for text in statements_of(it, "sqlite", name)]
        for text in [MIGRATION_TABLE.strip(), *texts]:
            if is_sqlite:
                made.execute(in_sqlite(text, SQLITE_TYPES, "TEXT"))
            else:
                marked = _STORED.sub(r"STORED \1 {generated}", text)
                made.execute(in_sqlite(marked, _WORDS_OF_SERVERS, "VARCHAR({})"))
        for text in (text for it in migrations if is_sqlite for text in statements_of(it, "sqlite", "TRIGGERS")):
            made.execute(text)
        schema = _read_sqlite(lambda sql: made.execute(sql).fetchall(), has_definitions=is_sqlite)
    return schema if is_sqlite else schema | server_triggers(migrations)


def server_triggers(migrations: Iterable[NumberedMigration]) -> Schema:
    """Return the triggers that these migrations make on a server."""
    return dict(_parse_trigger(text) for it in migrations for text in statements_of(it, "mysql", "TRIGGERS"))


_TRIGGER_TEXT: Final = re.compile(r"CREATE TRIGGER (\w+) (BEFORE|AFTER) (\w+) ON (\w+) FOR EACH ROW\s(.*)", re.DOTALL)


def _parse_trigger(text: str) -> tuple[Part, str]:
    made = _TRIGGER_TEXT.search(text)
    assert made, text
    name, time, event, table, body = made.groups()
    return Part(TRIGGER, table, name), _one_line(f"{time} {event} {body}")


# --- found ---


def read_schema(database: Database) -> Schema:
    """Return what the database has of ours, with all that stands on our tables. Blocking."""
    return query_schema(
        lambda sql: database.execute_sql(sql).fetchall(), is_sqlite=isinstance(database, SqliteDatabase)
    )


def query_schema(query: Query, *, is_sqlite: bool) -> Schema:
    """Return `read_schema` of the database that these statements reach."""
    return _read_sqlite(query, has_definitions=True) if is_sqlite else _read_server(query)


_OURS: Final = "substr({}, 1, 7) = 'regsvc_'"
_OF_SQLITE: Final = f"FROM sqlite_master AS m, {{}} WHERE m.type IN ('table', 'view') AND {_OURS.format('m.name')}"


def _read_sqlite(query: Query, *, has_definitions: bool) -> Schema:
    """Return what a SQLite database has, with the definitions of views or, as of servers, with their columns."""
    masters = [
        (str(kind), str(table), str(name), str(sql or ""))
        for kind, table, name, sql in query(
            f"SELECT type AS a, tbl_name AS b, name AS c, sql AS d FROM sqlite_master WHERE {_OURS.format('tbl_name')}"
        )
    ]
    schema = Schema()
    for kind, table, name, sql in masters:
        if kind == TABLE:
            schema[Part(TABLE, table, "")] = ""
            schema |= {Part(_CHECK, table, condition): "" for condition in _conditions(sql)}
        elif kind == TRIGGER:
            schema[Part(TRIGGER, table, name)] = _one_line(sql)
    texts = {name: sql for _kind, _table, name, sql in masters}
    views = {name: sql for kind, _table, name, sql in masters if kind == VIEW}
    keys = query(
        'SELECT m.name AS a, x."from" AS b, x."table" AS c, x."to" AS d, x.on_delete AS e '
        + _OF_SQLITE.format("pragma_foreign_key_list(m.name) AS x")
    )
    schema |= {Part(_KEY, table, column): f"{to} ({key}) {then.lower()}" for table, column, to, key, then in keys}
    schema |= _sqlite_columns(query, views) | _sqlite_indexes(query, texts)
    if has_definitions:
        schema |= {Part(VIEW, name, ""): _one_line(re.sub(r"--.*", "", sql)) for name, sql in views.items()}
    return schema


def _sqlite_columns(query: Query, views: Collection[str]) -> Schema:
    rows = query(
        'SELECT m.name AS a, x.name AS b, x.type AS c, x."notnull" AS d, x.dflt_value AS e, x.pk AS f, x.hidden AS g '
        + _OF_SQLITE.format("pragma_table_xinfo(m.name) AS x")
    )
    found, of_views = Schema(), {name: list[str]() for name in views}
    for table, name, type_, not_null, default, key, hidden in rows:
        if table in of_views:
            of_views[table].append(name)
            continue
        generated = "virtual" if hidden else ""
        type_ = str(type_).lower().removesuffix(" generated always")
        if type_.startswith("stored "):
            type_, generated = type_.removeprefix("stored "), "stored"
        found[Part(COLUMN, table, name)] = _column(
            type_, is_nullable=not (not_null or key), default=default, generated=generated
        )
    return found | {Part(VIEW, name, ""): f"({', '.join(columns)})" for name, columns in of_views.items()}


def _sqlite_indexes(query: Query, texts: Mapping[str, str]) -> Schema:
    rows = query(
        'SELECT m.name AS a, x.name AS b, x."unique" AS c, x.origin AS d, y.name AS e, y."desc" AS f '
        + _OF_SQLITE.format("pragma_index_list(m.name) AS x, pragma_index_xinfo(x.name) AS y")
        + " AND y.key = 1 ORDER BY a, b, y.seqno"
    )
    found = Schema()
    for (table, name, is_unique, origin), columns in groupby(rows, key=lambda row: row[:4]):
        if origin != "pk":
            condition = re.search(r" WHERE (.*)", texts.get(name, ""))
            listed = _columns((column, is_descending) for *_index, column, is_descending in columns)
            found |= _index(table, name, listed, is_unique=is_unique, condition=condition[1] if condition else "")
    return found


def _read_server(query: Query) -> Schema:
    [(version,)] = query("SELECT VERSION() AS a")
    is_mariadb, of = "MariaDB" in version, f"= DATABASE() AND {_OURS.format('table_name')}"
    tables = query(f"SELECT table_name AS a, table_type AS b FROM information_schema.tables WHERE table_schema {of}")
    kinds = {str(name): VIEW if kind == "VIEW" else TABLE for name, kind in tables}
    schema = Schema({Part(TABLE, name, ""): "" for name, kind in kinds.items() if kind == TABLE})
    schema |= _server_columns(query, kinds, of)
    schema |= _server_indexes(query, kinds, of, has_descending=not is_mariadb or _number(version) >= (10, 8))
    keys = query(
        "SELECT k.table_name AS a, k.column_name AS b, k.referenced_table_name AS c, k.referenced_column_name AS d,"
        " r.delete_rule AS e FROM information_schema.key_column_usage AS k"
        " JOIN information_schema.referential_constraints AS r ON r.constraint_schema = k.constraint_schema"
        " AND r.constraint_name = k.constraint_name"
        f" AND r.table_name = k.table_name WHERE k.table_schema = DATABASE() AND {_OURS.format('k.table_name')}"
    )
    schema |= {Part(_KEY, table, column): f"{to} ({key}) {then.lower()}" for table, column, to, key, then in keys}
    schema |= read_server_triggers(query)
    views = query(
        "SELECT table_name AS a, REPLACE(view_definition, CONCAT('`', DATABASE(), '`.'), '') AS b"
        f" FROM information_schema.views WHERE table_schema {of}"
    )
    schema |= {Part(_TEXT, name, "definition"): _one_line(definition or "") for name, definition in views}
    if is_mariadb:  # MySQL's view of the conditions names no table
        checks = query(
            "SELECT table_name AS a, check_clause AS b FROM information_schema.check_constraints"
            f" WHERE constraint_schema {of}"
        )
        schema |= {Part(_CHECK, table, _one_condition(text)): "" for table, text in checks}
    return schema


def read_server_triggers(query: Query) -> Schema:
    """Return the triggers on our tables; a login that may not create any sees none either."""
    triggers = query(
        "SELECT event_object_table AS a, trigger_name AS b, action_timing AS c, event_manipulation AS d,"
        " action_statement AS e FROM information_schema.triggers WHERE trigger_schema = DATABASE()"
        f" AND {_OURS.format('event_object_table')}"
    )
    return {Part(TRIGGER, table, name): _one_line(" ".join(words)) for table, name, *words in triggers}


def _server_columns(query: Query, kinds: Mapping[str, str], of: str) -> Schema:
    rows = query(
        "SELECT table_name AS a, column_name AS b, column_type AS c, is_nullable AS d, column_default AS e, extra AS f,"
        " collation_name AS g, column_comment AS h FROM information_schema.columns"
        f" WHERE table_schema {of} ORDER BY table_name, ordinal_position"
    )
    found, views = Schema(), dict[str, list[str]]()
    for table, name, type_, nullable, default, extra, collation, comment in rows:
        if kinds.get(table) == VIEW:
            views.setdefault(table, []).append(name)
            continue
        more = str(extra).lower()
        default = None if str(default).lower() == "null" else default
        default = "auto_increment" if "auto_increment" in more else "touched" if "on update" in more else default
        generated = next((word for word in ("stored", "virtual") if word in more), "")
        found[Part(COLUMN, table, name)] = _column(
            str(type_).lower(), is_nullable=nullable == "YES", default=default, generated=generated
        )
        found[Part(_TEXT, table, name)] = f"{collation}: {comment}"
    return found | {Part(VIEW, name, ""): f"({', '.join(columns)})" for name, columns in views.items()}


def _server_indexes(query: Query, kinds: Mapping[str, str], of: str, *, has_descending: bool) -> Schema:
    rows = query(
        "SELECT table_name AS a, index_name AS b, non_unique AS c, column_name AS d, collation AS e"
        f" FROM information_schema.statistics WHERE table_schema {of} ORDER BY table_name, index_name, seq_in_index"
    )
    found = Schema()
    for (table, name, non_unique), columns in groupby(rows, key=lambda row: row[:3]):
        if name != "PRIMARY":
            listed = _columns((column, order == "D") for *_index, column, order in columns)
            found |= _index(table, name, listed, is_unique=not non_unique, condition="")
    return found


# --- descriptions ---


def _column(type_: str, *, is_nullable: bool, default: object, generated: str) -> str:
    type_ = re.sub(r"^(\w*int)\(\d+\)", r"\1", "int" if type_ == "integer" else type_)  # the number is for display
    default = None if default is None else str(default).strip("'").lower()
    null = "null" if is_nullable else "not null"
    return " ".join([type_, null, *([] if default is None else [f"default '{default}'"]), *filter(None, [generated])])


def _columns(columns: Iterable[tuple[str, object]]) -> str:
    return f"({', '.join(f'{column} desc' if is_descending else column for column, is_descending in columns)})"


def _index(table: str, name: str, columns: str, *, is_unique: object, condition: str) -> Schema:
    """Return an index. One that is unique is known by its columns: it was made with the table, and has any name."""
    if is_unique:
        return {Part(_UNIQUE, table, columns): ""}
    return {Part(INDEX, table, name): f"{columns} where {condition}" if condition else columns}


def _conditions(sql: str) -> Iterator[str]:
    """Yield the conditions (CHECK) in the text of a table."""
    for start in (found.end() for found in re.finditer(r"\bCHECK \(", sql)):
        depth, end = 1, start
        while depth:
            depth += {"(": 1, ")": -1}.get(sql[end], 0)
            end += 1
        yield _one_condition(sql[start : end - 1])


def _one_condition(text: str) -> str:
    return re.sub(r"\s+|[`()]", "", text).lower()


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
