"""The command line of `companion`: names, options and aliases of all commands.

Importing most of the program takes longer than most commands, so the module of a command, which declares its options,
is imported when the command is given.
"""

import argparse
import difflib
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any, Final, NoReturn

from plugin_bridge.text import decode_text
from regsvc import __version__
from regsvc.core.clock import now
from regsvc.core.rights import (
    GRANTS,
    MAX_INVITATION,
    MAX_INVITED,
    MAX_TOKEN_NAME,
    NOT_FOR_TOKENS,
    ROLES,
    TOKEN_NAME_PATTERN,
    USUAL_DAYS,
    USUAL_INVITATION,
    Permission,
)
from regsvc.core.text import MAX_REASON, clean_name
from regsvc.core.units import parse_duration

VERSION: Final = f"companion {__version__}"
DESCRIPTION: Final = "Registration and administration beside a Minecraft server."
UNLOCK_ALL: Final = "unlock-all"
UPGRADE_CHECK: Final = "upgrade-check"
TRANSLATIONS: Final = "translations"
CONFIG: Final = "config"
WHY: Final = "why"
ALIASES: Final = {UNLOCK_ALL: "release"}
"""Older names of commands, which keep working."""
GAME_COMMANDS: Final = {
    "updates": "check now for newer versions of the companion and of AuthMe",
    "game-status": "ask the game server for its status now",
}
DATA_COMMANDS: Final = {
    "backup": "back up everything into a new folder, while the daemon runs",
    "restore": "restore a backup into an empty database, which is used from then on",
    "export": "write users or the audit log as CSV or JSON",
    "import": "create users from CSV or JSON, or everything from VerifyMC; no mail is sent, and a rerun is harmless",
    "purge": "delete data older than the limits in retention.*, as the daemon does automatically",
}
INSTALL_COMMANDS: Final = {
    "install": "install config, state directory, secrets and systemd unit of a server, and start it",
    "uninstall": "unlock all players, stop the daemon, and remove what `companion install` wrote",
}
COMMANDS: Final = {
    "serve": "run the server until stopped, as its unit does",
    "sync": "reconcile users with AuthMe's players once",
    "migrate": "update the database to this version's tables, or move it to another database (--to)",
    "check-config": "check the config and the files it names",
    "status": "show whether the daemon runs, and users, mails, AuthMe's table, disk and the last backup",
    CONFIG: "show a key of the config file, or change it and nothing else: set KEY VALUE",
    "doctor": "report what is wrong or risky here, and how to fix it",
    WHY: "tell why a player cannot join the game, and what to do",
    "users": "list users, approve, ban and edit them, give them roles",
    "undo": "take back what one member of the team, or one API token, decided since a moment",
    "registration": "open or close registration on the running server",
    "announcement": "show, set or clear the announcement on the running server",
    "token": "make, list and revoke API tokens for bots",
    UNLOCK_ALL: "unlock every player the companion locked, including banned ones, before you uninstall it; "
    "stop the daemon first (older name: release)",
    "digest": "mail the list of waiting registrations to the admins (mail.admins), if there are new ones and it is due",
    "team-chat": "send a test message with a button to each chat of the team, and tell who pressed it",
    "mail-test": "send a test mail now and report the result",
    **GAME_COMMANDS,
    **DATA_COMMANDS,
    TRANSLATIONS: "report which texts and mails a language lacks, and what is wrong with those in your own files",
    "docs": "list the documentation and samples of this version, print one of them, or search in them",
    **INSTALL_COMMANDS,
    UPGRADE_CHECK: "report what this version would do to the database, and the backup to make first; changes nothing",
    "version": "print the version",
}
FIRST: Final = {
    "Set it up": ("install", "status", "doctor", CONFIG),
    "Players": ("users", WHY, "registration"),
    "Look after it": ("backup", UPGRADE_CHECK, "docs"),
}
"""Commands that hosts need first, as the help without a command has them."""
# What follows is said by models and rules, too, whose import would take longer than printing the help.
USER_FILTERS: Final = {
    "status": ("all", "pending", "approved", "rejected", "banned"),
    "plugin": ("all", "synced", "absent", "locked", "conflict", "returned", "pending", "off"),
    "allowlist": ("all", "listed", "waiting", "removed", "conflict", "absent", "off"),
}
TRANSITIONS: Final = ("approve", "reject", "ban", "unban", "reopen", "delete")
PASSWORD_CHOICES: Final = ("keep", "take", "link")
PERMANENT: Final = "permanent"
_CONFIG_HELP: Final = (
    "default: the file that COMPANION_CONFIG names; ./conf/companion.toml, if it sets a key; "
    "/etc/companion/companion.toml"
)

