"""`companion backup`: a copy of all our data, and of AuthMe's table if that is SQLite, while the daemon runs."""

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
from regsvc.cli.state_owner import user_name
from regsvc.cli.transfer.copying import checksums_of, require_equal
from regsvc.cli.transfer.database_rows import DatabaseRows
from regsvc.cli.transfer.manifest import (
    AUTHME_FILE,
    MANIFEST,
    OUR_FILE,
    TABLES,
    Manifest,
    file_checksums,
    read_manifest,
    to_manifest_tables,
    verify_files,
)
from regsvc.cli.transfer.migrate_to import newest_schema
from regsvc.cli.transfer.sqlite_copy import copy_authme_file, copy_databases
from regsvc.cli.transfer.table_files import FileRows, write_tables
from regsvc.cli.transfer.tables import Rows, TableChecksum, TransferProblem, list_tables
from regsvc.core.clock import Clock
from regsvc.core.progress import Progress
from regsvc.database.engine import TolerantSqlite
from regsvc.database.models import Installation

log = logging.getLogger(__name__)

_UNFINISHED: Final = ".unfinished"
_CONTENTS: Final = {INSTALLATION_KEY_FILE, SIGNING_KEY_FILE, OUR_FILE, AUTHME_FILE, TABLES, MANIFEST}
_NAME: Final = "companion-%Y%m%d-%H%M%S"


class Backups:
    """Creation of backups. Blocking; other users of the database go on meanwhile."""

    def __init__(self, database: Database, authme_file: Path | None, keys: Keys, now: Clock) -> None:
        """`authme_file`: AuthMe's SQLite file; None if its table is elsewhere, or there is none."""
        self._database = database
        self._authme_file = authme_file
        self._keys = keys
        self._now = now

    def make(self, folder: Path) -> tuple[Path, Manifest]:
        """Make a backup and return its folder and manifest, after reading it back.

        If `folder` exists, the backup is a new folder in it, named after the time. Raises `TransferProblem`, leaving
        nothing behind.
        """
        moment = self._now()
        final = folder / moment.strftime(_NAME) if folder.is_dir() else folder
        try:
            final.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _clear_unfinished(final.parent)
            with _unfinished_folder(final) as unfinished:
                manifest = self._fill(unfinished, moment)
                _flush(unfinished)
                if final.exists():
                    raise TransferProblem(f"{final} exists already.")
                unfinished.rename(final)
            _flush_directory(final.parent)
        except PermissionError as error:
            user = user_name(os.geteuid())
            raise TransferProblem(
                f"{user} may not write the backup ({final}): Permission denied. "
                f"Make the folder for {user}: install -d -m 700 -o {user} {folder}"
            ) from error
        except OSError as error:
            raise TransferProblem(f"Cannot write the backup ({final}): {error.strerror or error}.") from error
        return final, manifest

    def _fill(self, folder: Path, moment: datetime) -> Manifest:
        for name, key in (
            (INSTALLATION_KEY_FILE, self._keys.installation_key),
            (SIGNING_KEY_FILE, self._keys.signing.current),
        ):
            _write_private(folder / name, key + b"\n")
        is_file = isinstance(self._database, SqliteDatabase)
        checksums, numbers = self._copy_files(folder) if is_file else self._write_tables(folder)
        installation = Installation.get_by_id(1)
        manifest = Manifest(
            companion=__version__,
            made_at=moment.isoformat(timespec="milliseconds"),
            schema=newest_schema(),
            installation_id=installation.installation_id,
            key_fingerprint=fingerprint(self._keys.installation_key),
            home=installation.home,
            tables=to_manifest_tables(checksums),
            next_numbers=numbers,
            files=file_checksums(folder),
        )
        manifest.write(folder)
        for path in folder.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o600)  # stays private wherever it is copied
        verify_files(folder, read_manifest(folder))
        return manifest

    def _copy_files(self, folder: Path) -> tuple[dict[str, TableChecksum], dict[str, int]]:
        progress = Progress.on_stderr("copying pages", None)
        try:
            copy_databases(Path(self._database.database), self._authme_file, folder, progress.advance)
        finally:
            progress.end()
        with open_copy(folder / OUR_FILE) as rows:
            return _summarize(rows)

    def _write_tables(self, folder: Path) -> tuple[dict[str, TableChecksum], dict[str, int]]:
        rows = DatabaseRows(self._database)
        with rows.snapshot():
            if self._authme_file is not None:  # newer than our snapshot, as after a restore that keeps AuthMe's file
                copy_authme_file(self._authme_file, folder, lambda pages: None)
            total = sum(rows.count(table) for table in list_tables())
            progress = Progress.on_stderr("backing up", total * 3)  # written, counted, read back
            try:
                write_tables(rows, folder / TABLES, progress.advance)
                checksums = checksums_of(rows, progress)
                numbers = _next_numbers(rows)
                counts = {name: checksum.rows for name, checksum in checksums.items()}
                require_equal(checksums, checksums_of(FileRows(folder / TABLES, counts, numbers), progress))
            finally:
                progress.end()
        return checksums, numbers


@contextmanager
def open_copy(path: Path) -> Iterator[DatabaseRows]:
    """Open a copy of our SQLite file read-only."""
    copy = TolerantSqlite(f"file:{path}?mode=ro&immutable=1", uri=True)
    with copy.connection_context():
        yield DatabaseRows(copy)


def _summarize(rows: Rows) -> tuple[dict[str, TableChecksum], dict[str, int]]:
    return checksums_of(rows), _next_numbers(rows)


def _next_numbers(rows: Rows) -> dict[str, int]:
    return {table.name: rows.next_number(table) for table in list_tables() if table.has_auto_increment}


@contextmanager
def _unfinished_folder(final: Path) -> Iterator[Path]:
    """Create a folder that does not count as a backup yet, locked so that `_clear_unfinished` leaves it alone."""
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
    """Delete what killed backups left behind."""
    for folder in parent.glob(f"*{_UNFINISHED}"):
        if any(entry.name.partition("-")[0] not in _CONTENTS for entry in folder.iterdir()):
            continue  # not made by a backup
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
            log.info("deleted %s, an unfinished backup", folder)
        except BlockingIOError:
            log.info("%s is being written by another backup", folder)
        finally:
            os.close(held)


def _write_private(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
        file.write(content)


def _flush(folder: Path) -> None:
    """Sync all files and directory entries to disk."""
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
