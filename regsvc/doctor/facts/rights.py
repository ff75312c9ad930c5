"""What our login may do on MySQL or MariaDB: the server is asked, in ways that do nothing.

GRANTs come by schema, table, column, pattern and role, and are listed in other words by every version; so nothing is
read there. EXPLAIN needs the rights of the statement it explains, and does not run it. Of a statement that makes or
alters something there is one that cannot succeed: the server looks at the rights before it finds that out.
"""

# ruff: noqa: S608 - the names come from AuthMe's config, whose reader takes nothing but plain words

import secrets
from collections.abc import Iterable, Mapping
from typing import Final

from regsvc.doctor.facts.readonly_db import Reading, Unreadable

NO_SUCH_TABLE: Final = 1146
NO_SUCH_COLUMN: Final = 1054
READ_ONLY_SERVER: Final = 1290


_NO_RIGHT: Final = {1044, 1142, 1143, 1227, 1370, 1419}  # the last: binary logging lets only SUPER make triggers
_SAYS_NOTHING: Final = {0, 2006, 2013, NO_SUCH_TABLE, NO_SUCH_COLUMN, READ_ONLY_SERVER}  # the first: connection lost


# MySQL's name of the right → a statement that needs it and cannot succeed.
_IN_SCHEMA: Final[Mapping[str, str]] = {
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


def missing_row_rights(reading: Reading, place: str, columns: Iterable[str]) -> list[str]:
    """Which of SELECT, INSERT, UPDATE and DELETE the login lacks on the table, for these columns of it.

    Raises `Unreadable`, too where there is no such table.
    """
    quoted = [f"`{name}`" for name in columns]
    listed, assigned = ", ".join(quoted), ", ".join(f"{name} = NULL" for name in quoted)
    nulls = ", ".join("NULL" for _name in quoted)
    statements = {
        "SELECT": f"EXPLAIN SELECT {listed} FROM {place}",
        "INSERT": f"EXPLAIN INSERT INTO {place} ({listed}) VALUES ({nulls})",
        "UPDATE": f"EXPLAIN UPDATE {place} SET {assigned} WHERE 1 = 0",
        "DELETE": f"EXPLAIN DELETE FROM {place} WHERE 1 = 0",
    }
    return [right for right, statement in statements.items() if not _is_allowed(reading, statement)]


def missing_schema_rights(reading: Reading) -> list[str]:
    """Which of those that our own tables need the login lacks in its schema. Raises `Unreadable`."""
    return [right for right, statement in _IN_SCHEMA.items() if not _may(reading, statement)]


def current_login(reading: Reading) -> str:
    """Who we are, as a GRANT names it: `'authme'@'%'`. Raises `Unreadable`."""
    user, _at, host = str(reading.value("SELECT CURRENT_USER() AS login")).rpartition("@")
    return f"'{user}'@'{host}'"


def may_make_triggers(reading: Reading) -> bool:
    """Raises `Unreadable`."""
    return _may(reading, _TRIGGER)


def may_make_views(reading: Reading) -> bool:
    """Raises `Unreadable`."""
    return _may(reading, _VIEW)


def _may(reading: Reading, statement: str) -> bool:
    number = secrets.token_hex(8)  # so that nobody has a table of this name
    names = {"probe": f"`regsvc_probe_{number}`", "missing": f"`regsvc_none_{number}`"}
    try:
        return _is_allowed(reading, statement.format(**names))
    except Unreadable as error:
        if error.code == NO_SUCH_TABLE:
            return True
        raise


def _is_allowed(reading: Reading, statement: str) -> bool:
    """Raises `Unreadable` where the answer says nothing of rights."""
    try:
        reading.rows(statement)
    except Unreadable as error:
        if error.code in _SAYS_NOTHING:
            raise
        return error.code not in _NO_RIGHT  # whatever else is wrong with it was found after the rights
    return True
