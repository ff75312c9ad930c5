"""Tables of previews become equal to those of 1.0, and three columns go that nothing has read since.

A preview of November has migrations of the same numbers, whose indexes and generated columns were others. What differs
is found by comparison, before any later migration is applied; a database that has what it should is left alone.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from peewee import Database, SqliteDatabase

from regsvc.database.migrator import NumberedMigration, statements_of
from regsvc.database.schema import (
    COLUMN,
    INDEX,
    TABLE,
    TRIGGER,
    VIEW,
    Difference,
    Part,
    expected_schema,
    find_differences,
    read_schema,
)

CHANGES: Final = {
    "sqlite": [  # a column cannot be dropped there while a view of the host's own is broken
        "DROP TABLE IF EXISTS regsvc_sync_state",
        """CREATE TABLE regsvc_sync_state (
  id          INTEGER PRIMARY KEY CHECK (id = 1), -- always 1
  policy      {text:64} NOT NULL, -- fingerprint of config and version; if it changes, every row is compared again
  operators   {long_text} NOT NULL, -- operators' names at that time, in lower case, one per line
  compared_at {moment} NOT NULL -- when every row was last compared
)""",
    ],
    "mysql": [
        f"ALTER TABLE regsvc_sync_state DROP COLUMN {column}" for column in ("user_count", "user_ids", "newest_id")
    ],
}

_RETIRED: Final = (
    Part(INDEX, "regsvc_allowlist", "regsvc_allowlist_shown_as"),
    Part(INDEX, "regsvc_audit", "regsvc_audit_action"),
    Part(INDEX, "regsvc_audit", "regsvc_audit_created_at"),
    Part(INDEX, "regsvc_audit", "regsvc_audit_operator"),
    Part(INDEX, "regsvc_sync_record", "regsvc_sync_record_plugin_state"),
    Part(INDEX, "regsvc_user", "regsvc_user_applied_role"),
    Part(INDEX, "regsvc_user", "regsvc_user_asked_at"),
    Part(INDEX, "regsvc_user", "regsvc_user_edited"),
    Part(INDEX, "regsvc_user", "regsvc_user_newest"),
    Part(INDEX, "regsvc_user", "regsvc_user_status"),
    Part(INDEX, "regsvc_user", "regsvc_user_status_ip"),
)
"""All indexes that any version made and none makes now."""


def find_repairs(database: Database, applied: Sequence[NumberedMigration]) -> Iterator[str]:
    """Yield the statements that make the schema what these migrations make, each to be run before the next is taken."""
    is_sqlite = isinstance(database, SqliteDatabase)
    expected = expected_schema(applied, is_sqlite=is_sqlite)
    dialect: Literal["sqlite", "mysql"] = "sqlite" if is_sqlite else "mysql"
    names = ("TABLES", "CHANGES", "VIEWS", "TRIGGERS")
    texts = [text.strip() for it in applied for name in names for text in statements_of(it, dialect, name)]
    found = read_schema(database)
    for kind, repair in _REPAIRS.items():
        differences = [it for it in find_differences(found, expected) if it.part.kind == kind]
        statements = [statement for it in differences for statement in repair(it, texts, is_sqlite)]
        yield from statements
        if statements:
            found = read_schema(database)
    yield from (f"DROP INDEX {part.name} ON {part.table}" for part in _RETIRED if part in found.keys() - expected)


def _find_table(difference: Difference, texts: Sequence[str], _is_sqlite: bool) -> Iterator[str]:
    yield from [text for text in texts if text.startswith(f"CREATE TABLE {difference.part.table} ")][-1:]


def _repair_column(difference: Difference, texts: Sequence[str], is_sqlite: bool) -> Iterator[str]:
    """Yield statements that add a missing column, and make a generated one again, by which nothing is lost."""
    _kind, table, name = difference.part
    added = [text for text in texts if re.match(rf"ALTER TABLE {table} ADD COLUMN\s+{name} ", text)]
    [made] = [text for text in texts if text.startswith(f"CREATE TABLE {table} ")][-1:]
    line = re.search(rf"^  {name} (?!.* NOT NULL,? --).*$", made, re.MULTILINE)
    if line:
        added.append(f"ALTER TABLE {table} ADD COLUMN\n{re.sub(',? --', ' --', line[0], count=1)}")
    if difference.found is not None:
        if is_sqlite or not difference.expected.endswith((" stored", " virtual")):
            return
        yield f"ALTER TABLE {table} DROP COLUMN {name}"
    yield from added[-1:]


def _repair_index(difference: Difference, texts: Sequence[str], is_sqlite: bool) -> Iterator[str]:
    """Yield one statement for a server, where a foreign key may need the index at any time."""
    _kind, table, name = difference.part
    [made] = [text for text in texts if text.startswith(f"CREATE INDEX {name} ON {table} ")][-1:]
    if difference.found is not None and not is_sqlite:
        yield made.replace(
            f"CREATE INDEX {name} ON {table}", f"ALTER TABLE {table} DROP INDEX {name}, ADD INDEX {name}"
        )
        return
    if difference.found is not None:
        yield f"DROP INDEX {name} ON {table}"
    yield made


def _repair_view(difference: Difference, texts: Sequence[str], _is_sqlite: bool) -> Iterator[str]:
    yield f"DROP VIEW IF EXISTS {difference.part.table}"
    yield from [text for text in texts if text.startswith(f"CREATE {{view}} {difference.part.table} ")][-1:]


def _repair_trigger(difference: Difference, texts: Sequence[str], _is_sqlite: bool) -> Iterator[str]:
    name = difference.part.name
    yield f"DROP TRIGGER IF EXISTS {name}"
    yield from [text for text in texts if re.match(rf"CREATE TRIGGER (IF NOT EXISTS )?{name} ", text)][-1:]


_REPAIRS: Final = {
    TABLE: _find_table,
    COLUMN: _repair_column,
    INDEX: _repair_index,
    VIEW: _repair_view,
    TRIGGER: _repair_trigger,
}
