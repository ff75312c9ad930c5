"""`companion backup`: everything we keep, and on SQLite AuthMe's file too, while the daemon runs."""

import fcntl
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from peewee import Database, SqliteDatabase

from regsvc import __version__
from regsvc.auth.keys import INSTALLATION_KEY_FILE, SIGNING_KEY_FILE, Keys, fingerprint
from regsvc.cli.transfer.copying import require_equal, tallies_of
from regsvc.cli.transfer.database_rows import DatabaseRows
from regsvc.cli.transfer.manifest import (
    AUTHMES_FILE,
    MANIFEST,
    OUR_FILE,
    TABLES,
    Manifest,
    checksums,
    read_manifest,
    require_whole,
    tell,
)
from regsvc.cli.transfer.migrate_to import newest_schema
from regsvc.cli.transfer.sqlite_copy import copy_authmes, copy_both
from regsvc.cli.transfer.table_files import FileRows, write_tables
from regsvc.cli.transfer.tables import Rows, Tally, TransferProblem, list_tables
from regsvc.core.clock import Clock
from regsvc.core.progress import Progress
from regsvc.database.models import Installation

log = logging.getLogger(__name__)

_UNFINISHED: Final = ".unfinished"
_CONTENT: Final = {INSTALLATION_KEY_FILE, SIGNING_KEY_FILE, OUR_FILE, AUTHMES_FILE, TABLES, MANIFEST}
_NAME: Final = "companion-%Y%m%d-%H%M%S"


class Backups:
    """Makes them. Blocking; what uses the database goes on meanwhile."""

    def __init__(self, database: Database, authmes_file: Path | None, keys: Keys, now: Clock) -> None:
        """`authmes_file`: where AuthMe keeps its table, if that is a SQLite file."""
        self._database = database
        self._authmes_file = authmes_file
        self._keys = keys
        self._now = now

    def make(self, place: Path) -> tuple[Path, Manifest]:
        """A folder of its own in `place`, or `place` itself where there is nothing yet; read back before it counts.

        Raises `TransferProblem`; what was begun is then gone.
        """
        moment = self._now()
        final = place / moment.strftime(_NAME) if place.is_dir() else place
        try:
            final.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _clear_unfinished(final.parent)
            with _draft(final) as folder:
                manifest = self._fill(folder, moment)
                _flush(folder)
                if final.exists():
                    raise TransferProblem(f"{final} is there already.")
                folder.rename(final)
            _flush_directory(final.parent)
        except OSError as error:
            raise TransferProblem(f"The backup cannot be written ({final}): {error.strerror or error}.") from error
        return final, manifest

    def _fill(self, folder: Path, moment: datetime) -> Manifest:
        for name, key in (
            (INSTALLATION_KEY_FILE, self._keys.installation_key),
            (SIGNING_KEY_FILE, self._keys.signing.current),
        ):
            _write_private(folder / name, key + b"\n")
        is_file = isinstance(self._database, SqliteDatabase)
        tallies, numbers = self._copy_files(folder) if is_file else self._write_tables(folder)
        installation = Installation.get_by_id(1)
        manifest = Manifest(
            companion=__version__,
            made_at=moment.isoformat(timespec="milliseconds"),
            schema=newest_schema(),
            installation_id=installation.installation_id,
            key_fingerprint=fingerprint(self._keys.installation_key),
            home=installation.home,
            tables=tell(tallies),
            next_numbers=numbers,
            files=checksums(folder),
        )
        manifest.write(folder)
        for path in folder.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o600)  # wherever it is carried
        require_whole(folder, read_manifest(folder))
        return manifest

    def _copy_files(self, folder: Path) -> tuple[dict[str, Tally], dict[str, int]]:
        progress = Progress.on_stderr("copying pages", None)
        try:
            copy_both(Path(self._database.database), self._authmes_file, folder, progress.advance)
        finally:
            progress.end()
        with open_copy(folder / OUR_FILE) as rows:
            return _tell_all(rows)

    def _write_tables(self, folder: Path) -> tuple[dict[str, Tally], dict[str, int]]:
        rows = DatabaseRows(self._database)
        with rows.standing_still():
            if self._authmes_file is not None:  # later than our moment, as in a restore that leaves AuthMe's file alone
                copy_authmes(self._authmes_file, folder, lambda pages: None)
            total = sum(rows.count(table) for table in list_tables())
            progress = Progress.on_stderr("backing up", total * 3)  # written, counted, read back
            try:
                write_tables(rows, folder / TABLES, progress.advance)
                tallies = tallies_of(rows, progress)
                numbers = _next_numbers(rows)
                counts = {name: tally.rows for name, tally in tallies.items()}
                require_equal(tallies, tallies_of(FileRows(folder / TABLES, counts, numbers), progress))
            finally:
                progress.end()
        return tallies, numbers


@contextmanager
def open_copy(path: Path) -> Iterator[DatabaseRows]:
    """The tables in a copy of our SQLite file, which stays as it is."""
    copy = SqliteDatabase(f"file:{path}?mode=ro&immutable=1", uri=True)
    with copy.connection_context():
        yield DatabaseRows(copy)


def _tell_all(rows: Rows) -> tuple[dict[str, Tally], dict[str, int]]:
    return tallies_of(rows), _next_numbers(rows)


def _next_numbers(rows: Rows) -> dict[str, int]:
    return {table.name: rows.next_number(table) for table in list_tables() if table.is_counted}


@contextmanager
def _draft(final: Path) -> Iterator[Path]:
    """A folder that nobody takes for a backup yet; held, so that whoever clears up leaves it alone."""
    folder = final.with_name(f"{final.name}{_UNFINISHED}")
    folder.mkdir(mode=0o700)
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(held)
        if folder.exists():
            shutil.rmtree(folder)


def _clear_unfinished(parent: Path) -> None:
    """What a backup left behind that was killed."""
    for folder in parent.glob(f"*{_UNFINISHED}"):
        if any(entry.name.partition("-")[0] not in _CONTENT for entry in folder.iterdir()):
            continue  # none of ours
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
            log.info("cleared away %s, which was never finished", folder)
        except BlockingIOError:
            log.info("%s is being written by another backup", folder)
        finally:
            os.close(held)


def _write_private(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
        file.write(content)


def _flush(folder: Path) -> None:
    """All of it on the disk, the folders' entries too."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        else:
            _flush_directory(path)
    _flush_directory(folder)


def _flush_directory(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
