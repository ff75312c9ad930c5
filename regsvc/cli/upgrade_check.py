"""`companion upgrade-check`: what this version would do to the database. Nothing is written."""

import inspect
import shlex
import shutil
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from peewee import Database, PeeweeException, SqliteDatabase

from regsvc import __version__
from regsvc.cli.install.targets import BACKUPS
from regsvc.config.places import SystemPlaces, is_installation
from regsvc.config.sections import Config, ConfigError
from regsvc.database.engine import error_sentence
from regsvc.database.location import DatabaseLocation, read_authme, resolve_location
from regsvc.database.migrator import NumberedMigration, list_migrations

UP_TO_DATE: Final = 0
UNKNOWN: Final = 1
"""Exit status if the database cannot be read."""
MIGRATES: Final = 3
TOO_NEW: Final = 4

_SIZE_ON_MYSQL: Final = (
    "SELECT SUM(data_length + index_length) FROM information_schema.tables "
    "WHERE table_schema = DATABASE() AND table_name LIKE 'regsvc\\_%%'"
)


def check_upgrade(config: Config) -> int:
    """Print the report and return the exit status. Raises `StartupError`."""
    location = resolve_location(config, read_authme(config))
    try:
        applied = _read_applied(config, location)
        newest = max(applied)
        known = list_migrations()
        print(f"database: {location.shown}, at migration {newest}, applied {applied[newest]:%Y-%m-%d %H:%M} UTC")
        print(f"size: {_describe_size(location.database)}")
        print(f"this program: companion {__version__}, with migrations up to {known[-1].number}")
    except PeeweeException as error:
        print(f"companion: {location.shown} cannot be read: {error_sentence(error)}", file=sys.stderr)
        return UNKNOWN
    finally:
        location.database.close()
    if newest > known[-1].number:
        print("\nThis version is older than the one that used the database last, and will not start on it.")
        print("Install the newer version again, or restore the backup made before it was installed.")
        return TOO_NEW
    missing = [migration for migration in known if migration.number not in applied]
    if not missing:
        print("\nNothing will be migrated: install it and restart.")
        return UP_TO_DATE
    print("\n".join(_describe(missing, config, location)))
    return MIGRATES


def _read_applied(config: Config, location: DatabaseLocation) -> dict[int, datetime]:
    """Return the numbers and times of the migrations that the database has. Raises `ConfigError` if it has none."""
    is_there = location.file is None or location.file.exists()
    if not (is_there and is_installation(config.server.state_dir)):
        raise ConfigError(
            [f"There is no installation in {config.server.state_dir.absolute()}; server.state_dir says where."]
        )
    location.database.connect(reuse_if_open=True)
    rows = location.database.execute_sql("SELECT number, applied_at FROM regsvc_migration").fetchall()
    return {number: datetime.fromisoformat(str(moment)) for number, moment in rows}


def _describe(missing: list[NumberedMigration], config: Config, location: DatabaseLocation) -> Iterator[str]:
    yield "\nThe first start migrates the database:"
    for migration in missing:
        yield f"  {migration.number}: {_words(migration)}"
    if location.file is not None:
        needed, free = location.file.stat().st_size, shutil.disk_usage(location.file.parent).free
        copy = location.file.with_name(f"{location.file.name}.before-{missing[0].number:04}")
        yield f"The file is copied to {copy} before ({_megabytes(needed)}; {_megabytes(free)} are free)."
        if free < 2 * needed:
            yield "THE DISK IS TOO FULL for that: free some space first."
    yield "\nBefore you install it, make a backup with the version that is running:"
    yield f"  {_backup_command(config)}"
    yield "A version without these migrations will not start on the database afterwards: to go back, restore it."


def _words(migration: NumberedMigration) -> str:
    """Return what the migration does, from its documentation."""
    text = (inspect.getdoc(migration.module) or migration.name).split("\n\n")[0]
    return " ".join(text.split())


def _backup_command(config: Config) -> str:
    places = SystemPlaces.of_config(config.file) if config.file is not None else None
    folder = BACKUPS / (places.name if places is not None else "companion")
    option = ["--config", str(config.file)] if config.file is not None else []
    return shlex.join(["companion", "backup", str(folder), *option])


def _describe_size(database: Database) -> str:
    """Return the size of our tables and the number of users."""
    if isinstance(database, SqliteDatabase):
        size = Path(database.database).stat().st_size
    else:
        size = int(_scalar(database, _SIZE_ON_MYSQL) or 0)
    users = _scalar(database, "SELECT COUNT(*) FROM regsvc_user")
    return f"{_megabytes(size)}, {users} users"


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB"


def _scalar(database: Database, query: str) -> Any:
    return database.execute_sql(query).fetchone()[0]
