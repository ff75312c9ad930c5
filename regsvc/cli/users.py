"""`companion users …`: user administration from a shell, as admins do it through the API."""

import argparse
import asyncio
import getpass
import json
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from msgspec import structs

from regsvc.accounts.access import MEANINGS, PLAYER_PENDING
from regsvc.accounts.decisions import DecisionResult
from regsvc.accounts.undo import NOT_TAKEN_BACK, Kept, UndoFields
from regsvc.app.app import App
from regsvc.auth.entitlement import Principal
from regsvc.core.errors import AuthMeUnavailable, PasswordChoiceNeeded
from regsvc.core.progress import Progress
from regsvc.core.rights import EVERYTHING, parse_permissions
from regsvc.core.text import name_key
from regsvc.database.audit import Actor
from regsvc.database.models import BANNED, User
from regsvc.notifications.rcon import CommandFields, list_commands
from regsvc.runtime.join_facts import find_answer, word
from regsvc.users.chat_links import ChatAccount
from regsvc.users.membership import Term
from regsvc.users.notes import NoteFields, list_notes
from regsvc.users.questions import list_questions
from regsvc.users.transitions import DecisionDetails
from regsvc.users.user_details import MAX_RECORDS
from regsvc.users.user_list import word_reasons
from regsvc.users.user_query import UsersQuery


def run_user_command(args: argparse.Namespace, app: App, actor: str) -> int:
    """Run a subcommand; return the exit status. Raises `Refusal`."""
    if args.action == "list":
        return _list(args, app)
    if args.action == "show":
        return _show(args, app)
    if args.action == "password" and args.link:
        return _make_link(args, app, Principal(Actor(actor), EVERYTHING))
    if args.action in ("create", "password"):
        return _set_password(args, app, Actor(actor))
    if args.action == "reset-totp":
        return _reset_totp(args, app, Principal(Actor(actor), EVERYTHING))
    if args.action == "membership":
        term = Term(until=args.until, duration=args.duration)
        changes, by = app.membership_changes, Principal(Actor(actor), EVERYTHING)
        change = changes.decline if args.decline else partial(changes.set, term=term)
        return _print_decision(app.worker.run_here(change, args.username, by=by, is_silent=args.silent))
    if args.action == "role":
        return _give_role(args, app, Principal(Actor(actor), EVERYTHING))
    if args.action == "points":
        judge, by = app.questionnaires.judge, Principal(Actor(actor), EVERYTHING)
        print(f"{app.worker.run_here(judge, args.username, args.question, args.points, by)}: judged")
        return 0
    if args.action == "ask":
        by = Principal(Actor(actor), EVERYTHING)
        return _print_decision(app.worker.run_here(app.decisions.ask, args.username, args.question, by))
    if args.action == "note":
        print(f"{app.worker.run_here(app.notes.add, args.username, args.text, Actor(actor))}: noted")
        return 0
    if args.action == "invite":
        return _invite(args, app, Actor(actor))
    return _decide(args, app, Principal(Actor(actor), EVERYTHING))


def run_token_command(args: argparse.Namespace, app: App, actor: str) -> int:
    """Run a subcommand of `token`; return the exit status. Raises `Refusal`."""
    tokens, run = app.api_tokens, app.worker.run_here
    if args.action == "create":
        lifetime = None if isinstance(args.expires, str) else args.expires
        token, record = run(tokens.create, args.name, parse_permissions(args.may), Actor(actor), None, lifetime)
        until = "until it is revoked" if record.expires_at is None else f"until {record.expires_at:%Y-%m-%d %H:%M} UTC"
        print(token)
        print(f"send it as `Authorization: Bearer …`; it is shown only now, and works {until}", file=sys.stderr)
    elif args.action == "revoke":
        print(f"{run(tokens.revoke, args.name, Actor(actor))}: revoked")
    else:
        now = app.context.now()
        for it in run(tokens.list_all):
            is_over = it.expires_at is not None and it.expires_at <= now
            state = "revoked" if it.revoked_at else "expired" if is_over else "active"
            used = f"last used {it.last_used_at:%Y-%m-%d %H:00}" if it.last_used_at else "never used"
            print(f"{it.name:<24} {state:<8} {' '.join(it.permissions)}; by {it.made_by}; {used}")
    return 0


