"""Schema migrations: numbered, each applied once, resumable after an interruption.

A migration is a module `regsvc/database/migrations/mNNNN_<name>.py`, listed in that package, with any of `TABLES`, SQL
statements whose placeholders in braces stand for the dialect's types, `CHANGES` (such statements by dialect),
`find_repairs` (yields what mends the migrations applied before), `TRIGGERS` by dialect, and `VIEWS`. Triggers and views
are skipped, with a warning, for a database login that is not allowed to create them. The first one also upgrades a
database of a preview version (`upgrade_from_preview`).
"""

import importlib
import logging
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Final, Literal

from peewee import Database, DatabaseError, InternalError, OperationalError, SqliteDatabase

from regsvc.core.clock import Clock
from regsvc.core.exceptions import StartupError
from regsvc.database import migrations
from regsvc.database.engine import is_retryable
from regsvc.database.lease import TaskLease, instance_id
from regsvc.database.migrations import m0100_baseline, upgrade_from_preview
from regsvc.database.migrations.upgrade_from_preview import BASELINE
from regsvc.database.models import Migration

log = logging.getLogger(__name__)

MYSQL_TYPES: Final = {
    "id": "BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY",
    "moment": "DATETIME(3)",
    "touched": "DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)",
    "bool": "TINYINT(1)",
    "text": "TEXT",
    "long_text": "MEDIUMTEXT",  # up to 16 MB; TEXT ends at 64 KB
    # a query runs with the rights of its own login, so that a view outlives the login that created it
    "view": "SQL SECURITY INVOKER VIEW",
    # VIRTUAL ones with an index can hang the recovery of a killed MariaDB: its purge waits for a table that is closed
    "generated": "STORED",
    "where_marked": "",
}
SQLITE_TYPES: Final = {
    "id": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "moment": "TEXT",
    "touched": "TEXT",  # triggers write it
    "bool": "INTEGER",
    "text": "TEXT",
    "long_text": "TEXT",
    "generated": "VIRTUAL",  # ALTER TABLE adds no others
    "view": "VIEW IF NOT EXISTS",
    "where_marked": " WHERE changed_at IS NOT NULL",  # of an index; MySQL's cover all rows
}
_MYSQL_TABLE = ") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
# table or view, column, key, trigger exists, key does not: an interrupted migration continues
_MYSQL_ALREADY_DONE = {1050, 1060, 1061, 1359, 1091}
_MYSQL_DENIED = {1044, 1142, 1227, 1419}  # no right, or binary logging forbids it

MIGRATION: Final = "migration"
"""Name of the lease of the process that migrates."""
_LEASE: Final = timedelta(minutes=5)
"""How long a migration may take before another process may try to apply it, too."""
_MAX_WAIT: Final = timedelta(seconds=10)
_POLL_INTERVAL: Final = 0.25
_MACHINE: Final = Path("/")
_KEPT_COPIES: Final = 2
_RUNNING: Final = "another process is migrating the database"

MIGRATION_TABLE: Final = """
CREATE TABLE IF NOT EXISTS regsvc_migration (
  number     INTEGER PRIMARY KEY, -- of the migration
  name       {text:100} NOT NULL, -- of the migration
  applied_at {moment} NOT NULL -- when
)
"""
"""The only table that is not created by a migration."""


class UnusableSchema(StartupError):
    """The database is of a newer version, or of one too old to be upgraded; `str()` says what to do."""


class MigrationRunning(Exception):
    """Another process is migrating the database and has not come to an end yet; `str()` says so."""


@dataclass(frozen=True)
class NumberedMigration:
    """A migration; `name` is that of its module without the number."""

    number: int
    name: str
    module: ModuleType


def list_migrations() -> list[NumberedMigration]:
    """Return all migrations that this version knows, in order."""
    found = []
    for module_name in migrations.MIGRATIONS:
        number, _, name = module_name.removeprefix("m").partition("_")
        module = importlib.import_module(f"{migrations.__name__}.{module_name}")
        found.append(NumberedMigration(int(number), name, module))
    return found


