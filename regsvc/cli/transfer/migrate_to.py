"""`companion migrate --to URL`: moves everything to another database, which is used from then on.

The old database stays in use until the last moment. The order of the final steps makes a crash harmless at any point:
the new database is marked as complete; the state directory points at it; it is marked as the one in use; the old one
is marked as moved.
"""

import dataclasses
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from peewee import Database, PeeweeException, SqliteDatabase

from plugin_bridge.authme.config import AuthMeConfig
from regsvc.cli.transfer.tables import (
    Checksums,
    CopyTarget,
    DatabaseRows,
    TransferProblem,
    list_tables,
    print_tables,
    write_location,
)
from regsvc.config.sections import Config, ConfigError
from regsvc.core.clock import Clock
from regsvc.database.engine import error_sentence, open_database, open_sqlite
from regsvc.database.lease import instance_id
from regsvc.database.location import (
    COPIED,
    MOVED,
    OWN_FILE,
    DatabaseLocation,
    find_missing_authme,
    location_name,
    read_authme,
    read_recorded_location,
    record_location,
    resolve_location,
)
from regsvc.database.migrator import list_migrations, migrate
from regsvc.database.models import MODELS
from regsvc.runtime.replaced_state import state_lock

AUTO: Final = "auto"


class DatabaseMigration:
    """Move of all data to another database.

    Needs no `AppContext`, since the config may already name another database than the one in use.
    """

    def __init__(self, config: Config, now: Clock) -> None:
        self._config = config
        self._state_dir = config.server.state_dir
        self._now = now
        self._authme = read_authme(config)

    def move(self, to: str, source_url: str | None = None) -> None:
        """Move to the database at this URL, or, for "auto", to the one that `database.url = "auto"` means now.

        Prints what was moved, and what to do now.

        `source_url`: the database in use, for when the config no longer has its login. Raises `TransferProblem`,
        `StateInUse`, `UnusableSchema`, `WrongDatabase`, `ConfigError`.
        """
        recorded = read_recorded_location(self._state_dir) if self._state_dir.is_dir() else None
        if recorded is None:
            raise TransferProblem(
                f"There is nothing to move: no installation has started with the state directory {self._state_dir}. "
                "Set database.url and start."
            )
        target, advice = self._resolve(to)
        with state_lock(self._state_dir):
            if recorded["home"] == target.name:
                self._finish(target)
                print(f"everything is in {target.name} already; {advice}")
                return
            source = self._find_source(recorded["home"], source_url)
            require_different_file(source, target.database)
            with open_connection(source, recorded["home"]), open_connection(target.database, target.name):
                copied = self._migrate_to(source, target, recorded)
        rows = print_tables(copied)
        print(f"moved {rows} rows from {recorded['home']} to {target.name}; row counts and digests match")
        print(f"now {advice}, and start the daemon")
        print(f"{_cleanup_advice(source, recorded['home'])} once everything works")

    def _migrate_to(self, source: Database, target: DatabaseLocation, recorded: dict[str, str]) -> Checksums:
        identity = recorded["installation_id"]
        print(f"checking {recorded['home']}", file=sys.stderr, flush=True)
        self._check_source(source, identity)
        copy_target = CopyTarget(target.database, target.name, identity, self._now)
        print(f"creating our tables in {target.name}", file=sys.stderr, flush=True)
        copy_target.prepare()
        rows = DatabaseRows(source)
        with rows.snapshot(blocks_writers=True):
            before = _fingerprint_of(rows)
            copied = copy_target.copy(rows, "moving")
        if _fingerprint_of(rows) != before:
            raise TransferProblem(
                "The old database was written during the move: stop every companion that uses it, and run this again."
            )
        record_location(self._state_dir, identity, target.name)
        copy_target.activate()
        write_location(source, f"{MOVED}{target.name}")
        return copied

    def _finish(self, target: DatabaseLocation) -> None:
        """Finish an earlier move that had copied everything; only its last step may be missing."""
        with open_connection(target.database, target.name):
            found = target.database.execute_sql("SELECT home FROM regsvc_installation").fetchall()
            if found and str(found[0][0]).startswith(COPIED):
                CopyTarget(target.database, target.name, "", self._now).activate()

    def _resolve(self, to: str) -> tuple[DatabaseLocation, str]:
        """Return the target and how to set the config so that it leads there."""
        auto = self._location_at(AUTO)
        if to == AUTO:
            require_authme(self._config, self._authme)
            return auto, self._advise_auto()
        _location_name("--to", to)
        parts = urlsplit(to)
        if parts.scheme == "sqlite" and not Path(unquote(parts.path.removeprefix("/"))).is_absolute():
            raise TransferProblem(
                "Give the absolute path of the new file, as in sqlite:////var/lib/companion/companion.db"
            )
        target = self._location_at(to)
        if target.name == auto.name or _is_same_file(target.database, auto.database):
            return auto, self._advise_auto()
        return target, f'set database.url = "{_without_password(to)}"'

    def _advise_auto(self) -> str:
        if self._config.database.url == AUTO:
            return 'the config can stay as it is: database.url = "auto" leads there'
        return 'set database.url = "auto", or remove the key: it leads there'

    def _location_at(self, url: str) -> DatabaseLocation:
        database = dataclasses.replace(self._config.database, url=url)
        return resolve_location(dataclasses.replace(self._config, database=database), self._authme)

    def _find_source(self, name: str, source_url: str | None) -> Database:
        busy_timeout = self._config.database.busy_timeout
        if name == OWN_FILE:
            return open_sqlite(_existing(self._state_dir / "companion.db"), busy_timeout)
        if name.startswith("sqlite:"):
            return open_sqlite(_existing(Path(name.removeprefix("sqlite:"))), busy_timeout)
        if source_url is not None:
            if (source_name := _location_name("--from", source_url)) != name:
                raise TransferProblem(f"The database in use is {name}, but --from leads to {source_name}.")
            return open_database(source_url, busy_timeout)
        for url in (self._config.database.url, AUTO):
            with_login = self._try_location_at(url)
            if with_login is not None and with_login.name == name:
                return with_login.database
        raise TransferProblem(
            f"The database in use is {name}, and the config no longer has its login: give it with "
            f"--from mysql://USER:PASSWORD@{name.removeprefix('mysql:')}"
        )

    def _try_location_at(self, url: str) -> DatabaseLocation | None:
        try:
            return self._location_at(url)
        except (ConfigError, ValueError):  # this URL does not lead to the source
            return None

    def _check_source(self, source: Database, identity: str) -> None:
        with source.bind_ctx(MODELS):
            migrate(source, self._now)  # both sides need the same tables
        found = source.execute_sql("SELECT installation_id, home FROM regsvc_installation").fetchall()
        if [row[0] for row in found] != [identity]:
            raise TransferProblem("The old database belongs to another installation than the state directory.")
        require_no_other_daemon(source, self._config)