_INVALID_CHOICE: Final = re.compile(r"(.*invalid choice: '(.*?)') \(choose from (.*)\)", re.DOTALL)
"""What argparse says, from Python 3.11 to 3.14."""


class CommandParser(argparse.ArgumentParser):
    """Parser of one command, whose options are declared when the command is given."""

    def __init__(self, *, declare_options: Callable[[argparse.ArgumentParser], None] | None = None, **options: Any):
        super().__init__(**options)
        self.register("type", None, decode_text)  # of arguments with no other type; paths, with `str`, are as typed
        self._declare_options = declare_options
        self.set_defaults(parser=self)  # in the result of parsing: that of the command, or of its action

    def declare(self) -> None:
        """Declare the options, unless that was done."""
        if self._declare_options is not None:
            self._declare_options(self)
            self._declare_options = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.declare()
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Exit with a message. A choice that is mistyped gets the one that was meant, in place of all there are."""
        if mistyped := _INVALID_CHOICE.fullmatch(message):
            meant = _did_you_mean(mistyped[2], [*re.findall(r"[\w.-]+", mistyped[3]), "--help"])
            message = f"{mistyped[1]}{meant}" if meant else message
        super().error(message)

    def list_options(self) -> list[str]:
        """Return the long options that its help names."""
        return re.findall(r"--[\w-]+", self.format_help())

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Exit with a message about words that the command does not know."""
        found = (_did_you_mean(word.partition("=")[0], self.list_options()) for word in unknown)
        self.error(f"unrecognized arguments: {' '.join(unknown)}{next(filter(None, found), '')}")


def _did_you_mean(written: str, known: Sequence[str]) -> str:
    """Return what follows a mistake that looks like one of these words; an empty text if it looks like none."""
    alike = difflib.get_close_matches(written.lower(), known, n=1)
    return f"; did you mean {alike[0]}?" if alike else ""


