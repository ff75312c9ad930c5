"""`companion import`: users from CSV or JSON, or everything from VerifyMC."""

import argparse
import getpass
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

from regsvc.app.app import App
from regsvc.cli.given_config import actor_name
from regsvc.cli.transfer.importing import (
    CHAT_LOST,
    DUPLICATE_NAME,
    EMAIL_LOST,
    NOT_BANNED_HERE,
    OUTCOMES,
    PASSWORD_LOST,
    Importer,
    ImportReport,
)
from regsvc.cli.transfer.user_files import ImportedUser, RefusedRecord, read_users
from regsvc.cli.transfer.verifymc import (
    CONVERTED,
    NO_STATUS,
    PLAIN,
    READY,
    UNUSABLE,
    VerifyMCData,
    VerifyMCSettings,
    read_verifymc,
)
from regsvc.core.progress import Progress
from regsvc.database.models import APPROVED, STATUSES

_REFUSALS: Final = {
    "invalid_username": "the name breaks AuthMe's rules for names, or is a Bedrock name while bedrock.enabled is off",
    "username_taken": "another player in AuthMe's table has the same name to the database",
    "reserved_username": "an operator of the game server has the name, and the record is not approved; create this "
    "user with companion users create",
    "invalid_status": "the status is none of pending, approved, rejected and banned",
    "invalid_registered_at": "registered_at, or regTime, is not a time",
    "invalid_email": "this is no e-mail address",
    "email_taken": "another user has the e-mail address",
    "unknown_algorithm": "no password algorithm of this name is known",
    "invalid_hash": "the password's hash has characters that no hash has",
    "not_a_record": "the record is not an object, or a line with other fields than the header",
    DUPLICATE_NAME: "another record has the same name",
    NOT_BANNED_HERE: "the record bans a player who is here already and is not banned here",
    NO_STATUS: "the record has no status, so the user waits for a decision",
}
STANDARD_INPUT: Final = "-"
VERIFYMC: Final = "verifymc"


def describe_refusal(row: RefusedRecord) -> str:
    """Return a sentence about a record that was not imported, or not whole."""
    outcome = "imported, but not whole" if row.is_imported else "not imported"
    return f"{outcome}: {row.name!r} (record {row.line}): {_explain(row.code)}"


def _explain(code: str) -> str:
    """Return what a code means; those without words of their own name a column."""
    return _REFUSALS.get(code) or f"the value of {code.removeprefix('invalid_')} cannot be used"


def describe_operators(data: VerifyMCData, is_operator: Callable[[str], bool]) -> list[str]:
    """Return a line about approved records with operators' names: their passwords open /admin."""
    approved = (user.username for user in data.users if isinstance(user, ImportedUser) and user.status == APPROVED)
    operators = [name for name in approved if is_operator(name)]
    if not operators:
        return []
    names = ", ".join(ascii(name) for name in sorted(operators))
    advice = "check that these records are theirs, as their passwords open /admin"
    return [f"operators of the game server: {names}; {advice}"]


def describe_handover(
    data: VerifyMCData,
    report: ImportReport,
    algorithms: Collection[str],
    new_entries: int,
    kept_entries: int,
    password_rule: str,
    *,
    is_dry_run: bool,
) -> list[str]:
    """Return the lines of the report.

    `algorithms`: AuthMe's; `kept_entries`: audit entries that are not too old; `password_rule`: ours at registration.
    """
    records, entries = _count(len(data.users), "record"), _count(len(data.entries), "audit entry")
    lines = [
        f"VerifyMC: {records} and {entries} in {data.origin}",
        f"{'new users' if not is_dry_run else 'would become users'}: {report['imported']}",
        f"{'matched' if not is_dry_run else 'would be matched'} with players in AuthMe's table, whose passwords stay: "
        f"{report['matched']}",
        f"users here already, left as they are: {report['skipped']}",
        *([f"users who get the address of their record: {report['updated']}"] if report["updated"] else ()),
        f"records of a name that another record has, left out: {report[DUPLICATE_NAME]}",
        f"not imported: {report['refused']}",
        *_parts(data, report, algorithms),
        *_entries(data, new_entries, kept_entries),
        *_left_out(data, password_rule),
    ]
    if is_dry_run:
        return [*lines, "nothing was changed: this was a dry run"]
    if report["imported"]:
        lines.append(
            "the next sync run creates the players of new users who are approved and whose password AuthMe knows"
        )
    return [*lines, "no mail was sent; the same command can be repeated"]


