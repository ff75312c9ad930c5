"""Lock on the state directory: daemons share it, `companion restore` and `migrate --to` take it exclusively.

It is an advisory kernel lock on the directory itself: no lock file can go stale, and a killed process loses the lock.
"""

import errno
import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from regsvc.core.exceptions import StartupError

log = logging.getLogger(__name__)


class StateInUse(StartupError):
    """Another process uses this state directory; `str()` says what to do."""


def shared_state_lock(state_dir: Path) -> AbstractContextManager[None]:
    """Hold the lock as a daemon does; there may be several. Raises `StateInUse` during a migration or restore."""
    return _hold(
        state_dir,
        fcntl.LOCK_SH,
        f"`companion migrate --to` or `companion restore` is running for {state_dir}: start again when it is done.",
    )


def exclusive_state_lock(state_dir: Path) -> AbstractContextManager[None]:
    """Hold the lock alone. Raises `StateInUse` while a daemon, a migration or a restore is running."""
    return _hold(
        state_dir,
        fcntl.LOCK_EX,
        f"A daemon is running for {state_dir}: stop it first (systemctl stop companion), nothing may be written "
        "meanwhile.",
    )


@contextmanager
def _hold(state_dir: Path, kind: int, message: str) -> Iterator[None]:
    """Hold the lock, if there is a directory to lock. Raises `StateInUse` with this message."""
    try:
        descriptor = os.open(state_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        log.warning("%s cannot be locked: %s", state_dir, error.strerror)
        yield
        return
    try:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise StateInUse(message) from None
            # a network file system may not support locks on directories
            log.warning("%s cannot be locked (%s): a running daemon would go unnoticed", state_dir, error.strerror)
        yield
    finally:
        os.close(descriptor)
