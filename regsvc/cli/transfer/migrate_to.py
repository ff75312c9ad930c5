"""`companion migrate --to URL`: everything into another database, which then is home.

The old database stays home until the last moment. The order of the end is what makes a crash harmless at any point:
the new database says that it is whole; the state directory points at it; it says that it is home; the old one says
that it was left.
"""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from peewee import Database, PeeweeException, SqliteDatabase

from regsvc.cli.transfer.copying import Copied, CopyTarget, write_home
from regsvc.cli.transfer.database_rows import DatabaseRows
from regsvc.cli.transfer.tables import TransferProblem, list_tables
from regsvc.config.sections import Config, ConfigError
from regsvc.core.clock import Clock
from regsvc.database.engine import error_sentence, open_database, open_sqlite
from regsvc.database.location import (
    COPIED,
    MOVED,
    DatabaseLocation,
    location_name,
    read_authme,
    read_recorded_location,
    record_location,
    resolve_location,
)
from regsvc.database.migrator import list_migrations, migrate
from regsvc.database.models import MODELS
from regsvc.runtime.state_lock import exclusive_state_lock
from regsvc.sync.lease import instance_id

AUTO: Final = "auto"


@dataclass(frozen=True)
class Moved:
    """How a move went. `copied` None: everything was there already."""

    old: str
    new: str
    copied: Copied | None
    left: str
    """What was left behind: a file, or the tables in a database."""
    advice: str
    """What has to stand in the config from now on."""


class DatabaseMigration:
    """Moves everything. Needs no wiring: the config may lead to another database than where everything is."""

    def __init__(self, config: Config, now: Clock) -> None:
        self._config = config
        self._state_dir = config.server.state_dir
        self._now = now
        self._authme = read_authme(config)

    def move(self, to: str, source_url: str | None = None) -> Moved:
        """Move to the database at this URL, or to where `database.url = "auto"` leads now.

        `source_url`: where everything is, for when the config no longer tells. Raises `TransferProblem`,
        `StateInUse`, `SchemaTooNew`, `WrongDatabase`, `ConfigError`.
        """
        recorded = read_recorded_location(self._state_dir) if self._state_dir.is_dir() else None
        if recorded is None:
            raise TransferProblem(
                f"There is nothing to move: no installation has started with the state directory {self._state_dir}. "
                "Set database.url and start."
            )
        target, advice = self._resolve(to)
        with exclusive_state_lock(self._state_dir):
            if recorded["home"] == target.name:
                return self._finish(target, advice)
            source = self._find_source(recorded["home"], source_url)
            require_other_file(source, target.database)
            with opened(source, recorded["home"]), opened(target.database, target.name):
                copied = self._move(source, target, recorded)
        return Moved(recorded["home"], target.name, copied, _what_is_left(source, recorded["home"]), advice)

    def _move(self, source: Database, target: DatabaseLocation, recorded: dict[str, str]) -> Copied:
        identity = recorded["installation_id"]
        self._check_source(source, identity)
        arrival = CopyTarget(target.database, target.name, identity, self._now)
        arrival.prepare()
        rows = DatabaseRows(source)
        with rows.standing_still(keeps_writers_out=True):
            before = _state_of(rows)
            copied = arrival.copy(rows, "moving")
        if _state_of(rows) != before:
            raise TransferProblem(
                "Somebody wrote into the old database meanwhile: stop every companion that uses it, and run this again."
            )
        record_location(self._state_dir, identity, target.name)
        arrival.activate()
        write_home(source, f"{MOVED}{target.name}")
        return copied

    def _finish(self, target: DatabaseLocation, advice: str) -> Moved:
        """An earlier move came this far; the last word may be missing."""
        with opened(target.database, target.name):
            found = target.database.execute_sql("SELECT home FROM regsvc_installation").fetchall()
            if found and str(found[0][0]).startswith(COPIED):
                CopyTarget(target.database, target.name, "", self._now).activate()
        return Moved(target.name, target.name, None, "", advice)

    def _resolve(self, to: str) -> tuple[DatabaseLocation, str]:
        """The new home, and what makes the config lead there."""
        auto = self._home_at(AUTO)
        if to == AUTO:
            return auto, self._advise_auto()
        _named("--to", to)
        parts = urlsplit(to)
        if parts.scheme == "sqlite" and not Path(unquote(parts.path.removeprefix("/"))).is_absolute():
            raise TransferProblem(
                "Write where the new file is from the root: sqlite:////var/lib/companion/companion.db"
            )
        given = self._home_at(to)
        if given.name == auto.name or _is_same_file(given.database, auto.database):
            return auto, self._advise_auto()
        return given, f'set database.url = "{_without_password(to)}"'

    def _advise_auto(self) -> str:
        if self._config.database.url == AUTO:
            return 'the config may stay as it is: database.url = "auto" leads there'
        return 'set database.url = "auto", or remove it: that leads there'

    def _home_at(self, url: str) -> DatabaseLocation:
        database = dataclasses.replace(self._config.database, url=url)
        return resolve_location(dataclasses.replace(self._config, database=database), self._authme)

    def _find_source(self, name: str, source_url: str | None) -> Database:
        patience = self._config.database.busy_timeout
        if name == "sqlite:companion.db":
            return open_sqlite(_existing(self._state_dir / "companion.db"), patience)
        if name.startswith("sqlite:"):
            return open_sqlite(_existing(Path(name.removeprefix("sqlite:"))), patience)
        if source_url is not None:
            if (given := _named("--from", source_url)) != name:
                raise TransferProblem(f"Everything is in {name}, and --from leads to {given}.")
            return open_database(source_url, patience)
        for url in (self._config.database.url, AUTO):
            with_login = self._try_home_at(url)
            if with_login is not None and with_login.name == name:
                return with_login.database
        raise TransferProblem(
            f"Everything is in {name}, and the config no longer has the login for it: say it with "
            f"--from mysql://USER:PASSWORD@{name.removeprefix('mysql:')}"
        )

    def _try_home_at(self, url: str) -> DatabaseLocation | None:
        try:
            return self._home_at(url)
        except (ConfigError, ValueError):  # of no use for the new home, which has been resolved
            return None

    def _check_source(self, source: Database, identity: str) -> None:
        with source.bind_ctx(MODELS):
            migrate(source, self._now)  # else the two sides would have other tables
        found = source.execute_sql("SELECT installation_id, home FROM regsvc_installation").fetchall()
        if [row[0] for row in found] != [identity]:
            raise TransferProblem("The old database belongs to another installation than the state directory.")
        if not isinstance(source, SqliteDatabase) and (others := self._find_other_daemon(source)) is not None:
            raise TransferProblem(
                f"Another daemon that shares the old database was at work {others} seconds ago. Stop it, and run this "
                f"again {round(self._silence.total_seconds() / 60)} minutes after its last run of the sync."
            )

    @property
    def _silence(self) -> timedelta:
        """After this long without a run of the sync, a daemon is taken for stopped."""
        return max(timedelta(minutes=2), 2 * self._config.sync.every)

    def _find_other_daemon(self, source: Database) -> int | None:
        """How many seconds ago a daemon with another state directory held the sync's lease, if it was of late."""
        found = source.execute_sql(
            "SELECT holder, TIMESTAMPDIFF(SECOND, expires_at, UTC_TIMESTAMP(3)) FROM regsvc_lease"
        ).fetchall()
        patience = self._silence.total_seconds()
        places = [(str(row[0]).rpartition(":")[0], int(row[1])) for row in found]
        ages = [max(0, age) for place, age in places if place != instance_id(self._state_dir) and age < patience]
        return min(ages, default=None)


