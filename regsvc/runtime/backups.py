"""Backups of this installation: the newest one, and whether nightly ones are switched on. Everything here blocks.

`companion backup` notes each backup in the state directory, wherever it is; those that earlier versions made are found
in the folder of the nightly ones, which is known where the config is in /etc.
"""

import fcntl
import json
import math
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from regsvc.config.places import LOCATION_FILE, SystemPlaces

NAME_FORMAT: Final = "companion-%Y%m%d-%H%M%S"
UNFINISHED: Final = ".unfinished"
OLD: Final = timedelta(days=3)
"""Age from which the newest backup counts as old."""
_NOTE: Final = "last-backup.json"
_SYSTEMD: Final = Path("/run/systemd/system")
_ENABLED: Final = (Path("/etc/systemd/system"), _SYSTEMD)


@dataclass(frozen=True)
class Backups:
    """`folder` is that of the nightly backups, and `timer` makes them; None for an installation outside /etc.

    `newest_at`: when the newest known backup was made. `is_wanted`: what was chosen at `companion install`, None if
    nothing was. `is_enabled`: whether the timer is, None where systemd does not run. `failed`: what a backup that was
    killed has left behind. `first_started_at`: None before the first start.
    """

    folder: Path | None
    timer: str | None
    newest_at: datetime | None
    is_wanted: bool | None
    is_enabled: bool | None
    failed: Path | None
    first_started_at: datetime | None

    @property
    def timestamp(self) -> float:
        """The time of the newest backup in seconds, 0 if there is none, NaN if none is expected here."""
        if self.newest_at is not None:
            return self.newest_at.timestamp()
        return math.nan if self.folder is None or self.is_wanted is False else 0


def find_backups(config_file: Path | None, state_dir: Path) -> Backups:
    """Look for the backups of an installation. Raises OSError if the folder of the nightly ones may not be read."""
    places = SystemPlaces.of_config(config_file) if config_file is not None else None
    folder = places.backups if places is not None else None
    made_at = [_read_note(state_dir)]
    failed = None
    if folder is not None:
        with suppress(FileNotFoundError):
            made_at.append(find_newest_backup(folder))
            failed = _find_failed(folder)
    return Backups(
        folder,
        places.backup_timer if places is not None else None,
        max((moment for moment in made_at if moment is not None), default=None),
        _read_choice(places) if places is not None else None,
        is_timer_enabled(places.backup_timer) if places is not None else None,
        failed,
        _find_first_start(state_dir),
    )


def find_newest_backup(folder: Path) -> datetime | None:
    """Return when the newest backup in a folder of backups was made; None: there is none. Raises OSError."""
    made_at = []
    for path in folder.iterdir():
        with suppress(ValueError):  # not a backup, or not a finished one
            made_at.append(datetime.strptime(path.name, NAME_FORMAT).replace(tzinfo=UTC))
    return max(made_at, default=None)


def note_backup(state_dir: Path, folder: Path, moment: datetime) -> None:
    """Note in the state directory that a backup was made and verified. Raises OSError."""
    draft = state_dir / f".{_NOTE}.new"
    draft.write_text(json.dumps({"madeAt": moment.isoformat(), "folder": str(folder.absolute())}), encoding="utf-8")
    draft.replace(state_dir / _NOTE)


def _read_note(state_dir: Path) -> datetime | None:
    try:
        return datetime.fromisoformat(json.loads((state_dir / _NOTE).read_text("utf-8"))["madeAt"])
    except (OSError, ValueError, LookupError, TypeError):  # none was made, or the next backup corrects it
        return None


def _find_failed(folder: Path) -> Path | None:
    """Return what a backup has left behind that does not run any more; its process would hold a lock."""
    for path in folder.glob(f"*{UNFINISHED}"):
        opened = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        finally:
            os.close(opened)
        return path
    return None


def _read_choice(places: SystemPlaces) -> bool | None:
    try:
        choice = json.loads(places.record_file.read_text("utf-8")).get("has_backups")
    except (OSError, ValueError, AttributeError):  # it is not `companion install` that made this installation
        return None
    return choice if isinstance(choice, bool) else None


def is_timer_enabled(timer: str) -> bool | None:
    """Return whether systemd starts the timer by itself: `systemctl enable` makes such a link (`WantedBy=`)."""
    if not _SYSTEMD.is_dir():
        return None
    return any(os.path.lexists(units / "timers.target.wants" / timer) for units in _ENABLED)


def _find_first_start(state_dir: Path) -> datetime | None:
    """Return when the installation started first, was restored, or got another database."""
    try:
        return datetime.fromtimestamp((state_dir / LOCATION_FILE).stat().st_mtime, UTC)
    except OSError:
        return None
