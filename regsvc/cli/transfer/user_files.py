"""Files of users, CSV or JSON: `companion export` writes them, imports read them and those of other systems.

Both go record by record, in bounded memory.
"""

import codecs
import csv
import difflib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, astuple, dataclass, field, replace
from datetime import UTC, datetime
from io import TextIOWrapper
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, Literal, TextIO, TypeVar, cast, get_args

import msgspec
from peewee import Database

from plugin_bridge.text import INVISIBLE
from regsvc.cli.given_config import user_name
from regsvc.cli.transfer.tables import CHUNK_ROWS, DatabaseRows, TransferProblem
from regsvc.core.clock import Clock, from_epoch_ms, to_milliseconds
from regsvc.core.progress import Progress
from regsvc.core.safe_paths import find_closed_folder, open_regular_file
from regsvc.core.text import clean_lines, clean_name, clean_reason, shorten, strip_stray
from regsvc.core.units import format_duration, parse_duration
from regsvc.database.audit import Actor, Audit
from regsvc.database.models import (
    APPROVED,
    BANNED,
    PENDING,
    PRESENT,
    STATUSES,
    UNVERIFIED,
    AuditEntry,
    ChatLink,
    Review,
    StoredQuestionnaire,
    SyncRecord,
    User,
)
from regsvc.users.chat_links import ChatAccount
from regsvc.users.gates import EndCause
from regsvc.users.user_details import QuestionnaireResult

Format = Literal["csv", "json"]

STANDARD_OUTPUT: Final = "-"
_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
_MARK: Final = "'"

What = Literal["users", "audit", "all"]
Record = dict[str, Any]
FORMAT: Final = "companion-export"
VERSION: Final = 1
_FIRST_COLUMNS: Final = (
    *("username", "email", "is_email_verified", "status", "reason", "registered_at", "registration_ip"),
    *("invited_by", "origin", "platform", "language", "reviewed_by", "reviewed_at", "banned_from", "ban_expires_at"),
    *("password_set_at", "last_login_at", "is_email_noted", "may_reapply", "chat", "questionnaire"),
)
_LATER_COLUMNS: Final = ("member_until", "ended_because", "ended_at", "renewed_at", "stay_asked_at", "member_for")
USER_COLUMNS: Final = (*_FIRST_COLUMNS, *_LATER_COLUMNS)
HASH_COLUMNS: Final = ("hash", "salt", "algorithm")
COLUMNS_WITH_HASHES: Final = (*_FIRST_COLUMNS, *HASH_COLUMNS, *_LATER_COLUMNS)  # what 1.0.0 had keeps its place
REVIEW_COLUMNS: Final = (
    *("transition", "status_before", "status_after", "reason", "ban_expires_at", "operator", "reviewed_at"),
)
CHAT_FIELDS: Final = ("platform", "username", "discriminator", "avatar", "global_name")
RESULT_FIELDS: Final = (
    *("score", "max_score", "pass_score", "is_passed", "requires_review", "summary", "submitted_at"),
)
AUDIT_COLUMNS: Final = ("id", "created_at", "action", "operator", "target", "detail", "ip", "occurrences")


@contextmanager
def open_output(target: str) -> Iterator[TextIO]:
    """Open the output for writing. Files are readable by our own user only (0600). Raises `TransferProblem`."""
    if target == STANDARD_OUTPUT:
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # whatever the locale: `import` reads nothing else
        yield sys.stdout
        sys.stdout.flush()
        return
    path = Path(target)
    closed = find_closed_folder(path)
    if closed is not None:
        raise TransferProblem(
            f"{path} cannot be written by {user_name(os.geteuid())}, who may not enter {closed}. Let your shell write "
            f"it: leave --output out, and add > {path}"
        )
    if path.exists() and not path.is_file():  # a pipe or a device such as /dev/null is written to, never replaced
        with _writing_into(path) as file:
            yield file
        return
    path = path.resolve()  # keeps a symbolic link
    draft = path.with_name(f".{path.name}.unfinished")
    try:
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8", newline="") as file:  # noqa: PTH123 - a descriptor, not a path
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise TransferProblem(f"{path} cannot be written: {error.strerror}.") from error
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def _writing_into(path: Path) -> Iterator[TextIO]:
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise TransferProblem(f"{path} cannot be written: {error.strerror}.") from error


