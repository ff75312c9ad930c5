"""Command-line options of `companion install` and `uninstall`."""

import argparse
import sys

from regsvc.cli.install.installing import install
from regsvc.cli.install.problem import InstallProblem
from regsvc.cli.install.settings import GAME_DIRECTORY, OPTIONS, help_of
from regsvc.cli.install.uninstalling import uninstall


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