def _left_out(data: VerifyMCData, password_rule: str) -> Iterator[str]:
    if data.other_fields:
        fields = ", ".join(f"{name!a} ({count})" for name, count in data.other_fields.most_common(10))
        yield f"fields that are not kept here, left out: {fields}"
    if data.settings.requires_password and password_rule == "optional":  # noqa: S105 - a mode
        yield (
            "its players had to choose a password when they registered (authme.require_password): for the same here, "
            'set registration.password = "required"'
        )


def _parts(data: VerifyMCData, report: ImportReport, algorithms: Collection[str]) -> Iterator[str]:
    if report["imported"] + report["matched"] == 0:
        return
    yield "by status: " + ", ".join(f"{report[f'status {status}']} {status}" for status in STATUSES)
    passwords = {
        READY: "kept as they are",
        CONVERTED: "plain SHA-256, made AuthMe's SHA256",
        PLAIN: "not hashed, hashed now",
        UNUSABLE: "hashes of no known form, left out",
        PASSWORD_LOST: "that cannot be hashed, left out",
        "none": "without one",
    }
    found = [f"{report[f'password {kind}']} {words}" for kind, words in passwords.items() if report[f"password {kind}"]]
    if found:
        yield f"passwords of new users: {', '.join(found)}"
    yield from _unknown_algorithms(report, algorithms)
    yield f"e-mail addresses: {report['email verified']} verified, {report['email unverified']} unverified"
    if report["email unverified"] and not data.settings.are_emails_verified:
        yield "  (if the players proved them by codes, import with --verified-emails)"
    if report[EMAIL_LOST]:
        yield f"e-mail addresses left out, as another user has them or they are none: {report[EMAIL_LOST]}"
    yield f"chat links: {report['chat']}" + (f", left out: {report[CHAT_LOST]}" if report[CHAT_LOST] else "")
    yield f"questionnaire results: {report['questionnaire']}"


def _unknown_algorithms(report: ImportReport, algorithms: Collection[str]) -> Iterator[str]:
    prefix = "algorithm "
    counts = {part.removeprefix(prefix): count for part, count in report.items() if part.startswith(prefix)}
    unknown = {name: count for name, count in counts.items() if name not in algorithms}
    if algorithms and unknown:
        yield (
            f"{sum(unknown.values())} of these passwords have an algorithm that AuthMe does not verify "
            f"({', '.join(sorted(unknown))}): they work on the web, and from the first login there in the game, or at "
            "once if you add it to settings.security.legacyHashes in AuthMe's config.yml"
        )


def _entries(data: VerifyMCData, new: int, kept: int) -> Iterator[str]:
    yield f"audit entries: {new} new, {kept - new} here already"
    if len(data.entries) > kept:
        yield f"audit entries older than retention.audit, left out: {len(data.entries) - kept}"
    if data.other_entries:
        kinds = ", ".join(sorted(data.other_entries)[:5])
        yield f"audit entries of kinds that are not kept here, left out: {data.other_entries.total()} ({kinds})"


def _count(number: int, thing: str) -> str:
    plural = f"{thing[:-1]}ies" if thing.endswith("y") else f"{thing}s"
    return f"{number} {thing if number == 1 else plural}"


def read_url(value: str, title: str) -> str:
    """Return the value, or for "-" the next line of standard input: other users can see a command line.

    `title` is the prompt on a terminal.
    """
    if value != STANDARD_INPUT:
        return value
    if sys.stdin.isatty():
        return getpass.getpass(f"{title} (not shown): ").strip()
    return sys.stdin.readline().strip()


