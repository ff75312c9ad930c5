"""What the databases say: each is asked once, over one connection, and not waited for long."""

import os
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final, TypeVar

from peewee import MySQLDatabase

from plugin_bridge.authme.config import AuthMeConfig, Backend
from regsvc.core.clock import Clock
from regsvc.database.location import DatabaseLocation
from regsvc.doctor.facts import own_tables, rights
from regsvc.doctor.facts.own_tables import OwnTables
from regsvc.doctor.facts.player_table import PlayerTable, look_at_table, place_of, tells_apart, with_rows
from regsvc.doctor.facts.readonly_db import MySqlReading, SqliteReading, Unreadable

T = TypeVar("T")

_PATIENCE: Final = 4.0  # seconds for all of it, names that DNS does not know included
# What is written to AuthMe's table; those that it lacks are left out.
_WRITTEN: Final = ("username", "realname", "password", "salt", "email", "register_date", "register_ip", "has_session")


@dataclass(frozen=True)
class OurDatabase:
    """Our own tables, None before the first start; what our login may not do; how far the clock there is ahead.

    `login` is who we are there, as a GRANT names it; the rights, the clock and the login are those of a server.
    """

    tables: OwnTables | None
    missing_rights: tuple[str, ...] = ()
    missing_triggers: tuple[str, ...] = ()
    missing_views: tuple[str, ...] = ()
    is_read_only: bool = False
    clock_difference: timedelta = timedelta(0)
    login: str = ""


@dataclass(frozen=True)
class AuthMeDatabase:
    """AuthMe's table, None if there is none; the rights we lack on it; whether it takes é for e in a name."""

    table: PlayerTable | None
    missing_rights: tuple[str, ...] = ()
    takes_accents_for_letters: bool = False


@dataclass(frozen=True)
class Databases:
    """`Unreadable` in place of a side says why it is not known."""

    ours: OurDatabase | Unreadable
    players: AuthMeDatabase | Unreadable | None


def look_at_databases(
    home: DatabaseLocation, authme: AuthMeConfig | None, now: Clock, *, is_inside: bool = False
) -> Databases:
    """Both sides. `authme` None: there is no AuthMe, and no player side. `is_inside`: this process works on them."""
    ours = _within(_PATIENCE, lambda: _look_at_ours(home, now, is_inside))
    if authme is None:
        return Databases(ours, None)
    if isinstance(ours, Unreadable) and authme.backend != Backend.SQLITE:
        return Databases(ours, ours)  # it is the same server
    return Databases(ours, _within(_PATIENCE, lambda: _look_at_players(home, authme, is_inside)))


def lacking_file_rights(file: Path) -> list[Path]:
    """Of AuthMe's SQLite file and its folder, which holds the journal, those we may not write."""
    return [path for path in (file, file.parent) if not os.access(path, os.W_OK)]


def _look_at_ours(home: DatabaseLocation, now: Clock, is_inside: bool) -> OurDatabase:
    if not isinstance(home.database, MySQLDatabase):
        file = Path(home.database.database)
        if not _is_there(file):
            return OurDatabase(None)
        with closing(SqliteReading(file, is_inside=is_inside)) as reading:
            return OurDatabase(own_tables.look_at_own_tables(reading))
    with closing(MySqlReading(home.database)) as server:
        difference, login = own_tables.clock_difference(server, now()), rights.current_login(server)
        try:
            side = _look_at_schema(server)
        except Unreadable as error:
            if error.code != rights.READ_ONLY_SERVER:
                raise
            side = OurDatabase(None, is_read_only=True)
        return replace(side, clock_difference=difference, login=login)


def _look_at_schema(reading: MySqlReading) -> OurDatabase:
    missing = rights.missing_schema_rights(reading)
    if "SELECT" in missing:
        return OurDatabase(None, tuple(missing))
    tables = own_tables.look_at_own_tables(reading)
    triggers = own_tables.list_missing_triggers(reading)
    views = own_tables.list_missing_views(reading)
    # what does not stand there yet may come with the first start
    if tables is None and rights.may_make_triggers(reading):
        triggers = []
    if tables is None and rights.may_make_views(reading):
        views = []
    return OurDatabase(tables, tuple(missing), tuple(triggers), tuple(views))


def _look_at_players(home: DatabaseLocation, authme: AuthMeConfig, is_inside: bool) -> AuthMeDatabase:
    if authme.backend == Backend.SQLITE:
        if not _is_there(authme.sqlite_file):
            return AuthMeDatabase(None)
        with closing(SqliteReading(authme.sqlite_file, is_inside=is_inside)) as reading:
            found = look_at_table(reading, None, authme.table)
            return AuthMeDatabase(found and with_rows(reading, None, authme.table, authme.columns, found))
    assert isinstance(home.database, MySQLDatabase)
    with closing(MySqlReading(home.database)) as server:
        return _look_at_shared_table(server, authme)


def _look_at_shared_table(reading: MySqlReading, authme: AuthMeConfig) -> AuthMeDatabase:
    table = look_at_table(reading, authme.database, authme.table)
    missing = _missing_row_rights(reading, table, authme)
    if table is not None and "SELECT" not in missing:
        table = with_rows(reading, authme.database, authme.table, authme.columns, table)
    username = None if table is None else table.find(authme.columns.username)
    takes_accents = username is not None and not tells_apart(reading, username, "é", "e")
    return AuthMeDatabase(table, tuple(missing), takes_accents)


def _missing_row_rights(reading: MySqlReading, table: PlayerTable | None, authme: AuthMeConfig) -> list[str]:
    """All that the login lacks; the table may be hidden from it altogether. Empty where there is no table."""
    named = [getattr(authme.columns, name) for name in _WRITTEN]
    present = [name for name in named if name and table is not None and table.find(name)]
    place = place_of(authme.database, authme.table)
    try:
        return rights.missing_row_rights(reading, place, present or [authme.columns.username])
    except Unreadable as error:
        if error.code in (rights.NO_SUCH_TABLE, rights.NO_SUCH_COLUMN, rights.READ_ONLY_SERVER):
            return []
        raise


def _is_there(file: Path) -> bool:
    """Raises `Unreadable` where that may not be seen."""
    try:
        file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise Unreadable(str(error.strerror)) from error
    return True


def _within(patience: float, look: Callable[[], T]) -> T | Unreadable:
    """What it finds, or why it does not; a database, or a DNS, that is not heard of is left behind."""
    outcome: SimpleQueue[T | Exception] = SimpleQueue()

    def run() -> None:
        try:
            outcome.put(look())
        except Exception as error:  # whatever it is, it is raised below, on the thread that asked
            outcome.put(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        found = outcome.get(timeout=patience)
    except Empty:
        return Unreadable("it does not answer in time")
    if isinstance(found, Exception) and not isinstance(found, Unreadable):
        raise found
    return found