@cache
def build_parser() -> tuple[CommandParser, dict[str, CommandParser]]:
    """Return the parser of the command line, and those of the commands, which are part of it."""
    common = _common_options()
    parser = CommandParser(prog="companion", description=DESCRIPTION, parents=[common])
    parser.add_argument("--version", action="version", version=VERSION)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=CommandParser)
    parsers = {
        name: subparsers.add_parser(
            name,
            aliases=[ALIASES[name]] if name in ALIASES else [],
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            parents=[common],
            declare_options=partial(_declare_options, name, common),
        )
        for name, text in COMMANDS.items()
    }
    return parser, parsers


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line. For --help and for mistakes it prints a message and exits."""
    arguments, (parser, parsers) = sys.argv[1:] if arguments is None else arguments, build_parser()
    first = next(iter(arguments), "").partition("=")[0]
    if first.startswith("--") and not any(option.startswith(first) for option in parser.list_options()):
        parser.refuse([first])  # else its value would count as the command
    # not as defaults of the parsers: a subparser would overwrite a value given before the command
    defaults = argparse.Namespace(config=None, instance=None, game_dir=None)
    args: argparse.Namespace
    args, unknown = parser.parse_known_args(arguments, defaults)
    if unknown:
        args.parser.refuse(unknown)
    if args.command is None:
        # 1.0.0 served then; what was written for it names its config, or has variables of ours or systemd's
        is_named = any(given is not None for given in (args.config, args.instance, args.game_dir))
        if not is_named and not any(name == "INVOCATION_ID" or name.startswith("COMPANION_") for name in os.environ):
            parser.exit(2, short_help())
        print("companion: write `companion serve`: without a command it only prints help by now", file=sys.stderr)
        args.command = "serve"
    names = {alias: name for name, alias in ALIASES.items()}
    args.command = names.get(args.command, args.command)
    if args.config is not None and args.instance is not None:
        parser.error("--config and --instance both name a config: give one of them")
    mistake = _find_mistake(args)
    if mistake is not None:
        parsers[args.command].error(mistake)
    return args


def short_help() -> str:
    """Return the help for those who give no command."""
    lines = [DESCRIPTION]
    for title, names in FIRST.items():
        lines += ["", f"{title}:", *(f"  {name:14} {COMMANDS[name]}" for name in names)]
    told = (
        "All commands: companion --help. More about one: companion COMMAND --help.",
        "`companion serve` runs the server here and now, which `companion install` has the system do.",
    )
    return "\n".join([*lines, "", *told, ""])


def _common_options() -> CommandParser:
    common = CommandParser(add_help=False)
    common.add_argument("--config", type=str, metavar="FILE", default=argparse.SUPPRESS, help=_CONFIG_HELP)
    common.add_argument(
        *("-i", "--instance"),
        metavar="NAME",
        default=argparse.SUPPRESS,
        help="one of many servers on this machine: /etc/companion@NAME/companion.toml",
    )
    common.add_argument(
        "--game-dir",
        type=str,
        metavar="DIR",
        default=argparse.SUPPRESS,
        help="the game server's folder (game.directory)",
    )
    return common


def _declare_options(command: str, common: argparse.ArgumentParser, parser: argparse.ArgumentParser) -> None:
    """Declare the options that the command has beside the common ones."""
    if command == "users":
        _add_user_actions(parser, common)
    elif command == "registration":
        parser.add_argument("state", choices=("open", "close", "show"))
        parser.add_argument("--for", dest="duration", type=_duration, metavar="DURATION", help='close for "12 hours"')
    elif command == "announcement":
        parser.add_argument("action", choices=("show", "set", "clear"))
        parser.add_argument("text", nargs="?", default="", help="with set: the text, in the host's language")
        parser.add_argument("--language", help="language of the text (default: server.language)")
    elif command == "undo":
        _add_undo_options(parser)
    elif command == "token":
        _add_token_actions(parser, common)
    elif command == "sync":
        _add_sync_options(parser)
    elif command == "migrate" or command in DATA_COMMANDS:
        from regsvc.cli.data import add_data_options

        add_data_options(command, parser)
    elif command in INSTALL_COMMANDS:
        from regsvc.cli.install.installing import add_install_options

        add_install_options(command, parser)
    elif command == CONFIG:
        from regsvc.cli.config_command import add_config_options

        add_config_options(parser)
    elif command == TRANSLATIONS:
        from regsvc.cli.translations import add_translations_options

        add_translations_options(parser)
    elif command in ("status", "doctor"):
        _add_report_options(command, parser)
    elif command == WHY:
        _add_name(parser)
        parser.add_argument("--all", dest="shows_all", action="store_true", help="also what does not keep them out")
        parser.add_argument("--json", dest="is_json", action="store_true", help="print JSON for programs")
    elif command == "team-chat":
        parser.add_argument("action", choices=("test",))
        parser.add_argument("--wait", type=_duration, default=timedelta(minutes=2), metavar="DURATION")
    elif command == "mail-test":
        parser.add_argument("address", metavar="ADDRESS")
    elif command == "docs":
        parser.add_argument(
            "file",
            metavar="FILE",
            nargs="*",
            help="such as upgrade, conf/companion.toml, a section (operations#backup), or words to search for",
        )


def _add_sync_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `sync`."""
    parser.add_argument("--plan", action="store_true", help="only tell what would be done, and to whom")
    parser.add_argument(
        "--json", dest="is_json", action="store_true", help="with --plan: print JSON with all names; a run prints JSON"
    )
    parser.add_argument("--full", action="store_true", help="examine every row, as the daemon does once a day")
    parser.add_argument(
        "--allow-mass-changes",
        action="store_true",
        help="also apply changes held back by the limit (sync.max_changes)",
    )


