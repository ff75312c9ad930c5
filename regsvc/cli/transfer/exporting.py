"""`companion export`: users and the audit log as CSV or JSON, in bounded memory."""

import csv
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final, Literal, TextIO

from peewee import Database

from regsvc.cli.given_config import user_name
from regsvc.cli.transfer.tables import CHUNK_ROWS, DatabaseRows, TransferProblem
from regsvc.core.clock import Clock
from regsvc.core.progress import Progress
from regsvc.core.safe_paths import find_closed_folder
from regsvc.core.text import INVISIBLE, clean_lines
from regsvc.database.audit import Actor, Audit
from regsvc.database.models import (
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

STANDARD_OUTPUT: Final = "-"
_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
_MARK: Final = "'"
Format = Literal["csv", "json"]
What = Literal["users", "audit", "all"]
Record = dict[str, Any]
FORMAT: Final = "companion-export"
VERSION: Final = 1
USER_COLUMNS: Final = (
    *("username", "email", "is_email_verified", "status", "reason", "registered_at", "registration_ip"),
    *("invited_by", "origin", "platform", "language", "reviewed_by", "reviewed_at", "banned_from", "ban_expires_at"),
    *("password_set_at", "last_login_at", "is_email_noted", "may_reapply", "chat", "questionnaire"),
)
HASH_COLUMNS: Final = ("hash", "salt", "algorithm")
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


class Exporter:
    """Writer of an export from one consistent snapshot. Blocking."""

    def __init__(
        self, database: Database, now: Clock, algorithm: str | None, format: Format, *, with_hashes: bool
    ) -> None:
        """`algorithm`: the name for hashes made by AuthMe (its configured algorithm)."""
        self._database = database
        self._now = now
        self._algorithm = algorithm
        self._format = format
        self._with_hashes = with_hashes

    def export(self, what: What, output: str, audit: Audit, by: str) -> dict[str, int]:
        """Export, record an audit entry and return the number of records of each kind. Raises `TransferProblem`.

        `output`: a file, or "-" for standard output; a directory for `all` as CSV.
        """
        if self._with_hashes and what == "audit":
            raise TransferProblem("--with-hashes works with users only, not with --what audit.")
        kinds = ("users", "audit") if what == "all" else (what,)
        audit.record("data.exported", Actor(by), detail={"what": what, "withHashes": self._with_hashes})
        with DatabaseRows(self._database).snapshot():
            if self._format == "json":
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
        columns = AUDIT_COLUMNS if kind == "audit" else (*USER_COLUMNS, *(HASH_COLUMNS if self._with_hashes else ()))
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
            head = {"format": FORMAT, "version": VERSION, "exported_at": _timestamp(self._now())}
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
        reviews = _reviews_of(page) if self._format == "json" else {}
        chats, results = _chats_of(page), _results_of(page)
        players = _players_of(page) if self._with_hashes else {}
        for user in page:
            record = _user(user) | {"chat": chats.get(user.id), "questionnaire": results.get(user.id)}
            if self._format == "json":
                record["reviews"] = reviews.get(user.id, [])
            if self._with_hashes:
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
        return {"hash": found, "salt": player and player.base_salt, "algorithm": self._algorithm}


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
