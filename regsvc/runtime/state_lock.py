"""Lock on the state directory: one daemon at a time has it, or one command that must not work beside a daemon.

It is an advisory kernel lock on the directory itself: no lock file can go stale, and a killed process loses the lock.
"""

import errno
import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regsvc.core.exceptions import EX_TEMPFAIL, StartupError

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
