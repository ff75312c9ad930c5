"""Another program on AuthMe's SQLite file, under its own user, like a game server beside the daemon.

`other_user.py play FILE NAME` updates a player's row until its input is closed, and prints how often; it fails where
AuthMe's driver would have given up. `other_user.py check FILE STATE_DIR` prints the result of `integrity_check` for a
user who cannot read the state directory. The program changes its user itself, because the other user may have no
access to the interpreter's folder.
"""

import os
import select
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

USER_ID = 61234
"""A user id that does not exist."""
_BUSY_TIMEOUT = 3.0  # seconds, as in the SQLite driver that AuthMe ships
_PAUSE = 0.02  # seconds between two of the player's moves


def can_be_another() -> bool:
    """Return whether we may change the user. If not, everything here runs under our own."""
    return os.geteuid() == 0


def change_owner(folder: Path) -> None:
    """Make the other user the owner of the folder and everything in it."""
    if can_be_another():
        for path in (folder, *folder.rglob("*")):
            os.chown(path, USER_ID, USER_ID)


def check(file: Path, state_dir: Path) -> str:
    """Return the result of the other user's `integrity_check`, "ok" if all is well."""
    command = [sys.executable, __file__, "check", str(file), str(state_dir)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip()


class OnlinePlayer:
    """A context manager: meanwhile a player is online, and every move is written to AuthMe's table."""

    def __init__(self, file: Path, name: str) -> None:
        self._command = [sys.executable, __file__, "play", str(file), name.lower()]

    def __enter__(self) -> "OnlinePlayer":
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        return self

    def __exit__(self, *exc_info: object) -> None:
        moves, complaints = self._process.communicate()
        assert self._process.returncode == 0, complaints
        assert int(moves) > 0

    def is_walking(self) -> bool:
        """Return False once the file was locked for too long."""
        return self._process.poll() is None


def _play(file: str, name: str) -> int:
    moves = 0
    with closing(sqlite3.connect(file, timeout=_BUSY_TIMEOUT, isolation_level=None)) as connection:
        while not select.select([sys.stdin], [], [], _PAUSE)[0]:
            connection.execute("UPDATE authme SET x = x + 1, lastlogin = ? WHERE username = ?", (moves, name))
            moves += 1
    return moves


def _check(file: str, state_dir: str) -> str:
    if os.getuid() == USER_ID and os.access(state_dir, os.R_OK | os.X_OK):
        return "the state directory can be seen"
    with closing(sqlite3.connect(file, timeout=_BUSY_TIMEOUT, isolation_level=None)) as connection:
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])


def _become_another() -> None:
    if can_be_another():
        os.setgroups([])
        os.setgid(USER_ID)
        os.setuid(USER_ID)


if __name__ == "__main__":
    job = {"play": _play, "check": _check}[sys.argv[1]]
    _become_another()
    print(job(*sys.argv[2:]))
