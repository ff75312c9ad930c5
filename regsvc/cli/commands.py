"""Commands that open an installation, and those that only need its config."""

import argparse
import asyncio
import json
import sys
from datetime import timedelta
from typing import Any, Final

from peewee import PeeweeException

from plugin_bridge.authme.players import PlayersUnavailable
from plugin_bridge.server.files import ServerFileError
from plugin_bridge.server.versions import find_public_holes, is_newer
from regsvc import __version__
from regsvc.app.app import App
from regsvc.app.context import open_context
from regsvc.auth.keys import find_or_invent_keys, load_keys, require_keys
from regsvc.cli.command_line import DATA_COMMANDS, GAME_COMMANDS, TRANSLATIONS, UNLOCK_ALL, UPGRADE_CHECK, WHY
from regsvc.cli.data import (
    check_upgrade,
    is_offline_command,
    print_lossy_settings,
    run_data_command,
    run_offline_command,
)
from regsvc.cli.given_config import actor_name, creates_state, read_config_as_owner, require_installation
from regsvc.cli.translations import report_translations
from regsvc.cli.users import explain, run_token_command, run_undo, run_user_command
from regsvc.config.places import is_installation
from regsvc.config.sections import Config
from regsvc.core.errors import DatabaseUnavailable, Refusal
from regsvc.core.units import format_duration
from regsvc.database.audit import Actor
from regsvc.database.engine import error_sentence, is_retryable, is_unreachable
from regsvc.database.migrator import MigrationRunning
from regsvc.notifications.delivery import PermanentFailure, TemporaryFailure
from regsvc.notifications.mail.transport import send_test_mail
from regsvc.runtime.game_status import GameStatus
from regsvc.runtime.logs import set_up_logging
from regsvc.runtime.replaced_state import StateInUse, finish_interrupted, state_lock
from regsvc.runtime.updates import Product
from regsvc.sync.reconciler import unlock_all
from regsvc.sync.report import describe_plan
from regsvc.team_chat.messages import begin_test, find_tester, make_test_content
from regsvc.team_chat.platform import MessageGone, Platform

_NAMES: dict[Product, str] = {"companion": "companion", "plugin": "AuthMe"}
_STATELESS = ("check-config", "mail-test", *GAME_COMMANDS)
_SHOW_PLACE = ("migrate", "sync", "import", "backup", UNLOCK_ALL)
_NOT_CHECKED = (
    "not checked: whether the tables can be used, the mail server, and the port; for that run: companion doctor"
)
_FOLLOWED: Final = "a running daemon follows within 15 seconds"
NO_AUTHME: Final = "AuthMe was not found (game.directory, authme.config)"
_TEST_INTERVAL: Final = 0.5  # seconds
_MAX_NAMES: Final = 50
"""Names printed of each kind of planned change."""


def run_game_command(command: str, app: App) -> int:
    """Run one of these commands; return the exit status. Needs no database."""
    return _updates(app) if command == "updates" else _game_status(app)


def _updates(app: App) -> int:
    if not app.updates.is_enabled:
        print("update checks are off: updates.enabled is false")
        return 0
    failures = asyncio.run(app.updates.check())
    plugin = asyncio.run(app.plugin_version.get())
    installed: dict[Product, str | None] = {"companion": __version__, "plugin": plugin}
    for product, current in installed.items():
        newest = _newest(app, product, current, failures.get(product))
        print(f"{_NAMES[product]}: {current or 'unknown version'} installed, {newest}")
    if find_public_holes(plugin):
        print(f"AuthMe {plugin} has a public hole, or is reported to have one: companion doctor says what to do")
    return 1 if failures else 0


def _newest(app: App, product: Product, current: str | None, failure: str | None) -> str:
    if failure is not None:
        return f"the newest version is unknown: {failure}"
    published = app.updates.published.get(product)
    if published is None:
        return "no update feed is configured"
    page = f" ({published.page})" if published.page and is_newer(published.version, current) else ""
    return f"the newest version is {published.version}{page}"


def _game_status(app: App) -> int:
    if not app.context.config.game.is_known and not app.game_servers.network:
        print("the config does not say where the game server is: set game.directory or game.address")
        return 1
    network = app.game_servers.network or {"": app.game_servers.main}
    return max([_server_status(name, status) for name, status in network.items()])


def _server_status(name: str, game_status: GameStatus) -> int:
    prefix = f"{name}: " if name else ""
    status = asyncio.run(game_status.refresh()).status
    if status is None:
        print(f"{prefix}offline: {_no_answer_reason(game_status)}")
        return 1
    latency = round(status.latency * 1000)
    print(f"{prefix}online: {status.online} of {status.max} players, {status.version}, {latency} ms")
    return 0


