"""`companion install` and `uninstall`: config, state, secrets, unit and proxy samples of one installation."""

import argparse
import os
import pwd
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from regsvc.cli.config_command import load_changed
from regsvc.cli.given_config import require_readable
from regsvc.cli.install.changes import (
    EDITED,
    SAME,
    Change,
    InstallRecord,
    Tree,
    describe,
    digest_of,
    is_blank,
    read_home,
    read_record,
    record_text,
)
from regsvc.cli.install.collecting import Collector, Terminal
from regsvc.cli.install.settings import (
    GAME_DIRECTORY,
    OPTIONS,
    UNITS,
    InstallProblem,
    Settings,
    Target,
    drop_in_file,
    help_of,
    is_template,
    list_steps,
    list_targets,
    read_values,
    shared_units,
    state_dir_of,
)
from regsvc.config.places import LOCATION_FILE, SystemPlaces, is_installation
from regsvc.config.sections import ConfigError
from regsvc.core.safe_paths import find_foreign_folder, open_folder
from regsvc.runtime.backups import is_timer_enabled

_SYSTEMD_RUNS: Final = Path("/run/systemd/system")
_DOCTOR_BROKEN: Final = 2
INSTALLED_BUT_BROKEN: Final = 3
"""Exit status if everything was written, and the doctor finds something broken."""
_LOCAL: Final = "sqlite:"
_PACKAGED: Final = Path("/opt/companion/.venv/bin/companion")


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
            errors="replace",
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


def find_program(user: str, root: Path) -> list[str]:
    """Return the command for the units. Raises `InstallProblem` if the user cannot run it.

    Says so if it is not there yet, in another system, or if others could exchange what the units also run as root.
    """
    program = program_command()
    if root == Path("/"):
        if os.geteuid() == 0:  # nobody else can try that, for --dry-run
            require_program_for(user, program)
        folder = next(filter(None, (find_foreign_folder(Path(word)) for word in program)), None)
        if folder is not None:
            print(
                f"warning: others than root may change {folder}, and root runs what is there: move it to /opt/companion"
            )
        return program
    if all(os.path.lexists(root / Path(word).relative_to("/")) for word in program):
        return program
    if not os.path.lexists(root / _PACKAGED.relative_to("/")):
        print(f"the units start {_PACKAGED}, which is not in {root} yet: install the program there")
    return [str(_PACKAGED)]


