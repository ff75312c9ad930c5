"""`companion backup`: a copy of all our data, and of AuthMe's table if that is SQLite, while the daemon runs."""

import fcntl
import hashlib
import json
import logging
import math
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from peewee import Database, SqliteDatabase

from regsvc import __version__
from regsvc.auth.keys import INSTALLATION_KEY_FILE, SIGNING_KEY_FILE, Keys, fingerprint
from regsvc.cli.given_config import user_name
from regsvc.cli.transfer.migrate_to import newest_schema
from regsvc.cli.transfer.tables import (
    Checksums,
    DatabaseRows,
    FileRows,
    Rows,
    TableChecksum,
    TransferProblem,
    checksums_of,
    list_tables,
    require_equal,
    write_tables,
)
from regsvc.config.places import BACKUPS
from regsvc.core.progress import Progress
from regsvc.core.safe_paths import find_closed_folder, open_regular_file, read_text_file
from regsvc.database.engine import TolerantSqlite
from regsvc.database.models import Installation
from regsvc.runtime.backups import NAME_FORMAT, UNFINISHED

MANIFEST: Final = "manifest.json"
FORMAT: Final = "companion-backup"
OUR_FILE: Final = "companion.db"
AUTHME_FILE: Final = "authme.db"
TABLES: Final = "tables"
CONFIG_FILE: Final = "companion.toml"
_PAGES: Final = 100  # 400 KB: locks AuthMe's file for about a millisecond at a time
_TIMEOUT: Final = 60.0  # seconds
_PAUSE: Final = 0.05  # seconds, in which our own writers get their turn
log = logging.getLogger(__name__)
_CONTENTS: Final = {INSTALLATION_KEY_FILE, SIGNING_KEY_FILE, OUR_FILE, AUTHME_FILE, TABLES, MANIFEST, CONFIG_FILE}


@dataclass(frozen=True)
class Manifest:
    """Contents of manifest.json. The field names are part of the format.

    `tables`: rows and digest of each; `next_numbers`: next auto-increment id by table; `files`: SHA-256 by file name.
    """

    companion: str
    made_at: str
    schema: int
    installation_id: str
    key_fingerprint: str
    home: str
    tables: Mapping[str, Mapping[str, Any]]
    next_numbers: Mapping[str, int]
    files: Mapping[str, str]
    format: str = FORMAT
    version: int = 1

    @property
    def checksums(self) -> Checksums:
        return {
            name: TableChecksum(int(entry["rows"]), int(entry["digest"], 16)) for name, entry in self.tables.items()
        }

    @property
    def rows(self) -> int:
        return sum(int(entry["rows"]) for entry in self.tables.values())

    def write(self, folder: Path) -> None:
        (folder / MANIFEST).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


def to_manifest_tables(checksums: Mapping[str, TableChecksum]) -> dict[str, dict[str, Any]]:
    """Convert checksums to the form of `Manifest.tables`."""
    return {name: {"rows": checksum.rows, "digest": checksum.digest} for name, checksum in checksums.items()}


def read_manifest(folder: Path) -> Manifest:
    """Read a backup's manifest. Raises `TransferProblem` if the folder is not a backup made by `companion backup`."""
    path = folder / MANIFEST
    try:
        data = json.loads(read_text_file(path))
        if data.get("format") != FORMAT or data.get("version") != 1:
            raise ValueError("unknown format")
        return Manifest(**data)
    except (FileNotFoundError, NotADirectoryError):
        raise TransferProblem(not_a_backup(folder)) from None
    except PermissionError:
        raise TransferProblem(_unreadable(path)) from None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise TransferProblem(f"{path} is not a usable backup manifest ({error}).") from error


def not_a_backup(folder: Path) -> str:
    """Return what a folder is instead of a backup, and which backup is in it."""
    if not folder.is_dir():
        return f"{folder} is not a backup: there is no such folder."
    backups = sorted(path for path in folder.glob("companion-*") if os.path.isfile(path / MANIFEST))  # noqa: PTH113
    newest = f" The newest backup in it is {backups[-1]}" if backups else ""
    return f"{folder} is not a backup: it has no {MANIFEST}.{newest}"


def _unwritable(final: Path, folder: Path) -> str:
    """Return where to make a folder for backups instead: never one that others use, which would change hands."""
    user = user_name(os.geteuid())
    own = folder if final == folder else folder / "companion"
    if find_closed_folder(own) is not None:
        own = BACKUPS / "companion"
    return (
        f"{user} may not write the backup ({final}): Permission denied. "
        f"Make a folder for {user}: install -d -m 700 -o {user} {own} && companion backup {own}"
    )