def run_undo(args: argparse.Namespace, app: App, actor: str) -> int:
    """Undo what an actor decided, or tell what that would be; return 1 if anything stays. Raises `Refusal`."""
    undo, run, by = app.undo, app.worker.run_here, Principal(Actor(actor), EVERYTHING)
    span = run(undo.find_span, args.of, args.since, args.until, by)
    names, remainder = run(undo.find_names, span), run(undo.find_remainder, span)
    progress = Progress.on_stderr("undoing", len(names))
    outcomes, has_followed = list[UndoFields](), True
    try:
        for page in undo.pages(names):
            found, follows = (run(undo.plan, span, page, by), True) if args.plan else run(undo.run, span, page, by)
            outcomes, has_followed = outcomes + found, has_followed and follows
            progress.advance(len(page))
    finally:  # also of one that is interrupted; another run goes on
        progress.end()
        if not args.plan:
            run(undo.finish, span, outcomes, by)
    for outcome in outcomes:
        for line in describe_outcome(outcome):
            print(line)
    undone, kept = sum(it.is_undone for it in outcomes), sum(it.kept is not None for it in outcomes)
    print(f"{'would be undone' if args.plan else 'undone'}: {undone}; left: {kept}", file=sys.stderr)
    for kind, count in remainder.ended.items():
        print(f"{kind} that {'would be' if args.plan else 'are'} ended: {count}", file=sys.stderr)
    for action, count in remainder.stays.items():
        print(f"not taken back: {count} {action}: {NOT_TAKEN_BACK[action]}", file=sys.stderr)
    if count := remainder.invited_count:
        more = f" and {count - len(remainder.invited)} more" if count > len(remainder.invited) else ""
        print(f"came in by their invitations, and stay: {count}: {', '.join(remainder.invited)}{more}", file=sys.stderr)
    if not has_followed:
        print(f"warning: {PLAYER_PENDING}: AuthMe's table is away; run it again once it is back", file=sys.stderr)
    return 1 if kept or not has_followed else 0


def describe_outcome(outcome: UndoFields) -> Iterator[str]:
    """Yield a line about what is undone for a user, and one about what is not."""
    if outcome.is_undone:
        roles = f", {outcome.role_before or 'no role'} → {outcome.role or 'no role'}"
        changed = roles if outcome.role_before != outcome.role else ""
        link = {None: "", "mailed": ", a link to set a password is mailed", "needed": _NEEDS_LINK}[outcome.link]
        ends = [f"{at:%Y-%m-%d %H:%M}" if at else "no end" for at in (outcome.until_before, outcome.until)]
        changed += f", member until {ends[0]} → {ends[1]}" if ends[0] != ends[1] else ""
        yield f"{outcome.username}: {outcome.status_before} → {outcome.status}{changed}{link}"
    if outcome.kept is not None:
        why = _KEPT[outcome.kept].format(by=outcome.kept_by)
        yield f"{outcome.username}: left, {why}"


_NEEDS_LINK: Final = ", needs a password: companion users password NAME --link"
_KEPT: Final[Mapping[Kept, str]] = {
    "touched": "{by} decided since",
    "deleted": "the user was deleted, which cannot be undone",
    "registered_anew": "the name was registered anew",
    "protected": "the user stands too high",
}


def _invite(args: argparse.Namespace, app: App, by: Actor) -> int:
    invitations, run = app.invitations, app.worker.run_here
    if args.revoke is not None:
        run(invitations.revoke, args.revoke, by)
        print(f"{args.revoke}: revoked")
    elif args.is_list:
        now = app.context.now()
        for it in run(invitations.list_all):
            state = "revoked" if it.revoked_at else "expired" if it.expires_at <= now else "active"
            until = f"until {it.expires_at:%Y-%m-%d %H:%M} UTC"
            print(f"{it.id:<6} {state:<8} used {it.used} of {it.uses}; {' '.join(it.grants)}; by {it.made_by}; {until}")
    else:
        grants = [f"no_{name}" for name in args.without]
        create = partial(invitations.create, member_for=args.member_for)
        link, record = run(create, args.uses, args.duration, grants, by, None)
        times = "once" if record.uses == 1 else f"for {record.uses} registrations"
        print(link)
        print(f"it works {times}, until {record.expires_at:%Y-%m-%d %H:%M} UTC", file=sys.stderr)
    return 0


