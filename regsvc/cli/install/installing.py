"""`companion install` and `uninstall`: config, state, secrets, unit and proxy samples of one installation."""

import argparse
import os
import pwd
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from regsvc.cli.install.changes import (
    EDITED,
    SAME,
    Change,
    InstallRecord,
    Tree,
    describe,
    digest_of,
    read_record,
    record_file,
    record_text,
)
from regsvc.cli.install.collecting import Collector, Terminal
from regsvc.cli.install.settings import (
    GAME_DIRECTORY,
    OPTIONS,
    InstallProblem,
    Settings,
    help_of,
    read_values,
    state_dir_of,
)
from regsvc.cli.install.targets import (
    BACKUPS,
    UNITS,
    Target,
    backup_timer,
    drop_in_file,
    is_template,
    list_targets,
    shared_units,
)
from regsvc.config.key_types import to_toml
from regsvc.config.places import LOCATION_FILE, SystemPlaces, is_installation
from regsvc.config.sections import ConfigError
from regsvc.database.location import read_recorded_location

_SYSTEMD_RUNS: Final = Path("/run/systemd/system")
_DOCTOR_BROKEN: Final = 2
INSTALLED_BUT_BROKEN: Final = 3
"""Exit status if everything was written, and the doctor finds something broken."""
_LOCAL: Final = "sqlite:"


def program_command() -> list[str]:
    """Return the command that started this process, without its arguments: absolute, for a unit."""
    program = Path(sys.argv[0]).absolute()
    is_command = program.suffix != ".py" and os.access(program, os.X_OK)
    return [str(program)] if is_command else [sys.executable, str(program)]