def _unreadable(path: Path) -> str:
    """Return what to do about a file that we may not read, or whose folder we may not enter."""
    user = user_name(os.geteuid())
    closed = find_closed_folder(path)
    if closed is None or closed == path.absolute().parent:
        return f"{path} cannot be read by {user}: give the backup to this user: chown -R {user}: {path.parent}"
    return (
        f"{path} cannot be read by {user}, who may not enter {closed}: copy the backup to a folder that {user} may "
        f"enter, such as {BACKUPS}, and give the copy to this user (chown -R {user}:)."
    )


def file_checksums(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file on disk except the manifest, by relative path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    return {path.relative_to(folder).as_posix(): _sha256(path) for path in files}


def verify_files(folder: Path, manifest: Manifest) -> None:
    """Raise `TransferProblem` for a file that is missing or has changed since the backup was made."""
    found = file_checksums(folder)
    for name, digest in manifest.files.items():
        if found.get(name) != digest:
            raise TransferProblem(
                f"{folder / name} is {'damaged or was changed' if name in found else 'missing'}: copy the whole backup "
                "again, or restore another one."
            )


def _sha256(path: Path) -> str:
    with open(open_regular_file(path), "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        return hashlib.file_digest(file, "sha256").hexdigest()


class _SourceWritten(Exception):
    """AuthMe's file was written while it was being copied."""


def copy_databases(ours: Path, authme_file: Path | None, folder: Path, on_pages: Callable[[int], None]) -> None:
    """Copy both files into `folder` under their backup names. `authme_file` None or missing: only ours.

    Our file is locked against writers while AuthMe's is copied; otherwise an intent could be applied in one copy and
    unknown in the other. Reading ours goes on, and AuthMe's file is locked a few milliseconds at a time. If AuthMe's
    file is written meanwhile, our lock is released before the next attempt. Raises `TransferProblem`.
    """
    copies = [folder / OUR_FILE]
    try:
        with closing(_open(ours, "rw")) as writer, closing(_open(ours, "ro")) as reader:
            if authme_file is not None and authme_file.exists():
                copies.append(folder / AUTHME_FILE)
                _copy_at_rest(authme_file, copies[1], on_pages, writer)
            reader.execute("BEGIN")
            reader.execute("SELECT 1 FROM regsvc_installation").fetchone()  # takes the snapshot
            if writer.in_transaction:
                writer.execute("ROLLBACK")
            with closing(_create(copies[0])) as target:
                reader.backup(target, pages=_PAGES, progress=_page_counter(on_pages), sleep=0)
                target.execute("PRAGMA journal_mode = DELETE")  # a single file that can be read from read-only storage
    except sqlite3.Error as error:
        raise TransferProblem(f"Cannot copy a database file ({ours}, {authme_file}): {error}.") from error
    for path in copies:
        check_integrity(path)


def copy_authme_file(authme_file: Path, folder: Path, on_pages: Callable[[int], None]) -> None:
    """Copy AuthMe's file alone, for when ours is on a server. Does nothing if it is missing.

    Raises `TransferProblem`.
    """
    if not authme_file.exists():
        return
    copy = folder / AUTHME_FILE
    try:
        _copy_at_rest(authme_file, copy, on_pages)
    except sqlite3.Error as error:
        raise TransferProblem(f"Cannot copy AuthMe's database file ({authme_file}): {error}.") from error
    check_integrity(copy)


def _copy_at_rest(
    source: Path, target: Path, on_pages: Callable[[int], None], ours: sqlite3.Connection | None = None
) -> None:
    """Copy AuthMe's file, from the start again if it was written meanwhile.

    `ours`: a connection to our file, which is locked against writers during each attempt, and after the last one.
    """
    deadline = time.monotonic() + _TIMEOUT
    while True:
        if ours is not None:
            ours.execute("BEGIN IMMEDIATE")
        if _copy_unless_written(source, target, on_pages):
            return
        if ours is not None:
            ours.execute("ROLLBACK")
        if time.monotonic() > deadline:
            raise TransferProblem(f"{source} is written too often to be copied: try again when fewer people play.")
        time.sleep(_PAUSE)


def check_integrity(path: Path) -> None:
    """Raise `TransferProblem` unless SQLite's integrity check passes."""
    with closing(_open(path, "ro&immutable=1")) as connection:
        try:
            [result] = connection.execute("PRAGMA integrity_check(1)").fetchone()
        except sqlite3.Error as error:
            result = str(error)
    if result != "ok":
        raise TransferProblem(f"{path} is damaged: {result}.")


def _copy_unless_written(source: Path, target: Path, on_pages: Callable[[int], None]) -> bool:
    """Copy a file; return False if it was written meanwhile, since SQLite would then start over."""
    count_pages = _page_counter(on_pages)
    least: float = math.inf

    def progress(status: int, remaining: int, total: int) -> None:
        nonlocal least
        if remaining > least:
            raise _SourceWritten
        least = remaining
        count_pages(status, remaining, total)

    target.unlink(missing_ok=True)
    try:
        with closing(_open(source, "ro")) as reader, closing(_create(target)) as writer:
            reader.backup(writer, pages=_PAGES, progress=progress, sleep=0.001)
    except _SourceWritten:
        return False
    return True


def _page_counter(on_pages: Callable[[int], None]) -> Callable[[int, int, int], None]:
    """Return a backup progress callback that calls `on_pages` with the number of newly copied pages."""
    furthest = 0

    def progress(_status: int, remaining: int, total: int) -> None:
        nonlocal furthest
        if total - remaining > furthest:
            on_pages(total - remaining - furthest)
            furthest = total - remaining

    return progress


def _open(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path))}?mode={mode}", uri=True, timeout=5, isolation_level=None)


