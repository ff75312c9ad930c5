"""Our own tables as this version's migrations make them, for tests of something else than the migrations.

The migrator itself makes them once in every process that tests; whoever wants them after that gets a copy, which takes
a third of the time on MariaDB and a tenth on SQLite. `tests/house_rules/test_support.py` holds a copy against the
migrator's work.
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
from tests.support.mariadb import Database

PATIENCE = timedelta(seconds=20)

_copied: dict[int, tuple[str, ...]] = {}
"""By the server's port: what makes the tables in an empty schema."""


def fill_file(path: Path) -> None:
    """A new SQLite file at `path`, readable for us alone; its folder is made where there is none."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(_migrated_file())


def fill_schema(schema: Database) -> None:
    """The tables, views and triggers in a schema that has none of them yet."""
    ours = open_database(schema.url, PATIENCE)
    with ours.connection_context():
        statements = _copied.get(schema.port)
        if statements is None:
            bind_models(ours)
            migrate(ours, ManualClock())
            _copied[schema.port] = (*_tables_of(ours), *_triggers_of(ours), _migrations_of(ours))
            return
        with ours.connection().cursor() as cursor:
            cursor.execute("SET foreign_key_checks = 0")  # the tables come by the alphabet
            for statement in statements:
                cursor.execute(statement)


@cache
def _migrated_file() -> bytes:
    with TemporaryDirectory() as directory:
        file = Path(directory) / "companion.db"
        ours = open_database(f"sqlite:///{file}", PATIENCE)
        bind_models(ours)
        with ours.connection_context():
            migrate(ours, ManualClock())
        return file.read_bytes()


def _tables_of(ours: OurDatabase) -> list[str]:
    """Tables first: a view wants those that it shows."""
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
    """The one table in which the migrations leave rows."""
    rows = _rows(ours, "SELECT number, name, applied_at FROM regsvc_migration")
    values = ", ".join(f"({number}, '{name}', '{moment}')" for number, name, moment in rows)
    return f"INSERT INTO regsvc_migration (number, name, applied_at) VALUES {values}"


def _rows(ours: OurDatabase, sql: str) -> list[tuple[Any, ...]]:
    return list(ours.execute_sql(sql).fetchall())
