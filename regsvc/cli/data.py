"""`companion migrate --to`, `backup`, `restore`, `export`, `import` and `purge`: everything we keep, carried about."""

import argparse
import getpass
import sys
from pathlib import Path
from typing import Any, Final

from plugin_bridge.authme.config import Backend
from regsvc.app.app import App
from regsvc.cli.transfer.backup import Backups
from regsvc.cli.transfer.exporting import Exporter, ExportRequest
from regsvc.cli.transfer.importing import Importer, ImportRequest, RefusedRow
from regsvc.cli.transfer.migrate_to import DatabaseMigration
from regsvc.cli.transfer.output import STANDARD_OUTPUT
from regsvc.cli.transfer.restoring import Restorer
from regsvc.cli.transfer.tables import TransferProblem
from regsvc.cli.transfer.user_files import read_users
from regsvc.config.sections import Config
from regsvc.core import clock
from regsvc.core.progress import Progress
from regsvc.runtime.state_lock import StateInUse

DATA_COMMANDS: Final = {
    "backup": "copy everything into a folder of its own, while the daemon runs",
    "restore": "bring a backup into an empty database, and live there",
    "export": "write users, or the audit log, as CSV or JSON",
    "import": "take in users from CSV or JSON; nobody is mailed, and nobody who is there is changed",
    "purge": "remove what is older than retention.* says, as the daemon does by itself",
}

_MOVE_HELP: Final = (
    "move everything to another database, which then is home: sqlite:////path, mysql://USER:PASSWORD@HOST:PORT/NAME, "
    'or auto for where database.url = "auto" leads now; - reads it from standard input, where nobody else sees the '
    "password. Stop the daemon first. Interrupted, run it again"
)
_STANDARD_INPUT: Final = "-"


def add_data_commands(made: dict[str, argparse.ArgumentParser]) -> None:
    """What each of them can be told, and what `migrate` can."""
    made["migrate"].add_argument("--to", metavar="URL", help=_MOVE_HELP)
    made["migrate"].add_argument(
        "--from", dest="source", metavar="URL", help="where everything is, if the config has no login for it any more"
    )
    made["backup"].add_argument(
        "place",
        type=Path,
        metavar="FOLDER",
        help="where to: made if it is not there, else a folder called after the time is made in it",
    )
    made["restore"].add_argument("place", type=Path, metavar="BACKUP", help="a folder that `companion backup` made")
    export = made["export"]
    export.add_argument("--format", choices=("csv", "json"), default="csv")
    export.add_argument("--output", metavar="FILE", default=STANDARD_OUTPUT, help="standard output by default")
    export.add_argument("--what", choices=("users", "audit", "all"), default="users")
    export.add_argument(
        "--with-hashes", action="store_true", help="also the password hashes, for a move to another system"
    )
    taking = made["import"]
    taking.add_argument("file", type=Path, metavar="FILE", help="an export of ours, or a file with at least usernames")
    taking.add_argument("--format", choices=("csv", "json"), help="else the name of the file tells")
    taking.add_argument("--dry-run", action="store_true", help="only tell what would be done")
    taking.add_argument(
        "--update", action="store_true", help="also give users who have no e-mail address the one in the file"
    )
    made["purge"].add_argument("--dry-run", action="store_true", help="only tell how much is due")


def is_moving(given: argparse.Namespace) -> bool:
    """Whether the command must not lay the ground first: the config leads elsewhere, or there are no keys yet."""
    return given.command == "restore" or (given.command == "migrate" and given.to is not None)


def run_moving_command(given: argparse.Namespace, config: Config) -> int:
    """`migrate --to` or `restore`; returns the exit status. Raises what keeps `serve` from starting."""
    try:
        return _restore(given, config) if given.command == "restore" else _move(given, config)
    except (TransferProblem, StateInUse) as problem:
        return _fail(problem)


def run_data_command(given: argparse.Namespace, app: App) -> int:
    """One of the others, on an open database; returns the exit status."""
    run = {"backup": _back_up, "export": _export, "import": _import, "purge": _purge}[given.command]
    try:
        return run(given, app)
    except TransferProblem as problem:
        return _fail(problem)


def _fail(problem: Exception) -> int:
    print(f"companion: {problem}", file=sys.stderr)
    return 1


def _move(given: argparse.Namespace, config: Config) -> int:
    to, source = _read_url(given.to, "--to"), _read_url(given.source, "--from")
    moved = DatabaseMigration(config, clock.now).move(to, source)
    if moved.copied is None:
        print(f"everything is in {moved.new} already; {moved.advice}")
        return 0
    _tell_tables(moved.copied.tallies)
    print(f"moved {moved.copied.rows} rows from {moved.old} to {moved.new}; counts and digests are equal")
    print(f"now {moved.advice}, and start the daemon")
    print(f"{moved.left} when you are content")
    return 0


