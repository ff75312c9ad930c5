"""`companion migrate --to`, `backup`, `restore`, `export`, `import`, `purge` and `upgrade-check`."""

import argparse
import inspect
import os
import shlex
import shutil
import sys
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from peewee import Database, PeeweeException, SqliteDatabase

from plugin_bridge.authme.config import Backend
from regsvc import __version__
from regsvc.app.app import App
from regsvc.cli.given_config import (
    actor_name,
    find_given_config,
    read_as_owner,
    read_config,
    read_config_as_owner,
    require_roots_alone,
    user_name,
    work_as_owner,
)
from regsvc.cli.transfer.backup import CONFIG_FILE, make_backup
from regsvc.cli.transfer.importing import add_import_options, read_url, run_import
from regsvc.cli.transfer.migrate_to import DatabaseMigration
from regsvc.cli.transfer.restoring import readable_backup, restore_backup
from regsvc.cli.transfer.tables import TransferProblem
from regsvc.cli.transfer.user_files import STANDARD_OUTPUT, Exporter
from regsvc.config.places import SystemPlaces, is_installation
from regsvc.config.sections import Config, ConfigError
from regsvc.core import clock
from regsvc.core.progress import Progress
from regsvc.database.engine import error_sentence
from regsvc.database.location import DatabaseLocation, read_authme, resolve_location
from regsvc.database.migrations.upgrade_from_preview import find_problem
from regsvc.database.migrator import (
    MigrationRunning,
    NumberedMigration,
    UnusableSchema,
    copy_path,
    find_interrupted_upgrade,
    list_copies,
    list_migrations,
)
from regsvc.database.schema import Difference, expected_schema, find_differences, read_schema
from regsvc.doctor.facts.databases import find_lossy_settings
from regsvc.doctor.facts.readonly_db import DatabaseUnreadable
from regsvc.runtime.backups import note_backup
from regsvc.runtime.logs import set_up_logging
from regsvc.runtime.replaced_state import StateInUse

_TO_HELP: Final = (
    "move everything to another database, which is used from then on: sqlite:////path, "
    'mysql://USER:PASSWORD@HOST:PORT/NAME, or auto for the one that database.url = "auto" means now; - reads the URL '
    "from standard input, which hides the password from other users of the machine. Stop the daemon first. If it is "
    "interrupted, run it again"
)
UP_TO_DATE: Final = 0
UNKNOWN: Final = 1
"""Exit status if the database cannot be read."""
MIGRATES: Final = 3
TOO_NEW: Final = 4
_SIZE_ON_MYSQL: Final = (
    "SELECT SUM(data_length + index_length) FROM information_schema.tables "
    "WHERE table_schema = DATABASE() AND table_name LIKE 'regsvc\\_%%'"
)


def add_data_options(command: str, parser: argparse.ArgumentParser) -> None:
    """Declare the options of one of these commands."""
    if command == "migrate":
        parser.add_argument("--to", metavar="URL", help=_TO_HELP)
        parser.add_argument(
            "--from", dest="source", metavar="URL", help="the database in use, if the config no longer has its login"
        )
    elif command == "backup":
        parser.add_argument(
            "folder",
            type=Path,
            metavar="FOLDER",
            help="folder to create; if it exists, a folder named after the time is created in it",
        )
    elif command == "restore":
        parser.add_argument("folder", type=Path, metavar="BACKUP", help="a folder made by `companion backup`")
        parser.add_argument(
            "--replace",
            dest="replaces",
            action="store_true",
            help="take the place of the installation that is there, which is kept in replaced-DATE in the state "
            "directory",
        )
    elif command == "export":
        parser.add_argument("--format", choices=("csv", "json"), default="csv")
        parser.add_argument(
            "--output", type=str, metavar="FILE", default=STANDARD_OUTPUT, help="default: standard output"
        )
        parser.add_argument("--what", choices=("users", "audit", "all"), default="users")
        parser.add_argument(
            "--with-hashes", action="store_true", help="include password hashes, for moving to another system"
        )
    elif command == "import":
        add_import_options(parser)
    elif command == "purge":
        parser.add_argument("--dry-run", action="store_true", help="only report how much is due")


def is_offline_command(args: argparse.Namespace) -> bool:
    """Return whether the command runs without an `AppContext`: another database in the config, or no keys."""
    return args.command == "restore" or (args.command == "migrate" and args.to is not None)


def run_offline_command(args: argparse.Namespace) -> int:
    """Run `migrate --to` or `restore`; return the exit status. Raises `StartupError`."""
    try:
        if args.command == "restore":
            _restore(args)
            return 0
        config = read_config_as_owner(args)
        set_up_logging(config.log)
        to = read_url(args.to, "--to")
        source = read_url(args.source, "--from") if args.source is not None else None
        DatabaseMigration(config, clock.now).move(to, source)
    except (TransferProblem, StateInUse, MigrationRunning) as problem:
        return _print_error(problem)
    return 0