def migrate(database: Database, now: Clock, instance: str | None = None, max_wait: timedelta = _MAX_WAIT) -> list[str]:
    """Apply the missing migrations and return their names, which may be none.

    One process at a time does so; others wait for it, but no longer than `max_wait`. `instance` (`instance_id`) tells
    that a process that was killed was ours; None: any process of this machine was. Raises `UnusableSchema` before
    anything is changed, `MigrationRunning`, and the database's own errors.
    """
    if not _list_missing(database):
        return []
    if isinstance(database, SqliteDatabase):
        return _apply_missing(database, now, lambda: None)  # each migration takes the write lock
    lease = TaskLease(database, MIGRATION, _LEASE, instance or instance_id(_MACHINE))
    _wait_for(database, lease, max_wait)
    try:
        return _apply_missing(database, now, partial(_require, lease))
    finally:
        lease.remove()


def _list_missing(database: Database) -> list[NumberedMigration]:
    """Return the migrations that the database lacks. Raises `UnusableSchema`."""
    applied = _applied_numbers(database)
    known = list_migrations()
    newest = known[-1].number
    if applied and max(applied) > newest:
        raise UnusableSchema(
            f"The database has migration {max(applied)}, but this version knows only {newest} of them. "
            "Install the newer version again, or restore the backup made before it was installed."
        )
    if problem := upgrade_from_preview.find_problem(database, applied):
        raise UnusableSchema(problem)
    return [migration for migration in known if migration.number not in applied]


def _apply_missing(database: Database, now: Clock, renew: Callable[[], None]) -> list[str]:
    if isinstance(database, SqliteDatabase):
        _copy_once(database)
    missing = _list_missing(database)
    database.execute_sql(_in_dialect(database, MIGRATION_TABLE.strip()))
    applied = [migration for migration in list_migrations() if migration not in missing]
    with database.atomic() if isinstance(database, SqliteDatabase) else nullcontext():
        for migration in missing if applied else ():
            _repair(database, migration, applied, renew)
    for migration in missing:
        renew()
        _apply(database, migration, now(), renew, is_last=migration is missing[-1])
    return [f"{migration.number:04} {migration.name}" for migration in missing]


def _wait_for(database: Database, lease: TaskLease, max_wait: timedelta) -> None:
    """Acquire the lease, in a table that may have to be created first. Raises `MigrationRunning`."""
    _create_table(database, "regsvc_lease")
    deadline = time.monotonic() + max_wait.total_seconds()
    while not _acquire(lease):
        if time.monotonic() > deadline:
            raise MigrationRunning(_RUNNING)
        time.sleep(_POLL_INTERVAL)


def _acquire(lease: TaskLease) -> bool:
    try:
        return lease.acquire()
    except (OperationalError, InternalError) as error:
        if not is_retryable(error):
            raise
        return False  # another process was first, on this node of a cluster or on another one


def _require(lease: TaskLease) -> None:
    """Extend the lease. Raises `MigrationRunning` if a statement took so long that another process has it now."""
    if not _acquire(lease):
        raise MigrationRunning(_RUNNING)


def _applied_numbers(database: Database) -> set[int]:
    if not database.table_exists("regsvc_migration"):
        return set()
    return {row.number for row in Migration.select(Migration.number)}


def _apply(
    database: Database, migration: NumberedMigration, moment: datetime, renew: Callable[[], None], *, is_last: bool
) -> None:
    """Apply the migration: on SQLite all of it or nothing; MySQL commits each statement."""
    log.info("migrating the database: %04d %s", migration.number, migration.name)
    with database.atomic() if isinstance(database, SqliteDatabase) else nullcontext():
        if migration.number == BASELINE:
            upgrade_from_preview.move_rows(database, partial(_create_table, database, "regsvc_sync_record"), renew)
        dialect: Literal["sqlite", "mysql"] = "sqlite" if isinstance(database, SqliteDatabase) else "mysql"
        for statement in [text for name in ("TABLES", "CHANGES") for text in statements_of(migration, dialect, name)]:
            _execute_once(database, _in_dialect(database, statement))
        _create_triggers(database, statements_of(migration, dialect, "TRIGGERS"))
        _create_views(database, statements_of(migration, dialect, "VIEWS"), migration.name)
        applied = {"number": migration.number, "name": migration.name, "applied_at": moment}
        with database.atomic():
            Migration.insert(applied).on_conflict_ignore().execute()
            Migration.delete().where(Migration.number < BASELINE).execute()
        if is_last and isinstance(database, SqliteDatabase):
            database.execute_sql("PRAGMA user_version = 0")


