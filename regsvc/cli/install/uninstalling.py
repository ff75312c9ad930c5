"""`companion uninstall`: unlocks all players, stops the daemon, and removes what `companion install` wrote."""

import argparse
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from regsvc.cli.install.changes import Tree
from regsvc.cli.install.collecting import Terminal
from regsvc.cli.install.record import InstallRecord, read_record, record_file, record_text
from regsvc.cli.install.service import Systemd, program_command, run_companion
from regsvc.cli.install.settings import InstallProblem, read_values, state_dir_of
from regsvc.cli.install.targets import BACKUPS, UNITS, Target, backup_timer, drop_in_file, is_template, shared_units
from regsvc.config.places import LOCATION_FILE, SystemPlaces, is_installation
from regsvc.config.sections import ConfigError
from regsvc.database.location import read_recorded_location

_LOCAL: Final = "sqlite:"


def uninstall(args: argparse.Namespace) -> int:
    """Uninstall; return the exit status. Raises `InstallProblem`."""
    if os.geteuid() != 0:
        raise InstallProblem("only root can uninstall it")
    places, tree = SystemPlaces.of_instance(args.instance), Tree(Path(args.root).absolute())
    record = read_record(tree.inside(record_file(places)))
    if record is None:
        raise InstallProblem(
            f"{record_file(places)} is missing: `companion install` did not install {places.name}, so this cannot "
            "remove it; docs/operations.md says how to do it by hand"
        )
    _confirm(args, places)
    is_here = tree.root == Path("/")
    state = tree.inside(_state_dir(tree, places))
    program = program_command()
    if args.purge:
        _require_known(state)
    if is_here and Systemd().is_running:
        Systemd().call("disable", "--now", places.unit, backup_timer(places))
    if is_here and is_installation(state):
        if not args.keep_locks:
            _unlock_all(program, places)
        if args.purge:
            _back_up(program, places, state)
    if args.purge:
        _tell_tables(state)
    _remove_files(tree, places, record, is_purge=args.purge)
    if args.purge:
        if state == tree.inside(places.state_dir):
            _remove_folder(state)
        else:  # other files may be in a folder that the host has chosen
            print(f"what remains is the state directory {state}: remove it yourself")
        _remove_folder(tree.inside(places.config_file.parent))  # last, since it has the record of the installation
    elif state.exists():
        print(f"kept: {places.config_file.parent} and {state}; --purge removes them, too, after a backup")
    if is_here and Systemd().is_running:
        Systemd().call("daemon-reload")
    return 0


def _state_dir(tree: Tree, places: SystemPlaces) -> Path:
    try:
        return state_dir_of(places, read_values(tree.inside(places.config_file)))
    except ConfigError:
        return places.state_dir


def _require_known(state: Path) -> None:
    """Raise `InstallProblem` if there is a database that no backup could be made of."""
    if not is_installation(state) and (state / "companion.db").exists():
        raise InstallProblem(
            f"{state} has a database, but no {LOCATION_FILE}, so that no backup can be made: move it away first"
        )


def _confirm(args: argparse.Namespace, places: SystemPlaces) -> None:
    if args.yes:
        return
    if not sys.stdin.isatty():
        raise InstallProblem("--yes is missing: without a terminal it confirms that you mean it", status=2)
    what = f"{places.unit}, its config, its secrets and all data" if args.purge else places.unit
    if not Terminal().confirm(f"Unlock all players and remove {what}?", default=False):
        raise InstallProblem("nothing was removed")


def _unlock_all(program: list[str], places: SystemPlaces) -> None:
    if run_companion(program, "unlock-all", "--config", str(places.config_file)).returncode != 0:
        raise InstallProblem(
            "not all players could be unlocked, so nothing was removed; the daemon is stopped. Mend that first; if "
            "AuthMe's table no longer exists, use --keep-locks."
        )


def _back_up(program: list[str], places: SystemPlaces, state: Path) -> None:
    """Make a backup as the owner of the state, who must be able to write where it goes."""
    folder = BACKUPS / places.name
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner = state.stat()
    os.chown(folder, owner.st_uid, owner.st_gid)
    if run_companion(program, "backup", str(folder), "--config", str(places.config_file)).returncode != 0:
        raise InstallProblem("there is no backup, so nothing was removed; the daemon is stopped")


def _remove_files(tree: Tree, places: SystemPlaces, record: InstallRecord, *, is_purge: bool) -> None:
    """Remove the files that still are what was written. Config and secrets stay, unless everything is to go."""
    own_folder = places.config_file.parent
    kept: dict[str, str] = {}
    for written, digest in record.files.items():
        path = Path(written)
        if path.is_relative_to(own_folder) and (is_purge or path.parent.name != "proxy"):  # the folder itself may go
            kept[written] = digest
        elif path in shared_units(places) and is_template(path) and _has_others(tree, places):
            print(f"kept {path}: other servers use it")
        else:
            _remove(tree, path, record)
    if not is_purge:
        text = record_text(InstallRecord(record.user, kept))
        tree.write(Target(record_file(places), 0o644, content=text))


def _remove(tree: Tree, path: Path, record: InstallRecord) -> None:
    place = tree.inside(path)
    try:
        is_ours = record.is_ours(path, place.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        return
    if is_ours:
        place.unlink()
        print(f"removed {path}")
        with suppress(OSError):  # other files are in it
            place.parent.rmdir()
    else:
        print(f"kept {path}: it was edited")


def _remove_folder(folder: Path) -> None:
    """Remove a folder with everything in it, and say whether that succeeded. A link is left, and where it leads to."""
    try:
        shutil.rmtree(folder)
        print(f"removed {folder}")
    except FileNotFoundError:
        return
    except OSError as error:
        print(f"cannot remove {folder} ({error.strerror or error}): remove it yourself", file=sys.stderr)


def _has_others(tree: Tree, places: SystemPlaces) -> bool:
    """Return whether another server is started by the template unit."""
    own = drop_in_file(places.unit)
    return any(file != tree.inside(own) for file in tree.inside(UNITS).glob(f"companion@*/{own.name}"))


def _tell_tables(state: Path) -> None:
    recorded = read_recorded_location(state)
    if recorded is not None and not recorded["home"].startswith(_LOCAL):
        print(f"what remains are the tables and views named regsvc_… in {recorded['home']}: drop them with SQL")
