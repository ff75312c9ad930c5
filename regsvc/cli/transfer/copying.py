"""Copy of all our tables into an empty database, verified by row digests afterwards.

An unfinished copy is marked as such in its `regsvc_installation` row, which is written first: no daemon starts on it,
and a second attempt knows that it may delete this copy, and nothing else.
"""

# ruff: noqa: S608 - the names are our own tables'

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from peewee import Database, SqliteDatabase

from regsvc.cli.transfer.tables import (
    Checksums,
    DatabaseRows,
    Row,
    Rows,
    TableChecksum,
    TableSpec,
    TransferProblem,
    list_tables,
    quoted,
)
from regsvc.core.clock import Clock
from regsvc.core.progress import Progress
from regsvc.database.location import COPIED, COPYING, MOVED
from regsvc.database.migrator import migrate
from regsvc.database.models import MODELS

_INSTALLATION: Final = "regsvc_installation"
_MAX_LOCATION_LENGTH: Final = 255
_OF_MIGRATIONS: Final = ("regsvc_migration", "regsvc_lease")
"""Tables in which an interrupted migration leaves rows."""


class CopyTarget:
    """An empty database that receives a copy."""

    def __init__(self, database: Database, name: str, installation_id: str, now: Clock, *, advice: str = "") -> None:
        """`name`: the target's location name. `installation_id`: that of the copied installation.

        `advice`: what to do about a database that is not empty, if there is another way than to choose another one.
        """
        self._database = database
        self._rows = DatabaseRows(database)
        self._name = name
        self._id = installation_id
        self._now = now
        self._advice = advice

    def find_installation(self) -> str | None:
        """Return the id of the installation whose tables are there; None if there are none."""
        if _INSTALLATION not in self._existing_tables():
            return None
        found = self._database.execute_sql(f"SELECT installation_id FROM {_INSTALLATION}").fetchall()
        return str(found[0][0]) if found else None

    def has_unfinished_copy(self) -> bool:
        """Return whether an unfinished copy of the same installation is there."""
        return self._is_unfinished_copy(self._existing_tables())

    def prepare(self, *, replaces: bool = False) -> None:
        """Create our tables, after deleting an unfinished copy of the same installation; with `replaces` any tables.

        Raises `TransferProblem` if the database holds anything else, and `UnusableSchema`.
        """
        existing = self._existing_tables()
        if replaces and self.find_installation() is not None:  # from now on it is an unfinished copy
            with self._database.atomic():
                param = self._database.param
                sql = f"UPDATE {_INSTALLATION} SET installation_id = {param}, home = {param}"
                self._database.execute_sql(sql, (self._id, f"{COPYING}{self._name}"[:_MAX_LOCATION_LENGTH]))
        if self._is_unfinished_copy(existing):
            self._clear(existing)
        elif filled := [table for table in existing if table not in _OF_MIGRATIONS and self._has_rows(table)]:
            raise TransferProblem(
                f"{self._name} is not empty: {self._describe(filled)}. Nothing is ever overwritten: {self._advise()}"
            )
        with self._database.bind_ctx(MODELS):
            migrate(self._database, self._now)

    def copy(self, source: Rows, title: str, *, ends_sessions: bool = False) -> Checksums:
        """Copy everything in `source`; return the checksums of the rows.

        `ends_sessions`: everyone has to log in again, since those revoked after a backup must stay revoked. Raises
        `TransferProblem`, also if the copy differs from the source.
        """
        tables = list_tables()
        self._mark(source, COPYING)
        total = sum(source.count(table) for table in tables)
        progress = Progress.on_stderr(title, total, passes=2)  # written and read back
        try:
            sent = {table.name: self._copy_table(source, table, progress) for table in tables}
            received = checksums_of(self._rows, progress)
        finally:
            progress.end()
        require_equal(sent, received)
        for table in tables:
            if table.has_auto_increment:
                self._rows.set_next_number(table, source.next_number(table))
        if ends_sessions:  # before the mark, with which a daemon may start
            with self._database.atomic():
                self._database.execute_sql("DELETE FROM regsvc_session")
        write_location(self._database, f"{COPIED}{self._name}")
        return received

    def activate(self) -> None:
        """Record that this database is the one in use."""
        write_location(self._database, self._name)

    def _copy_table(self, source: Rows, table: TableSpec, progress: Progress) -> TableChecksum:
        checksum = TableChecksum()
        for chunk in source.chunks(table):
            checksum.add(_without_location(table, chunk))
            if table.name != _INSTALLATION:
                self._rows.write(table, chunk)
            progress.advance(len(chunk))
        return checksum

    def _mark(self, source: Rows, mark: str) -> None:
        table = next(table for table in list_tables() if table.name == _INSTALLATION)
        [row] = [row for chunk in source.chunks(table) for row in chunk]
        marked = dict(zip(table.columns, row, strict=True)) | {"home": f"{mark}{self._name}"[:_MAX_LOCATION_LENGTH]}
        self._rows.write(table, [tuple(marked[column] for column in table.columns)])

    def _existing_tables(self) -> list[str]:
        """Return our tables that exist: first those never copied, then each copied one after those it refers to."""
        existing = set(self._database.get_tables())
        copied = [table.name for table in list_tables()]
        excluded = [name for model in MODELS if (name := model._meta.table_name) not in copied]
        return [name for name in (*excluded, *copied) if name in existing]

    def _has_rows(self, table: str) -> bool:
        return bool(self._database.execute_sql(f"SELECT 1 FROM {quoted(self._database, table)} LIMIT 1").fetchall())

    def _describe(self, filled: Sequence[str]) -> str:
        location = self._recorded_location() if _INSTALLATION in filled else ""
        if location.startswith(MOVED):
            return f"it was in use until its contents were {location}"
        return f"{filled[0]} has rows"

    def _advise(self) -> str:
        if self._advice:
            return f"{self._advice}."
        if isinstance(self._database, SqliteDatabase):
            path = Path(self._database.database).absolute()
            return f"choose another path, or move the file {path} away if you are sure that it is not needed."
        return "choose an empty database, or drop the regsvc_ tables and views if you are sure they are not needed."

    def _recorded_location(self) -> str:
        found = self._database.execute_sql(f"SELECT home FROM {_INSTALLATION}").fetchall()
        return str(found[0][0]) if found else ""

    def _is_unfinished_copy(self, existing: Sequence[str]) -> bool:
        if _INSTALLATION not in existing:
            return False
        found = self._database.execute_sql(f"SELECT installation_id, home FROM {_INSTALLATION}").fetchall()
        return [row[0] for row in found] == [self._id] and str(found[0][1]).startswith((COPYING, COPIED))

    def _clear(self, existing: Sequence[str]) -> None:
        """Drop everything. The marked table goes last, so that an interrupted cleanup can be continued."""
        for view in self._database.get_views():
            if view.name.startswith("regsvc_v_"):
                self._database.execute_sql(f"DROP VIEW IF EXISTS {quoted(self._database, view.name)}")
        for table in [*(name for name in reversed(existing) if name != _INSTALLATION), _INSTALLATION]:
            self._database.execute_sql(f"DROP TABLE IF EXISTS {quoted(self._database, table)}")


