"""Reader for the data of VerifyMC, the plugin before us: its folder, its users.json, or its tables on MySQL or MariaDB.

Everything is read and checked before the first user is imported, so that a broken file changes nothing. Its files and
tables differ between its versions: keys in camel case or snake case, numbers as Java's doubles, and passwords as
AuthMe's SHA256, as a plain SHA-256 digest, unhashed, or copied from AuthMe's table.
"""

import json
import re
import secrets
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from peewee import Database, PeeweeException

from plugin_bridge.authme.config import ConfigDocument
from plugin_bridge.java_formats import parse_yaml
from plugin_bridge.server.files import read_bounded
from regsvc.cli.transfer.tables import TransferProblem
from regsvc.cli.transfer.user_files import (
    ImportedUser,
    RefusedRecord,
    clean_words,
    parse_record,
)
from regsvc.core.clock import from_epoch_ms
from regsvc.core.safe_paths import read_text_file
from regsvc.core.text import clean_reason
from regsvc.database.audit import PastEntry
from regsvc.database.engine import error_sentence, open_database
from regsvc.database.models import APPROVED, BANNED, PENDING, REJECTED, UNKNOWN
from regsvc.users.chat_links import ChatAccount
from regsvc.users.user_details import QuestionnaireResult

READY, CONVERTED, PLAIN, UNUSABLE = "ready", "converted", "plain", "unusable"
"""Kinds of passwords: AuthMe's hash, a digest that became one, an unhashed one, and a hash of no known form."""

_ACTIONS: Final = {
    "approve": "user.approved",
    "reject": "user.rejected",
    "ban": "user.banned",
    "unban": "user.unbanned",
    "delete": "user.deleted",
    "register": "user.registered",
    "login": "user.logged_in",
    "logout": "user.logged_out",
    "password_change": "user.password_changed",
    "forgot_password_reset": "user.password_changed",
    "email_update": "user.email_changed",
    "admin_access_denied": "admin.denied",
}
_WITH_REASON: Final = frozenset({"reject", "ban"})
_DECISIONS: Final = {APPROVED: ("approve", "unban"), REJECTED: ("reject",), BANNED: ("ban",)}
_LastDecisions = dict[tuple[str, str], tuple[datetime, Mapping[str, Any]]]
_ORDER: Final = (APPROVED, BANNED, PENDING, REJECTED)
_HASH_FORMS: Final = (
    (r"\$SHA\$[^$]+\$[0-9a-f]{64}", ("SHA256",)),
    (r"\$2[abxy]\$\d\d\$[./A-Za-z0-9]{53}", ("BCRYPT", "BCRYPT2Y", "XFBCRYPT", "WORDPRESS", "PHPBB")),
    (r"\$argon2i\$.+", ("ARGON2",)),
    (r"pbkdf2_sha256\$\d+\$[^$]+\$[0-9A-Fa-f]{64,}", ("PBKDF2",)),
    (r"pbkdf2_sha256\$\d+\$[^$]+\$[0-9A-Za-z+/]+=*", ("PBKDF2DJANGO",)),
    (r"\$MD5vb\$[^$]+\$[0-9a-f]{32}", ("MD5VB",)),
    (r"\$P\$.{31}", ("WORDPRESS",)),
    (r"\$H\$.{31}", ("PHPBB",)),
    (r"[0-9a-f]{32}:.+", ("JOOMLA",)),
)
_DIGEST: Final = re.compile(r"[0-9a-fA-F]{64}")
_NO_PASSWORD: Final = re.compile(
    r"!locked!.*|\$[A-Za-z0-9_-]+\$.*|pbkdf2_.*|\{[A-Za-z0-9.-]+\}.{20,}|[0-9a-fA-F]{32,}", re.DOTALL
)
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MAX_PLAIN: Final = 255
_MAX_ACCOUNT_ID: Final = 32
_URL: Final = ("mysql://", "mariadb://")
_FOLDERS: Final = ("", "data", "plugins/VerifyMC", "plugins/VerifyMC/data")  # before 1.6 the files were in data
_NOTHING: Final = "nothing was imported"
NO_STATUS: Final = "no_status"
_FIELDS: Final = frozenset(
    (
        *("uuid", "username", "email", "status", "password", "reason", "reg_time", "discord_id"),
        *("questionnaire_score", "questionnaire_passed", "questionnaire_review_summary", "questionnaire_scored_at"),
    )
)
_FOREIGN: Final = frozenset({"banned", "is_banned", "ban_reason", "password_hash", "salt"})
"""Fields of programs that keep bans and passwords in another way."""


@dataclass(frozen=True)
class VerifyMCSettings:
    """Settings that the records are read with, of its config and of ours.

    `algorithms`: AuthMe's, the configured one and legacy ones. `bedrock_prefix`: of Bedrock players' names; "": they
    are off.
    """

    algorithms: Collection[str] = ()
    bedrock_prefix: str = ""
    are_emails_verified: bool = False
    pass_score: int = 60
    requires_password: bool = True
    """Whether its players chose a password when they registered, as they did unless its config says otherwise."""