def _add_undo_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `undo`."""
    parser.add_argument(
        "--by",
        dest="of",
        required=True,
        metavar="NAME|token:NAME",
        help="who decided: a name as the audit log has it, or an API token",
    )
    parser.add_argument(
        "--since",
        required=True,
        type=_moment,
        metavar="TIME",
        help='such as "2026-03-01 18:30", in UTC; or "2 hours" ago',
    )
    parser.add_argument("--until", type=_moment, metavar="TIME", help="likewise (default: now)")
    parser.add_argument("--plan", action="store_true", help="only tell what would be undone, and what not")


def _add_user_actions(parser: argparse.ArgumentParser, common: argparse.ArgumentParser) -> None:
    """Add the subcommands of `users`, each with the options of `common`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def add(name: str, text: str) -> argparse.ArgumentParser:
        description = f"{text[0].upper()}{text[1:]}."
        return actions.add_parser(name, help=text, description=description, parents=[common])

    _add_list_options(add("list", "list users, newest first"))
    show = add("show", "print everything known about a user")
    _add_name(show)
    create = add("create", "create an approved user; asks for the password")
    _add_name(create)
    create.add_argument("--email", metavar="ADDRESS")
    _add_password_source(create)
    for name in TRANSITIONS:
        decide = add(name, f"{name} a user")
        _add_name(decide)
        decide.add_argument(
            "--reason",
            type=_reason,
            metavar="TEXT",
            help="or the code of a built-in one: reject.short_answers",
        )
        decide.add_argument("--silent", action="store_true", help="send no mail")
        if name == "approve":
            decide.add_argument(
                "--password",
                choices=PASSWORD_CHOICES,
                help="which counts if the name was registered anew in the game: keep the one from before, take the new "
                "one, or mail a link to set one",
            )
        if name == "reject":
            decide.add_argument("--may-reapply", action="store_true", help="allow another application at once")
        if name == "ban":
            decide.add_argument(
                "--for",
                dest="duration",
                type=_duration,
                metavar="DURATION",
                help='such as "3 days", or "permanent"; default: permanent, and for a ban that exists its own end',
            )
    password = add("password", "set a user's password, which it asks for, or make a link to set it")
    _add_name(password)
    source = password.add_mutually_exclusive_group()
    _add_password_source(source)
    source.add_argument(
        "--link", action="store_true", help="print a link with which the user sets it, once and within an hour"
    )
    _add_membership(add)
    role = add("role", "make an approved user a reviewer or moderator, or take that role away")
    _add_name(role)
    role.add_argument("role", choices=(*ROLES, "none"))
    _add_review_actions(add)
    reset = add("reset-totp", "remove the second factor of a user who has lost it, and end all their sessions")
    _add_name(reset)


def _add_membership(add: Callable[..., argparse.ArgumentParser]) -> None:
    member = add("membership", "let an approved user's membership end, or go on")
    _add_name(member)
    term = member.add_mutually_exclusive_group(required=True)
    term.add_argument("--until", type=_date, metavar="DATE", help="when it ends, in UTC, such as 2031-06-01")
    term.add_argument(
        "--for",
        dest="duration",
        type=_length,
        metavar="DURATION",
        help='such as "30 days"; added to the end so far, if that is still to come',
    )
    term.add_argument("--none", action="store_true", help="it does not end")
    term.add_argument("--decline", action="store_true", help="decline that a user stays who asked for it")
    member.add_argument("--silent", action="store_true", help="send no mail")


def _add_review_actions(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add what reviewers do beside deciding."""
    invite = add("invite", "print a link with which players register, or list or revoke such invitations")
    what = invite.add_mutually_exclusive_group()
    what.add_argument("--list", dest="is_list", action="store_true", help="list the newest invitations")
    what.add_argument("--revoke", type=int, metavar="ID", help="end an invitation at once")
    invite.add_argument("--uses", type=_uses, default=1, metavar="NUMBER", help="how many may register; default: 1")
    invite.add_argument(
        "--for",
        dest="duration",
        type=_invitation_lifetime,
        default=USUAL_INVITATION,
        metavar="DURATION",
        help='how long it works, such as "7 days", the default',
    )
    invite.add_argument(
        "--without",
        action="append",
        default=[],
        choices=[grant.removeprefix("no_") for grant in GRANTS],
        help="what the invited need not do; again for both",
    )
    invite.add_argument(
        "--member-for",
        type=_length,
        metavar="DURATION",
        help='how long they may play from their approval, such as "30 days"; default: as membership.ends says',
    )
    ask = add("ask", "ask a user who waits for review something; they are mailed a link to answer")
    _add_name(ask)
    ask.add_argument("question", metavar="QUESTION")
    note = add("note", "write a note about a user, for the team")
    _add_name(note)
    note.add_argument("text", metavar="TEXT")
    points = add("points", "give the points of a text answer, while the user waits for review")
    _add_name(points)
    points.add_argument("question", metavar="QUESTION", type=int, help="the question's id")
    points.add_argument("points", metavar="POINTS", type=int)


def _add_list_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--status", choices=USER_FILTERS["status"], default="all")
    parser.add_argument("--search", default="", metavar="TEXT", help="part of a name or an e-mail, or an IP address")
    parser.add_argument("--plugin", choices=USER_FILTERS["plugin"], default="all", help="state of the player")
    parser.add_argument(
        "--allowlist", choices=USER_FILTERS["allowlist"], default="all", help="state on the game's allowlist"
    )
    parser.add_argument("--page", type=int, default=1)


def _add_token_actions(parser: argparse.ArgumentParser, common: argparse.ArgumentParser) -> None:
    """Add the subcommands of `token`, each with the options of `common`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="make a token and print it, once", parents=[common])
    create.add_argument("name", metavar="NAME", type=_token_name)
    create.add_argument(
        "--may",
        action="append",
        required=True,
        metavar="PERMISSION",
        choices=sorted(set(Permission) - NOT_FOR_TOKENS),
        help=f"what it may do; again for more: {', '.join(sorted(set(Permission) - NOT_FOR_TOKENS))}",
    )
    create.add_argument(
        "--expires",
        type=_duration,
        default=timedelta(days=USUAL_DAYS),
        metavar="DURATION",
        help=f'such as "30 days"; default: {USUAL_DAYS} days; "permanent": until it is revoked',
    )
    actions.add_parser("list", help="list all tokens", parents=[common])
    revoke = actions.add_parser("revoke", help="end a token at once", parents=[common])
    revoke.add_argument("name", metavar="NAME")