def add_import_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "file",
        metavar="FILE",
        help="made by `companion export`, or any with at least usernames; with --from verifymc, its folder, its "
        "users.json, or its database: mysql://USER:PASSWORD@HOST:PORT/NAME, or - to type that",
    )
    parser.add_argument(
        "--from",
        dest="predecessor",
        choices=(VERIFYMC,),
        help="take over the users, decisions, audit log and chat links of this plugin (docs/moving.md)",
    )
    parser.add_argument("--format", choices=("csv", "json"), help="default: by the name of the file")
    parser.add_argument("--dry-run", action="store_true", help="only report what would be done")
    parser.add_argument(
        "--update", action="store_true", help="also give existing users without an e-mail address the one in the file"
    )
    parser.add_argument(
        "--verified-emails",
        action="store_true",
        help="with --from: the players proved their addresses by codes (default: if its config.yml asks for that)",
    )


def run_import(args: argparse.Namespace, app: App) -> int:
    """Import, and return the exit status: 1 if a record was refused. Raises `TransferProblem`."""
    if args.predecessor is not None:
        return _import_verifymc(args, app)
    importer = Importer(app, actor_name(), is_dry_run=args.dry_run, fill_emails=args.update)
    ignored = set[str]()
    records = read_users(Path(args.file), args.format, ignored)
    report = _run(importer, records, _print_refused, is_dry_run=args.dry_run)
    verb = "would import" if args.dry_run else "imported"
    print(f"{verb} {report['imported']}, updated {report['updated']}, unchanged (existing) {report['skipped']}", end="")
    print(f", refused {report['refused']}")
    if ignored:
        print(f"columns that mean nothing here: {', '.join(map(ascii, sorted(ignored)[:10]))}", file=sys.stderr)
    if report["imported"] and not args.dry_run:
        print("the next sync run creates players for imported users who are approved and have a password")
    return 1 if report["refused"] else 0


def _import_verifymc(args: argparse.Namespace, app: App) -> int:
    bedrock, algorithms = app.context.config.bedrock, app.live.authme.algorithms
    prefix = bedrock.prefix if bedrock.enabled else ""
    settings = VerifyMCSettings(algorithms, prefix, are_emails_verified=args.verified_emails)
    data = read_verifymc(read_url(args.file, "VerifyMC's database"), settings)
    refused = list[RefusedRecord]()
    importer = Importer(app, actor_name(), is_dry_run=args.dry_run, fill_emails=args.update, is_handover=True)
    new_entries, kept = _import_entries(data, app, is_dry_run=args.dry_run)
    report = _run(importer, data.users, refused.append, is_dry_run=args.dry_run)
    rule = app.context.config.registration.password_rule(has_authme=app.context.location.players.is_enabled)
    told = describe_handover(data, report, algorithms, new_entries, kept, rule, is_dry_run=args.dry_run)
    print("\n".join([*describe_operators(data, app.credential_rules.is_operator), *told]))
    for row in refused:
        print(describe_refusal(row), file=sys.stderr)
    return 1 if report["refused"] else 0


def _run(
    importer: Importer,
    records: Iterable[ImportedUser | RefusedRecord],
    on_refused: Callable[[RefusedRecord], None],
    *,
    is_dry_run: bool,
) -> ImportReport:
    progress = Progress.on_stderr("importing", None)
    try:
        return importer.run(records, on_refused, progress.advance)
    except Exception:
        total = sum(importer.report[outcome] for outcome in OUTCOMES)
        if total and not is_dry_run:
            print(
                f"companion: the import stopped after {total} records, which stay as they are now; "
                "the same command can be run again",
                file=sys.stderr,
            )
        raise
    finally:
        progress.end()


def _import_entries(data: VerifyMCData, app: App, *, is_dry_run: bool) -> tuple[int, int]:
    """Add the audit entries that are young enough to be kept; return the number of new ones, and of all of these."""
    since: datetime = app.context.now() - app.context.config.retention.audit
    young = sorted((entry for entry in data.entries if entry.happened_at >= since), key=lambda entry: entry.happened_at)

    def add() -> int:
        with app.context.location.database.atomic():
            return app.audit.record_past(young, is_dry_run=is_dry_run)

    return app.worker.run_here(add), len(young)


def _print_refused(row: RefusedRecord) -> None:
    end = "; imported without it" if row.is_imported else ""
    print(f"line {row.line}: {row.name!r}: {row.code} ({_explain(row.code)}){end}", file=sys.stderr)