def run_companion(program: Sequence[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run another command of the companion; its standard output is also printed."""
    pipe = subprocess.PIPE
    done = subprocess.run([*program, *arguments], stdout=pipe, text=True, errors="replace", check=False)  # noqa: S603
    print(done.stdout, end="", flush=True)
    return done


def systemctl(*arguments: str) -> bool:
    """Call systemd's manager; return whether it succeeded."""
    return subprocess.run(["systemctl", *arguments], check=False).returncode == 0  # noqa: S603, S607


def install(args: argparse.Namespace) -> int:
    """Install; return the exit status. Raises `InstallProblem`, and `ConfigError` for a broken config."""
    if os.geteuid() != 0 and not args.dry_run:
        raise InstallProblem("only root can install it: run it with sudo; --dry-run shows what would be done")
    os.umask(0o022)  # each file and folder has a mode of its own
    root = Path(args.root).absolute()
    terminal = Terminal() if sys.stdin.isatty() and sys.stdout.isatty() and not args.yes else None
    tree, places = Tree(root), SystemPlaces.of_instance(args.instance)
    _require_roots_alone(tree, places)
    require_readable(tree.inside(places.config_file), args.command)
    old = read_record(tree.inside(places.record_file))
    settings = Collector(args, root, terminal).collect(old)
    program = find_program(settings.user, root)
    with tree.opened(settings.state_dir) as state:
        if state is not None:
            require_own_state(state, settings, old)
    config = tree.read(places.config_file)
    is_edited = config is not None and _is_edited(config, places.config_file, old)
    targets = list_targets(settings, program, root, config, is_edited=is_edited)
    changes = [tree.compare(target, old) for target in targets]
    if root == Path("/"):
        _require_sound(changes, places.config_file)
    _show(changes)
    if args.dry_run:
        print("nothing was written (--dry-run)")
        return 0
    if old is not None and old.unfinished:
        print("the last `companion install` did not get to its end; this one does what is left")
    is_changed = any(change.is_needed for change in changes)
    if is_changed and terminal is not None and not terminal.confirm("Write this?", default=True):
        print("nothing was written")
        return 1
    record = _write(tree, settings, changes, old)
    if root != Path("/"):
        print(f"prepared in {root}; nothing was checked or started there: run `companion install` there")
        return 0
    is_changed = is_changed or old is None or old.unfinished is not None
    may_start = not args.no_start
    status, is_finished = _start(settings, program, terminal, record, is_changed=is_changed, may_start=may_start)
    if steps := list_steps(settings):
        print("Left for you:", *(f"  {step}" for step in steps), sep="\n")
    if is_finished and record.unfinished is not None:
        record.unfinished = None
        tree.write(Target(places.record_file, 0o644, content=record_text(record)))
    return status


def _is_edited(text: str, config: Path, record: InstallRecord | None) -> bool:
    """Return whether a config is the host's: neither as we wrote it, nor blank."""
    return not is_blank(config, text) and not (record is not None and record.is_ours(config, text))


def _require_roots_alone(tree: Tree, places: SystemPlaces) -> None:
    """Raise `InstallProblem` if others could exchange the files that say what root is to do."""
    folder = find_foreign_folder(places.config_file, tree.root) if os.geteuid() == 0 else None
    if folder is not None:
        raise InstallProblem(f"{folder} may be changed by others than root, who could plant a config there: mend that")


def require_own_state(state: int, settings: Settings, record: InstallRecord | None) -> None:
    """Raise `InstallProblem` if a state directory, given its descriptor, is not this config's, but would be given away.

    A chosen one is empty or an installation; an installation that gets another owner is the one that was recorded.
    """
    is_chosen = settings.state_dir != settings.places.state_dir
    shown, found = f"server.state_dir = {settings.state_dir}", read_home(state)
    if found is None:
        if is_chosen and os.listdir(state):
            raise InstallProblem(f"{shown} has files of others in it: name a folder for the companion alone")
        return
    owner = os.fstat(state).st_uid
    if owner == pwd.getpwnam(settings.user).pw_uid:
        return
    if record is not None and record.installation is not None:
        is_ours = record.installation == found.get("installation_id")
    else:  # it has not started since; where nothing is recorded, only the place that follows from the name is ours
        is_ours = not is_chosen or (record is not None and owner == pwd.getpwnam(record.user).pw_uid)
    if not is_ours:
        raise InstallProblem(
            f"{shown} is of another installation than the one of {settings.places.config_file}, and would get another "
            f"owner: name its own folder, or give this one to {settings.user} yourself (chown -R)"
        )


def _show(changes: list[Change]) -> None:
    for change in changes:
        if change.kind != SAME:
            print("\n".join(describe(change)))
    if not any(change.is_needed for change in changes):
        print("no file has to be changed")


def _require_sound(changes: list[Change], config: Path) -> None:
    """Raise `ConfigError` if the options make mistakes in the config; print what they make risky."""
    for change in changes:
        content = change.target.content
        if change.target.path == config and change.is_needed and content is not None:
            for warning in load_changed(config, change.present or "", content):
                print(f"warning: {warning}")


def _write(tree: Tree, settings: Settings, changes: list[Change], old: InstallRecord | None) -> InstallRecord:
    """Write what is needed, the config last: while it is missing, the next run asks everything again.

    The record says before what is going to be written, and is returned; it stays unfinished where anything is.
    """

    def check(folder: int) -> None:  # again, since it may have been exchanged
        require_own_state(folder, settings, old)

    record = InstallRecord(settings.user, dict(old.files) if old is not None else {})
    record.has_backups = settings.has_backups if settings.has_backups is not None or old is None else old.has_backups
    record.installation = old.installation if old is not None else None
    written = {
        str(change.target.path): "" if change.target.is_secret else digest_of(change.target.content)
        for change in changes
        if change.target.content is not None and change.kind != EDITED and not change.target.is_adapted
    }
    place, is_needed = settings.places.record_file, any(change.is_needed for change in changes)
    if old is None or old.unfinished is not None or settings.has_backups is not None:
        record.unfinished = {}
    if is_needed:
        record.unfinished = written
        tree.write(Target(place, 0o644, content=record_text(record)))
    left: list[str] = []
    for change in sorted(changes, key=lambda change: change.target.path == settings.places.config_file):
        if change.is_needed:
            is_state = change.target.path == settings.state_dir
            left += tree.write(change.target, check) if is_state else tree.write(change.target)
    for path in left:
        print(f"{path}: left as it is, since it is not the former owner's alone")
    record.installation = _find_own_id(tree, settings) or record.installation
    record.files |= written
    if record.unfinished is not None:
        record.unfinished = {}
    if record != old:
        tree.write(Target(place, 0o644, content=record_text(record)))
    return record


def _find_own_id(tree: Tree, settings: Settings) -> str | None:
    with tree.opened(settings.state_dir) as state:
        return None if state is None else (read_home(state) or {}).get("installation_id")


def _start(
    settings: Settings,
    program: list[str],
    terminal: Terminal | None,
    record: InstallRecord,
    *,
    is_changed: bool,
    may_start: bool,
) -> tuple[int, bool]:
    """Check what was installed, and start it.

    Returns the exit status, and whether everything runs as it was chosen.
    """
    config, unit = settings.places.config_file, settings.places.unit
    print(f"\ncompanion doctor --config {config}:", flush=True)
    is_broken = run_companion(program, "doctor", "--config", str(config)).returncode == _DOCTOR_BROKEN
    status = INSTALLED_BUT_BROKEN if is_broken else 0
    is_systemd = _SYSTEMD_RUNS.is_dir()
    if not is_systemd and may_start:
        command = shlex.join([*program, "serve", "--config", str(config)])
        print(f"systemd is not running here: start it as {settings.user} with\n  {command}")
        return status, False
    if is_broken and terminal is not None:
        may_start = may_start and terminal.confirm("Something is broken. Start it all the same?", default=True)
    if is_systemd:
        systemctl("daemon-reload")
    if not may_start:
        timer = f" {settings.places.backup_timer}" if settings.has_backups else ""
        print(f"not started; start it with: systemctl enable --now {unit}{timer}")
        return status, False
    verb = "restart" if is_changed else "start"
    if not (systemctl("enable", unit) and systemctl(verb, unit)):
        print(f"{unit} did not start; read why with: journalctl -u {unit} -n 50", file=sys.stderr)
        return 1, False
    print(f"{unit} is running; watch it with: journalctl -u {unit} -f")
    if settings.has_backups is not None:
        is_switched = _switch_backups(settings.places, is_on=settings.has_backups)
    else:
        is_switched = True
        _tell_of_backups(settings.places, record)
    return (status if is_switched else 1), is_switched


def _tell_of_backups(places: SystemPlaces, record: InstallRecord) -> None:
    """Say so if no nightly backups are made that nobody has declined, as after an earlier version's interrupted run."""
    if record.has_backups is not False and not is_timer_enabled(places.backup_timer):
        print(
            f"no nightly backups: {places.backup_timer} is disabled; switch them on with `companion install --backup`, "
            "or --no-backup if they are not wanted"
        )


def _switch_backups(places: SystemPlaces, *, is_on: bool) -> bool:
    """Start or stop the timer; return whether it is as wanted. (There may be none to stop.)"""
    timer = places.backup_timer
    is_done = systemctl("enable" if is_on else "disable", "--now", timer)
    if is_on and not is_done:
        print(
            f"no nightly backups: {timer} cannot be enabled; read why with: systemctl status {timer}", file=sys.stderr
        )
    if is_on and is_done:
        print(f"backups every night: {timer}, into {places.backups}")
    return is_done or not is_on


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
        "--root", type=str, metavar="DIR", default="/", help="folder that stands for /, to prepare another system"
    )


def _add_settings(parser: argparse.ArgumentParser) -> None:
    for key, option in OPTIONS.items():
        if key != GAME_DIRECTORY:  # all commands have that one
            parser.add_argument(option, metavar="VALUE", help=f"{key}: {help_of(key)}".replace("%", "%%"))
    parser.add_argument("--user", metavar="USER", help="user who runs it; default: the owner of AuthMe's folder")
    parser.add_argument(
        "--mail-password-file",
        type=str,
        metavar="FILE",
        help="file with the password of the mail account, or - for standard input; it becomes a credential of the unit",
    )
    parser.add_argument("--mail-test", metavar="ADDRESS", help="send a test mail first, and stop if that fails")
    parser.add_argument(
        "--players-first-hour",
        metavar="N",
        type=int,
        help="about how many players register in the first hour; more than 50 raise the limits in total",
    )
    parser.add_argument(
        "--backup",
        action=argparse.BooleanOptionalAction,
        help="make a backup every night (companion-backup.timer); default: when it is installed for the first time",
    )
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
        raise InstallProblem("only root can uninstall it: run it with sudo")
    places, tree = SystemPlaces.of_instance(args.instance), Tree(Path(args.root).absolute())
    _require_roots_alone(tree, places)
    record = read_record(tree.inside(places.record_file))
    if record is None:
        raise InstallProblem(
            f"{places.record_file} is missing: `companion install` did not install {places.name}, so this cannot "
            "remove it; docs/reference.md says how to do it by hand"
        )
    _confirm(args, places)
    is_here = tree.root == Path("/")
    state_dir = _state_dir(tree, places)
    state = tree.inside(state_dir)
    program = program_command()
    if args.purge:
        _require_backup(state, is_here=is_here)
    if is_here and _SYSTEMD_RUNS.is_dir():
        systemctl("disable", "--now", places.unit, places.backup_timer)
    if is_here and is_installation(state):
        if not args.keep_locks:
            _unlock_all(program, places)
        if args.purge:
            _back_up(program, places, tree, state_dir)
    if args.purge:
        _tell_tables(tree, state_dir)
    _remove_files(tree, places, record, is_purge=args.purge)
    if args.purge:
        if state_dir == places.state_dir:
            _remove_folder(tree, state_dir)
        else:  # other files may be in a folder that the host has chosen
            print(f"what remains is the state directory {state}: remove it yourself")
        _remove_folder(tree, places.config_file.parent)  # last, since it has the record of the installation
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


def _require_backup(state: Path, *, is_here: bool) -> None:
    """Raise `InstallProblem` if there is data that no backup could be made of."""
    if is_installation(state) and not is_here:
        raise InstallProblem(f"{state} has data, of which no backup can be made from here: move it away first")
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


def _back_up(program: list[str], places: SystemPlaces, tree: Tree, state_dir: Path) -> None:
    """Make a backup as the owner of the state, who must be able to write where it goes."""
    folder = places.backups
    backups = open_folder(folder, tree.root, mode=0o700)
    try:
        with tree.opened(state_dir) as state:
            assert state is not None
            owner = os.fstat(state)
        os.fchown(backups, owner.st_uid, owner.st_gid)
    finally:
        os.close(backups)
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
        text = record_text(InstallRecord(record.user, kept, unfinished={}, has_backups=record.has_backups))
        tree.write(Target(places.record_file, 0o644, content=text))


def _remove(tree: Tree, path: Path, record: InstallRecord) -> None:
    present = tree.read(path)
    if present is None:
        return
    if record.is_ours(path, present):
        tree.remove(path)
        print(f"removed {path}")
    else:
        print(f"kept {path}: it was edited")


def _remove_folder(tree: Tree, folder: Path) -> None:
    """Remove a folder with everything in it, and say whether that succeeded. A link is left, and where it leads to."""
    try:
        tree.remove_folder(folder)
        print(f"removed {tree.inside(folder)}")
    except FileNotFoundError:
        return
    except OSError as error:
        print(f"cannot remove {tree.inside(folder)} ({error.strerror or error}): remove it yourself", file=sys.stderr)


def _has_others(tree: Tree, places: SystemPlaces) -> bool:
    """Return whether another server is started by the template unit."""
    own = drop_in_file(places.unit)
    return any(file != tree.inside(own) for file in tree.inside(UNITS).glob(f"companion@*/{own.name}"))


def _tell_tables(tree: Tree, state_dir: Path) -> None:
    with tree.opened(state_dir) as state:
        home = _LOCAL if state is None else (read_home(state) or {}).get("home", _LOCAL)
    if not home.startswith(_LOCAL):
        print(f"what remains are the tables and views named regsvc_… in {home}: drop them with SQL")