def _no_answer_reason(game_status: GameStatus) -> str:
    try:
        address = game_status.find_address()
    except ServerFileError as error:
        return str(error)
    return f"no answer from {address.host}:{address.port}" if address else "its address is unknown"


def run_command(args: argparse.Namespace) -> int:
    """Run a command on the installation that the command line names; return the exit status. Raises `StartupError`."""
    if is_offline_command(args):
        return run_offline_command(args)
    config = read_config_as_owner(args)
    set_up_logging(config.log)
    if args.command == UPGRADE_CHECK:
        require_installation(config.server.state_dir)
        return check_upgrade(config)
    if args.command == TRANSLATIONS:
        return report_translations(config, args.language, args.is_for_operators)
    if args.command in _STATELESS:
        return _run_stateless(args, config)
    finish_interrupted(config.server.state_dir)
    if not creates_state(args):
        require_installation(config.server.state_dir)
    context = open_context(config, load_keys if creates_state(args) else require_keys)
    app = App(context, config.base_url())
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


def _run_stateless(args: argparse.Namespace, config: Config) -> int:
    """Run a command that needs neither an installation nor its database."""
    if args.command == "check-config":
        config.require_secrets()
    if args.command == "mail-test":
        config.require_secrets("mail.password")
    app = App(open_context(config, find_or_invent_keys), config.base_url())
    try:
        if args.command == "check-config":
            return _check_config(config, app)
        if args.command == "mail-test":
            return _mail_test(args.address, app)
        return run_game_command(args.command, app)
    except Refusal as refusal:
        return _print_refusal(refusal, app)


def _print_refusal(refusal: Refusal, app: App) -> int:
    text = app.translations.refusal(refusal, app.context.config.server.language)
    if isinstance(refusal, DatabaseUnavailable) and isinstance(refusal.__cause__, PeeweeException):
        text += f" {app.context.location.shown}: {error_sentence(refusal.__cause__)}"
    print(f"companion: {text}", file=sys.stderr)
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
    if args.command == WHY:
        return explain(args, app)
    if args.command == "team-chat":
        return _test_chats(app, args.wait)
    if args.command in ("registration", "announcement"):
        return _settings(args, app, Actor(actor_name()))
    run = {"token": run_token_command, "undo": run_undo}.get(args.command, run_user_command)
    return run(args, app, actor_name())


def _settings(args: argparse.Namespace, app: App, actor: Actor) -> int:
    """Show or change what the running daemons follow within 15 seconds, and at SIGHUP."""
    run, settings, live = app.worker.run_here, app.settings, app.live
    run(settings.load)
    if args.command == "announcement":
        language = args.language or app.context.config.server.language
        if args.action != "show":
            others = {known: text for known, text in live.settings.announcements.items() if known != language}
            run(settings.set_announcement, {**others, language: args.text if args.action == "set" else ""}, actor)
        print(live.announcement_for(language) or "no announcement")
        if args.action != "show":
            print(_FOLLOWED, file=sys.stderr)
        return 0
    if args.state != "show":
        lasts = args.duration if isinstance(args.duration, timedelta) and args.state == "close" else None
        run(settings.set_registration, args.state == "open", app.context.now() + lasts if lasts else None, actor)
    until = f", opens at {live.opens_at:%Y-%m-%d %H:%M} UTC" if live.opens_at else ""
    until = ", paused until the team decides (registration.pause_after)" if live.is_paused else until
    print(f"registration: {'open' if live.current.registration.open else 'closed'}{until}")
    if args.state == "open" and not live.given.registration.open:
        print("the config says that it is closed: registration.open", file=sys.stderr)
        return 1
    if args.state != "show":
        print(_FOLLOWED, file=sys.stderr)
    return 0


def _check_config(config: Config, app: App) -> int:
    context = app.context
    for warning in (*config.warnings, *filter(None, [context.gate_problem])):
        print(f"warning: {warning}")
    print(f"config: {config.file or 'none, all keys have their defaults'}")
    place = "" if is_installation(config.server.state_dir) else " (no installation has started there)"
    print(f"state directory: {config.server.state_dir}{place}")
    print(f"database: {context.location.shown}")
    print_lossy_settings(context.location)
    if context.authme is None:
        print("AuthMe: none")
    else:
        print(f"AuthMe: {context.authme.source or 'from our config'}, {context.authme.password_hash}")
    print(f"approved users get in by: {app.gates}")
    if "allowlist" in app.gates.names:
        effect = {"approve": "approves them", "remove": "is undone"}[config.allowlist.on_added]
        print(f"/whitelist add NAME in the game, for users who wait or were rejected: {effect} (allowlist.on_added)")
    if config.servers:
        print(f"further game servers: {', '.join(server.name for server in config.servers)}")
    print(f"operators: {len(context.operators.names())}")
    print(_NOT_CHECKED)
    return 0


