"""All our tables into an empty database, compared row by row's digest when they are there.

A copy under way says so in its `regsvc_installation` row, the first to be written: nobody starts on it, and whoever
begins again knows that it may be thrown away, and that nothing else may.
"""

# ruff: noqa: S608 - the names are our own tables'

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from peewee import Database, SqliteDatabase

from regsvc.cli.transfer.database_rows import DatabaseRows
from regsvc.cli.transfer.tables import Row, Rows, Table, Tally, TransferProblem, list_tables, quoted, tally_of
from regsvc.core.clock import Clock
from regsvc.core.progress import Progress
from regsvc.database.location import COPIED, COPYING, MOVED
from regsvc.database.migrator import migrate
from regsvc.database.models import MODELS
from regsvc.database.schema import list_views

_INSTALLATION: Final = "regsvc_installation"
_LONGEST_HOME: Final = 255


@dataclass(frozen=True)
class Copied:
    """What has gone over, by table."""

    tallies: dict[str, Tally]

    @property
    def rows(self) -> int:
        return sum(tally.rows for tally in self.tallies.values())


class CopyTarget:
    """An empty database that everything is to be copied into."""

    def __init__(self, database: Database, name: str, installation_id: str, now: Clock) -> None:
        """`name`: what the new home is called. `installation_id`: of what is copied."""
        self._database = database
        self._rows = DatabaseRows(database)
        self._name = name
        self._id = installation_id
        self._now = now

    def prepare(self) -> None:
        """Make our tables, after clearing away a copy of ours that was never finished.

        Raises `TransferProblem` where anything else is, `SchemaTooNew`.
        """
        there = self._tables_there()
        if self._is_unfinished_copy(there):
            self._clear(there)
        elif filled := [table for table in there if table != "regsvc_migration" and self._has_rows(table)]:
            raise TransferProblem(
                f"{self._name} is not empty: {self._describe(filled)}. Nothing is ever overwritten: {self._advise()}"
            )
        with self._database.bind_ctx(MODELS):
            migrate(self._database, self._now)

    def copy(self, source: Rows, title: str) -> Copied:
        """Everything in `source`. Raises `TransferProblem`, also when it is not the same afterwards."""
        tables = list_tables()
        self._mark(source, COPYING)
        total = sum(source.count(table) for table in tables)
        progress = Progress.on_stderr(title, total * 2)  # there, and read back
        try:
            left = {table.name: self._copy_table(source, table, progress) for table in tables}
            arrived = tallies_of(self._rows, progress)
        finally:
            progress.end()
        require_equal(left, arrived)
        for table in tables:
            if table.is_counted:
                self._rows.continue_from(table, source.next_number(table))
        self._write_home(f"{COPIED}{self._name}")
        return Copied(arrived)

    def activate(self) -> None:
        """From now on this is the home."""
        self._write_home(self._name)

    def end_sessions(self) -> None:
        """Nobody is logged in any more."""
        with self._database.atomic():
            self._database.execute_sql("DELETE FROM regsvc_session")

    def _copy_table(self, source: Rows, table: Table, progress: Progress) -> Tally:
        tally = Tally()
        for chunk in source.chunks(table):
            tally.add(_homeless(table, chunk))
            if table.name != _INSTALLATION:
                self._rows.write(table, chunk)
            progress.advance(len(chunk))
        return tally

    def _mark(self, source: Rows, mark: str) -> None:
        table = next(table for table in list_tables() if table.name == _INSTALLATION)
        [row] = [row for chunk in source.chunks(table) for row in chunk]
        marked = dict(zip(table.columns, row, strict=True)) | {"home": f"{mark}{self._name}"[:_LONGEST_HOME]}
        self._rows.write(table, [tuple(marked[column] for column in table.columns)])

    def _write_home(self, home: str) -> None:
        write_home(self._database, home)

    def _tables_there(self) -> list[str]:
        """Ours, those that go along last and a table after those it refers to."""
        there = set(self._database.get_tables())
        going = [table.name for table in list_tables()]
        staying = [name for model in MODELS if (name := model._meta.table_name) not in going]
        return [name for name in (*staying, *going) if name in there]

    def _has_rows(self, table: str) -> bool:
        return bool(self._database.execute_sql(f"SELECT 1 FROM {quoted(self._database, table)} LIMIT 1").fetchall())

    def _describe(self, filled: Sequence[str]) -> str:
        home = self._home_there() if _INSTALLATION in filled else ""
        if home.startswith(MOVED):
            return f"everything was there until it was {home}"
        return f"{filled[0]} has rows"

    def _advise(self) -> str:
        if isinstance(self._database, SqliteDatabase):
            path = Path(self._database.database).absolute()
            return f"choose another place, or move the file {path} away if you are sure that nobody needs it."
        return "choose an empty database, or drop the regsvc_ tables and views if you are sure that nobody needs them."

    def _home_there(self) -> str:
        found = self._database.execute_sql(f"SELECT home FROM {_INSTALLATION}").fetchall()
        return str(found[0][0]) if found else ""

    def _is_unfinished_copy(self, there: Sequence[str]) -> bool:
        if _INSTALLATION not in there:
            return False
        found = self._database.execute_sql(f"SELECT installation_id, home FROM {_INSTALLATION}").fetchall()
        return [row[0] for row in found] == [self._id] and str(found[0][1]).startswith((COPYING, COPIED))

    def _clear(self, there: Sequence[str]) -> None:
        """The mark goes last: until then it is known whose copy this is."""
        for view in reversed(list_views()):
            self._database.execute_sql(f"DROP VIEW IF EXISTS {quoted(self._database, view.name)}")
        for table in [*(name for name in reversed(there) if name != _INSTALLATION), _INSTALLATION]:
            self._database.execute_sql(f"DROP TABLE IF EXISTS {quoted(self._database, table)}")


def write_home(database: Database, home: str) -> None:
    """What the database says of where home is."""
    with database.atomic():
        sql = f"UPDATE {_INSTALLATION} SET home = {database.param} WHERE id = 1"
        database.execute_sql(sql, (home[:_LONGEST_HOME],))


class _WithoutLocation(Rows):
    """Rows without the one value that differs between the two sides: where home is."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def count(self, table: Table) -> int:
        return self._rows.count(table)

    def next_number(self, table: Table) -> int:
        return self._rows.next_number(table)

    def chunks(self, table: Table) -> Iterator[list[Row]]:
        return (_homeless(table, chunk) for chunk in self._rows.chunks(table))


def _homeless(table: Table, rows: list[Row]) -> list[Row]:
    if table.name != _INSTALLATION:
        return rows
    place = table.columns.index("home")
    return [(*row[:place], None, *row[place + 1 :]) for row in rows]


def tallies_of(source: Rows, progress: Progress | None = None) -> dict[str, Tally]:
    """Counts and digests of all tables, by table; where home is makes no difference."""
    on_rows = progress.advance if progress is not None else None
    return {table.name: tally_of(_WithoutLocation(source), table, on_rows) for table in list_tables()}


def require_equal(left: dict[str, Tally], arrived: dict[str, Tally]) -> None:
    """Raise `TransferProblem` for the first table that is not the same on both sides."""
    for name, tally in left.items():
        other = arrived.get(name, Tally())
        if (tally.rows, tally.digest) != (other.rows, other.digest):
            raise TransferProblem(
                f"{name} is not the same on both sides: {tally.rows} rows, digest {tally.digest[:12]} left, "
                f"{other.rows} rows, digest {other.digest[:12]} arrived."
            )