def _find_last_decisions(records: Sequence[Any]) -> _LastDecisions:
    """Return the last entry of each action and lower-case name in the audit log, with its time."""
    last: _LastDecisions = {}
    for record in records:
        if not isinstance(record, Mapping) or (moment := _moment(record.get("timestamp"))) is None:
            continue
        key = str(record.get("action")), str(record.get("target")).lower()
        if key not in last or last[key][0] <= moment:
            last[key] = moment, record
    return last


def _describe_decision(last: _LastDecisions, username: str, status: str) -> dict[str, Any]:
    """Return the columns of a record that describe the decision; empty if the log has none."""
    keys = [(action, username.lower()) for action in _DECISIONS.get(status, ())]
    found = sorted((last[key] for key in keys if key in last), key=lambda entry: entry[0])
    if not found:
        return {}
    moment, record = found[-1]
    decided = {"reviewed_by": clean_words(record.get("operator"), 255), "reviewed_at": moment.isoformat()}
    if record.get("action") in _WITH_REASON:
        decided["reason"] = record.get("detail")
    return decided


def _parse_users(
    records: Sequence[tuple[str, Any]], decisions: _LastDecisions, settings: VerifyMCSettings
) -> list[ImportedUser | RefusedRecord]:
    """Return the users of (key, record), those first who keep an address that several have: approved, then earliest.

    The number of a user is that of the record. Of records whose names differ in case only, a banned one comes first:
    the first one is imported.
    """
    parsed = [_user(number, *record, decisions, settings) for number, record in enumerate(records, 1)]
    banned = {user.username.lower() for user in parsed if isinstance(user, ImportedUser) and user.status == BANNED}
    return sorted(parsed, key=lambda user: (_is_overruled(user, banned), *_rank(user)))


def _parse_entries(records: Sequence[Any]) -> tuple[list[PastEntry], Counter[str]]:
    """Return the entries of the audit log, and the number of those of each action that we have no name for."""
    entries, others = list[PastEntry](), Counter[str]()
    for record in records:
        entry = _entry(record) if isinstance(record, Mapping) else None
        if entry is None:
            others[(clean_words(record.get("action"), 40) if isinstance(record, Mapping) else None) or "?"] += 1
        else:
            entries.append(entry)
    return entries, others


def _user(
    number: int, key: str, record: Any, decisions: _LastDecisions, settings: VerifyMCSettings
) -> ImportedUser | RefusedRecord:
    if not isinstance(record, Mapping):
        return RefusedRecord(number, key, "not_a_record")
    values = {_snake(str(name)): value for name, value in record.items()}
    name = values.get("username") or (key if not _UUID.fullmatch(key) else None)
    status = values.get("status")
    columns = {
        "username": name,
        "email": values.get("email"),
        "is_email_verified": settings.are_emails_verified,
        "status": status,
        "registered_at": _milliseconds(values.get("reg_time")),
        "platform": _platform(name, settings.bedrock_prefix),
        "origin": "registered",
        "reason": values.get("reason"),
    }
    if isinstance(name, str) and isinstance(status, str):
        columns |= {k: v for k, v in _describe_decision(decisions, name, status.lower()).items() if v is not None}
    stored = values.get("password")
    hash_, algorithm, plain, kind = _password(stored if isinstance(stored, str) else "", settings.algorithms)
    user = parse_record(number, {**columns, "hash": hash_, "algorithm": algorithm})
    if isinstance(user, RefusedRecord):
        return user
    return replace(
        user,
        password=plain,
        password_kind=kind,
        chat=_chat_account(values.get("discord_id")),
        questionnaire=_questionnaire(values, settings.pass_score, user.registered_at or UNKNOWN),
        lost=user.lost if status is not None else (*user.lost, NO_STATUS),
    )


def _password(stored: str, algorithms: Collection[str]) -> tuple[str | None, str | None, str | None, str | None]:
    """Return hash, algorithm, unhashed password and kind of what was stored."""
    if not stored:
        return None, None, None, None
    for form, names in _HASH_FORMS:
        if re.fullmatch(form, stored):
            return stored, next((name for name in names if name in algorithms), names[0]), None, READY
    if _DIGEST.fullmatch(stored):  # AuthMe's SHA256 is a digest of this digest with a salt
        salt = secrets.token_hex(8)
        return f"$SHA${salt}${sha256((stored.lower() + salt).encode()).hexdigest()}", "SHA256", None, CONVERTED
    if _NO_PASSWORD.fullmatch(stored) or len(stored) > _MAX_PLAIN:
        return None, None, None, UNUSABLE
    return None, None, stored, PLAIN