def _give_role(args: argparse.Namespace, app: App, by: Principal) -> int:
    role = None if args.role == "none" else args.role
    username = app.worker.run_here(app.team_roles.give, args.username, role, by)
    print(f"{username}: {role or 'no role'}")
    return 0


def explain(args: argparse.Namespace, app: App) -> int:
    """Print why a player cannot join; return 1 if something keeps them out."""
    is_known = app.context.config.game.is_known
    server = asyncio.run(app.game_servers.main.refresh()) if is_known else None
    steps = app.worker.run_here(app.why_not.find_steps, args.username, server)
    answer, language = find_answer(steps), app.context.config.server.language
    texts = [word(step, app.translations, language) for step in steps]
    if args.is_json:
        shown = [
            {"name": step.name, "verdict": step.verdict, "code": step.code, "text": text, "helper": step.helper}
            for step, text in zip(steps, texts, strict=True)
        ]
        print(json.dumps({"answer": shown[steps.index(answer)] if answer else None, "steps": shown}, indent=2))
        return 0 if answer is None else 1
    nothing = app.translations.text("why.nothing", language, username=args.username)
    print(texts[steps.index(answer)] if answer else nothing)
    for step, text in zip(steps, texts, strict=True):
        if step is not answer and (args.shows_all or step.verdict != "ok"):
            print(f"  {step.verdict}: {text}")
    return 0 if answer is None else 1


def _list(args: argparse.Namespace, app: App) -> int:
    filters = {"search": args.search, "status": args.status, "plugin": args.plugin, "allowlist": args.allowlist}
    query = UsersQuery(page=args.page, size=100, **filters)
    page = app.users.list_users(query)
    for entry in page.entries:
        listed = "" if entry.allowlist == "off" else f"{entry.allowlist:<9} "
        print(f"{entry.username:<24} {entry.status:<9} {entry.plugin:<9} {listed}{entry.email or ''}")
    count = page.pagination.total_count
    total = "very many" if count is None else count
    pages, what = max(1, page.pagination.total_pages or args.page), "user" if count == 1 else "users"
    of = "" if count is None else f" of {pages}"
    where = f"page {args.page}{of}" if args.page <= pages else f"there is no page {args.page}"
    print(f"{total} {what}, {where}", file=sys.stderr)
    return 0


def _show(args: argparse.Namespace, app: App) -> int:
    entry = app.worker.run_here(app.users.find_user, args.username)
    if entry is None:
        print(f"companion: there is no user {args.username}", file=sys.stderr)
        return 1
    word_reason = partial(app.translations.reason, language=app.context.config.server.language)
    shown: dict[str, Any] = structs.asdict(word_reasons(entry, word_reason))
    if entry.chat is not None:
        _user_id, shown["chat"] = app.worker.run_here(app.chat_links.find_by_name, entry.username) or (None, None)
    dates = app.worker.run_here(app.users.list_unreadable_dates, entry.username)
    dispute = app.worker.run_here(app.user_details.find_email_dispute, entry.username)
    shown["second_factor"] = app.worker.run_here(_find_second_factor, entry.username, app)
    listed = app.worker.run_here(app.user_details.find_listed, entry.username)
    if listed is not None:
        shown["allowlist_entry"] = listed
    if dispute is not None:
        shown |= dict(zip(("email_in_game", "email_in_game_is"), dispute, strict=True))
    if notes := app.worker.run_here(_list_notes, entry.username):
        shown["notes"] = notes
    if questions := app.worker.run_here(_list_questions, entry.username):
        shown["questions"] = questions
    if commands := app.worker.run_here(_list_commands, entry.username):
        shown["commands"] = commands
    if dates:
        shown["unreadable_dates"] = {date.column: date.value for date in dates}
    print(json.dumps(shown, indent=2, ensure_ascii=False, default=_to_json))
    return 0