def to_cell(value: object) -> str:
    """Convert a value: None becomes an empty cell, a boolean yes or no; control characters of a text are left out."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = clean_lines(str(value))  # a terminal may be what reads it
    # text that already begins with the mark is marked, too, so that removing one mark always restores it
    return f"{_MARK}{text}" if text.startswith((*_FORMULAS, _MARK)) else text


def from_cell(cell: str) -> str:
    """Reverse `to_cell` for text. A leading ' that marks nothing is kept."""
    return cell[1:] if cell[:1] == _MARK and cell[1:2] in (*_FORMULAS, _MARK) and len(cell) > 1 else cell


@dataclass(frozen=True)
class Exporter:
    """Writer of an export from one consistent snapshot. Blocking."""

    database: Database
    now: Clock
    algorithm: str | None
    """The name for hashes made by AuthMe (its configured algorithm)."""
    format: Format
    _: KW_ONLY
    with_hashes: bool

    def export(self, what: What, output: str, audit: Audit, by: str) -> dict[str, int]:
        """Export, record an audit entry and return the number of records of each kind. Raises `TransferProblem`.

        `output`: a file, or "-" for standard output; a directory for `all` as CSV.
        """
        if self.with_hashes and what == "audit":
            raise TransferProblem("--with-hashes works with users only, not with --what audit.")
        kinds = ("users", "audit") if what == "all" else (what,)
        audit.record("data.exported", Actor(by), detail={"what": what, "withHashes": self.with_hashes})
        with DatabaseRows(self.database).snapshot():
            if self.format == "json":
                return self._write_json(kinds, output)
            if len(kinds) == 1:
                return {kinds[0]: self._write_csv(kinds[0], output)}
            return self._write_folder(kinds, output)

    def _write_folder(self, kinds: Iterable[str], output: str) -> dict[str, int]:
        if output == STANDARD_OUTPUT:
            raise TransferProblem("Users and audit log become two CSV files: name a directory for them with --output.")
        folder = Path(output)
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise TransferProblem(f"{folder} cannot be created: {error.strerror}.") from error
        return {kind: self._write_csv(kind, str(folder / f"{kind}.csv")) for kind in kinds}

    def _write_csv(self, kind: str, output: str) -> int:
        columns = AUDIT_COLUMNS if kind == "audit" else COLUMNS_WITH_HASHES if self.with_hashes else USER_COLUMNS
        count = 0
        with open_output(output) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            for record in self._records(kind):
                writer.writerow([to_cell(_flat(record[column])) for column in columns])
                count += 1
        return count

    def _write_json(self, kinds: Iterable[str], output: str) -> dict[str, int]:
        counts = {}
        with open_output(output) as file:
            head = {"format": FORMAT, "version": VERSION, "exported_at": _timestamp(self.now())}
            file.write(json.dumps(head)[:-1])
            for kind in kinds:
                file.write(f', "{kind}": [')
                counts[kind] = _write_list(file, self._records(kind))
                file.write("\n]")
            file.write("}\n")
        return counts

    def _records(self, kind: str) -> Iterator[Record]:
        model: Any = User if kind == "users" else AuditEntry
        to_records = self._users if kind == "users" else _audits
        progress = Progress.on_stderr(f"exporting {kind}", model.select().count())
        try:
            for page in _pages(model):
                yield from to_records(page)
                progress.advance(len(page))
        finally:
            progress.end()

    def _users(self, page: list[User]) -> Iterator[Record]:
        reviews = _reviews_of(page) if self.format == "json" else {}
        chats, results = _chats_of(page), _results_of(page)
        players = _players_of(page) if self.with_hashes else {}
        for user in page:
            record = _user(user) | {"chat": chats.get(user.id), "questionnaire": results.get(user.id)}
            if self.format == "json":
                record["reviews"] = reviews.get(user.id, [])
            if self.with_hashes:
                record |= self._password(user, players.get(user.username_key))
            yield record

    def _password(self, user: User, player: SyncRecord | None) -> Record:
        """Return the password set through us, else the last synced one; none of a foreign row."""
        if user.password_hash is not None:
            return {"hash": user.password_hash, "salt": user.password_salt, "algorithm": user.password_algorithm}
        if player is None or player.user_id != user.id:
            found = None
        elif player.kept_hash is not None:
            found = player.kept_hash if player.kept_origin != UNVERIFIED else None
        else:
            found = player.base_hash if player.presence == PRESENT else None
        if found is None:
            return dict.fromkeys(HASH_COLUMNS)
        return {"hash": found, "salt": player and player.base_salt, "algorithm": self.algorithm}


