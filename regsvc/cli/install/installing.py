"""`companion install`: config, state, secrets, unit and proxy samples of one installation."""

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import Final

from regsvc.cli.install.changes import EDITED, SAME, Change, Tree, describe
from regsvc.cli.install.collecting import Collector, Terminal
from regsvc.cli.install.record import InstallRecord, digest_of, read_record, record_file, record_text
from regsvc.cli.install.service import Systemd, program_command, require_program_for, run_companion
from regsvc.cli.install.settings import GAME_DIRECTORY, OPTIONS, InstallProblem, Settings, help_of, read_values
from regsvc.cli.install.targets import Target, backup_timer, list_targets
from regsvc.cli.install.uninstalling import uninstall
from regsvc.config.key_types import to_toml
from regsvc.config.places import SystemPlaces, is_installation

_DOCTOR_BROKEN: Final = 2
INSTALLED_BUT_BROKEN: Final = 3
"""Exit status if everything was written, and the doctor finds something broken."""


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
    systemd = Systemd()
    if not systemd.is_running and may_start:
        command = shlex.join([*program, "serve", "--config", str(config)])
        print(f"systemd is not running here: start it as {settings.user} with\n  {command}")
        return status
    if is_broken and terminal is not None:
        may_start = may_start and terminal.confirm("Something is broken. Start it all the same?", default=True)
    if systemd.is_running:
        systemd.call("daemon-reload")
    if not may_start:
        print(f"not started; start it with: systemctl enable --now {unit}")
        return status
    verb = "restart" if is_changed else "start"
    if not (systemd.call("enable", unit) and systemd.call(verb, unit)):
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
