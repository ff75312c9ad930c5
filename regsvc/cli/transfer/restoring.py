"""`companion restore`: a backup into an empty database, which then is home. Nothing that is there is overwritten."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from regsvc.auth.keys import INSTALLATION_KEY_FILE, SIGNING_KEY_FILE, fingerprint, load_keys
from regsvc.cli.transfer.backup import open_copy
from regsvc.cli.transfer.copying import Copied, CopyTarget, require_equal
from regsvc.cli.transfer.manifest import AUTHMES_FILE, OUR_FILE, TABLES, Manifest, read_manifest, require_whole
from regsvc.cli.transfer.migrate_to import newest_schema, opened
from regsvc.cli.transfer.sqlite_copy import require_sound
from regsvc.cli.transfer.table_files import FileRows
from regsvc.cli.transfer.tables import Rows, TransferProblem
from regsvc.config.sections import Config
from regsvc.core.clock import Clock
from regsvc.database.location import (
    COPIED,
    DatabaseLocation,
    read_authme,
    read_recorded_location,
    record_location,
    resolve_location,
)
from regsvc.runtime.state_lock import exclusive_state_lock

_KEY_FILES: Final = (INSTALLATION_KEY_FILE, SIGNING_KEY_FILE)


@dataclass(frozen=True)
class Restored:
    """How it went. `authmes_file`: the copy of AuthMe's file in the backup, which whoever wants it copies back."""

    home: str
    made_at: str
    copied: Copied
    authmes_file: Path | None
    authmes_place: Path | None


class Restorer:
    """Restores into where the config leads. Needs no wiring: without the backup's keys there is none."""

    def __init__(self, config: Config, now: Clock) -> None:
        self._config = config
        self._state_dir = config.server.state_dir
        self._now = now

    def restore(self, folder: Path) -> Restored:
        """Raises `TransferProblem`, `StateInUse`, `ConfigError`, `UnusableKey`, `WrongDatabase`, `SchemaTooNew`."""
        manifest = read_manifest(folder)
        require_whole(folder, manifest)
        if manifest.schema != newest_schema():
            raise TransferProblem(
                f"The backup was made by version {manifest.companion}, whose tables are others: restore it with that "
                "version, then install this one."
            )
        authme = read_authme(self._config)
        home = resolve_location(self._config, authme)
        self._state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with exclusive_state_lock(self._state_dir):
            self._check_state(manifest, home)
            self._place_keys(folder, manifest)
            with opened(home.database, home.name), _open_rows(folder, manifest) as rows:
                copied = self._copy(rows, home, manifest)
        copy = folder / AUTHMES_FILE
        has_file = copy.exists() and authme is not None
        return Restored(
            home.name, manifest.made_at, copied, copy if has_file else None, authme.sqlite_file if authme else None
        )

    def _copy(self, rows: Rows, home: DatabaseLocation, manifest: Manifest) -> Copied:
        arrival = CopyTarget(home.database, home.name, manifest.installation_id, self._now)
        arrival.prepare()
        copied = arrival.copy(rows, "restoring")
        require_equal(manifest.tallies, copied.tallies)
        arrival.end_sessions()  # who logged out after the backup stays logged out
        record_location(self._state_dir, manifest.installation_id, home.name)
        arrival.activate()
        return copied

    def _check_state(self, manifest: Manifest, home: DatabaseLocation) -> None:
        recorded = read_recorded_location(self._state_dir)
        if recorded is None:
            return
        if recorded["installation_id"] != manifest.installation_id:
            raise TransferProblem(
                f"{self._state_dir} belongs to another installation than the backup: set server.state_dir to an "
                "empty directory."
            )
        if recorded["home"] == home.name:
            self._require_empty_or_gone(home)

    def _require_empty_or_gone(self, home: DatabaseLocation) -> None:
        """An earlier restore may have come to its last step: then this is home, and no copy to begin again."""
        with opened(home.database, home.name):
            if "regsvc_installation" not in home.database.get_tables():
                return
            found = home.database.execute_sql("SELECT home FROM regsvc_installation").fetchall()
            if found and str(found[0][0]).startswith(COPIED):
                raise TransferProblem("The restore was done but for its last step: start the companion.")

    def _place_keys(self, folder: Path, manifest: Manifest) -> None:
        given = self._config.auth
        for name, is_given in zip(_KEY_FILES, (given.installation_key, given.signing_key), strict=True):
            if not is_given and not (self._state_dir / name).exists():
                _place(folder / name, self._state_dir / name)
        if fingerprint(load_keys(given, self._state_dir).installation_key) != manifest.key_fingerprint:
            raise TransferProblem(
                f"The backup was made with another installation key than this one: remove {INSTALLATION_KEY_FILE} "
                f"from {self._state_dir} (or auth.installation_key from the config), and the backup's is used."
            )


@contextmanager
def _open_rows(folder: Path, manifest: Manifest) -> Iterator[Rows]:
    path = folder / OUR_FILE
    if path.exists():
        require_sound(path)
        with open_copy(path) as rows:
            yield rows
    else:
        counts = {name: tally.rows for name, tally in manifest.tallies.items()}
        yield FileRows(folder / TABLES, counts, manifest.next_numbers)


def _place(source: Path, target: Path) -> None:
    """Whole or not at all, and readable by us alone."""
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        content = source.read_bytes()
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except OSError as error:
        raise TransferProblem(f"{target} cannot be written: {error.strerror}.") from error
