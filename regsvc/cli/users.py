"""`companion users …`: what an admin does in the API, for whoever has a shell on the machine."""

import argparse
import getpass
import json
import sys
import warnings
from datetime import timedelta
from typing import Any

from regsvc.accounts.access import Principal
from regsvc.accounts.decisions import DecisionResult
from regsvc.accounts.player_warnings import MEANINGS
from regsvc.app.app import App
from regsvc.core.units import parse_duration
from regsvc.database.audit import Actor
from regsvc.database.models import STATUSES
from regsvc.users.transitions import DecisionDetails
from regsvc.users.user_list import UserListItem, UserQuery

_TRANSITIONS = ("approve", "reject", "ban", "unban", "delete")


def add_user_commands(parser: argparse.ArgumentParser, common: argparse.ArgumentParser) -> None:
    """The commands below `users`, each with the options of `common`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def add(name: str, text: str) -> argparse.ArgumentParser:
        description = f"{text[0].upper()}{text[1:]}."
        return actions.add_parser(name, help=text, description=description, parents=[common])

    listing = add("list", "list users, the newest first")
    listing.add_argument("--status", choices=("all", *STATUSES), default="all")
    listing.add_argument("--search", default="", metavar="TEXT", help="part of a name or an e-mail")
    listing.add_argument("--page", type=int, default=1)
    show = add("show", "tell everything known of one user")
    show.add_argument("username")
    create = add("create", "make an approved user; the password is asked for")
    create.add_argument("username")
    create.add_argument("--email", metavar="ADDRESS")
    _add_password_source(create)
    for name in _TRANSITIONS:
        decide = add(name, f"{name} a user")
        decide.add_argument("username")
        decide.add_argument("--reason", metavar="TEXT")
        decide.add_argument("--silent", action="store_true", help="send no mail")
        if name == "ban":
            decide.add_argument(
                "--for", dest="duration", type=_duration, metavar="DURATION", help='such as "3 days"; else for good'
            )
    password = add("password", "set a user's password; it is asked for")
    password.add_argument("username")
    _add_password_source(password)


def _add_password_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--password-stdin", action="store_true", help="read the password from standard input")


def _duration(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run_user_command(given: argparse.Namespace, app: App, actor: str) -> int:
    """Run one of them; returns the exit status. Refusals are raised."""
    if given.action == "list":
        return _list(given, app)
    if given.action == "show":
        return _show(given, app)
    if given.action in ("create", "password"):
        return _set_password(given, app, Actor(actor))
    return _decide(given, app, Principal(Actor(actor), may_do_everything=True))


def _list(given: argparse.Namespace, app: App) -> int:
    query = UserQuery(page=given.page, size=100, search=given.search, status=given.status)
    page = app.services.users.list_users(query)
    for entry in page.entries:
        print(f"{entry.username:<24} {entry.status:<9} {entry.plugin:<9} {entry.email or ''}")
    pages, what = max(1, page.total_pages), "user" if page.total == 1 else "users"
    where = f"page {given.page} of {pages}" if given.page <= pages else f"there is no page {given.page}"
    print(f"{page.total} {what}, {where}", file=sys.stderr)
    return 0


def _show(given: argparse.Namespace, app: App) -> int:
    entry = _find_entry(given.username, app)
    if entry is None:
        print(f"companion: there is no user {given.username}", file=sys.stderr)
        return 1
    shown = {name: _printable(getattr(entry, name)) for name in entry.__dataclass_fields__}
    print(json.dumps(shown, indent=2, ensure_ascii=False))
    return 0


def _find_entry(username: str, app: App) -> UserListItem | None:
    after = None
    while True:
        page = app.services.users.list_users(UserQuery(search=username, size=100, after=after))
        for entry in page.entries:
            if entry.username.lower() == username.lower():
                found: UserListItem = entry
                return found
        after = page.next_cursor
        if after is None:
            return None


def _printable(value: Any) -> Any:
    return value.isoformat(timespec="milliseconds") if hasattr(value, "isoformat") else value


def _set_password(given: argparse.Namespace, app: App, actor: Actor) -> int:
    password = sys.stdin.readline().rstrip("\n") if given.password_stdin else _ask_password()
    if given.action == "create":
        decided = app.services.registration.create_user(given.username, given.email, password, actor)
    else:
        decided = app.services.password_changes.set_here(given.username, password, actor)
    return _tell(decided)


def _ask_password() -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)  # it would stand on the screen
            password = getpass.getpass("Password: ")
            if getpass.getpass("Again: ") != password:
                raise SystemExit("companion: the two passwords differ")
    except (EOFError, getpass.GetPassWarning):
        raise SystemExit("companion: no terminal to ask for the password; use --password-stdin") from None
    return password


def _decide(given: argparse.Namespace, app: App, by: Principal) -> int:
    duration: timedelta | None = getattr(given, "duration", None)
    expires_at = app.context.now() + duration if duration is not None else None
    decree = DecisionDetails(given.reason, expires_at, given.silent, keeps_expiry=expires_at is None)
    return _tell(app.worker.run_here(app.services.accounts.decide, given.username, given.action, by, decree))


def _tell(decided: DecisionResult) -> int:
    print(f"{decided.username}: {decided.status or 'deleted'}")
    for warning in decided.warnings:
        print(f"warning: {warning}: {MEANINGS[warning]}", file=sys.stderr)
    return 0
