"""`companion users …`: what an admin does in the API, for whoever has a shell on the machine."""

import argparse
import getpass
import json
import sys
from datetime import timedelta
from typing import Any

from regsvc.accounts import Authority
from regsvc.admin_users import UserQuery
from regsvc.models import STATUSES
from regsvc.transitions import Actor, Decree
from regsvc.units import parse_duration

_TRANSITIONS = ("approve", "reject", "ban", "unban", "delete")


def add_user_commands(parser: argparse.ArgumentParser) -> None:
    """The commands below `users`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list users")
    listing.add_argument("--status", choices=("all", *STATUSES), default="all")
    listing.add_argument("--search", default="", metavar="TEXT", help="part of a name or an e-mail")
    listing.add_argument("--page", type=int, default=1)
    show = actions.add_parser("show", help="everything known of one user")
    show.add_argument("username")
    create = actions.add_parser("create", help="make an approved user; the password is asked for")
    create.add_argument("username")
    create.add_argument("--email", metavar="ADDRESS")
    _add_password_source(create)
    for name in _TRANSITIONS:
        decide = actions.add_parser(name, help=f"{name} a user")
        decide.add_argument("username")
        decide.add_argument("--reason", metavar="TEXT")
        decide.add_argument("--silent", action="store_true", help="send no mail")
        if name == "ban":
            decide.add_argument("--for", dest="duration", metavar="DURATION", help='such as "3 days"; else for good')
    password = actions.add_parser("password", help="set a user's password; it is asked for")
    password.add_argument("username")
    _add_password_source(password)


def _add_password_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--password-stdin", action="store_true", help="read the password from standard input")


def run_user_command(given: argparse.Namespace, app: Any, actor: str) -> int:
    """Run one of them; returns the exit status. Refusals are raised."""
    if given.action == "list":
        return _list(given, app)
    if given.action == "show":
        return _show(given, app)
    if given.action in ("create", "password"):
        return _set_password(given, app, Actor(actor))
    return _decide(given, app, Authority(Actor(actor)))


def _list(given: argparse.Namespace, app: Any) -> int:
    query = UserQuery(page=given.page, size=100, search=given.search, status=given.status)
    page = app.services.users.list_users(query)
    for entry in page.entries:
        print(f"{entry.username:<24} {entry.status:<9} {entry.plugin:<9} {entry.email or ''}")
    print(f"{page.total} users, page {page.page} of {max(1, page.total_pages)}", file=sys.stderr)
    return 0


def _show(given: argparse.Namespace, app: Any) -> int:
    query = UserQuery(search=given.username, size=100)
    for entry in app.services.users.list_users(query).entries:
        if entry.username.lower() == given.username.lower():
            shown = {name: _printable(getattr(entry, name)) for name in entry.__dataclass_fields__}
            print(json.dumps(shown, indent=2, ensure_ascii=False))
            return 0
    print(f"companion: there is no user {given.username}", file=sys.stderr)
    return 1


def _printable(value: Any) -> Any:
    return value.isoformat(timespec="milliseconds") if hasattr(value, "isoformat") else value


def _set_password(given: argparse.Namespace, app: Any, actor: Actor) -> int:
    password = sys.stdin.readline().rstrip("\n") if given.password_stdin else _ask_password()
    if given.action == "create":
        decided = app.password_changes.create_user_here(given.username, given.email, password, actor)
    else:
        decided = app.password_changes.set_here(given.username, password, actor)
    return _tell(decided)


def _ask_password() -> str:
    password = getpass.getpass("Password: ")
    if getpass.getpass("Again: ") != password:
        raise SystemExit("companion: the two passwords differ")
    return password


def _decide(given: argparse.Namespace, app: Any, by: Authority) -> int:
    expires_at = None
    if getattr(given, "duration", None):
        duration: timedelta = parse_duration(given.duration)
        expires_at = app.ground.now() + duration
    decree = Decree(given.reason, expires_at, given.silent)
    return _tell(app.accounts.decide(given.username, given.action, by, decree))


def _tell(decided: Any) -> int:
    print(f"{decided.username}: {decided.status or 'deleted'}")
    for warning in decided.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return 0
