"""The installation that this process serves: what identifies it, and whether its files are still there."""

import logging
import math
from pathlib import Path
from typing import Final

from regsvc.database.location import find_installation_fingerprint
from regsvc.runtime.backups import find_backups

log = logging.getLogger(__name__)

_STATE_DIR: Final = "the state directory"
_DATABASE: Final = "the database"

FileId = tuple[int, int]


class InstallationWatch:
    """Watches for a state directory or an SQLite file that is removed, or replaced, while the process uses it.

    The process would go on with the removed file, and everything written to it would be lost at its end. Methods block.
    """

    def __init__(self, state_dir: Path, database_file: Path | None, config_file: Path | None = None) -> None:
        """`database_file` None: our database is on a server. `config_file` says where backups are made each night."""
        self._state_dir = state_dir
        self._config_file = config_file
        self._files = {_STATE_DIR: state_dir} | ({_DATABASE: database_file} if database_file is not None else {})
        self._opened: dict[str, FileId | None] = {}
        self.fingerprint = find_installation_fingerprint(state_dir)
        """What other processes may know it by; None before its first start."""
        self.is_lost = False
        """Whether a file was missing, or another one, at the last check."""

    def open(self) -> None:
        """Remember which files are in use from now on."""
        self.fingerprint = find_installation_fingerprint(self._state_dir)
        self._opened = {what: _file_id(path) for what, path in self._files.items()}

    def find_backup_time(self) -> float:
        """Return the time of the newest backup, as `Backups.timestamp` tells it; NaN if they may not be looked for."""
        try:
            return find_backups(self._config_file, self._state_dir).timestamp
        except OSError:
            return math.nan

    def has_changed(self, is_open: bool) -> bool:
        """Return whether the files in use were removed, or are back, while our database is, or is not, open."""
        return (is_open or self.is_lost) and self.check() != is_open

    def check(self) -> bool:
        """Compare with the files in use, log what has changed since the last check, and return whether all is well."""
        lost = [what for what, opened in self._opened.items() if _file_id(self._files[what]) != opened]
        was_lost, self.is_lost = self.is_lost, bool(lost)  # first: what the log says is then true
        if lost and not was_lost:
            log.error(
                "%s %s removed or replaced while the companion uses it (%s): requests get 503, and what is not in a "
                "backup is lost. Stop the companion, restore a backup, and start it again",
                " and ".join(lost),
                "was" if len(lost) == 1 else "were",
                ", ".join(str(self._files[what]) for what in lost),
            )
        elif was_lost and not lost:
            log.info("the state directory and the database are there again")
        return not lost


def _file_id(path: Path) -> FileId | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
