"""A copy of our SQLite file and of AuthMe's, as both were at one moment of ours, while both are in use."""

import math
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

from regsvc.cli.transfer.manifest import AUTHMES_FILE, OUR_FILE
from regsvc.cli.transfer.tables import TransferProblem

_PAGES: Final = 100  # 400 KB: AuthMe's file is held for about a millisecond at a time
_PATIENCE: Final = 60.0  # seconds
_PAUSE: Final = 0.05  # seconds in which our own writers have their turn


class _Changed(Exception):
    """Somebody wrote into AuthMe's file while it was copied."""


def copy_both(ours: Path, authmes: Path | None, folder: Path, on_pages: Callable[[int], None]) -> None:
    """Copies in `folder`, under their names in a backup. `authmes` None, or not there: only ours.

    Nobody writes into ours while AuthMe's is copied: else a wish could be fulfilled in one copy and unknown in the
    other. Reading ours goes on, and AuthMe's is held a few milliseconds at a time. Where somebody writes into AuthMe's
    meanwhile, ours is let go before it is tried again. Raises `TransferProblem`.
    """
    made = [folder / OUR_FILE]
    deadline = time.monotonic() + _PATIENCE
    try:
        with closing(_open(ours, "rw")) as writer, closing(_open(ours, "ro")) as reader:
            if authmes is not None and authmes.exists():
                made.append(folder / AUTHMES_FILE)
                writer.execute("BEGIN IMMEDIATE")
                while not _copy_undisturbed(authmes, made[1], on_pages):
                    writer.execute("ROLLBACK")
                    if time.monotonic() > deadline:
                        raise _written_too_often(authmes)
                    time.sleep(_PAUSE)
                    writer.execute("BEGIN IMMEDIATE")
            reader.execute("BEGIN")
            reader.execute("SELECT 1 FROM regsvc_installation").fetchone()  # its moment is this one
            if writer.in_transaction:
                writer.execute("ROLLBACK")
            with closing(_make(made[0])) as target:
                reader.backup(target, pages=_PAGES, progress=_telling(on_pages), sleep=0)
                target.execute("PRAGMA journal_mode = DELETE")  # one file, that can be read where nobody may write
    except sqlite3.Error as error:
        raise TransferProblem(f"A file cannot be copied ({ours}, {authmes}): {error}.") from error
    for path in made:
        require_sound(path)


def copy_authmes(authmes: Path, folder: Path, on_pages: Callable[[int], None]) -> None:
    """AuthMe's file alone, for where ours is on a server. Nothing is done where it is not there.

    Raises `TransferProblem`.
    """
    if not authmes.exists():
        return
    made = folder / AUTHMES_FILE
    deadline = time.monotonic() + _PATIENCE
    try:
        while not _copy_undisturbed(authmes, made, on_pages):
            if time.monotonic() > deadline:
                raise _written_too_often(authmes)
            time.sleep(_PAUSE)
    except sqlite3.Error as error:
        raise TransferProblem(f"A file cannot be copied ({authmes}): {error}.") from error
    require_sound(made)


def _written_too_often(path: Path) -> TransferProblem:
    return TransferProblem(f"{path} is written too often to be copied: try when fewer people play.")


def require_sound(path: Path) -> None:
    """Raise `TransferProblem` unless SQLite takes this file for whole."""
    with closing(_open(path, "ro&immutable=1")) as connection:
        try:
            [said] = connection.execute("PRAGMA integrity_check(1)").fetchone()
        except sqlite3.Error as error:
            said = str(error)
    if said != "ok":
        raise TransferProblem(f"{path} is not whole: {said}.")


def _copy_undisturbed(source: Path, target: Path, on_pages: Callable[[int], None]) -> bool:
    """False: somebody wrote into it meanwhile, and SQLite would begin again."""
    told = _telling(on_pages)
    least: float = math.inf

    def progress(status: int, remaining: int, total: int) -> None:
        nonlocal least
        if remaining > least:
            raise _Changed
        least = remaining
        told(status, remaining, total)

    target.unlink(missing_ok=True)
    try:
        with closing(_open(source, "ro")) as reader, closing(_make(target)) as writer:
            reader.backup(writer, pages=_PAGES, progress=progress, sleep=0.001)
    except _Changed:
        return False
    return True


def _telling(on_pages: Callable[[int], None]) -> Callable[[int, int, int], None]:
    """Tells how many pages are new."""
    furthest = 0

    def progress(_status: int, remaining: int, total: int) -> None:
        nonlocal furthest
        if total - remaining > furthest:
            on_pages(total - remaining - furthest)
            furthest = total - remaining

    return progress


def _open(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path))}?mode={mode}", uri=True, timeout=5, isolation_level=None)


def _make(path: Path) -> sqlite3.Connection:
    """It is flushed once, when it is whole."""
    made = sqlite3.connect(path, isolation_level=None)
    made.execute("PRAGMA synchronous = OFF")
    made.execute("PRAGMA journal_mode = OFF")
    return made