def _restore(args: argparse.Namespace) -> None:
    """Restore as the owner of the state directory, also a backup that only root may read."""
    read_as_owner(find_given_config(args))
    config = read_config(args)
    with readable_backup(args.folder, config.server.state_dir) as folder:
        work_as_owner(config, creates_state=True)
        set_up_logging(config.log)
        require_roots_alone(folder)
        try:
            restore_backup(folder, config, clock.now, replaces=args.replaces, shown=args.folder)
        except TransferProblem as problem:
            raise TransferProblem(str(problem).replace(str(folder), str(args.folder))) from problem


def run_data_command(args: argparse.Namespace, app: App) -> int:
    """Run one of the other commands on an open database; return the exit status."""
    run = {"backup": _back_up, "export": _export, "import": run_import, "purge": _purge}[args.command]
    try:
        return run(args, app)
    except TransferProblem as problem:
        return _print_error(problem)


def _print_error(problem: Exception) -> int:
    print(f"companion: {problem}", file=sys.stderr)
    return 1


def _back_up(args: argparse.Namespace, app: App) -> int:
    require_roots_alone(args.folder)
    authme = app.context.authme
    authme_file = authme.sqlite_file if authme is not None and authme.backend == Backend.SQLITE else None
    database, keys = app.context.location.database, app.context.keys
    folder, manifest = make_backup(args.folder, database, authme_file, keys, app.context.now(), app.context.config.file)
    try:
        note_backup(app.context.config.server.state_dir, folder, app.context.now())
    except OSError as error:
        print(f"warning: the backup is not noted in the state directory: {error.strerror}", file=sys.stderr)
    print(f"backed up {manifest.rows} rows into {folder} and verified them")
    print("warning: the backup holds keys, addresses and password hashes; keep it private", file=sys.stderr)
    file = app.context.config.file
    if file is not None and not (folder / CONFIG_FILE).exists():
        user = user_name(os.geteuid())
        print(f"warning: the config is not in it, since {user} may not read it: copy {file} besides", file=sys.stderr)
    if authme is not None and authme_file is None:
        print(
            f"AuthMe's table is not included: dump {authme.table} with the tools of the database server",
            file=sys.stderr,
        )
    return 0


def _export(args: argparse.Namespace, app: App) -> int:
    if args.output != STANDARD_OUTPUT:
        require_roots_alone(Path(args.output))
    if args.with_hashes:
        print(
            "warning: with the hashes, passwords can be guessed; keep the file private and delete it soon",
            file=sys.stderr,
        )
    authme = app.context.authme
    algorithm = authme.password_hash if authme is not None else None
    database, now = app.context.location.database, app.context.now
    exporter = Exporter(database, now, algorithm, args.format, with_hashes=args.with_hashes)
    counts = exporter.export(args.what, args.output, app.audit, actor_name())
    names = {"users": "users", "audit": "audit entries"}
    print(", ".join(f"{count} {names[kind]}" for kind, count in counts.items()), file=sys.stderr)
    return 0


def _purge(args: argparse.Namespace, app: App) -> int:
    if args.dry_run:
        due = app.retention.count()
        print("\n".join(f"{count} {what} are due" for what, count in due.items()) or "nothing is due")
        return 0
    app.worker.run_here(app.purge_expired)
    purge_run = app.retention.start()
    progress = Progress.on_stderr("purging", None)
    while app.worker.run_here(purge_run.run_batch):
        progress.advance(1)
    progress.end()
    app.retention.record(purge_run, actor_name())
    for what, count in purge_run.counts.items():
        print(f"{count} {what}")
    if not purge_run.counts:
        print("nothing is due")
    return 0


def check_upgrade(config: Config) -> int:
    """Print the report and return the exit status. Raises `StartupError`."""
    location = resolve_location(config, read_authme(config))
    try:
        applied = _read_applied(config, location)
        newest = max(applied, default=0)
        known = list_migrations()
        if problem := find_problem(location.database, applied):
            raise UnusableSchema(problem)
        since = f", applied {applied[newest]:%Y-%m-%d %H:%M} UTC" if applied else ""
        print(f"database: {location.shown}, at migration {newest}{since}")
        print(f"size: {_describe_size(location.database)}")
        begun = find_interrupted_upgrade(location.database)
        differences = _find_differences(location.database, known, applied)
        program = f"this program: companion {__version__}, with migrations up to {known[-1].number}"
        print(program, *_describe_copies(location), sep="\n")
        print_lossy_settings(location)
    except PeeweeException as error:
        print(f"companion: {location.shown} cannot be read: {error_sentence(error)}", file=sys.stderr)
        return UNKNOWN
    finally:
        location.database.close()
    if newest > known[-1].number:
        print("\nThis version is older than the one that used the database last, and will not start on it.")
        print("Install the newer version again, or restore the backup made before it was installed.")
        return TOO_NEW
    missing = [migration for migration in known if migration.number not in applied]
    print(*_describe_differences(differences, missing), sep="\n", end="")
    if not missing:
        print("\nNothing will be migrated: install it and restart.")
        return UP_TO_DATE
    print("\n".join(_describe(missing, config, location, begun)))
    return MIGRATES