def _uses(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MAX_INVITED:
        raise argparse.ArgumentTypeError(f"it is a number from 1 to {MAX_INVITED}")
    return int(text)


def _invitation_lifetime(text: str) -> timedelta:
    lifetime = _duration(text)
    if isinstance(lifetime, str) or not timedelta() < lifetime <= MAX_INVITATION:
        raise argparse.ArgumentTypeError(f"it is at most {MAX_INVITATION.days} days")
    return lifetime


def _token_name(text: str) -> str:
    if not re.fullmatch(TOKEN_NAME_PATTERN, text) or len(text) > MAX_TOKEN_NAME:
        raise argparse.ArgumentTypeError(f"it is 1 to {MAX_TOKEN_NAME} letters, digits, dots, hyphens and underscores")
    return text


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("username", type=lambda written: clean_name(decode_text(written)))


def _add_password_source(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--password-stdin", action="store_true", help="read the password from standard input")


def _duration(text: str) -> timedelta | str:
    if text == PERMANENT:
        return text
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _length(text: str) -> timedelta:
    length = _duration(text)
    if isinstance(length, str) or not length:
        raise argparse.ArgumentTypeError('it is a duration such as "30 days"')
    return length


def _date(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text.strip().removesuffix(" UTC"))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError("it is a date such as 2031-06-01, or 2031-06-01 18:30") from None


def _moment(text: str) -> datetime:
    """Return the time that is meant, or that was so long ago."""
    for read in (_date, lambda written: now() - parse_duration(written)):
        with suppress(argparse.ArgumentTypeError, ValueError, OverflowError):
            return read(text)
    raise argparse.ArgumentTypeError(
        'write a time such as "2026-03-01 18:30", in UTC, or how long ago, such as "2 hours"'
    )


def _reason(text: str) -> str:
    if len(text) > MAX_REASON:
        raise argparse.ArgumentTypeError(f"it has more than {MAX_REASON:,} characters; shorten it")
    return decode_text(text)


def _add_report_options(command: str, parser: argparse.ArgumentParser) -> None:
    """Add the options of `status` and `doctor`."""
    parser.add_argument("--json", dest="is_json", action="store_true", help="print JSON for programs, in English")
    parser.add_argument(
        "--all",
        dest="is_for_all",
        action="store_true",
        help="every server of this machine, one after the other; the exit status is the worst",
    )
    if command == "doctor":
        parser.add_argument("--language", help="language of the report, such as zh (default: server.language)")


def _find_mistake(args: argparse.Namespace) -> str | None:
    """Return why the options of a command do not go together, or None."""
    if args.command == "migrate" and args.source is not None and args.to is None:
        return "--from works together with --to only"
    if getattr(args, "is_for_all", False) and (args.config or args.instance or args.game_dir):
        return "--all is about every server of this machine: leave out --config, --instance and --game-dir"
    if args.command == "import" and args.predecessor is None and args.verified_emails:
        return "--verified-emails works together with --from only"
    if args.command == "import" and args.predecessor is not None and args.format is not None:
        return "--format does not go together with --from"
    return None