def _pages(model: Any) -> Iterator[list[Any]]:
    after = 0
    while page := list(model.select().where(model.id > after).order_by(model.id).limit(CHUNK_ROWS)):
        yield page
        after = page[-1].id


def _record(row: Any, names: Iterable[str]) -> Record:
    """Return the attributes of these names, dates as text such as `2031-05-04T12:00:00.123Z`."""
    values = ((name, getattr(row, name)) for name in names)
    return {name: _timestamp(value) if isinstance(value, datetime) else value for name, value in values}


def _user(user: User) -> Record:
    columns = dict.fromkeys(USER_COLUMNS) | _record(user, (name for name in USER_COLUMNS if hasattr(user, name)))
    is_email_noted = user.email is not None and user.email_key is None
    status = user.status if user.status in STATUSES else user.applied_status  # as the sync resets it
    registered_at = _timestamp(user.created_at)
    return columns | {"status": status, "registered_at": registered_at, "is_email_noted": is_email_noted}


def _chats_of(page: list[User]) -> Mapping[int | None, Record]:
    rows = ChatLink.select().where(ChatLink.user.in_([user.id for user in page]))
    return {row.user_id: {"id": row.account_id} | _record(row, CHAT_FIELDS) for row in rows}


def _results_of(page: list[User]) -> Mapping[int | None, Record]:
    rows = StoredQuestionnaire.select().where(StoredQuestionnaire.user.in_([user.id for user in page]))
    return {row.user_id: _record(row, RESULT_FIELDS) | {"answers": json.loads(row.answers)} for row in rows}