def _find_second_factor(username: str, app: App) -> str:
    """Return where the second factor was set up: "web" or "game"; "none"; "unknown" while AuthMe cannot be asked."""
    try:
        return app.second_factor.find_origin(username) or "none"
    except AuthMeUnavailable:
        return "unknown"


def _list_commands(username: str) -> list[CommandFields]:
    """Return the host's commands about this user, newest first."""
    return list_commands(User.get(User.username_key == name_key(username)), MAX_RECORDS)


def _list_notes(username: str) -> list[NoteFields]:
    """Return the team's notes about this user, newest first."""
    return list_notes(User.get(User.username_key == name_key(username)), MAX_RECORDS)


def _list_questions(username: str) -> list[dict[str, Any]]:
    """Return the team's questions to this user, newest first, without the answers that they were about."""
    user = User.get(User.username_key == name_key(username))
    names = ("question", "author", "asked_at", "answer", "answered_at", "is_same_user")
    return [{name: getattr(asked, name) for name in names} for asked in list_questions(user, MAX_RECORDS)]


def _to_json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    return asdict(value) if isinstance(value, ChatAccount) else structs.asdict(value)


def _set_password(args: argparse.Namespace, app: App, actor: Actor) -> int:
    password = sys.stdin.readline().rstrip("\n") if args.password_stdin else _ask_password()
    if args.action == "create":
        decided = app.registration.create_user(args.username, args.email, password, actor)
    else:
        decided = app.password_changes.set_here(args.username, password, actor)
    return _print_decision(decided)


def _make_link(args: argparse.Namespace, app: App, by: Principal) -> int:
    created, _is_for_team = app.worker.run_here(app.password_mails.create_link, args.username, by)
    print(created.link)
    print(f"give it to {created.username} only: it works once, until {created.expires_at:%H:%M} UTC", file=sys.stderr)
    return 0


def _reset_totp(args: argparse.Namespace, app: App, by: Principal) -> int:
    had_one = app.worker.run_here(app.second_factor.reset, args.username, by)
    print(f"{args.username}: {'the second factor was removed' if had_one else 'had no second factor'}")
    return 0


def _ask_password() -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)  # raised when the input cannot be hidden
            password = getpass.getpass("Password: ")
            if getpass.getpass("Again: ") != password:
                raise SystemExit("companion: the passwords do not match")
    except (EOFError, getpass.GetPassWarning):
        raise SystemExit("companion: there is no terminal to read the password from; use --password-stdin") from None
    return password


def _decide(args: argparse.Namespace, app: App, by: Principal) -> int:
    duration: timedelta | str | None = getattr(args, "duration", None)
    expires_at = app.context.now() + duration if isinstance(duration, timedelta) else None
    details = DecisionDetails(
        args.reason,
        expires_at,
        args.silent,
        keeps_expiry=duration is None,
        may_reapply=getattr(args, "may_reapply", False),
        password_choice=getattr(args, "password", None),
    )
    try:
        decided = app.worker.run_here(app.decisions.decide, args.username, args.action, by, details)
    except PasswordChoiceNeeded:
        print(
            "companion: say which password counts: --password keep, --password take or --password link", file=sys.stderr
        )
        raise
    level = app.context.level_of(decided.username)
    if level > 0 and args.action != "unban":
        print(f"warning: {decided.username} is an operator of the game (level {level})", file=sys.stderr)
    return _print_decision(decided)


def _print_decision(decided: DecisionResult) -> int:
    is_same = decided.status_before is not None and decided.status_before == decided.status == BANNED
    print(f"{decided.username}: {decided.status or 'deleted'}{', with another reason or end' if is_same else ''}")
    for warning in decided.warnings:
        print(f"warning: {warning}: {MEANINGS[warning]}", file=sys.stderr)
    return 0