def _repair(
    database: Database, migration: NumberedMigration, applied: list[NumberedMigration], renew: Callable[[], None]
) -> None:
    """Let a migration that repairs those applied before do so, before others of the missing ones rely on them."""
    find_repairs: Callable[..., Iterable[str]] | None = getattr(migration.module, "find_repairs", None)
    for statement in find_repairs(database, applied) if find_repairs else ():
        log.info("repairing the tables: %s", " ".join(statement.split(" -- ")[0].split()))
        renew()
        if statement.startswith(("DROP VIEW", "CREATE {view}")):
            _create_views(database, [statement], migration.name)
        elif statement.startswith(("DROP TRIGGER", "CREATE TRIGGER")):
            _create_triggers(database, [statement])
        else:
            _execute_once(database, _in_dialect(database, statement))


def _create_table(database: Database, name: str) -> None:
    """Create a table of the baseline that is needed before the others, unless it exists."""
    texts = split_statements(m0100_baseline.TABLES)
    [statement] = [text for text in texts if text.startswith(f"CREATE TABLE {name} ")]
    _execute_once(database, _in_dialect(database, statement))


def statements_of(migration: NumberedMigration, dialect: Literal["sqlite", "mysql"], name: str) -> list[str]:
    """Return the statements that the migration has under this name for this dialect; none if it has no such name."""
    given: str | Mapping[str, list[str]] = getattr(migration.module, name, "")
    return split_statements(given) if isinstance(given, str) else given.get(dialect, [])


def split_statements(text: str) -> list[str]:
    """Split a migration's text into statements, each of which ends with a semicolon at the end of a line."""
    return [statement.strip() for statement in re.split(r";\n", text) if statement.strip()]


def _execute_once(database: Database, statement: str) -> None:
    try:
        database.execute_sql(statement)
    except (OperationalError, InternalError) as error:
        is_there = statement.startswith("ALTER TABLE") and "duplicate column" in str(error)  # in SQLite's words
        if error.args[0] not in _MYSQL_ALREADY_DONE and not is_there:
            raise


def _create_triggers(database: Database, statements: Iterable[str]) -> None:
    for statement in statements:
        try:
            _execute_once(database, statement)
        except DatabaseError as error:
            if error.args[0] not in _MYSQL_DENIED:
                raise
            log.warning(
                "the database login is not allowed to create triggers: the database does not enforce that the audit "
                "log is append-only"
            )
            return


def _create_views(database: Database, statements: Iterable[str], name: str) -> None:
    types = SQLITE_TYPES if isinstance(database, SqliteDatabase) else MYSQL_TYPES
    for statement in statements:
        try:
            _execute_once(database, _fill_placeholders(statement, types))
        except DatabaseError as error:
            if error.args[0] not in _MYSQL_DENIED:
                raise
            log.warning(
                "the database login is not allowed to create views, so there are none for SQL users. Once it is: "
                "DELETE FROM regsvc_migration WHERE name = '%s', and restart",
                name,
            )
            return


def _in_dialect(database: Database, statement: str) -> str:
    """Return the statement with the dialect's types; on MySQL the notes become column comments."""
    if isinstance(database, SqliteDatabase):
        return in_sqlite(statement, SQLITE_TYPES, "TEXT")
    statement = _with_types(statement, MYSQL_TYPES, "VARCHAR({})")
    statement = re.sub(r"^(\s+.+?)(,?) -- (.*)$", _comment, statement, flags=re.MULTILINE)
    # MySQL parses and ignores an inline REFERENCES; it needs a clause of its own
    statement = re.sub(
        r"^(  )(\w+)( .*?) (REFERENCES .*? ON DELETE CASCADE)(.*?)$",
        r"\1\2\3\5\n  FOREIGN KEY (\2) \4,",
        statement,
        flags=re.MULTILINE,
    )
    if statement.startswith("CREATE TABLE"):
        statement = re.sub(r"\)\s*$", _MYSQL_TABLE, statement)
    return statement


