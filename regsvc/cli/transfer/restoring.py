"""`companion restore`: restores a backup into an empty database, which is used from then on. Overwrites nothing.

With `--replace` what is there is kept in a folder `replaced-DATE`.
"""

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from regsvc.auth.keys import INSTALLATION_KEY_FILE, SIGNING_KEY_FILE, fingerprint, load_keys, require_keys
from regsvc.cli.transfer.backup import (
    AUTHME_FILE,
    CONFIG_FILE,
    MANIFEST,
    OUR_FILE,
    TABLES,
    Manifest,
    check_integrity,
    make_backup,
    not_a_backup,
    open_copy,
    read_manifest,
    verify_files,
)
from regsvc.cli.transfer.migrate_to import newest_schema, open_connection, require_authme, require_no_other_daemon
from regsvc.cli.transfer.tables import (
    Checksums,
    CopyTarget,
    FileRows,
    Rows,
    TransferProblem,
    print_tables,
    require_equal,
)
from regsvc.config.places import LOCATION_FILE
from regsvc.config.sections import Config
from regsvc.core.clock import Clock
from regsvc.core.safe_paths import find_foreign_folder, open_folder, open_regular_file
from regsvc.database.engine import open_sqlite
from regsvc.database.location import (
    COPIED,
    DatabaseLocation,
    read_authme,
    read_recorded_location,
    record_location,
    resolve_location,
)
from regsvc.database.models import MODELS
from regsvc.runtime.replaced_state import (
    HANDED_OVER,
    Move,
    Plan,
    finish_replacement,
    preparing,
    replace_state,
    state_lock,
)

_KEY_FILES: Final = (INSTALLATION_KEY_FILE, SIGNING_KEY_FILE)
_SQLITE_ENDINGS: Final = ("-wal", "-shm", "-journal")
"""Endings of the files that SQLite may have beside a database; the database itself follows them."""
_KEPT_TABLES: Final = "backup"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_REPLACE: Final = "`companion restore --replace BACKUP` takes its place, and keeps it in a folder replaced-DATE"


