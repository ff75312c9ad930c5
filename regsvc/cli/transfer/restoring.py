"""`companion restore`: restores a backup into an empty database, which is used from then on. Overwrites nothing."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from regsvc.auth.keys import INSTALLATION_KEY_FILE, SIGNING_KEY_FILE, fingerprint, load_keys
from regsvc.cli.transfer.backup import (
    AUTHME_FILE,
    OUR_FILE,
    TABLES,
    Manifest,
    check_integrity,
    open_copy,
    read_manifest,
    verify_files,
)
from regsvc.cli.transfer.copying import CopyTarget, require_equal
from regsvc.cli.transfer.migrate_to import newest_schema, open_connection, require_authme
from regsvc.cli.transfer.tables import Checksums, FileRows, Rows, TransferProblem, print_tables
from regsvc.config.sections import Config
from regsvc.core.clock import Clock
from regsvc.core.safe_paths import open_regular_file
from regsvc.database.location import (
    COPIED,
    DatabaseLocation,
    read_authme,
    read_recorded_location,
    record_location,
    resolve_location,
)
from regsvc.runtime.state_lock import state_lock

_KEY_FILES: Final = (INSTALLATION_KEY_FILE, SIGNING_KEY_FILE)


def restore_backup(folder: Path, config: Config, now: Clock) -> None:
    """Restore a backup into the database that the config names; print what was restored, and what to do now.

    Needs no `AppContext`, which would need the backup's keys. Raises `TransferProblem`, `StateInUse`, `ConfigError`,
    `UnusableKey`, `WrongDatabase`, `UnusableSchema`.
    """
    state_dir = config.server.state_dir
    manifest = read_manifest(folder)
    verify_files(folder, manifest)
    if manifest.schema != newest_schema():
        raise TransferProblem(
            f"The backup was made by version {manifest.companion}, which has different tables: restore it with "
            "that version, then install this one."
        )
    authme = read_authme(config)
    location = resolve_location(config, authme)
    if config.database.url == "auto" and location.file is not None and manifest.home.startswith("mysql:"):
        require_authme(config, authme)
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with state_lock(state_dir):
        _check_state_dir(state_dir, manifest, location)
        _install_keys(folder, manifest, config)
        with open_connection(location.database, location.name), _open_rows(folder, manifest) as rows:
            copied = _copy(rows, location, manifest, state_dir, now)
    count = print_tables(copied)
    print(f"restored {count} rows of {manifest.made_at} into {location.name}; digests match")
    print("all users have to log in again; now start the daemon, whose sync compares everything with AuthMe's table")
    if authme is not None and (copy := folder / AUTHME_FILE).exists():
        print(f"AuthMe's table is in {copy}; if it was lost, too, stop the game server and copy it to")
        print(f"  {authme.sqlite_file}")


def _copy(rows: Rows, location: DatabaseLocation, manifest: Manifest, state_dir: Path, now: Clock) -> Checksums:
    target = CopyTarget(location.database, location.name, manifest.installation_id, now)
    target.prepare()
    copied = target.copy(rows, "restoring")
    require_equal(manifest.checksums, copied)
    target.end_sessions()  # sessions revoked after the backup must stay revoked
    record_location(state_dir, manifest.installation_id, location.name)
    target.activate()
    return copied


def _check_state_dir(state_dir: Path, manifest: Manifest, location: DatabaseLocation) -> None:
    recorded = read_recorded_location(state_dir)
    if recorded is None:
        return
    if recorded["installation_id"] != manifest.installation_id:
        raise TransferProblem(
            f"{state_dir} belongs to another installation than the backup: set server.state_dir to an empty directory."
        )
    if recorded["home"] == location.name:
        _require_not_restored(location)


def _require_not_restored(location: DatabaseLocation) -> None:
    """Raise `TransferProblem` if an earlier restore reached its last step: its copy must not be deleted."""
    with open_connection(location.database, location.name):
        if "regsvc_installation" not in location.database.get_tables():
            return
        found = location.database.execute_sql("SELECT home FROM regsvc_installation").fetchall()
        if found and str(found[0][0]).startswith(COPIED):
            raise TransferProblem("The restore is complete except for its last step: start the companion.")


def _install_keys(folder: Path, manifest: Manifest, config: Config) -> None:
    state_dir = config.server.state_dir
    config.require_secrets("auth.installation_key", "auth.signing_key")
    auth = config.auth
    for name, is_configured in zip(_KEY_FILES, (auth.installation_key, auth.signing_key), strict=True):
        if not is_configured and not (state_dir / name).exists():
            _copy_private(folder / name, state_dir / name)
    if fingerprint(load_keys(auth, state_dir).installation_key) != manifest.key_fingerprint:
        raise TransferProblem(
            f"The backup was made with another installation key: to use the backup's, remove "
            f"{INSTALLATION_KEY_FILE} from {state_dir} (or auth.installation_key from the config)."
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
        with open(open_regular_file(source), "rb") as kept:  # noqa: PTH123 - a descriptor, not a path
            content = kept.read()
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except OSError as error:
        raise TransferProblem(f"{target} cannot be written: {error.strerror}.") from error