def _reviews_of(page: list[User]) -> Mapping[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    for row in Review.select().where(Review.user_id.in_([user.id for user in page])).order_by(Review.id):
        found.setdefault(row.user_id, []).append(_record(row, REVIEW_COLUMNS))
    return found


def _players_of(page: list[User]) -> Mapping[str, SyncRecord]:
    keys = [user.username_key for user in page]
    return {row.username_key: row for row in SyncRecord.select().where(SyncRecord.username_key.in_(keys))}


def _audits(page: list[AuditEntry]) -> Iterator[Record]:
    for entry in page:
        yield _record(entry, AUDIT_COLUMNS) | {"detail": None if entry.detail is None else json.loads(entry.detail)}


def _write_list(file: TextIO, records: Iterable[Record]) -> int:
    """Write one record per line, so that import errors can name the line. Return the number of records."""
    count = 0
    for record in records:
        file.write(",\n" if count else "\n")
        file.write(_to_json(record))
        count += 1
    return count


def _flat(value: object) -> object:
    return _to_json(value) if isinstance(value, dict | list) else value


def _to_json(value: object) -> str:
    """Return JSON in which control characters are escaped, also those that JSON allows as they are."""
    text = json.dumps(value, ensure_ascii=False)
    return INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _timestamp(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Value = TypeVar("Value")

_OTHER_NAMES: Final = {
    "name": "username",
    "realname": "username",
    "user_name": "username",
    "player_name": "username",
    **dict.fromkeys(("mail", "e_mail", "email_address", "e_mail_address", "mail_address", "e_mail_adresse"), "email"),
    "email_verified": "is_email_verified",
    "reg_time": "registered_at",
    "created_at": "registered_at",
    "regdate": "registered_at",
    "registration_date": "registered_at",
    "lastlogin": "last_login_at",
    "last_login": "last_login_at",
    "password_hash": "hash",
    "is_banned": "banned",
    "ban_reason": "reason",
}
_COLUMNS: Final = frozenset({*USER_COLUMNS, *HASH_COLUMNS, "banned", "reviews"})
_MILLISECONDS_FROM: Final = 10**11  # smaller numbers are seconds; as seconds this would be the year 5138
_MAX_JSON: Final = 500_000_000  # characters: more than a million users
_SEPARATORS: Final = (",", ";", "\t", "|")
_SIMILAR: Final = 0.8  # of difflib's ratio, as "emial" is
_MAX_LONGER: Final = 2  # characters: "banned_at" is no mistyped "banned"
_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_YES: Final = frozenset({"yes", "true", "1", "1.0", "y", "t"})  # PostgreSQL writes t, JSON libraries of Java 1.0
_NO: Final = frozenset({"no", "false", "0", "0.0", "n", "f", ""})
_MAX_HASH: Final = 255
_MAX_CELL: Final = 2**24  # characters; the library's own limit is 128 KiB
_MAX_INTEGER: Final = 2**31 - 1
_MAX_SUMMARY: Final = 1000
_NO_HEADING: Final = "Line {line}: the first line must name the columns, and one of them must be username."


class RecordError(Exception):
    """A record cannot become a user; `str()` is the code."""


@dataclass(frozen=True)
class ImportedUser:
    """A parsed record. Name, address and algorithm are not validated yet."""

    line: int
    username: str
    email: str | None
    is_email_verified: bool
    status: str
    reason: str | None
    registered_at: datetime | None
    reviewed_by: str | None
    reviewed_at: datetime | None
    banned_from: str | None
    ban_expires_at: datetime | None
    platform: str
    language: str | None
    origin: str | None
    hash: str | None = field(repr=False)
    salt: str | None = field(repr=False)
    algorithm: str | None
    password: str | None = field(default=None, repr=False)
    """A password that another program kept unhashed."""
    password_kind: str | None = None
    """What another program kept of the password, for the report; None: nothing."""
    chat: ChatAccount | None = None
    questionnaire: QuestionnaireResult | None = None
    is_email_noted: bool = False
    """Whether the address is only a note that nothing proves: it belongs to nobody and is mailed nothing."""
    may_reapply: bool = False
    registration_ip: str | None = None
    invited_by: str | None = None
    password_set_at: datetime | None = None
    last_login_at: datetime | None = None
    member_until: datetime | None = None
    ended_because: str | None = None
    ended_at: datetime | None = None
    renewed_at: datetime | None = None
    stay_asked_at: datetime | None = None
    member_for: str | None = None
    lost: tuple[str, ...] = ()
    """Codes of what the record says and the user does not get, or of what it does not say."""


@dataclass(frozen=True)
class RefusedRecord:
    """A record that was not imported, or not whole: its line or number, its username and the reason as a code."""

    line: int
    name: str
    code: str
    is_imported: bool = False
    """Whether the user is imported, without what the code is about."""


def read_users(
    path: Path, format: Format | None, ignored: set[str] | None = None
) -> Iterator[ImportedUser | RefusedRecord]:
    """Yield every record with its line number. `format` None: guess from the name, then from the content.

    `ignored` gets the names of columns that mean nothing here. Raises `TransferProblem` if the file cannot be read, or
    has a column whose name is almost one that we know, possibly after some records.
    """
    ignored = set() if ignored is None else ignored
    with _opened(path) as file:
        kind = format or _guess_format(path, file)
        records = _read_json(file, "users") if kind == "json" else _read_csv(file)
        for line, record in records:
            names = [str(name) for name in record] if isinstance(record, Mapping) else []
            for name in names:
                if _column(name) in _COLUMNS or name in ignored:
                    continue
                if alike := _find_similar(name):
                    raise TransferProblem(f"Line {line}: is the column {name!a} {alike}? Rename it, or take it out.")
                ignored.add(name)
            yield parse_record(line, record)


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    try:
        with open(open_regular_file(path), "rb") as content:  # noqa: PTH123 - a descriptor, not a path
            is_utf16 = content.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # spreadsheets' "Unicode text"
            with TextIOWrapper(content, encoding="utf-16" if is_utf16 else "utf-8-sig", newline="") as file:
                yield file
    except OSError as error:
        raise TransferProblem(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeError as error:
        raise TransferProblem(f"{path} is not encoded as UTF-8: save it as UTF-8.") from error


def _guess_format(path: Path, file: TextIO) -> Format:
    if path.suffix.lower() in (".json", ".csv"):
        return cast(Format, path.suffix.lower()[1:])
    beginning = file.read(200).lstrip()
    file.seek(0)
    return "json" if beginning[:1] in ("[", "{") else "csv"


def _read_csv(file: TextIO) -> Iterator[tuple[int, Any]]:
    above, columns, separator = _read_heading(file)
    csv.field_size_limit(_MAX_CELL)
    reader = csv.reader(file, delimiter=separator, strict=True)
    while True:
        line = reader.line_num + above + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise TransferProblem(f"Line {line}: this is not CSV ({error}).") from error
        if any(map(strip_stray, cells)):
            values = [from_cell(cell) or None for cell in cells]
            yield line, dict(zip(columns, values, strict=False)) if len(cells) == len(columns) else cells


def _read_heading(file: TextIO) -> tuple[int, list[str], str]:
    """Return the number of lines up to the one that names the columns, these names, and what separates values."""
    separators: tuple[str, ...] = _SEPARATORS
    for number, line in enumerate(iter(file.readline, ""), 1):
        if told := re.fullmatch(r"sep=(.)\s*", line):  # from Excel, which writes and wants it
            separators = (told[1],)
        elif strip_stray(line).strip(f" {''.join(separators)}"):
            read = [(next(csv.reader([line], delimiter=each), []), each) for each in separators]
            columns, separator = max(read, key=lambda found: len(found[0]))
            if "username" in map(_column, columns):
                return number, columns, separator
            raise TransferProblem(_NO_HEADING.format(line=number))
    raise TransferProblem(_NO_HEADING.format(line=1))


def _find_similar(name: str) -> str | None:
    """Return the column that the name of an unknown one resembles, or None."""
    written = _column(name)
    known = [known for known in (*_COLUMNS, *_OTHER_NAMES) if abs(len(known) - len(written)) <= _MAX_LONGER]
    alike = difflib.get_close_matches(written, known, n=1, cutoff=_SIMILAR)
    return _column(alike[0]) if alike else None


def _read_json(file: TextIO, name: str) -> Iterator[tuple[int, Any]]:
    """Yield (line, record) from a top-level list, or from the list under the key `name` of a top-level object."""
    text = _JsonText(file.read(_MAX_JSON + 1))
    if text.peek() == "[":
        yield from text.items()
        return
    text.take("{", "expected a list of users, or an object that contains one")
    is_found = False
    while text.peek() != "}":
        key = text.value()
        text.take(":")
        if key == name and text.peek() == "[":
            is_found = True
            yield from text.items()
        else:
            text.value()
        if text.peek() == ",":
            text.take(",")
    if not is_found:
        raise text.broken(f'the file has no list called "{name}"')


class _JsonText:
    """A position in a JSON text, whose values are parsed one by one: records above a mistake are read, each with its
    line.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line = 1
        self._decoder = json.JSONDecoder()
        if len(text) > _MAX_JSON:
            raise TransferProblem(f"The file has more than {_MAX_JSON:,} characters: split it, or use CSV.")

    def peek(self) -> str:
        """Return the next non-blank character without consuming it; raises at the end of the file."""
        blanks = _BLANKS.match(self._text, self._at)
        self._move(blanks.end() if blanks else self._at)
        if self._at == len(self._text):
            raise self.broken("the file ends too early")
        return self._text[self._at]

    def take(self, expected: str, problem: str | None = None) -> None:
        if self.peek() != expected:
            raise self.broken(problem or f"expected {expected!r}")
        self._move(self._at + 1)

    def items(self) -> Iterator[tuple[int, Any]]:
        """Yield (line, item) of the list that begins here."""
        self.take("[")
        while self.peek() != "]":
            line = self._line
            yield line, self.value()
            if self.peek() == ",":
                self.take(",")
            elif self.peek() != "]":
                raise self.broken("expected ',' or ']'")
        self.take("]")

    def value(self) -> Any:
        """Return the whole value that begins here."""
        self.peek()
        try:
            found, end = self._decoder.raw_decode(self._text, self._at)
        except (ValueError, RecursionError) as error:
            raise self.broken("this is not JSON") from error
        self._move(end)
        return found

    def broken(self, why: str) -> TransferProblem:
        return TransferProblem(f"Line {self._line}: {why}.")

    def _move(self, to: int) -> None:
        self._line += self._text.count("\n", self._at, to)
        self._at = to


def _column(name: str) -> str:
    """Normalise a column name: `regTime` becomes `reg_time`, which is an alias of `registered_at`."""
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])|[\s.-]+", "_", strip_stray(name)).lower()
    return _OTHER_NAMES.get(snake, snake)


def parse_record(line: int, record: Any) -> ImportedUser | RefusedRecord:
    """Return the user that a mapping of columns describes; columns of other names are ignored."""
    if not isinstance(record, Mapping):
        return RefusedRecord(line, "", "not_a_record")
    values: dict[str, Any] = {}
    for name, value in record.items():
        if value is not None or _column(str(name)) not in values:
            values[_column(str(name))] = value
    name = values.get("username")
    try:
        return _imported(line, values)
    except RecordError as refused:
        return RefusedRecord(line, name if isinstance(name, str) else "", str(refused))


def _imported(line: int, values: Mapping[str, Any]) -> ImportedUser:
    is_banned = _truth(values, "banned")
    lost = list[str]()

    def take(read: Callable[..., Value | None], name: str, *limits: Any, is_spare: bool = False) -> Value | None:
        """Read a column. A fault in one that is spare, or of a banned user, does not keep out the user."""
        try:
            return read(values, name, *limits)
        except RecordError as fault:
            if not (is_banned or is_spare):
                raise
            lost.append(str(fault))
            return None

    username = clean_name(_text(values, "username", 255) or "")
    status = take(_choice, "status", STATUSES) or PENDING
    is_banned = is_banned or status == BANNED
    before = APPROVED if status == BANNED else status
    return ImportedUser(
        line=line,
        username=username,
        email=take(_text, "email", 320),
        is_email_verified=take(_truth, "is_email_verified") or False,
        status=BANNED if is_banned else status,
        reason=_reason(values),
        registered_at=take(_parse_timestamp, "registered_at"),
        reviewed_by=clean_words(values.get("reviewed_by"), 255),
        reviewed_at=take(_parse_timestamp, "reviewed_at"),
        banned_from=(take(_choice, "banned_from", STATUSES[:3]) or before) if is_banned else None,
        ban_expires_at=take(_parse_timestamp, "ban_expires_at") if is_banned else None,
        may_reapply=take(_truth, "may_reapply") or False,
        platform=take(_choice, "platform", ("java", "bedrock")) or "java",
        language=take(_text, "language", 16),
        origin=take(_choice, "origin", ("registered", "adopted", "created")),
        registration_ip=take(_ip, "registration_ip", is_spare=True),
        invited_by=clean_words(values.get("invited_by"), 255),
        hash=take(_hash, "hash"),
        salt=take(_text, "salt", _MAX_HASH),
        algorithm=take(_text, "algorithm", 32),
        password_set_at=take(_parse_timestamp, "password_set_at", is_spare=True),
        last_login_at=take(_parse_timestamp, "last_login_at", is_spare=True),
        is_email_noted=take(_truth, "is_email_noted") or False,
        chat=take(_chat, "chat", is_spare=True),
        questionnaire=take(_questionnaire, "questionnaire", is_spare=True),
        member_until=take(_parse_timestamp, "member_until"),
        ended_because=take(_choice, "ended_because", get_args(EndCause)),
        ended_at=take(_parse_timestamp, "ended_at"),
        renewed_at=take(_parse_timestamp, "renewed_at", is_spare=True),
        stay_asked_at=take(_parse_timestamp, "stay_asked_at", is_spare=True),
        member_for=take(_length, "member_for"),
        lost=tuple(lost),
    )


def _reason(values: Mapping[str, Any]) -> str | None:
    value = values.get("reason")
    return None if value is None else clean_reason(str(value))


def clean_words(value: Any, longest: int) -> str | None:
    """Return a text that another program may have written in any way, clean and cut."""
    return shorten(clean_lines(value).strip(), longest) or None if isinstance(value, str) else None


def _ip(values: Mapping[str, Any], name: str) -> str | None:
    value = _text(values, name, 45)
    try:
        ip_address(value or "::")
    except ValueError:
        raise RecordError(f"invalid_{name}") from None
    return value


def _chat(values: Mapping[str, Any], name: str) -> ChatAccount | None:
    account = _object(values, name, ChatAccount)
    if account is None:
        return None
    is_short = len(account.platform) <= 16 and len(account.discriminator) <= 16
    if not is_short or not all(part is None or (len(part) <= 255 and is_storable(part)) for part in astuple(account)):
        raise RecordError(f"invalid_{name}")
    return account


def _questionnaire(values: Mapping[str, Any], name: str) -> QuestionnaireResult | None:
    result = _object(values, name, QuestionnaireResult)
    if result is None:
        return None
    numbers = (result.score, result.max_score, result.pass_score)
    if max(map(abs, numbers)) > _MAX_INTEGER or len(result.summary) > _MAX_SUMMARY or not is_storable(result.summary):
        raise RecordError(f"invalid_{name}")
    try:
        return replace(result, submitted_at=_utc(result.submitted_at))
    except OverflowError:
        raise RecordError(f"invalid_{name}") from None


def _object(values: Mapping[str, Any], name: str, kind: type[Value]) -> Value | None:
    """Return what an object describes; in CSV it is JSON in a cell."""
    value = values.get(name)
    if value is None:
        return None
    try:
        found = msgspec.json.decode(value, type=kind) if isinstance(value, str) else msgspec.convert(value, kind)
        msgspec.json.encode(found).decode()  # raises for a lone surrogate
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise RecordError(f"invalid_{name}") from None
    return found


def _text(values: Mapping[str, Any], name: str, longest: int) -> str | None:
    value = values.get(name)
    value = strip_stray(value) if isinstance(value, str) else value
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > longest or not is_storable(value):
        raise RecordError(f"invalid_{name}")
    return value


def is_storable(text: str) -> bool:
    """Return whether the text has no control characters, and no lone surrogates, which databases refuse."""
    return not any((ch < " " and ch not in "\n\t") or "\ud800" <= ch <= "\udfff" or ch == "\x7f" for ch in text)


def _hash(values: Mapping[str, Any], name: str) -> str | None:
    text = _text(values, name, _MAX_HASH)
    if text is not None and (not text.isascii() or not text.isprintable() or text.startswith("!locked!")):
        raise RecordError(f"invalid_{name}")
    return text


def _choice(values: Mapping[str, Any], name: str, choices: tuple[str, ...]) -> str | None:
    value = (_text(values, name, 32) or "").strip().lower()
    if value and value not in choices:
        raise RecordError(f"invalid_{name}")
    return value or None


def _truth(values: Mapping[str, Any], name: str) -> bool:
    word = str(values.get(name) if values.get(name) is not None else "").strip().lower()
    if word not in _YES | _NO:
        raise RecordError(f"invalid_{name}")
    return word in _YES


def _length(values: Mapping[str, Any], name: str) -> str | None:
    value = _text(values, name, 32)
    try:
        return None if value is None else format_duration(parse_duration(value))
    except ValueError:
        raise RecordError(f"invalid_{name}") from None


def _parse_timestamp(values: Mapping[str, Any], name: str) -> datetime | None:
    """Parse ISO 8601 (UTC by default), or seconds or milliseconds since 1970. None and 0 mean no time."""
    value = values.get(name)
    if value in (None, "", 0, "0"):
        return None
    try:
        if isinstance(value, str) and not value.isdecimal():
            return _utc(datetime.fromisoformat(value))
        number = int(value)
        return from_epoch_ms(number if number >= _MILLISECONDS_FROM else number * 1000)
    except (ValueError, OverflowError, TypeError, OSError):
        raise RecordError(f"invalid_{name}") from None


def _utc(moment: datetime) -> datetime:
    return to_milliseconds((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC))