def _digest(app: App) -> int:
    print(f"mails to admins: {app.admin_digest.run()}")
    if not app.context.config.mail.admins:
        print("no mail is sent: mail.admins is empty", file=sys.stderr)
    elif not app.mail_backend.is_available:
        print("no mail is sent: mail is switched off (mail.backend)", file=sys.stderr)
    return 0


def _unlock_all(app: App) -> int:
    players = app.context.location.players
    if not players.is_enabled:
        print(f"companion: {NO_AUTHME}: there are no players to unlock", file=sys.stderr)
        return 1
    with state_lock(app.context.config.server.state_dir):  # a daemon would lock them again
        unlocked, failed = unlock_all(players)
    print(f"unlocked {unlocked} {'player' if unlocked == 1 else 'players'}")
    if unlocked:
        print("do not start the companion again: it would lock them again")
    for username, reason in failed.items():
        print(f"cannot unlock {username}: {reason}")
    return 1 if failed else 0


def _mail_test(address: str, app: App) -> int:
    language = app.context.config.server.language
    failure = asyncio.run(send_test_mail(app.mail_backend, app.mail_renderer, address, language))
    print(f"not sent: {failure}" if failure else f"sent to {address}")
    return 1 if failure else 0


def _test_chats(app: App, wait: timedelta) -> int:
    """Send a test message to each chat, and tell who presses its button, which a running daemon receives."""
    platforms = app.team_chat.platforms.values()
    if not platforms:
        print("no chat of the team is configured: [[team_chat]]", file=sys.stderr)
        return 1
    return max([asyncio.run(_test_chat(app, platform, wait)) for platform in platforms])


async def _test_chat(app: App, platform: Platform, wait: timedelta) -> int:
    run, language = app.worker.run_here, app.team_chat_queue.language_of(platform.chat)
    number = run(begin_test, platform.chat, app.context.now)
    try:
        if platform.sends_itself:
            remote_id = await platform.post(make_test_content(number, app.translations, language, "test"), -number)
        else:
            run(app.team_chat_queue.enqueue_test, platform.chat, number)
    except (TemporaryFailure, PermanentFailure) as error:
        print(f"{platform.chat.name}: not sent: {error}")
        return 1
    print(f"{platform.chat.name}: sent; answer it within {format_duration(wait)} (Ctrl+C ends the wait)")
    ends_at, tester = app.context.now() + wait, None
    while tester is None and app.context.now() < ends_at:
        await asyncio.sleep(_TEST_INTERVAL)
        tester = run(find_tester, number)
    closed = make_test_content(
        number, app.translations, language, "test_answered" if tester else "test_over", tester or ""
    )
    try:
        if platform.sends_itself:
            await platform.edit(remote_id, closed)
    except (MessageGone, TemporaryFailure, PermanentFailure) as error:
        print(f"{platform.chat.name}: the message was not changed: {error or 'it was deleted'}")
    print(f"{platform.chat.name}: {f'answered by {tester}' if tester else 'nobody who may decide has answered'}")
    return 0 if tester else 1


def run_sync(args: argparse.Namespace, app: App) -> int:
    """Run or plan on an open database; return the exit status."""
    if not app.gates.names:
        told = "and the game's allowlist is not kept: approvals let nobody in. Only our own tables are examined"
        print(f"{NO_AUTHME}, {told}", file=sys.stderr)
    options: dict[str, Any] = {
        "allow_mass_changes": args.allow_mass_changes,
        "is_full": args.full,
        "terminal": sys.stderr if sys.stderr.isatty() else None,
    }
    if not args.plan:
        report = app.sync.run_alone(**options)
        print(json.dumps(report.as_json(), indent=2))
    elif args.is_json:
        report = app.sync.plan_alone(max_names=sys.maxsize, **options)
        names: dict[str, Any] = {}
        for kind, changes in (*report.changes.items(), *report.changes_held_back.items()):
            names[kind] = names.get(kind, []) + changes.names
        listed = report.listed
        if listed is not None:
            names |= {"allowlist": listed.names, "allowlistHeldBack": listed.held_back_names}
        print(json.dumps(report.as_json() | {"names": names}, indent=2))
    else:
        report = app.sync.plan_alone(max_names=_MAX_NAMES, **options)
        print("\n".join(describe_plan(report, _MAX_NAMES)))
    is_list_away = report.listed is not None and report.listed.unavailable is not None
    return 1 if report.errors or report.has_held_back_changes or is_list_away else 0