def _create(path: Path) -> sqlite3.Connection:
    """Create the target without syncing; the complete copy is flushed once."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA journal_mode = OFF")
    return connection


def make_backup(
    folder: Path,
    database: Database,
    authme_file: Path | None,
    keys: Keys,
    moment: datetime,
    config_file: Path | None,
) -> tuple[Path, Manifest]:
    """Make a backup and return its folder and manifest, after reading it back. Others use the database meanwhile.

    If `folder` exists, the backup is a new folder in it, named after the time (`moment`). `authme_file`: AuthMe's
    SQLite file; None if its table is elsewhere, or there is none. `config_file` is copied, too, if we may read it.
    Raises `TransferProblem`, leaving nothing behind.
    """
    final = folder
    try:
        final = folder / moment.strftime(NAME_FORMAT) if folder.is_dir() else folder
        final.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _clear_unfinished(final.parent)
        with _unfinished_folder(final) as unfinished:
            if config_file is not None and os.access(config_file, os.R_OK):
                _write_private(unfinished / CONFIG_FILE, read_text_file(config_file).encode())
            manifest = _fill(unfinished, database, authme_file, keys, moment)
            _flush(unfinished)
            if final.exists():
                raise TransferProblem(f"{final} exists already.")
            unfinished.rename(final)
        _flush_directory(final.parent)
    except PermissionError as error:
        raise TransferProblem(_unwritable(final, folder)) from error
    except OSError as error:
        raise TransferProblem(f"Cannot write the backup ({final}): {error.strerror or error}.") from error
    return final, manifest


def _fill(folder: Path, database: Database, authme_file: Path | None, keys: Keys, moment: datetime) -> Manifest:
    for name, key in (
        (INSTALLATION_KEY_FILE, keys.installation_key),
        (SIGNING_KEY_FILE, keys.signing.current),
    ):
        _write_private(folder / name, key + b"\n")
    is_file = isinstance(database, SqliteDatabase)
    checksums, numbers = (_copy_files if is_file else _write_tables)(folder, database, authme_file)
    installation = Installation.get_by_id(1)
    manifest = Manifest(
        companion=__version__,
        made_at=moment.isoformat(timespec="milliseconds"),
        schema=newest_schema(),
        installation_id=installation.installation_id,
        key_fingerprint=fingerprint(keys.installation_key),
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


def _copy_files(folder: Path, database: Database, authme_file: Path | None) -> tuple[Checksums, dict[str, int]]:
    progress = Progress.on_stderr("copying pages", None)
    try:
        copy_databases(Path(database.database), authme_file, folder, progress.advance)
    finally:
        progress.end()
    with open_copy(folder / OUR_FILE) as rows:
        return checksums_of(rows), _next_numbers(rows)


def _write_tables(folder: Path, database: Database, authme_file: Path | None) -> tuple[Checksums, dict[str, int]]:
    rows = DatabaseRows(database)
    with rows.snapshot():
        if authme_file is not None:  # newer than our snapshot, as after a restore that keeps AuthMe's file
            copy_authme_file(authme_file, folder, lambda pages: None)
        total = sum(rows.count(table) for table in list_tables())
        progress = Progress.on_stderr("backing up", total, passes=3)  # written, counted, read back
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


def _next_numbers(rows: Rows) -> dict[str, int]:
    return {table.name: rows.next_number(table) for table in list_tables() if table.has_auto_increment}


@contextmanager
def _unfinished_folder(final: Path) -> Iterator[Path]:
    """Create a folder that does not count as a backup yet, locked so that `_clear_unfinished` leaves it alone."""
    folder = final.with_name(f"{final.name}{UNFINISHED}")
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
    for folder in parent.glob(f"*{UNFINISHED}"):
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
