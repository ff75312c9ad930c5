"""`companion restore`: restores a backup into an empty database, which is used from then on. Overwrites nothing."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from regsvc.auth.keys import INSTALLATION_KEY_FILE, SIGNING_KEY_FILE, fingerprint, load_keys
from regsvc.cli.transfer.backup import open_copy
from regsvc.cli.transfer.copying import CopyResult, CopyTarget, require_equal
from regsvc.cli.transfer.manifest import AUTHME_FILE, OUR_FILE, TABLES, Manifest, read_manifest, verify_files
from regsvc.cli.transfer.migrate_to import newest_schema, open_connection
from regsvc.cli.transfer.sqlite_copy import check_integrity
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
class RestoreResult:
    """Result of a restore. `authme_file`: AuthMe's file in the backup; `authme_target`: where it can be copied back."""

    location: str
    made_at: str
    copied: CopyResult
    authme_file: Path | None
    authme_target: Path | None


class Restorer:
    """Restore into the database that the config names. Needs no `AppContext`, which would need the backup's keys."""

    def __init__(self, config: Config, now: Clock) -> None:
        self._config = config
        self._state_dir = config.server.state_dir
        self._now = now

    def restore(self, folder: Path) -> RestoreResult:
        """Restore the backup in `folder`.

        Raises `TransferProblem`, `StateInUse`, `ConfigError`, `UnusableKey`, `WrongDatabase`, `UnusableSchema`.
        """
        manifest = read_manifest(folder)
        verify_files(folder, manifest)
        if manifest.schema != newest_schema():
            raise TransferProblem(
                f"The backup was made by version {manifest.companion}, which has different tables: restore it with "
                "that version, then install this one."
            )
        authme = read_authme(self._config)
        location = resolve_location(self._config, authme)
        self._state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with exclusive_state_lock(self._state_dir):
            self._check_state_dir(manifest, location)
            self._install_keys(folder, manifest)
            with open_connection(location.database, location.name), _open_rows(folder, manifest) as rows:
                copied = self._copy(rows, location, manifest)
        copy = folder / AUTHME_FILE
        has_file = copy.exists() and authme is not None
        return RestoreResult(
            location.name, manifest.made_at, copied, copy if has_file else None, authme.sqlite_file if authme else None
        )

    def _copy(self, rows: Rows, location: DatabaseLocation, manifest: Manifest) -> CopyResult:
        target = CopyTarget(location.database, location.name, manifest.installation_id, self._now)
        target.prepare()
        copied = target.copy(rows, "restoring")
        require_equal(manifest.checksums, copied.checksums)
        target.end_sessions()  # sessions revoked after the backup must stay revoked
        record_location(self._state_dir, manifest.installation_id, location.name)
        target.activate()
        return copied

    def _check_state_dir(self, manifest: Manifest, location: DatabaseLocation) -> None:
        recorded = read_recorded_location(self._state_dir)
        if recorded is None:
            return
        if recorded["installation_id"] != manifest.installation_id:
            raise TransferProblem(
                f"{self._state_dir} belongs to another installation than the backup: set server.state_dir to an "
                "empty directory."
            )
        if recorded["home"] == location.name:
            self._require_not_restored(location)

    def _require_not_restored(self, location: DatabaseLocation) -> None:
        """Raise `TransferProblem` if an earlier restore reached its last step: its copy must not be deleted."""
        with open_connection(location.database, location.name):
            if "regsvc_installation" not in location.database.get_tables():
                return
            found = location.database.execute_sql("SELECT home FROM regsvc_installation").fetchall()
            if found and str(found[0][0]).startswith(COPIED):
                raise TransferProblem("The restore is complete except for its last step: start the companion.")

    def _install_keys(self, folder: Path, manifest: Manifest) -> None:
        self._config.require_secrets("auth.installation_key", "auth.signing_key")
        auth = self._config.auth
        for name, is_configured in zip(_KEY_FILES, (auth.installation_key, auth.signing_key), strict=True):
            if not is_configured and not (self._state_dir / name).exists():
                _copy_private(folder / name, self._state_dir / name)
        if fingerprint(load_keys(auth, self._state_dir).installation_key) != manifest.key_fingerprint:
            raise TransferProblem(
                f"The backup was made with another installation key: to use the backup's, remove "
                f"{INSTALLATION_KEY_FILE} from {self._state_dir} (or auth.installation_key from the config)."
            )


@contextmanager
def _open_rows(folder: Path, manifest: Manifest) -> Iterator[Rows]:
    path = folder / OUR_FILE
    if path.exists():
        check_integrity(path)
        with open_copy(path) as rows:
            yield rows
    else:
        counts = {name: checksum.rows for name, checksum in manifest.checksums.items()}
        yield FileRows(folder / TABLES, counts, manifest.next_numbers)


def _copy_private(source: Path, target: Path) -> None:
    """Copy a file atomically, readable by our own user only."""
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