def _questionnaire(values: Mapping[str, Any], pass_score: int, registered_at: datetime) -> QuestionnaireResult | None:
    """Return the result. Its highest score is not known: it is at least the one reached."""
    given, is_passed = values.get("questionnaire_score"), values.get("questionnaire_passed")
    if not isinstance(given, int | float) or not -(10**9) < given < 10**9 or is_passed is None:
        return None
    score = round(given)
    most = max(score, pass_score)
    summary = clean_words(values.get("questionnaire_review_summary"), 900) or ""
    return QuestionnaireResult(
        score=score,
        max_score=most,
        pass_score=pass_score,
        is_passed=is_passed in (True, 1, "true"),
        requires_review=False,
        summary=f"{score}/{most}\n{summary}".strip(),
        submitted_at=_moment(values.get("questionnaire_scored_at")) or registered_at,
        answers=(),
    )


def _entry(record: Mapping[str, Any]) -> PastEntry | None:
    action, moment = str(record.get("action")), _moment(record.get("timestamp"))
    if action not in _ACTIONS or moment is None:
        return None
    detail = record.get("detail")
    reason = clean_reason(detail) if action in _WITH_REASON and isinstance(detail, str) else None
    return PastEntry(
        action=_ACTIONS[action],
        operator=clean_words(record.get("operator"), 255) or "",
        target=clean_words(record.get("target"), 255) if action != "admin_access_denied" else None,
        detail={"source": "verifymc", **({"reason": reason} if reason else {})},
        happened_at=moment,
    )


def _is_overruled(user: ImportedUser | RefusedRecord, banned: Collection[str]) -> bool:
    """Return whether another record bans the player of this name."""
    return isinstance(user, ImportedUser) and user.status != BANNED and user.username.lower() in banned


def _rank(user: ImportedUser | RefusedRecord) -> tuple[int, float, int]:
    if isinstance(user, RefusedRecord):
        return len(_ORDER), 0.0, user.line
    since = user.registered_at.timestamp() if user.registered_at is not None else float("inf")
    return _ORDER.index(user.status), since, user.line


def _platform(name: Any, prefix: str) -> str:
    return "bedrock" if prefix and isinstance(name, str) and name.startswith(prefix) else "java"


def _chat_account(value: Any) -> ChatAccount | None:
    """Return the account on Discord; its name is not known, only its id."""
    is_id = isinstance(value, str) and value.isdecimal() and len(value) <= _MAX_ACCOUNT_ID
    return ChatAccount("discord", value, value) if is_id else None


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _milliseconds(value: Any) -> Any:
    """Return a whole number; Java's JSON library writes `1.7E12`."""
    try:
        return int(float(value)) if value is not None else None
    except (ValueError, OverflowError, TypeError):
        return value


def _moment(value: Any) -> datetime | None:
    number = _milliseconds(value)
    if not isinstance(number, int) or number <= 0:
        return None
    try:
        return from_epoch_ms(number)
    except OverflowError:
        return None


@dataclass(frozen=True)
class VerifyMCData:
    """Everything that is imported, and the number of what is not.

    `origin`: where it was, in words, without a password.
    """

    origin: str
    users: list[ImportedUser | RefusedRecord]
    entries: list[PastEntry]
    other_entries: Counter[str]
    other_fields: Counter[str]
    """Number of records with each field that is not kept."""
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
        requires_password=document.flag("authme.enabled", True) and document.flag("authme.require_password", True),
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
    """Return its config. Raises OSError and `TransferProblem`: the defaults would be guesses about addresses."""
    try:
        loaded, _oddities = parse_yaml(read_bounded(path))
    except ValueError as error:
        raise TransferProblem(
            f"{path} cannot be read as YAML ({error}), and says whether addresses were verified; {_NOTHING}. Correct "
            "it; to import without it, move it away."
        ) from None
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
        return json.loads(read_text_file(path, "utf-8-sig"))
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
    if users and (missing := {"username", "status", "reg_time"} - {_snake(name) for name in users[0]}):
        raise _not_its_own("The table users", f"has no column {' and no '.join(sorted(missing))}")
    records = [(str(row.get("username")), row) for row in users]
    return _parse(f"the tables of {database.database}", records, entries, settings)


def _select(database: Database, table: str) -> list[dict[str, Any]]:
    cursor = database.execute_sql(f"SELECT * FROM {table}")  # noqa: S608
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _parse(origin: str, records: list[tuple[str, Any]], entries: list[Any], settings: VerifyMCSettings) -> VerifyMCData:
    fields = Counter(
        _snake(str(name))
        for _key, record in records
        if isinstance(record, Mapping)
        for name, value in record.items()
        if value not in (None, "") or _snake(str(name)) in _FOREIGN
    )
    if foreign := sorted(_FOREIGN & fields.keys()):
        raise _not_its_own(origin, f"has {', '.join(foreign)}, which VerifyMC does not keep")
    past, others = _parse_entries(entries)
    users = _parse_users(records, _find_last_decisions(entries), settings)
    other_fields = Counter({name: count for name, count in fields.items() if name not in _FIELDS})
    return VerifyMCData(origin, users, past, others, other_fields, settings)


def _not_its_own(what: str, why: str) -> TransferProblem:
    return TransferProblem(
        f"{what} {why}: this is another program's, whose bans and passwords would be misread; {_NOTHING}. Expected are "
        "username, status, password and regTime. Export its users as CSV or JSON and import those without --from."
    )