def print_lossy_settings(location: DatabaseLocation) -> None:
    """Print a warning for each setting under which our database can lose a commit."""
    found = find_lossy_settings(location)
    if isinstance(found, DatabaseUnreadable):
        print(f"unknown: whether the database keeps what it commits ({found})")
        return
    for setting in found:
        print(f"warning: the database can lose a commit with {setting.found} (database.not_durable): {setting.better}")


def _read_applied(config: Config, location: DatabaseLocation) -> dict[int, datetime]:
    """Return the numbers and times of the migrations that the database has. Raises `ConfigError` if it has none."""
    is_there = location.file is None or location.file.exists()
    if not (is_there and is_installation(config.server.state_dir)):
        raise ConfigError(
            f"There is no installation in {config.server.state_dir.absolute()}; server.state_dir says where."
        )
    location.database.connect(reuse_if_open=True)
    rows = location.database.execute_sql("SELECT number, applied_at FROM regsvc_migration").fetchall()
    return {number: datetime.fromisoformat(str(moment)) for number, moment in rows}


def _find_differences(database: Database, known: list[NumberedMigration], applied: Collection[int]) -> list[Difference]:
    """Return how the tables differ from what their migrations make; none if previews or newer versions made them."""
    made = [migration for migration in known if migration.number in applied]
    if len(made) != len(applied):
        return []
    return find_differences(
        read_schema(database), expected_schema(made, is_sqlite=isinstance(database, SqliteDatabase))
    )


def _describe_differences(differences: list[Difference], missing: list[NumberedMigration]) -> Iterator[str]:
    if not differences:
        return
    yield "\nThe tables differ from those that these migrations make:"
    for difference in differences:
        yield f"  {difference.sentence}"
    is_repaired = any(hasattr(migration.module, "find_repairs") for migration in missing)
    yield "The first start makes them equal.\n" if is_repaired else "`companion doctor` says what to do.\n"


def _describe_copies(location: DatabaseLocation) -> Iterator[str]:
    """Yield which copies of our SQLite file there are, the one to go back with first."""
    titles = ("before the last upgrade, for going back", "before the one before", "before an earlier one")
    for number, copy in enumerate(list_copies(location.file) if location.file is not None else ()):
        found = copy.stat()
        made_at = datetime.fromtimestamp(found.st_mtime, UTC)
        yield f"copy {titles[min(number, 2)]}: {copy}, {_megabytes(found.st_size)}, {made_at:%Y-%m-%d %H:%M} UTC"


def _describe(
    missing: list[NumberedMigration], config: Config, location: DatabaseLocation, begun: int | None
) -> Iterator[str]:
    yield "\nThe first start migrates the database:"
    for migration in missing:
        yield f"  {migration.number}: {_words(migration)}"
    if location.file is not None and begun is not None:
        copy = copy_path(location.file, begun)
        yield f"This upgrade was interrupted. The file from before it is {copy}, and is not copied again."
    elif location.file is not None:
        needed, free = location.file.stat().st_size, shutil.disk_usage(location.file.parent).free
        copy = copy_path(location.file, missing[0].number)
        yield f"The file is copied to {copy} before ({_megabytes(needed)}; {_megabytes(free)} are free)."
        if free < 2 * needed:
            yield "THE DISK IS TOO FULL for that: free some space first."
    yield "\nBefore you install it, make a backup with the version that is running:"
    yield f"  {_backup_command(config)}"
    yield "A version without these migrations will not start on the database afterwards: to go back, restore it."


def _words(migration: NumberedMigration) -> str:
    """Return what the migration does, from its documentation."""
    text = (inspect.getdoc(migration.module) or migration.name).split("\n\n")[0]
    return " ".join(text.split())


def _backup_command(config: Config) -> str:
    places = SystemPlaces.of_config(config.file) if config.file is not None else None
    folder = (places or SystemPlaces.of_instance(None)).backups
    option = ["--config", str(config.file)] if config.file is not None else []
    return shlex.join(["companion", "backup", str(folder), *option])


def _describe_size(database: Database) -> str:
    """Return the size of our tables and the number of users."""
    if isinstance(database, SqliteDatabase):
        size = Path(database.database).stat().st_size
    else:
        size = int(_scalar(database, _SIZE_ON_MYSQL) or 0)
    users = _scalar(database, "SELECT COUNT(*) FROM regsvc_user")
    return f"{_megabytes(size)}, {users} users"


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB"


def _scalar(database: Database, query: str) -> Any:
    return database.execute_sql(query).fetchone()[0]