def _read_url(given: str | None, option: str) -> Any:
    """As given, or the next line of standard input: everybody on the machine can read what a command line says."""
    if given != _STANDARD_INPUT:
        return given
    if sys.stdin.isatty():
        return getpass.getpass(f"{option} (not shown): ").strip()
    return sys.stdin.readline().strip()


def _restore(given: argparse.Namespace, config: Config) -> int:
    restored = Restorer(config, clock.now).restore(given.place)
    _tell_tables(restored.copied.tallies)
    print(f"restored {restored.copied.rows} rows of {restored.made_at} into {restored.home}; digests are equal")
    print("everybody has to log in again; start the daemon, and the sync looks at what AuthMe has by now")
    if restored.authmes_file is not None:
        print(f"AuthMe's table is in {restored.authmes_file}; if it was lost too, stop the game server and copy it to")
        print(f"  {restored.authmes_place}")
    return 0


def _tell_tables(tallies: dict[str, Any]) -> None:
    for name, tally in tallies.items():
        print(f"  {name:<28} {tally.rows:>9} rows, digest {tally.digest[:16]}")


def _back_up(given: argparse.Namespace, app: App) -> int:
    authme = app.context.authme
    authmes_file = authme.sqlite_file if authme is not None and authme.backend == Backend.SQLITE else None
    backups = Backups(app.context.location.database, authmes_file, app.context.keys, app.context.now)
    made, manifest = backups.make(given.place)
    print(f"backed up {manifest.rows} rows into {made}; read back, and whole")
    print("warning: it holds keys, addresses and password hashes; keep it from others", file=sys.stderr)
    if authme is not None and authmes_file is None:
        print(f"AuthMe's table is not in it: dump {authme.table} with the database's own tools", file=sys.stderr)
    return 0


def _export(given: argparse.Namespace, app: App) -> int:
    if given.with_hashes:
        print("warning: this file lets others guess passwords; keep it from them, and delete it soon", file=sys.stderr)
    authme = app.context.authme
    algorithm = authme.password_hash if authme is not None else None
    exporter = Exporter(app.context.location.database, app.auth_parts.audit, app.context.now, algorithm)
    order = ExportRequest(given.format, given.what, given.output, given.with_hashes)
    counts = exporter.export(order, _actor())
    names = {"users": "users", "audit": "audit entries"}
    print(", ".join(f"{count} {names[kind]}" for kind, count in counts.items()), file=sys.stderr)
    return 0


def _import(given: argparse.Namespace, app: App) -> int:
    importer = Importer(
        database=app.context.location.database,
        worker=app.worker,
        players=app.context.location.players,
        reconciler=app.reconciler,
        rules=app.password_parts.rules,
        algorithms=app.live.authme.algorithms,
        audit=app.auth_parts.audit,
        now=app.context.now,
    )
    progress = Progress.on_stderr("importing", None)
    order = ImportRequest(_actor(), is_rehearsal=given.dry_run, fills_emails=given.update)
    try:
        report = importer.run(read_users(given.file, given.format), order, _tell_refused, progress.advance)
    finally:
        progress.end()
    begun = "would import" if given.dry_run else "imported"
    print(f"{begun} {report.imported}, updated {report.updated}, there already {report.skipped}", end="")
    print(f", refused {report.refused}")
    if report.imported and not given.dry_run:
        print("the next run of the sync makes the players of those who are approved and came with a password")
    return 1 if report.refused else 0


def _tell_refused(row: RefusedRow) -> None:
    print(f"line {row.line}: {row.name!r}: {row.code}", file=sys.stderr)


def _purge(given: argparse.Namespace, app: App) -> int:
    if given.dry_run:
        due = app.auth_parts.retention.count()
        print("\n".join(f"{count} {what} are due" for what, count in due.items()) or "nothing is due")
        return 0
    app.worker.run_here(app.purge_expired)
    purge_run = app.auth_parts.retention.start()
    progress = Progress.on_stderr("purging", None)
    while app.worker.run_here(purge_run.run_batch):
        progress.advance(1)
    progress.end()
    app.auth_parts.retention.record(purge_run, _actor())
    for what, count in purge_run.counts.items():
        print(f"{count} {what}")
    if not purge_run.counts:
        print("nothing is due")
    return 0


def _actor() -> str:
    return f"cli:{getpass.getuser()}"