def require_program_for(user: str, program: Sequence[str]) -> None:
    """Raise `InstallProblem` if this user cannot run the program."""
    entry = pwd.getpwnam(user)
    reason = "it ends at once"
    try:
        done = subprocess.run(  # noqa: S603 - the command that runs us
            [*program, "--version"],
            user=entry.pw_uid,
            group=entry.pw_gid,
            extra_groups=os.getgrouplist(user, entry.pw_gid),
            cwd="/",
            env={"PATH": os.defpath, "LANG": "C.UTF-8"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return
        reason = (done.stderr.strip().splitlines() or [reason])[-1]
    except OSError as error:
        reason = error.strerror or reason
    raise InstallProblem(
        f"{user} cannot run {' '.join(program)} ({reason}). Install the program in a folder that every user may enter, "
        "such as /opt/companion, and run `companion install` from there."
    )


def run_companion(program: Sequence[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run another command of the companion; its standard output is also printed."""
    done = subprocess.run([*program, *arguments], stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    print(done.stdout, end="", flush=True)
    return done


def systemctl(*arguments: str) -> bool:
    """Call systemd's manager; return whether it succeeded."""
    return subprocess.run(["systemctl", *arguments], check=False).returncode == 0  # noqa: S603, S607


def install(args: argparse.Namespace) -> int:
    """Install; return the exit status. Raises `InstallProblem`, and `ConfigError` for a broken config."""
    if os.geteuid() != 0 and not args.dry_run:
        raise InstallProblem("only root can install it; --dry-run shows what would be done")
    os.umask(0o022)  # each file and folder has a mode of its own
    root = Path(args.root).absolute()
    terminal = Terminal() if sys.stdin.isatty() and sys.stdout.isatty() and not args.yes else None
    tree, places = Tree(root), SystemPlaces.of_instance(args.instance)
    old = read_record(tree.inside(record_file(places)))
    settings = Collector(args, root, terminal).collect(old.user if old is not None else None)
    program = program_command()
    if root == Path("/"):
        require_program_for(settings.user, program)
    _require_own_state(tree, settings)
    changes = [tree.compare(target, old) for target in list_targets(settings, program, root)]
    _show(changes)
    _tell_kept_values(changes, args, tree, settings)
    if args.dry_run:
        print("nothing was written (--dry-run)")
        return 0
    is_changed = any(change.is_needed for change in changes)
    if is_changed and terminal is not None and not terminal.confirm("Write this?", default=True):
        print("nothing was written")
        return 1
    _write(tree, settings, changes, old)
    if root != Path("/"):
        print(f"prepared in {root}; nothing was checked or started there")
        return 0
    return _check_and_start(settings, program, terminal, is_changed=is_changed, may_start=not args.no_start)


def _require_own_state(tree: Tree, settings: Settings) -> None:
    """Raise `InstallProblem` if a chosen state directory holds anything else, which would get another owner."""
    state = tree.inside(settings.state_dir)
    is_chosen = settings.state_dir != settings.places.state_dir
    if is_chosen and state.is_dir() and any(state.iterdir()) and not is_installation(state):
        raise InstallProblem(
            f"server.state_dir = {settings.state_dir} has files of others in it: name a folder for the companion alone"
        )


def _show(changes: list[Change]) -> None:
    for change in changes:
        if change.kind != SAME:
            print("\n".join(describe(change)))
    if not any(change.is_needed for change in changes):
        print("everything is as it should be")


def _tell_kept_values(changes: list[Change], args: argparse.Namespace, tree: Tree, settings: Settings) -> None:
    """Print what options ask for that an edited config does not say."""
    config = settings.places.config_file
    if not any(change.target.path == config and change.kind == EDITED for change in changes):
        return
    present = read_values(tree.inside(config))
    for key, option in OPTIONS.items():
        is_given = getattr(args, option[2:].replace("-", "_")) is not None
        if is_given and present.get(key) != settings.values[key]:
            print(f"{option}: set {key} = {to_toml(settings.values[key])} yourself in {config}")


def _write(tree: Tree, settings: Settings, changes: list[Change], old: InstallRecord | None) -> None:
    for change in changes:
        if change.is_needed:
            tree.write(change.target)
    record = InstallRecord(settings.user, dict(old.files) if old is not None else {})
    for change in changes:
        content = change.target.content
        if content is not None and change.kind != EDITED:
            record.files[str(change.target.path)] = "" if change.target.is_secret else digest_of(content)
    target = Target(record_file(settings.places), 0o644, content=record_text(record))
    if record != old:
        tree.write(target)


def _check_and_start(
    settings: Settings, program: list[str], terminal: Terminal | None, *, is_changed: bool, may_start: bool
) -> int:
    config, unit = settings.places.config_file, settings.places.unit
    print(f"\ncompanion doctor --config {config}:", flush=True)
    is_broken = run_companion(program, "doctor", "--config", str(config)).returncode == _DOCTOR_BROKEN
    status = INSTALLED_BUT_BROKEN if is_broken else 0
    is_systemd = _SYSTEMD_RUNS.is_dir()
    if not is_systemd and may_start:
        command = shlex.join([*program, "serve", "--config", str(config)])
        print(f"systemd is not running here: start it as {settings.user} with\n  {command}")
        return status
    if is_broken and terminal is not None:
        may_start = may_start and terminal.confirm("Something is broken. Start it all the same?", default=True)
    if is_systemd:
        systemctl("daemon-reload")
    if not may_start:
        print(f"not started; start it with: systemctl enable --now {unit}")
        return status
    verb = "restart" if is_changed else "start"
    if not (systemctl("enable", unit) and systemctl(verb, unit)):
        print(f"{unit} did not start; read why with: journalctl -u {unit} -n 50", file=sys.stderr)
        return 1
    print(f"{unit} is running; watch it with: journalctl -u {unit} -f")
    print(f"nightly backups: systemctl enable --now {backup_timer(settings.places)}")
    print(f"samples for your web server: {config.parent / 'proxy'}")
    return status


def add_install_options(command: str, parser: argparse.ArgumentParser) -> None:
    """Declare the options of one of these commands."""
    if command == "install":
        _add_settings(parser)
    else:
        parser.add_argument(
            "--purge", action="store_true", help="remove config, secrets and state, too, after a backup in /var/backups"
        )
        parser.add_argument(
            "--keep-locks", action="store_true", help="do not unlock players, where AuthMe's table no longer exists"
        )
    parser.add_argument("--yes", action="store_true", help="ask nothing")
    parser.add_argument(
        "--root", metavar="DIR", default="/", help="folder that stands for /, to prepare another system"
    )


def _add_settings(parser: argparse.ArgumentParser) -> None:
    for key, option in OPTIONS.items():
        if key != GAME_DIRECTORY:  # all commands have that one
            parser.add_argument(option, metavar="VALUE", help=f"{key}: {help_of(key)}".replace("%", "%%"))
    parser.add_argument("--user", metavar="USER", help="user who runs it; default: the owner of AuthMe's folder")
    parser.add_argument(
        "--mail-password-file",
        metavar="FILE",
        help="file with the password of the mail account, or - for standard input; it becomes a credential of the unit",
    )
    parser.add_argument("--mail-test", metavar="ADDRESS", help="send a test mail first, and stop if that fails")
    parser.add_argument("--no-start", action="store_true", help="do not start it")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be written")


def run_install_command(args: argparse.Namespace) -> int:
    """Run one of these commands; return the exit status. Raises `ConfigError`."""
    try:
        if args.config is not None:
            raise InstallProblem("the config's place follows from --instance: leave out --config", status=2)
        return install(args) if args.command == "install" else uninstall(args)
    except InstallProblem as problem:
        print(f"companion: {problem}", file=sys.stderr)
        return problem.status
    except OSError as error:
        print(f"companion: {error.filename or 'a file'}: {error.strerror}", file=sys.stderr)
        return 1
    except (EOFError, KeyboardInterrupt):
        print("\ncompanion: interrupted", file=sys.stderr)
        return 130


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
    if is_here and _SYSTEMD_RUNS.is_dir():
        systemctl("disable", "--now", places.unit, backup_timer(places))
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
    if is_here and _SYSTEMD_RUNS.is_dir():
        systemctl("daemon-reload")
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