def newest_schema() -> int:
    """The number of the last migration this version knows."""
    return list_migrations()[-1].number


def require_other_file(source: Database, target: Database) -> None:
    """Raise `TransferProblem` where both are the same SQLite file under two names."""
    if _is_same_file(source, target):
        raise TransferProblem("That is the database where everything is already.")


@contextmanager
def opened(database: Database, name: str) -> Iterator[None]:
    """The database's connection on this thread. What the database has to say against it becomes `TransferProblem`."""
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


def _named(option: str, url: str) -> str:
    try:
        return location_name(url)
    except ValueError as error:
        raise TransferProblem(f"{option}: {error}.") from None


def _existing(path: Path) -> Path:
    if not path.exists():
        raise TransferProblem(f"Everything should be in {path}, and there is no such file.")
    return path


def _what_is_left(source: Database, name: str) -> str:
    if isinstance(source, SqliteDatabase):
        return f"the file {Path(source.database).absolute()} is left as it was: remove it"
    return f"the regsvc_ tables and views in {name} are left as they were: drop them"


def _is_same_file(one: Database, other: Database) -> bool:
    if not (isinstance(one, SqliteDatabase) and isinstance(other, SqliteDatabase)):
        return False
    return Path(one.database).resolve() == Path(other.database).resolve()


def _state_of(rows: DatabaseRows) -> list[tuple[str, int, Any]]:
    """Enough of every table to notice that somebody writes: nothing happens without an entry in some table."""
    return [(table.name, rows.count(table), rows.newest(table)) for table in list_tables()]


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return url.replace(f":{parts.password}@", ":PASSWORD@") if parts.password else url
