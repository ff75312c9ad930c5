"""Consistent copies of our SQLite file and AuthMe's while both are in use."""

import math
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

from regsvc.cli.transfer.manifest import AUTHME_FILE, OUR_FILE
from regsvc.cli.transfer.tables import TransferProblem

_PAGES: Final = 100  # 400 KB: locks AuthMe's file for about a millisecond at a time
_TIMEOUT: Final = 60.0  # seconds
_PAUSE: Final = 0.05  # seconds, in which our own writers get their turn


class _SourceWritten(Exception):
    """AuthMe's file was written while it was being copied."""


def copy_databases(ours: Path, authme_file: Path | None, folder: Path, on_pages: Callable[[int], None]) -> None:
    """Copy both files into `folder` under their backup names. `authme_file` None or missing: only ours.

    Our file is locked against writers while AuthMe's is copied; otherwise an intent could be applied in one copy and
    unknown in the other. Reading ours goes on, and AuthMe's file is locked a few milliseconds at a time. If AuthMe's
    file is written meanwhile, our lock is released before the next attempt. Raises `TransferProblem`.
    """
    copies = [folder / OUR_FILE]
    deadline = time.monotonic() + _TIMEOUT
    try:
        with closing(_open(ours, "rw")) as writer, closing(_open(ours, "ro")) as reader:
            if authme_file is not None and authme_file.exists():
                copies.append(folder / AUTHME_FILE)
                writer.execute("BEGIN IMMEDIATE")
                while not _copy_unless_written(authme_file, copies[1], on_pages):
                    writer.execute("ROLLBACK")
                    if time.monotonic() > deadline:
                        raise _busy_file(authme_file)
                    time.sleep(_PAUSE)
                    writer.execute("BEGIN IMMEDIATE")
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
    deadline = time.monotonic() + _TIMEOUT
    try:
        while not _copy_unless_written(authme_file, copy, on_pages):
            if time.monotonic() > deadline:
                raise _busy_file(authme_file)
            time.sleep(_PAUSE)
    except sqlite3.Error as error:
        raise TransferProblem(f"Cannot copy AuthMe's database file ({authme_file}): {error}.") from error
    check_integrity(copy)


def _busy_file(path: Path) -> TransferProblem:
    return TransferProblem(f"{path} is written too often to be copied: try again when fewer people play.")


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