def restore_backup(folder: Path, config: Config, now: Clock, *, replaces: bool, shown: Path) -> None:
    """Restore a backup into the database that the config names; print what was restored, and what to do now.

    `shown`: the folder that the host knows the backup by. With `replaces` what is there is kept aside; without, it is
    a reason to refuse. Needs no `AppContext`, which would need the backup's keys. Raises `TransferProblem`,
    `StateInUse`, `ConfigError`, `UnusableKey`, `WrongDatabase`, `UnusableSchema`.
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
        if finish_replacement(state_dir) == _name_of(manifest):
            print("the restore that was interrupted is complete; now start the daemon")
            return
        if replaces:
            copied = _replace(folder, manifest, config, location, now)
        else:
            _check_state_dir(state_dir, manifest, location)
            _install_keys(folder, manifest, config, state_dir)
            with open_connection(location.database, location.name), _open_rows(folder, manifest) as rows:
                copied = _copy(rows, location, manifest, state_dir, now)
    count = print_tables(copied)
    print(f"restored {count} rows of {manifest.made_at} into {location.name}; digests match")
    print("all users have to log in again; now start the daemon, whose sync compares everything with AuthMe's table")
    if (folder / CONFIG_FILE).exists():
        print(f"the config of then is {shown / CONFIG_FILE}, for what this one lacks")
    if authme is not None and (folder / AUTHME_FILE).exists():
        print(f"AuthMe's table is in {shown / AUTHME_FILE}. If the game's was lost, too, or is older, stop the game")
        print("server and copy it to")
        print(f"  {authme.sqlite_file}")


@contextmanager
def readable_backup(folder: Path, state_dir: Path) -> Iterator[Path]:
    """Yield the folder of a backup as the owner of the state directory can read it: a copy, if it is root's alone.

    The copy is in the state directory, and is removed in the end. Call it as root, before root's rights are dropped.
    Raises `TransferProblem`.
    """
    if os.geteuid() == 0 and not (folder / MANIFEST).exists():  # its owner might not see that
        raise TransferProblem(not_a_backup(folder))
    owner = state_dir.stat() if os.geteuid() == 0 and state_dir.is_dir() else None
    if owner is None or owner.st_uid == 0 or not _is_roots_alone(folder):
        yield folder  # others may have put links there: the owner reads it with their own rights
        return
    copy = state_dir / f"{HANDED_OVER}{secrets.token_hex(4)}"
    held: list[int] = []
    try:
        try:
            _hand_over(folder, copy, owner, held)
        except OSError as error:
            raise TransferProblem(f"{folder} cannot be copied to {copy}: {error.strerror}.") from error
        yield copy
    finally:
        shutil.rmtree(copy, ignore_errors=True)
        for descriptor in held:
            os.close(descriptor)


def _is_roots_alone(folder: Path) -> bool:
    """Return whether nobody but root can change a backup, or enter a folder that it is in, such as /root."""
    return find_foreign_folder(folder / MANIFEST) is None or any(
        find_foreign_folder(parent / folder.name) is None and not parent.stat().st_mode & 0o011
        for parent in folder.absolute().parents
    )


def _hand_over(folder: Path, copy: Path, owner: os.stat_result, held: list[int]) -> None:
    """Copy a backup for the owner of the state directory, in which they could move or plant anything meanwhile.

    The copy is root's alone until it is complete, and everything is reached by descriptors. One of the copy is added to
    `held`, with a lock that says that it is in use.
    """
    outer = open_folder(copy.parent)
    try:
        for left in copy.parent.glob(f"{HANDED_OVER}*"):
            _remove_unused(left.name, outer)
        os.mkdir(copy.name, 0o700, dir_fd=outer)
        held.append(os.open(copy.name, _FOLDER, dir_fd=outer))
    finally:
        os.close(outer)
    fcntl.flock(held[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
    if os.fstat(held[0]).st_uid != 0:
        raise TransferProblem(f"{copy} was exchanged while it was written.")
    _copy_folder(folder, held[0], owner)


def _remove_unused(name: str, outer: int) -> None:
    """Remove the copy of an attempt that was killed, but not that of one that runs."""
    with suppress(OSError):  # in use; or planted by the owner, who has to remove it
        opened = os.open(name, _FOLDER, dir_fd=outer)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(name, ignore_errors=True, dir_fd=outer)
        finally:
            os.close(opened)


def _copy_folder(folder: Path, target: int, owner: os.stat_result) -> None:
    """Copy the files of a backup into a folder, given its descriptor, and give them away; the folder itself last."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.name == TABLES:
            os.mkdir(path.name, 0o700, dir_fd=target)
            inner = os.open(path.name, _FOLDER, dir_fd=target)
            try:
                _copy_folder(path, inner, owner)
            finally:
                os.close(inner)
        elif path.is_file() and not path.is_symlink():  # there is none in a backup: it would lead anywhere
            opened = os.open(path.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=target)
            with open(open_regular_file(path), "rb") as source, open(opened, "wb") as file:  # noqa: PTH123
                shutil.copyfileobj(source, file)
                os.fchown(opened, owner.st_uid, owner.st_gid)
    os.fchown(target, owner.st_uid, owner.st_gid)


def _name_of(manifest: Manifest) -> str:
    return f"{manifest.installation_id} {manifest.made_at}"


def _replace(folder: Path, manifest: Manifest, config: Config, location: DatabaseLocation, now: Clock) -> Checksums:
    """Restore a backup in place of what is there, which is kept in the state directory.

    On SQLite all is prepared first, and takes its place in one step. On a database server a backup of the present
    tables is made first; the daemon refuses to start until theirs are complete.
    """
    state_dir = config.server.state_dir
    kept = _kept_folder(state_dir, now())
    with preparing(state_dir) as prepared:
        _install_keys(folder, manifest, config, prepared)
        moves = []
        if location.file is not None:
            draft = OUR_FILE
            if location.file.absolute().parent != state_dir.absolute():  # perhaps on another disk
                draft = str(location.file.absolute().with_name(f".{location.file.name}.restored"))
                Path(draft).unlink(missing_ok=True)
            copied = _prepare_file(prepared / draft, folder, manifest, prepared, location, config, now)
            moves = _moves_of_file(location.file, draft, state_dir, kept)
        else:
            with open_connection(location.database, location.name):
                _keep_tables(kept, location, manifest, config, now)
            copied = _copy_tables(folder, manifest, prepared, location, now)
        for name in (*_KEY_FILES, LOCATION_FILE):
            if (prepared / name).exists():
                moves.append(Move(name, str(kept / name), name))
        replace_state(state_dir, Plan(_name_of(manifest), moves))
    if location.file is None:
        with open_connection(location.database, location.name):
            CopyTarget(location.database, location.name, manifest.installation_id, now).activate()
    if kept.exists():
        print(f"what was there before is kept in {kept}")
    return copied


def _kept_folder(state_dir: Path, moment: datetime) -> Path:
    """Return the path of the folder for what is replaced."""
    name = f"replaced-{moment:%Y%m%d-%H%M%S}"
    taken = len(list(state_dir.glob(f"{name}*")))
    return state_dir.absolute() / (f"{name}-{taken + 1}" if taken else name)


