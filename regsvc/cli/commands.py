"""What `companion` can be told on the command line, beside `serve`."""

import argparse
import asyncio
import getpass
import json
import sys
from collections.abc import Callable, Sequence

from peewee import PeeweeException

from plugin_bridge.authme.players import PlayersUnavailable
from regsvc import __version__
from regsvc.app.app import App
from regsvc.app.context import AppContext
from regsvc.cli.data import DATA_COMMANDS, add_data_commands, is_moving, run_data_command, run_moving_command
from regsvc.cli.game import SERVER_COMMANDS, run_server_command
from regsvc.cli.users import add_user_commands, run_user_command
from regsvc.config.sections import Config
from regsvc.core.errors import Refusal
from regsvc.database.engine import error_sentence, is_unreachable
from regsvc.runtime.state_lock import StateInUse, exclusive_state_lock

DESCRIPTION = "Registration and administration beside a Minecraft server."
COMMANDS = {
    "serve": "answer players and operators until stopped (the default)",
    "sync": "reconcile users with AuthMe's players once",
    "migrate": "bring the database to this version's tables",
    "check-config": "read the config and what it points at, and say what is wrong",
    "doctor": "say what is wrong or risky here, and what to change where",
    "users": "look at users and decide about them",
    "release": "unlock every player we locked, banned ones too, for a host who leaves; stop the daemon first",
    "digest": "mail the admins (mail.admins) who waits for a review, if somebody new does and it is time",
    "mail-test": "send a mail now, and say what happened",
    **SERVER_COMMANDS,
    **DATA_COMMANDS,
    "version": "print the version",
}
_NO_AUTHME = "there is no AuthMe here (game.directory, authme.config)"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line; prints help and exits by itself where that is asked for."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help="conf/companion.toml by default")
    common.add_argument(
        "--game-dir", metavar="DIR", default=argparse.SUPPRESS, help="the game server's folder (game.directory)"
    )
    parser = argparse.ArgumentParser("companion", description=DESCRIPTION, parents=[common])
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    made = {
        name: subparsers.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.", parents=[common])
        for name, text in COMMANDS.items()
    }
    made["sync"].add_argument("--plan", action="store_true", help="only tell what would be done")
    made["sync"].add_argument("--full", action="store_true", help="look at every row, as once a day")
    made["sync"].add_argument(
        "--allow-mass-changes", action="store_true", help="also do what the brake (sync.max_changes) left out"
    )
    made["doctor"].add_argument("--json", dest="is_json", action="store_true", help="tell it to a program")
    made["mail-test"].add_argument("address", metavar="ADDRESS")
    add_user_commands(made["users"], common)
    add_data_commands(made)
    # not as defaults of the parsers: one further inside would put its own over what was given before it
    unsaid = argparse.Namespace(config=None, game_dir=None)
    given = parser.parse_args(arguments, unsaid)
    given.command = given.command or "serve"
    if given.command == "migrate" and given.source is not None and given.to is None:
        made["migrate"].error("--from is of use with --to alone")
    return given


def run(
    given: argparse.Namespace,
    config: Config,
    open_context: Callable[[Config], AppContext],
    make_app: Callable[[AppContext, str], App],
) -> int:
    """Run one command that is not `serve`; returns the exit status. Raises what keeps `serve` from starting."""
    if given.command == "version":
        print(f"companion {__version__}")
        return 0
    if is_moving(given):
        return run_moving_command(given, config)
    context = open_context(config)
    app = make_app(context, config.base_url())
    if given.command == "check-config":
        return _check_config(config, context)
    if given.command in SERVER_COMMANDS:
        return run_server_command(given.command, app.game_parts)
    try:
        applied = context.prepare()
        app.open()
        return _run_opened(given, app, applied)
    except Refusal as refusal:
        print(f"companion: {app.runtime_parts.translations.refusal(refusal, config.server.language)}", file=sys.stderr)
        return 1
    except (PlayersUnavailable, StateInUse) as error:
        print(f"companion: {error}", file=sys.stderr)
        return 1
    except PeeweeException as error:
        if not is_unreachable(error):
            raise
        print(
            f"companion: the database ({context.location.name}) cannot be used: {error_sentence(error)}",
            file=sys.stderr,
        )
        return 1
    finally:
        app.worker.close_here()
        app.close()


def _run_opened(given: argparse.Namespace, app: App, applied: list[str]) -> int:
    if given.command == "migrate":
        print("\n".join(f"applied {name}" for name in applied) or "nothing to migrate")
        return 0
    if given.command == "sync":
        return _sync(given, app)
    if given.command == "release":
        return _release(app)
    if given.command == "digest":
        return _digest(app)
    if given.command == "mail-test":
        return _mail_test(given.address, app)
    if given.command in DATA_COMMANDS:
        return run_data_command(given, app)
    return run_user_command(given, app, f"cli:{getpass.getuser()}")


def _check_config(config: Config, context: AppContext) -> int:
    for warning in config.warnings:
        print(f"warning: {warning}")
    print(f"config: {config.file or 'none, everything at its default'}")
    print(f"database: {context.location.name}")
    if context.authme is None:
        print("AuthMe: none")
    else:
        print(f"AuthMe: {context.authme.source or 'from our config'}, {context.authme.password_hash}")
    print(f"operators: {len(context.ops.names())}")
    return 0


def _digest(app: App) -> int:
    print(f"mails to admins: {app.mail_parts.admin_digest.run()}")
    if not app.context.config.mail.admins:
        print("nobody is told: mail.admins is empty", file=sys.stderr)
    elif not app.mail_parts.mail_queue.is_available:
        print("nobody is told: no mail is sent (mail.backend)", file=sys.stderr)
    return 0


def _sync(given: argparse.Namespace, app: App) -> int:
    if not app.context.location.players.is_enabled:
        print(f"{_NO_AUTHME}: only our own side is looked at", file=sys.stderr)
    report = app.sync.run_alone(
        is_plan=given.plan,
        allow_mass_changes=given.allow_mass_changes,
        is_full=given.full,
        terminal=sys.stderr if sys.stderr.isatty() else None,
    )
    print(json.dumps(report.as_json(), indent=2))
    return 1 if report.errors or report.held_back else 0


def _release(app: App) -> int:
    if not app.context.location.players.is_enabled:
        print(f"companion: {_NO_AUTHME}: nobody can be unlocked", file=sys.stderr)
        return 1
    with exclusive_state_lock(app.context.config.server.state_dir):  # a daemon would lock them again
        unlocked, hopeless = app.sync_parts.unlock_all.run()
    print(f"unlocked {unlocked} {'player' if unlocked == 1 else 'players'}")
    if unlocked:
        print("do not start the companion again: it would lock them again")
    for username in hopeless:
        print(f"cannot unlock {username}: its hash is too long to stand in the lock, and is kept nowhere")
    return 1 if hopeless else 0


def _mail_test(address: str, app: App) -> int:
    failure = asyncio.run(app.mail_parts.send_test(address, app.context.config.server.language))
    print(f"not sent: {failure}" if failure else f"sent to {address}")
    return 1 if failure else 0
