"""Reader for the data of VerifyMC: its folder, its users.json, or its tables on MySQL or MariaDB.

Everything is read and checked before the first user is imported, so that a broken file changes nothing.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import yaml
from peewee import Database, PeeweeException

from plugin_bridge.authme.config import ConfigDocument
from regsvc.cli.transfer.tables import TransferProblem
from regsvc.cli.transfer.user_files import ImportedUser, UnreadableRecord
from regsvc.cli.transfer.verifymc_records import PastDecisions, VerifyMCSettings, parse_entries, parse_users
from regsvc.database.audit import PastEntry
from regsvc.database.engine import error_sentence, open_database

_URL: Final = ("mysql://", "mariadb://")
_FOLDERS: Final = ("", "data", "plugins/VerifyMC", "plugins/VerifyMC/data")  # before 1.6 the files were in data
_NOTHING: Final = "nothing was imported"


@dataclass(frozen=True)
class VerifyMCData:
    """Everything that is imported. `origin`: where it was, in words, without a password."""

    origin: str
    users: list[ImportedUser | UnreadableRecord]
    entries: list[PastEntry]
    other_entries: Counter[str]
    settings: VerifyMCSettings


def read_verifymc(source: str, settings: VerifyMCSettings) -> VerifyMCData:
    """Read all data from a folder, a users.json or a database URL. Raises `TransferProblem`."""
    if source.startswith(_URL):
        return _read_tables(source, settings)
    try:
        return _read_path(Path(source), settings)
    except OSError as error:  # such as a folder that our user may not enter
        raise TransferProblem(f"{error.filename or source} cannot be read: {error.strerror}; {_NOTHING}.") from None


def _read_path(path: Path, settings: VerifyMCSettings) -> VerifyMCData:
    folder = path if path.is_dir() else path.parent
    config = _find(folder, "config.yml")
    document = ConfigDocument(_read_config(config) if config is not None else {})
    methods = [*document.texts("auth_methods", ()), *document.texts("auth.must_auth_methods", ())]
    settings = replace(
        settings,
        are_emails_verified=settings.are_emails_verified or "email" in methods,
        pass_score=document.number("questionnaire.pass_score", settings.pass_score),
    )
    return _read_files(_find_users(path, document), settings)


def _find_users(path: Path, document: ConfigDocument) -> Path:
    if not path.is_dir():
        return path
    if document.text("storage", "file").lower() == "mysql":
        raise TransferProblem(
            f"The config.yml in {path} has storage: mysql, so the users are in that database: give its address instead "
            "of the folder, as mysql://USER:PASSWORD@HOST:PORT/NAME, or - to type it."
        )
    users = _find(path, "users.json")
    if users is None:
        raise TransferProblem(f"{path} has no users.json: name VerifyMC's folder, such as plugins/VerifyMC.")
    return users


def _find(folder: Path, name: str) -> Path | None:
    paths = (folder / inner / name for inner in _FOLDERS)
    return next((path for path in paths if path.is_file()), None)


def _read_config(path: Path) -> dict[str, Any]:
    """Return its config; of one that cannot be read, nothing."""
    try:
        loaded = yaml.safe_load(path.read_text("utf-8-sig"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return {}
    return loaded if isinstance(loaded, dict) else {}


def _read_files(users: Path, settings: VerifyMCSettings) -> VerifyMCData:
    audits = users.with_name("audits.json")
    records, entries = _read_json(users), _read_json(audits) if audits.is_file() else []
    if not isinstance(records, dict):
        raise TransferProblem(
            f"{users} is not VerifyMC's: it must be one object with a record for each player; {_NOTHING}. "
            "For a list of users from another program, use companion import without --from."
        )
    if not isinstance(entries, list):
        raise TransferProblem(f"{audits} is not VerifyMC's: it must be a list of entries; {_NOTHING}.")
    return _parse(str(users), list(records.items()), entries, settings)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise TransferProblem(
            f"{path}: line {error.lineno}, column {error.colno}: this is not JSON; {_NOTHING}. If the game server was "
            "running, stop it and try again; if the file is damaged, use a backup."
        ) from None
    except (ValueError, RecursionError):
        raise TransferProblem(f"{path} is not JSON in UTF-8: save it as UTF-8; {_NOTHING}.") from None


def _read_tables(url: str, settings: VerifyMCSettings) -> VerifyMCData:
    try:
        database = open_database(url, timedelta(seconds=5))
    except ValueError as error:
        raise TransferProblem(f"VerifyMC's database: {error}.") from None
    try:
        users = _select(database, "users")
        entries = _select(database, "audits") if "audits" in database.get_tables() else []
    except PeeweeException as error:
        raise TransferProblem(f"VerifyMC's database cannot be used: {error_sentence(error)}; {_NOTHING}.") from None
    finally:
        database.close()
    if users and "username" not in users[0]:
        raise TransferProblem(f"The table users has no column username, so it is not VerifyMC's; {_NOTHING}.")
    records = [(str(row.get("username")), row) for row in users]
    return _parse(f"the tables of {database.database}", records, entries, settings)


def _select(database: Database, table: str) -> list[dict[str, Any]]:
    cursor = database.execute_sql(f"SELECT * FROM {table}")  # noqa: S608
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _parse(origin: str, records: list[tuple[str, Any]], entries: list[Any], settings: VerifyMCSettings) -> VerifyMCData:
    known = [entry for entry in entries if isinstance(entry, Mapping)]
    past, others = parse_entries(entries)
    return VerifyMCData(origin, parse_users(records, PastDecisions(known), settings), past, others, settings)
