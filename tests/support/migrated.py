"""Our tables as this version's migrations create them, for tests of anything but the migrations.

The migrator itself creates them once in every test process; later tests get a copy, which takes a third of the time on
MariaDB and a tenth on SQLite. `tests/house_rules/test_support.py` compares a copy with the migrator's work.
"""

from datetime import timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from peewee import Database as OurDatabase

from regsvc.database.engine import open_database
from regsvc.database.migrator import migrate
from regsvc.database.models import bind_models
from tests.support.manual_clock import ManualClock
from tests.support.peers.mariadb import Database

TIMEOUT = timedelta(seconds=20)

_copied: dict[int, tuple[str, ...]] = {}
"""By the server's port: the statements that create the tables in an empty schema."""


def fill_file(path: Path) -> None:
    """Write a new SQLite file at `path`, readable for our user only; a missing folder is created."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(_migrated_file())


def fill_schema(schema: Database) -> None:
    """Create the tables, views and triggers in an empty schema."""
    ours = open_database(schema.url, TIMEOUT)
    with ours.connection_context():
        statements = _copied.get(schema.port)
        if statements is None:
            bind_models(ours)
            migrate(ours, ManualClock())
            _copied[schema.port] = (*_tables_of(ours), *_triggers_of(ours), _migrations_of(ours))
            return
        with ours.connection().cursor() as cursor:
            cursor.execute("SET foreign_key_checks = 0")  # the tables are created in alphabetical order
            for statement in statements:
                cursor.execute(statement)


@cache
def _migrated_file() -> bytes:
    with TemporaryDirectory() as directory:
        file = Path(directory) / "companion.db"
        ours = open_database(f"sqlite:///{file}", TIMEOUT)
        bind_models(ours)
        with ours.connection_context():
            migrate(ours, ManualClock())
        return file.read_bytes()


def _tables_of(ours: OurDatabase) -> list[str]:
    """Return the statements, tables first: a view needs those that it shows."""
    kinds = dict(_rows(ours, "SHOW FULL TABLES"))
    return [
        _rows(ours, f"SHOW CREATE TABLE `{name}`")[0][1]
        for wanted in ("BASE TABLE", "VIEW")
        for name, kind in kinds.items()
        if kind == wanted and name.startswith("regsvc_")
    ]


def _triggers_of(ours: OurDatabase) -> list[str]:
    return [_rows(ours, f"SHOW CREATE TRIGGER `{name}`")[0][2] for name, *_rest in _rows(ours, "SHOW TRIGGERS")]


def _migrations_of(ours: OurDatabase) -> str:
    """Return the statement for the only table in which the migrations leave rows."""
    rows = _rows(ours, "SELECT number, name, applied_at FROM regsvc_migration")
    values = ", ".join(f"({number}, '{name}', '{moment}')" for number, name, moment in rows)
    return f"INSERT INTO regsvc_migration (number, name, applied_at) VALUES {values}"


def _rows(ours: OurDatabase, sql: str) -> list[tuple[Any, ...]]:
    return list(ours.execute_sql(sql).fetchall())
