"""Whether a daemon works for a state directory: it holds the directory's lock for as long as it lives.

An advisory lock of the kernel on the directory itself: there is no file to go stale, and a killed process has lost it.
"""

import errno
import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger(__name__)


class StateInUse(Exception):
    """Somebody else works for this state directory; `str()` says what to do."""


@contextmanager
def sharing_state(state_dir: Path) -> Iterator[None]:
    """As daemons do, of which there may be several. Raises `StateInUse` while everything is moved or restored."""
    taken = _take(
        state_dir,
        fcntl.LOCK_SH,
        f"Everything in {state_dir} is being moved or restored: start when `companion migrate --to` or "
        "`companion restore` is done.",
    )
    try:
        yield
    finally:
        _let_go(taken)


@contextmanager
def owning_state(state_dir: Path) -> Iterator[None]:
    """As whoever moves or restores everything. Raises `StateInUse` while a daemon works, or somebody else moves."""
    taken = _take(
        state_dir,
        fcntl.LOCK_EX,
        f"A daemon works for {state_dir}: stop it first (systemctl stop companion), nothing may be written meanwhile.",
    )
    try:
        yield
    finally:
        _let_go(taken)


def _let_go(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)


def _take(state_dir: Path, kind: int, refusal: str) -> int | None:
    """The descriptor that holds the lock until it is closed; None where there is no directory to lock."""
    try:
        descriptor = os.open(state_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        log.warning("%s cannot be locked: %s", state_dir, error.strerror)
        return None
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            os.close(descriptor)
            raise StateInUse(refusal) from None
        # a network's file system may not lock directories
        log.warning("%s cannot be locked (%s): nothing tells whether a daemon works for it", state_dir, error.strerror)
    return descriptor
