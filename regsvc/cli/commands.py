"""The command line of `companion`: parser, and the commands that are not in a module of their own."""

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence

from peewee import PeeweeException

from plugin_bridge.authme.players import PlayersUnavailable
from regsvc import __version__
from regsvc.app.app import App
from regsvc.app.context import AppContext, LoadKeys
from regsvc.auth.keys import find_or_invent_keys, load_keys, require_keys
from regsvc.cli.data import DATA_COMMANDS, add_data_commands, is_offline_command, run_data_command, run_offline_command
from regsvc.cli.game import GAME_COMMANDS, run_game_command
from regsvc.cli.import_command import find_option_mistake
from regsvc.cli.install.options import INSTALL_COMMANDS, add_install_options
from regsvc.cli.shipped import SHIPPED_COMMANDS, add_shipped_options
from regsvc.cli.state_owner import actor_name, require_installation
from regsvc.cli.sync import NO_AUTHME, add_sync_options, run_sync
from regsvc.cli.upgrade_check import check_upgrade
from regsvc.cli.users import add_user_commands, run_user_command
from regsvc.config.places import is_installation
from regsvc.config.sections import Config
from regsvc.core.errors import Refusal
from regsvc.database.engine import error_sentence, is_retryable, is_unreachable
from regsvc.database.migrator import MigrationRunning
from regsvc.runtime.state_lock import StateInUse, exclusive_state_lock

OpenContext = Callable[[Config, LoadKeys], AppContext]
MakeApp = Callable[[AppContext, str], App]

VERSION = f"companion {__version__}"
DESCRIPTION = "Registration and administration beside a Minecraft server."
UNLOCK_ALL = "unlock-all"
UPGRADE_CHECK = "upgrade-check"
ALIASES = {UNLOCK_ALL: "release"}
"""Older names of commands, which keep working."""
COMMANDS = {
    "serve": "run the server until stopped (the default)",
    "sync": "reconcile users with AuthMe's players once",
    "migrate": "update the database to this version's tables, or move it to another database (--to)",
    "check-config": "check the config and the files it names",
    "doctor": "report what is wrong or risky here, and how to fix it",
    "users": "list users, approve, ban and edit them",
    UNLOCK_ALL: "unlock every player the companion locked, including banned ones, before you uninstall it; "
    "stop the daemon first (older name: release)",
    "digest": "mail the list of waiting registrations to the admins (mail.admins), if there are new ones and it is due",
    "mail-test": "send a test mail now and report the result",
    **GAME_COMMANDS,
    **DATA_COMMANDS,
    **SHIPPED_COMMANDS,
    **INSTALL_COMMANDS,
    UPGRADE_CHECK: "report what this version would do to the database, and the backup to make first; changes nothing",
    "version": "print the version",
}
_CONFIG_HELP = (
    "default: the file that COMPANION_CONFIG names; ./conf/companion.toml, if it sets a key; "
    "/etc/companion/companion.toml"
)
_STATELESS = ("check-config", "mail-test", *GAME_COMMANDS)
_SHOW_PLACE = ("migrate", "sync", "import", "backup", UNLOCK_ALL)
_NOT_CHECKED = (
    "not checked: whether the databases and AuthMe's table can be used, the mail server, and the port; "
    "for that run: companion doctor"
)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line. For --help and for mistakes it prints a message and exits."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help=_CONFIG_HELP)
    common.add_argument(
        *("-i", "--instance"),
        metavar="NAME",
        default=argparse.SUPPRESS,
        help="one of many servers on this machine: /etc/companion@NAME/companion.toml",
    )
    common.add_argument(
        "--game-dir", metavar="DIR", default=argparse.SUPPRESS, help="the game server's folder (game.directory)"
    )
    parser = argparse.ArgumentParser("companion", description=DESCRIPTION, parents=[common])
    parser.add_argument("--version", action="version", version=VERSION)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    parsers = {
        name: subparsers.add_parser(
            name,
            aliases=[ALIASES[name]] if name in ALIASES else [],
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            parents=[common],
        )
        for name, text in COMMANDS.items()
    }
    add_sync_options(parsers["sync"])
    parsers["doctor"].add_argument("--json", dest="is_json", action="store_true", help="print JSON for programs")
    parsers["mail-test"].add_argument("address", metavar="ADDRESS")
    add_user_commands(parsers["users"], common)
    add_data_commands(parsers)
    add_shipped_options(parsers)
    add_install_options(parsers)
    # not as defaults of the parsers: a subparser would overwrite a value given before the command
    defaults = argparse.Namespace(config=None, instance=None, game_dir=None)
    args = parser.parse_args(arguments, defaults)
    names = {alias: name for name, alias in ALIASES.items()}
    args.command = names.get(args.command, args.command) or "serve"
    if args.config is not None and args.instance is not None:
        parser.error("--config and --instance both name a config: give one of them")
    if args.command == "migrate" and args.source is not None and args.to is None:
        parsers["migrate"].error("--from works together with --to only")
    mistake = find_option_mistake(args) if args.command == "import" else None
    if mistake is not None:
        parsers["import"].error(mistake)
    return args


