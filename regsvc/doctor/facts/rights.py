"""Rights of our login on MySQL or MariaDB, found out by statements that change nothing.

GRANTs are not parsed: they exist per schema, table, column, pattern and role, and every version lists them differently.
EXPLAIN needs the rights of the statement it explains without running it. For statements that create or alter, we send
one that cannot succeed: the server checks the rights before it finds that out.
"""

# ruff: noqa: S608 - the names come from AuthMe's config, whose reader takes nothing but plain words

import secrets
from collections.abc import Iterable, Mapping
from typing import Final

from regsvc.doctor.facts.readonly_db import DatabaseUnreadable, ReadOnlyDatabase

NO_SUCH_TABLE: Final = 1146
NO_SUCH_COLUMN: Final = 1054
READ_ONLY_SERVER: Final = 1290

# 1419: with binary logging only SUPER may create triggers
_DENIED_CODES: Final = {1044, 1142, 1143, 1227, 1370, 1419}
# 0: the connection was lost
_INCONCLUSIVE_CODES: Final = {0, 2006, 2013, NO_SUCH_TABLE, NO_SUCH_COLUMN, READ_ONLY_SERVER}


# MySQL's name of the right → a statement that needs it and cannot succeed.
_SCHEMA_RIGHTS: Final[Mapping[str, str]] = {
    "SELECT": "EXPLAIN SELECT 1 FROM {missing}",
    "INSERT": "EXPLAIN INSERT INTO {missing} VALUES (1)",
    "UPDATE": "EXPLAIN UPDATE {missing} SET x = 1",
    "DELETE": "EXPLAIN DELETE FROM {missing}",
    "CREATE": "CREATE TABLE {probe} (x INT, x INT)",
    "ALTER": "ALTER TABLE {missing} ADD COLUMN x INT",
    "INDEX": "CREATE INDEX x ON {missing} (x)",
}
_TRIGGER: Final = "CREATE TRIGGER {probe} BEFORE INSERT ON {missing} FOR EACH ROW SET @x = 1"
_VIEW: Final = "CREATE VIEW {probe} AS SELECT 1 FROM {missing}"


def missing_row_rights(database: ReadOnlyDatabase, table: str, columns: Iterable[str]) -> list[str]:
    """Return which of SELECT, INSERT, UPDATE and DELETE the login lacks on these columns of the table.

    Raises `DatabaseUnreadable`, also if there is no such table.
    """
    quoted = [f"`{name}`" for name in columns]
    listed, assigned = ", ".join(quoted), ", ".join(f"{name} = NULL" for name in quoted)
    nulls = ", ".join("NULL" for _name in quoted)
    statements = {
        "SELECT": f"EXPLAIN SELECT {listed} FROM {table}",
        "INSERT": f"EXPLAIN INSERT INTO {table} ({listed}) VALUES ({nulls})",
        "UPDATE": f"EXPLAIN UPDATE {table} SET {assigned} WHERE 1 = 0",
        "DELETE": f"EXPLAIN DELETE FROM {table} WHERE 1 = 0",
    }
    return [right for right, statement in statements.items() if not _is_allowed(database, statement)]


def missing_schema_rights(database: ReadOnlyDatabase) -> list[str]:
    """Return which rights that our tables need the login lacks in our schema. Raises `DatabaseUnreadable`."""
    return [right for right, statement in _SCHEMA_RIGHTS.items() if not _may(database, statement)]


def current_login(database: ReadOnlyDatabase) -> str:
    """Return our account as a GRANT names it: `'authme'@'%'`. Raises `DatabaseUnreadable`."""
    user, _at, host = str(database.value("SELECT CURRENT_USER() AS login")).rpartition("@")
    return f"'{user}'@'{host}'"


def can_create_triggers(database: ReadOnlyDatabase) -> bool:
    """Return whether the login may create triggers. Raises `DatabaseUnreadable`."""
    return _may(database, _TRIGGER)


def can_create_views(database: ReadOnlyDatabase) -> bool:
    """Return whether the login may create views. Raises `DatabaseUnreadable`."""
    return _may(database, _VIEW)


def _may(database: ReadOnlyDatabase, statement: str) -> bool:
    number = secrets.token_hex(8)  # no real table has this name
    names = {"probe": f"`regsvc_probe_{number}`", "missing": f"`regsvc_none_{number}`"}
    try:
        return _is_allowed(database, statement.format(**names))
    except DatabaseUnreadable as error:
        if error.code == NO_SUCH_TABLE:
            return True
        raise


def _is_allowed(database: ReadOnlyDatabase, statement: str) -> bool:
    """Return whether the login may run the statement. Raises `DatabaseUnreadable` if the answer does not tell."""
    try:
        database.rows(statement)
    except DatabaseUnreadable as error:
        if error.code in _INCONCLUSIVE_CODES:
            raise
        return error.code not in _DENIED_CODES  # any other error was found after the rights were checked
    return True
