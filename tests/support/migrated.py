"""Our tables as this version's migrations create them, for tests of anything but the migrations.

The migrator itself creates them once in every test process; later tests get a copy, which takes a third of the time on
MariaDB and a tenth on SQLite. `tests/house_rules/test_support.py` compares a copy with the migrator's work.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from peewee import Database as OurDatabase
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from regsvc.database.engine import open_database
from regsvc.database.migrator import migrate
from regsvc.database.models import bind_models
from tests.support.manual_clock import ManualClock
from tests.support.peers.mariadb import Database, MariaDBServer, is_alive

TIMEOUT = timedelta(seconds=20)
CHANGES = ("alter", "create", "drop", "rename", "truncate", "grant", "revoke")
"""Words in the names of the server's counters of statements that change tables or rights."""

_copied: dict[int, tuple[str, ...]] = {}
"""By the server's port: the statements that create the tables in an empty schema."""


_lent: dict[Database, "SpareSchema"] = {}
"""Schemas that are on loan, and have our tables already."""


def fill_file(path: Path) -> None:
    """Write a new SQLite file at `path`, readable for our user only; a missing folder is created."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(_migrated_file())


def fill_schema(schema: Database) -> None:
    """Create the tables, views and triggers in an empty schema; one on loan has them."""
    if schema in _lent:
        _lent[schema].begin()
        return
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


class SpareSchema:
    """A schema with our tables that one test after the other borrows: to empty it takes a third of making another.

    One in which the test may have changed tables or rights, by the server's own counters, is dropped.
    """

    def __init__(self, server: MariaDBServer) -> None:
        self._server = server
        self._root: Connection[Cursor] | None = None  # kept: two questions for each test, and the emptying
        self._spare: tuple[Database, ExitStack] | None = None
        self._changes: object = None

    @contextmanager
    def lent(self) -> Iterator[Database]:
        """Lend it to a test that creates at most AuthMe's table before it calls `fill_schema`."""
        schema, held = self._spare or self._make()
        self._spare = None
        self._changes = None
        _lent[schema] = self
        with held:
            yield schema
            del _lent[schema]
            schema.close_connections()
            if self._changes == self._count_changes():
                self._empty(schema)
                self._spare = schema, held.pop_all()

    def begin(self) -> None:
        """Note the changes of tables and rights before those of the test."""
        self._changes = self._count_changes()

    def close(self) -> None:
        if self._spare is not None:
            self._spare[1].close()
        if self._root is not None:
            self._root.close()

    @contextmanager
    def _cursor(self) -> Iterator[Cursor]:
        """Return a cursor with every right there is."""
        if self._root is None or not is_alive(self._root):
            self._root = self._server.connect_as_root()
        with self._root.cursor() as cursor:
            yield cursor

    def _make(self) -> tuple[Database, ExitStack]:
        held = ExitStack()
        schema = held.enter_context(self._server.fresh_database())
        fill_schema(schema)
        return schema, held

    def _count_changes(self) -> object:
        with self._cursor() as cursor:
            cursor.execute(f"SHOW GLOBAL STATUS WHERE variable_name REGEXP '^Com_.*({'|'.join(CHANGES)})'")
            return cursor.fetchall()

    def _empty(self, schema: Database) -> None:
        """Empty our tables, so that their numbers begin with 1, and drop AuthMe's."""
        tables = (
            "SELECT table_name, auto_increment FROM information_schema.tables"
            " WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' AND table_name <> 'regsvc_migration'"
        )
        with self._cursor() as cursor:
            cursor.execute("SET foreign_key_checks = 0")
            cursor.execute(f"USE `{schema.name}`")
            cursor.execute(tables)
            numbers = dict(cursor.fetchall())
            ours = [name for name in numbers if name.startswith("regsvc_")]
            for name in numbers.keys() - ours:
                cursor.execute(f"DROP TABLE `{name}`")
            cursor.execute(" UNION ALL ".join(f"SELECT '{it}' WHERE EXISTS (SELECT 1 FROM `{it}`)" for it in ours))
            used = {name for (name,) in cursor.fetchall()} | {name for name in ours if (numbers[name] or 1) > 1}
            for name in used:
                cursor.execute(f"TRUNCATE TABLE `{name}`")


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