def _moves_of_file(file: Path, draft: str, state_dir: Path, kept: Path) -> list[Move]:
    """Return the steps for our SQLite file; one that is elsewhere is kept beside itself."""
    place = file.absolute()
    aside = kept / file.name if place.parent == state_dir.absolute() else place.with_name(f"{file.name}.{kept.name}")
    beside = [Move(f"{place}{ending}", f"{aside}{ending}", None) for ending in _SQLITE_ENDINGS]
    return [*beside, Move(str(place), str(aside), draft)]


def _prepare_file(
    draft: Path,
    folder: Path,
    manifest: Manifest,
    prepared: Path,
    location: DatabaseLocation,
    config: Config,
    now: Clock,
) -> Checksums:
    """Restore the tables into a file of another name, complete in itself."""
    database = open_sqlite(draft, config.database.busy_timeout)
    elsewhere = replace(location, database=database)
    with open_connection(database, location.name), _open_rows(folder, manifest) as rows:
        copied = _copy(rows, elsewhere, manifest, prepared, now)
        database.execute_sql("PRAGMA journal_mode = DELETE")  # all of it is in the one file that takes its place
    return copied


def _copy_tables(folder: Path, manifest: Manifest, prepared: Path, location: DatabaseLocation, now: Clock) -> Checksums:
    """Restore the tables on a database server. The mark of an unfinished copy stays until keys and place are there."""
    target = CopyTarget(location.database, location.name, manifest.installation_id, now)
    with open_connection(location.database, location.name), _open_rows(folder, manifest) as rows:
        target.prepare(replaces=True)
        copied = target.copy(rows, "restoring", ends_sessions=True)
        require_equal(manifest.checksums, copied)
    record_location(prepared, manifest.installation_id, location.name)
    return copied


def _keep_tables(kept: Path, location: DatabaseLocation, manifest: Manifest, config: Config, now: Clock) -> None:
    """Make a backup of the tables on a database server, unless there are none, or those of an unfinished restore.

    Raises `TransferProblem` if they are not those of the installation in the state directory.
    """
    state_dir = config.server.state_dir
    target = CopyTarget(location.database, location.name, manifest.installation_id, now)
    present, recorded = target.find_installation(), read_recorded_location(state_dir)
    if present is None or target.has_unfinished_copy():
        return
    if recorded is None or recorded["installation_id"] != present:
        raise TransferProblem(
            f"The tables in {location.name} are not those of {state_dir}, which has "
            f"{'never started' if recorded is None else 'another installation'}. If they are what the backup was made "
            f"of, and nothing but the keys was lost, copy {' and '.join(_KEY_FILES)} from the backup to {state_dir}, "
            "as files of its owner, and start the companion. If they are another server's, set database.url."
        )
    require_no_other_daemon(location.database, config)
    keys = require_keys(config.auth, state_dir)
    with location.database.bind_ctx(MODELS):
        make_backup(kept / _KEPT_TABLES, location.database, None, keys, now(), config.file)


def _copy(rows: Rows, location: DatabaseLocation, manifest: Manifest, state_dir: Path, now: Clock) -> Checksums:
    target = CopyTarget(location.database, location.name, manifest.installation_id, now, advice=_REPLACE)
    target.prepare()
    copied = target.copy(rows, "restoring", ends_sessions=True)
    require_equal(manifest.checksums, copied)
    record_location(state_dir, manifest.installation_id, location.name)
    target.activate()
    return copied


def _check_state_dir(state_dir: Path, manifest: Manifest, location: DatabaseLocation) -> None:
    recorded = read_recorded_location(state_dir)
    if recorded is None:
        return
    if recorded["installation_id"] != manifest.installation_id:
        raise TransferProblem(f"{state_dir} belongs to another installation than the backup: {_REPLACE}.")
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


def _install_keys(folder: Path, manifest: Manifest, config: Config, state_dir: Path) -> None:
    """Copy the keys of a backup into a folder, unless the config, or the folder, has them. Raises `TransferProblem`."""
    config.require_secrets("auth.installation_key", "auth.signing_key")
    auth = config.auth
    for name, is_configured in zip(_KEY_FILES, (auth.installation_key, auth.signing_key), strict=True):
        if not is_configured and not (state_dir / name).exists():
            _copy_private(folder / name, state_dir / name)
    if fingerprint(load_keys(auth, state_dir).installation_key) != manifest.key_fingerprint:
        raise TransferProblem(
            f"The backup was made with another installation key: to use the backup's, remove auth.installation_key "
            f"from the config. If it is in {state_dir}, {_REPLACE}."
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