def write_location(database: Database, name: str) -> None:
    """Record a location name in `regsvc_installation.home`."""
    with database.atomic():
        sql = f"UPDATE {_INSTALLATION} SET home = {database.param} WHERE id = 1"
        database.execute_sql(sql, (name[:_MAX_LOCATION_LENGTH],))


def _without_location(table: TableSpec, rows: list[Row]) -> list[Row]:
    if table.name != _INSTALLATION:
        return rows
    index = table.columns.index("home")
    return [(*row[:index], None, *row[index + 1 :]) for row in rows]


def checksums_of(source: Rows, progress: Progress | None = None) -> Checksums:
    """Return counts and digests by table, ignoring the recorded location."""
    checksums = {table.name: TableChecksum() for table in list_tables()}
    for table in list_tables():
        for chunk in source.chunks(table):
            checksums[table.name].add(_without_location(table, chunk))
            if progress is not None:
                progress.advance(len(chunk))
    return checksums


def require_equal(sent: Checksums, received: Checksums) -> None:
    """Raise `TransferProblem` for the first table that differs."""
    for name, checksum in sent.items():
        other = received.get(name, TableChecksum())
        if (checksum.rows, checksum.digest) != (other.rows, other.digest):
            raise TransferProblem(
                f"{name} was not copied correctly: {checksum.rows} rows, digest {checksum.digest[:12]} were sent, "
                f"{other.rows} rows, digest {other.digest[:12]} were received."
            )
