"""`companion import`: users from CSV or JSON, or everything from VerifyMC."""

import argparse
import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Final

from regsvc.app.app import App
from regsvc.cli.state_owner import actor_name
from regsvc.cli.transfer.given_url import read_url
from regsvc.cli.transfer.import_words import describe_handover, describe_operators, describe_refusal
from regsvc.cli.transfer.importing import Importer, ImportReport, ImportRequest, RefusedRecord
from regsvc.cli.transfer.user_files import ImportedUser, UnreadableRecord, read_users
from regsvc.cli.transfer.user_writer import UserWriter
from regsvc.cli.transfer.verifymc import VerifyMCData, read_verifymc
from regsvc.cli.transfer.verifymc_records import VerifyMCSettings
from regsvc.core.progress import Progress

VERIFYMC: Final = "verifymc"


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
    request = ImportRequest(actor_name(), is_dry_run=args.dry_run, fill_emails=args.update)
    report = _run(app, read_users(Path(args.file), args.format), request, [])
    verb = "would import" if args.dry_run else "imported"
    print(f"{verb} {report.imported}, updated {report.updated}, unchanged (existing) {report.skipped}", end="")
    print(f", refused {report.refused}")
    if report.imported and not args.dry_run:
        print("the next sync run creates players for imported users who are approved and have a password")
    return 1 if report.refused else 0


def _import_verifymc(args: argparse.Namespace, app: App) -> int:
    bedrock, algorithms = app.context.config.bedrock, app.live.authme.algorithms
    prefix = bedrock.prefix if bedrock.enabled else ""
    settings = VerifyMCSettings(algorithms, prefix, are_emails_verified=args.verified_emails)
    data = read_verifymc(read_url(args.file, "VerifyMC's database"), settings)
    refused = list[RefusedRecord]()
    request = ImportRequest(actor_name(), is_dry_run=args.dry_run, fill_emails=args.update, is_handover=True)
    new_entries, kept = _import_entries(data, app, is_dry_run=args.dry_run)
    report = _run(app, data.users, request, refused)
    told = describe_handover(data, report, algorithms, new_entries, kept, is_dry_run=args.dry_run)
    print("\n".join([*describe_operators(data, app.credential_rules.is_operator), *told]))
    for row in refused:
        print(describe_refusal(row), file=sys.stderr)
    return 1 if report.refused else 0


def _run(
    app: App,
    records: Iterable[ImportedUser | UnreadableRecord],
    request: ImportRequest,
    refused: list[RefusedRecord],
) -> ImportReport:
    """Import the records. The refused ones of a handover are collected; others are printed at once."""
    context = app.context
    audit = app.audit
    importer = Importer(
        app.worker,
        context.location.players,
        app.reconciler,
        app.credential_rules,
        app.hashing,
        UserWriter(context.location.database, app.reconciler, app.chat_links, audit, context.now),
    )
    progress = Progress.on_stderr("importing", None)
    try:
        return importer.run(
            records, request, refused.append if request.is_handover else _print_refused, progress.advance
        )
    except Exception:
        if importer.report.total and not request.is_dry_run:
            print(
                f"companion: the import stopped after {importer.report.total} records, which stay as they are now; "
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
    print(f"line {row.line}: {row.name!r}: {row.code}", file=sys.stderr)