def require_no_other_daemon(database: Database, config: Config) -> None:
    """Raise `TransferProblem` if another daemon that shares this database has held the sync's lease not long ago.

    Only daemons with our state directory are kept out by its lock.
    """
    if isinstance(database, SqliteDatabase):
        return
    silence = max(timedelta(minutes=2), 2 * config.sync.every)
    found = database.execute_sql(
        "SELECT holder, TIMESTAMPDIFF(SECOND, expires_at, UTC_TIMESTAMP(3)) FROM regsvc_lease WHERE holder <> ''"
    ).fetchall()
    ours = instance_id(config.server.state_dir, config.server.instance)
    holders = [(str(row[0]).rpartition(":")[0], int(row[1])) for row in found]
    ages = [max(0, age) for holder, age in holders if holder != ours and abs(age) < silence.total_seconds()]
    if ages:
        raise TransferProblem(
            f"Another daemon that shares the database was running {min(ages)} seconds ago. Stop it, and run this again "
            f"{round(silence.total_seconds() / 60)} minutes after its last sync run."
        )


def require_authme(config: Config, authme: AuthMeConfig | None) -> None:
    """Raise `TransferProblem` if AuthMe's config, which says what "auto" means, is not where it should be."""
    if (problem := find_missing_authme(config, authme)) is not None:
        raise TransferProblem(f"{problem} Without AuthMe set authme.enabled = false.")


def newest_schema() -> int:
    """Return the number of the last migration that this version has."""
    return list_migrations()[-1].number


def require_different_file(source: Database, target: Database) -> None:
    """Raise `TransferProblem` if both are the same SQLite file under two names."""
    if _is_same_file(source, target):
        raise TransferProblem("The target is the database that is in use already.")


@contextmanager
def open_connection(database: Database, name: str) -> Iterator[None]:
    """Open the database's connection on this thread. Database errors are raised as `TransferProblem`."""
    try:
        if isinstance(database, SqliteDatabase):
            _make_private(Path(database.database), name)
        with database.connection_context():
            yield
    except PeeweeException as error:
        raise TransferProblem(f"{name} cannot be used: {error_sentence(error)}.") from error


def _make_private(path: Path, name: str) -> None:
    try:
        if not path.exists():
            path.touch(mode=0o600)
    except OSError as error:
        raise TransferProblem(f"{name} cannot be used: {error.strerror}: {path}.") from None


def _location_name(option: str, url: str) -> str:
    try:
        return location_name(url)
    except ValueError as error:
        raise TransferProblem(f"{option}: {error}.") from None


def _existing(path: Path) -> Path:
    if not path.exists():
        raise TransferProblem(f"The database in use should be {path}, but there is no such file.")
    return path


def _cleanup_advice(source: Database, name: str) -> str:
    if isinstance(source, SqliteDatabase):
        return f"the old file {Path(source.database).absolute()} is still there: remove it"
    return f"the old regsvc_ tables and views in {name} are still there: drop them"


def _is_same_file(one: Database, other: Database) -> bool:
    if not (isinstance(one, SqliteDatabase) and isinstance(other, SqliteDatabase)):
        return False
    return Path(one.database).resolve() == Path(other.database).resolve()


def _fingerprint_of(rows: DatabaseRows) -> list[tuple[str, int, Any]]:
    """Return count and newest key of every table, which reveals writers: every change adds a row to some table."""
    return [(table.name, rows.count(table), rows.newest(table)) for table in list_tables()]


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return url.replace(f":{parts.password}@", ":PASSWORD@") if parts.password else url
