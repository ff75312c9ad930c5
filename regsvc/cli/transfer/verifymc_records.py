"""Records of VerifyMC, the plugin before us, as ours: users, and entries of its audit log.

Its files and tables differ between its versions: keys in camel case or snake case, numbers as Java's doubles, and
passwords as AuthMe's SHA256, as a plain SHA-256 digest, unhashed, or copied from AuthMe's table.
"""

import re
import secrets
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from regsvc.cli.transfer.user_files import (
    MAX_REASON,
    ImportedQuestionnaire,
    ImportedUser,
    UnreadableRecord,
    parse_record,
)
from regsvc.core.clock import from_epoch_ms
from regsvc.core.text import shorten, strip_invisible
from regsvc.database.audit import PastEntry
from regsvc.database.models import APPROVED, BANNED, PENDING, REJECTED

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


class PastDecisions:
    """The last decision about each name, as the audit log has it."""

    def __init__(self, records: Sequence[Mapping[str, Any]]) -> None:
        self._last: dict[tuple[str, str], tuple[datetime, Mapping[str, Any]]] = {}
        for record in records:
            moment = _moment(record.get("timestamp"))
            key = str(record.get("action")), str(record.get("target")).lower()
            if moment is not None and (key not in self._last or self._last[key][0] <= moment):
                self._last[key] = moment, record

    def find(self, username: str, status: str) -> dict[str, Any]:
        """Return the columns of a record that describe the decision; empty if the log has none."""
        keys = [(action, username.lower()) for action in _DECISIONS.get(status, ())]
        found = sorted((self._last[key] for key in keys if key in self._last), key=lambda entry: entry[0])
        if not found:
            return {}
        moment, record = found[-1]
        decided = {"reviewed_by": _text(record.get("operator"), 255), "reviewed_at": moment.isoformat()}
        if record.get("action") in _WITH_REASON:
            decided["reason"] = _text(record.get("detail"), MAX_REASON)
        return decided


def parse_users(
    records: Sequence[tuple[str, Any]], decisions: PastDecisions, settings: VerifyMCSettings
) -> list[ImportedUser | UnreadableRecord]:
    """Return the users of (key, record), those first who keep an address that several have: approved, then earliest.

    The number of a user is that of the record. Of records whose names differ in case only, a banned one comes first:
    the first one is imported.
    """
    parsed = [_user(number, *record, decisions, settings) for number, record in enumerate(records, 1)]
    banned = {user.username.lower() for user in parsed if isinstance(user, ImportedUser) and user.status == BANNED}
    return sorted(parsed, key=lambda user: (_is_overruled(user, banned), *_rank(user)))


def parse_entries(records: Sequence[Any]) -> tuple[list[PastEntry], Counter[str]]:
    """Return the entries of the audit log, and the number of those of each action that we have no name for."""
    entries, others = list[PastEntry](), Counter[str]()
    for record in records:
        entry = _entry(record) if isinstance(record, Mapping) else None
        if entry is None:
            others[(_text(record.get("action"), 40) if isinstance(record, Mapping) else None) or "?"] += 1
        else:
            entries.append(entry)
    return entries, others


def _user(
    number: int, key: str, record: Any, decisions: PastDecisions, settings: VerifyMCSettings
) -> ImportedUser | UnreadableRecord:
    if not isinstance(record, Mapping):
        return UnreadableRecord(number, key, "not_a_record")
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
        "reason": _text(values.get("reason"), MAX_REASON),
    }
    if isinstance(name, str) and isinstance(status, str):
        columns |= {k: v for k, v in decisions.find(name, status.lower()).items() if v is not None}
    stored = values.get("password")
    hash_, algorithm, plain, kind = _password(stored if isinstance(stored, str) else "", settings.algorithms)
    user = parse_record(number, {**columns, "hash": hash_, "algorithm": algorithm})
    if isinstance(user, UnreadableRecord):
        return user
    return replace(
        user,
        password=plain,
        password_kind=kind,
        chat_id=_account_id(values.get("discord_id")),
        questionnaire=_questionnaire(values, settings.pass_score),
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


def _questionnaire(values: Mapping[str, Any], pass_score: int) -> ImportedQuestionnaire | None:
    score, is_passed = values.get("questionnaire_score"), values.get("questionnaire_passed")
    if not isinstance(score, int | float) or not -(10**9) < score < 10**9 or is_passed is None:
        return None
    return ImportedQuestionnaire(
        score=round(score),
        pass_score=pass_score,
        is_passed=is_passed in (True, 1, "true"),
        summary=_text(values.get("questionnaire_review_summary"), 900) or "",
        submitted_at=_moment(values.get("questionnaire_scored_at")),
    )


def _entry(record: Mapping[str, Any]) -> PastEntry | None:
    action, moment = str(record.get("action")), _moment(record.get("timestamp"))
    if action not in _ACTIONS or moment is None:
        return None
    reason = _text(record.get("detail"), MAX_REASON) if action in _WITH_REASON else None
    return PastEntry(
        action=_ACTIONS[action],
        operator=_text(record.get("operator"), 255) or "",
        target=_text(record.get("target"), 255) if action != "admin_access_denied" else None,
        detail={"source": "verifymc", **({"reason": reason} if reason else {})},
        happened_at=moment,
    )


def _is_overruled(user: ImportedUser | UnreadableRecord, banned: Collection[str]) -> bool:
    """Return whether another record bans the player of this name."""
    return isinstance(user, ImportedUser) and user.status != BANNED and user.username.lower() in banned


def _rank(user: ImportedUser | UnreadableRecord) -> tuple[int, float, int]:
    if isinstance(user, UnreadableRecord):
        return len(_ORDER), 0.0, user.line
    since = user.registered_at.timestamp() if user.registered_at is not None else float("inf")
    return _ORDER.index(user.status), since, user.line


def _platform(name: Any, prefix: str) -> str:
    return "bedrock" if prefix and isinstance(name, str) and name.startswith(prefix) else "java"


def _account_id(value: Any) -> str | None:
    return value if isinstance(value, str) and value.isdecimal() and len(value) <= _MAX_ACCOUNT_ID else None


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _text(value: Any, length: int) -> str | None:
    if not isinstance(value, str):
        return None
    storable = value.encode("utf-8", "replace").decode()
    return shorten(strip_invisible(storable).strip(), length) or None


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
    except (OverflowError, ValueError, OSError):
        return None