def in_sqlite(statement: str, types: Mapping[str, str], text: str) -> str:
    """Return the statement for SQLite with these types for the placeholders; `text`: that of texts, {} their length."""
    statement = _with_types(statement, types, text)
    statement = re.sub(r"^CREATE (TABLE|INDEX) (?!IF )", r"CREATE \1 IF NOT EXISTS ", statement)
    statement = re.sub(r"^DROP INDEX (\w+) ON \w+", r"DROP INDEX IF EXISTS \1", statement)
    # a note after an added column would stay in the SQL that SQLite keeps of the table, and comment out its end
    return re.sub(r" -- .*$", "", statement, flags=re.MULTILINE) if statement.startswith("ALTER") else statement


def _with_types(statement: str, types: Mapping[str, str], text: str) -> str:
    return _fill_placeholders(re.sub(r"\{text:(\d+)\}", lambda match: text.format(match[1]), statement), types)


def _fill_placeholders(statement: str, types: Mapping[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: types[match[1]], statement)


def _comment(match: re.Match[str]) -> str:
    note = match[3].replace("'", "''")
    column, check, condition = match[1].partition(" CHECK (")  # MariaDB wants the comment before the check
    return f"{column} COMMENT '{note}'{check}{condition}{match[2]}"


def copy_path(file: Path, number: int) -> Path:
    """Return the path of the copy of our SQLite file from before the upgrade that began with this migration."""
    return file.with_name(f"{file.name}.before-{number:04}")


def list_copies(file: Path) -> list[Path]:
    """Return the copies from before upgrades, the last upgrade's first."""
    name = re.compile(rf"{re.escape(file.name)}\.before-\d{{4}}")
    found = [path for path in file.parent.glob("*.before-*") if name.fullmatch(path.name) and not path.is_symlink()]
    return sorted(found, reverse=True)


def remove_old_copies(file: Path) -> None:
    """Delete all copies but those of the last two upgrades. For when the upgraded database has proven usable."""
    for path in list_copies(file)[_KEPT_COPIES:]:
        try:
            path.unlink()
            log.info("deleted %s, the database before an earlier upgrade; those of the last two are kept", path)
        except OSError as error:
            log.warning("%s, the database before an earlier upgrade, cannot be deleted: %s", path, error.strerror)


def find_interrupted_upgrade(database: Database) -> int | None:
    """Return the first migration of an upgrade of our SQLite file that was begun and did not end; None without one."""
    if not isinstance(database, SqliteDatabase):
        return None
    return int(database.execute_sql("PRAGMA user_version").fetchone()[0]) or None


def _copy_once(database: SqliteDatabase) -> None:
    """Write a consistent copy beside the file before its tables change: one for each upgrade, however often it is cut.

    From then until its last migration is applied, `user_version` is the number of the upgrade's first one.
    """
    with database.atomic("IMMEDIATE"):  # another process migrates before or after
        missing = _list_missing(database)
        if not missing or not _applied_numbers(database) or find_interrupted_upgrade(database) is not None:
            return
        file = Path(database.database)
        copy = copy_path(file, missing[0].number)
        draft = file.with_name(f"{file.name}.before-draft")
        draft.unlink(missing_ok=True)
        try:
            with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(draft)) as target:
                target.execute("PRAGMA journal_mode = OFF")
                source.backup(target)
        except sqlite3.Error as error:
            draft.unlink(missing_ok=True)  # the disk may be full
            raise OperationalError(*error.args) from error
        draft.chmod(0o600)
        draft.replace(copy)
        database.execute_sql(f"PRAGMA user_version = {missing[0].number}")
    log.info("copied the database to %s before migrating it", copy)