def run(
    args: argparse.Namespace,
    config: Config,
    open_context: OpenContext,
    make_app: MakeApp,
) -> int:
    """Run any command but `serve`, `doctor` and `version`; return the exit status.

    Raises the errors of `STARTUP_ERRORS`.
    """
    if args.command == UPGRADE_CHECK:
        require_installation(config.server.state_dir)
        return check_upgrade(config)
    if is_offline_command(args):
        return run_offline_command(args, config)
    if args.command in _STATELESS:
        return _run_stateless(args, config, open_context, make_app)
    if not creates_state(args):
        require_installation(config.server.state_dir)
    context = open_context(config, load_keys if creates_state(args) else require_keys)
    app = make_app(context, config.base_url())
    try:
        applied = context.prepare()
        app.open()
        status = _run_opened(args, app, applied)
        if args.command in _SHOW_PLACE or getattr(args, "action", None) == "list":
            print(f"installation: {config.server.state_dir} ({context.location.shown})", file=sys.stderr)
        return status
    except Refusal as refusal:
        return _print_refusal(refusal, app)
    except (PlayersUnavailable, StateInUse, MigrationRunning) as error:
        print(f"companion: {error}", file=sys.stderr)
        return 1
    except PeeweeException as error:
        if not is_unreachable(error) and not is_retryable(error):
            raise
        print(
            f"companion: the database ({context.location.shown}) cannot be used: {error_sentence(error)}",
            file=sys.stderr,
        )
        return 1
    finally:
        app.worker.close_here()
        app.close()


def creates_state(args: argparse.Namespace) -> bool:
    """Return whether the command may create a state directory, keys and a database. All others refuse without them."""
    return args.command in ("serve", "migrate", "restore") or (args.command == "import" and not args.dry_run)


def _run_stateless(args: argparse.Namespace, config: Config, open_context: OpenContext, make_app: MakeApp) -> int:
    """Run a command that needs neither an installation nor its database."""
    if args.command == "check-config":
        config.require_secrets()
    if args.command == "mail-test":
        config.require_secrets("mail.password")
    app = make_app(open_context(config, find_or_invent_keys), config.base_url())
    try:
        if args.command == "check-config":
            return _check_config(config, app.context)
        if args.command == "mail-test":
            return _mail_test(args.address, app)
        return run_game_command(args.command, app.game_parts)
    except Refusal as refusal:
        return _print_refusal(refusal, app)


def _print_refusal(refusal: Refusal, app: App) -> int:
    language = app.context.config.server.language
    print(f"companion: {app.runtime_parts.translations.refusal(refusal, language)}", file=sys.stderr)
    return 1


def _run_opened(args: argparse.Namespace, app: App, applied: list[str]) -> int:
    if args.command == "migrate":
        print("\n".join(f"applied {name}" for name in applied) or "nothing to migrate")
        return 0
    if args.command == "sync":
        return run_sync(args, app)
    if args.command == UNLOCK_ALL:
        return _unlock_all(app)
    if args.command == "digest":
        return _digest(app)
    if args.command in DATA_COMMANDS:
        return run_data_command(args, app)
    return run_user_command(args, app, actor_name())


def _check_config(config: Config, context: AppContext) -> int:
    for warning in config.warnings:
        print(f"warning: {warning}")
    print(f"config: {config.file or 'none, all keys have their defaults'}")
    place = "" if is_installation(config.server.state_dir) else " (no installation has started there)"
    print(f"state directory: {config.server.state_dir}{place}")
    print(f"database: {context.location.shown}")
    if context.authme is None:
        print("AuthMe: none")
    else:
        print(f"AuthMe: {context.authme.source or 'from our config'}, {context.authme.password_hash}")
    print(f"operators: {len(context.ops.names())}")
    print(_NOT_CHECKED)
    return 0


def _digest(app: App) -> int:
    print(f"mails to admins: {app.mail_parts.admin_digest.run()}")
    if not app.context.config.mail.admins:
        print("no mail is sent: mail.admins is empty", file=sys.stderr)
    elif not app.mail_parts.backend.is_available:
        print("no mail is sent: mail is switched off (mail.backend)", file=sys.stderr)
    return 0


def _unlock_all(app: App) -> int:
    if not app.context.location.players.is_enabled:
        print(f"companion: {NO_AUTHME}: there are no players to unlock", file=sys.stderr)
        return 1
    with exclusive_state_lock(app.context.config.server.state_dir):  # a daemon would lock them again
        unlocked, failed = app.sync_parts.unlock_all.run()
    print(f"unlocked {unlocked} {'player' if unlocked == 1 else 'players'}")
    if unlocked:
        print("do not start the companion again: it would lock them again")
    for username in failed:
        print(f"cannot unlock {username}: the password hash is unknown, since it was too long to store with the lock")
    return 1 if failed else 0


def _mail_test(address: str, app: App) -> int:
    failure = asyncio.run(app.mail_parts.send_test(address, app.context.config.server.language))
    print(f"not sent: {failure}" if failure else f"sent to {address}")
    return 1 if failure else 0
