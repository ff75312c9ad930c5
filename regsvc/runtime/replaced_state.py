"""The state directory: its lock, and its replacement by what a restore has prepared, of all files or of none.

The prepared files are in a folder of the state directory, together with the plan of what takes which place. The folder
gets its name last: until then the old files count, from then on the new ones. Whatever opens the installation next
completes the plan first, so a restore may be interrupted at any moment. What was there before is kept.

One daemon at a time has the lock, or one command that must not work beside a daemon. It is an advisory kernel lock on
the directory itself: no lock file can go stale, and a killed process loses the lock.
"""

import errno
import fcntl
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from regsvc.config.places import is_installation
from regsvc.core.exceptions import EX_TEMPFAIL, StartupError
from regsvc.core.safe_paths import open_regular_file

log = logging.getLogger(__name__)


class StateInUse(StartupError):
    """Another process uses this state directory; `str()` says what to do. It may have ended at the next attempt."""

    exit_status = EX_TEMPFAIL


@contextmanager
def state_lock(state_dir: Path) -> Iterator[None]:
    """Hold the lock, if there is a directory to lock. Raises `StateInUse` while another process holds it."""
    try:
        descriptor = os.open(state_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        log.warning("%s cannot be locked: %s", state_dir, error.strerror)
        yield
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise StateInUse(
                    f"A daemon is running for {state_dir}, or a command that excludes one (restore, migrate --to, "
                    "unlock-all): stop it first (systemctl stop companion), or let it end. Two daemons never share a "
                    "state directory: each needs a server.state_dir of its own."
                ) from None
            # a network file system may not support locks on directories
            log.warning("%s cannot be locked (%s): a running daemon would go unnoticed", state_dir, error.strerror)
        yield
    finally:
        os.close(descriptor)


# not names that hosts give to folders, such as one for the backup
_PREPARED: Final = ".restored"
_UNFINISHED: Final = ".restored.unfinished"
_PLAN: Final = "plan.json"
HANDED_OVER: Final = ".backup-of-root-"
"""Begin of the name of a folder with a backup that only root may read, copied for the owner of the state directory."""


class Move(msgspec.Struct, frozen=True):
    """One step: what is at `place` goes to `kept`, and the prepared file takes the place; None: nothing does.

    Paths are absolute or relative to the state directory, that of `prepared` to the folder of prepared files.
    """

    place: str
    kept: str
    prepared: str | None


class Plan(msgspec.Struct, frozen=True):
    """All steps of a replacement, and the name of the backup that the prepared files are from."""

    backup: str
    moves: Sequence[Move]


@contextmanager
def preparing(state_dir: Path) -> Iterator[Path]:
    """Create the folder for the prepared files; remove what is left of it in the end, as of an earlier attempt."""
    folder = state_dir / _UNFINISHED
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def replace_state(state_dir: Path, plan: Plan) -> None:
    """Let the prepared files take their places. Requires the lock on the state directory."""
    folder = state_dir / _UNFINISHED
    (folder / _PLAN).write_bytes(msgspec.json.encode(plan))
    for path in (*_prepared_files(folder, plan), folder / _PLAN, folder):
        _flush(path)
    folder.rename(state_dir / _PREPARED)
    _flush(state_dir)
    finish_replacement(state_dir)


def finish_replacement(state_dir: Path) -> str | None:
    """Complete a replacement that was interrupted; return the name of its backup, or None if there is none.

    Requires the lock on the state directory. Raises `StartupError` if the plan is another user's.
    """
    folder = state_dir / _PREPARED
    try:
        with open(open_regular_file(folder / _PLAN), "rb") as file:  # noqa: PTH123 - a descriptor, not a path
            owner = os.fstat(file.fileno()).st_uid
            plan = msgspec.json.decode(file.read(), type=Plan)
    except FileNotFoundError:
        with suppress(OSError):  # there is none, or files of others are in it
            folder.rmdir()
        return None
    if owner != os.geteuid():  # root moves nothing because another user says so
        raise StartupError(
            f"A restore into {state_dir} was interrupted. Complete it as the user who owns {folder}: run "
            "`companion restore --replace` again, or start the companion as that user."
        )
    for move in plan.moves:
        _move(state_dir, folder, move)
    for path in {(state_dir / name).parent for move in plan.moves for name in (move.place, move.kept)}:
        with suppress(FileNotFoundError):  # nothing had to be kept
            _flush(path)
    (folder / _PLAN).unlink()
    folder.rmdir()
    _flush(state_dir)
    return plan.backup


def finish_interrupted(state_dir: Path) -> None:
    """Complete a replacement that was interrupted, if there is one.

    Raises `StateInUse`, and `StartupError` where an empty installation would be made in place of the restored one.
    """
    if (state_dir / _PREPARED).exists():
        with state_lock(state_dir):
            finish_replacement(state_dir)
    left = find_unfinished_restore(state_dir)
    if left:
        raise StartupError(
            f"A restore into {state_dir}, which is empty, has not ended. Run it again: companion restore --replace "
            f"BACKUP. To begin without it, remove {' and '.join(map(str, left))}."
        )


def find_unfinished_restore(state_dir: Path) -> list[Path]:
    """Return the folders that an interrupted restore has left where there is no installation yet."""
    if is_installation(state_dir):
        return []
    return [path for name in (_UNFINISHED, f"{HANDED_OVER}*") for path in state_dir.glob(name)]


def _prepared_files(folder: Path, plan: Plan) -> list[Path]:
    return [folder / move.prepared for move in plan.moves if move.prepared is not None]


def _move(state_dir: Path, folder: Path, move: Move) -> None:
    """Do one step, unless an earlier attempt has done it."""
    place, kept = state_dir / move.place, state_dir / move.kept
    prepared = None if move.prepared is None else folder / move.prepared
    if prepared is not None and not prepared.exists():
        return
    if place.exists():
        kept.parent.mkdir(mode=0o700, exist_ok=True)
        if kept.exists():
            raise StartupError(f"{place} would be moved to {kept}, which exists: move that away, and try again.")
        place.rename(kept)
    if prepared is not None:
        prepared.rename(place)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
