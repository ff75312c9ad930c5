"""`companion export`: users and the audit log as CSV or JSON, in bounded memory."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, TextIO

from peewee import Database

from regsvc.cli.transfer.database_rows import DatabaseRows
from regsvc.cli.transfer.output import STANDARD_OUTPUT, open_output, to_cell
from regsvc.cli.transfer.tables import CHUNK_ROWS, TransferProblem
from regsvc.core.clock import Clock
from regsvc.core.progress import Progress
from regsvc.database.audit import Audit
from regsvc.database.models import PRESENT, UNVERIFIED, AuditEntry, Player, Review, User

Format = Literal["csv", "json"]
What = Literal["users", "audit", "all"]
Record = dict[str, Any]

FORMAT: Final = "companion-export"
VERSION: Final = 1

USER_COLUMNS: Final = (
    *("username", "email", "is_email_verified", "status", "reason", "registered_at", "registration_ip"),
    *("origin", "platform", "language", "reviewed_by", "reviewed_at", "banned_from", "ban_expires_at"),
    *("password_set_at", "last_login_at", "is_email_noted"),
)
HASH_COLUMNS: Final = ("hash", "salt", "algorithm")
AUDIT_COLUMNS: Final = ("id", "created_at", "action", "operator", "target", "detail", "ip", "occurrences")


@dataclass(frozen=True)
class ExportRequest:
    """Options of an export. `output`: a file, or "-" for standard output; a directory for `all` as CSV."""

    format: Format
    what: What
    output: str
    with_hashes: bool


class Exporter:
    """Writer of exports from one consistent snapshot. Blocking."""

    def __init__(self, database: Database, audit: Audit, now: Clock, algorithm: str | None) -> None:
        """`algorithm`: the name for hashes made by AuthMe (its configured algorithm)."""
        self._database = database
        self._audit = audit
        self._now = now
        self._algorithm = algorithm

    def export(self, request: ExportRequest, by: str) -> dict[str, int]:
        """Export, record an audit entry and return the number of records of each kind. Raises `TransferProblem`."""
        if request.with_hashes and request.what == "audit":
            raise TransferProblem("--with-hashes works with users only, not with --what audit.")
        kinds = ("users", "audit") if request.what == "all" else (request.what,)
        self._audit.record("data.exported", by, detail={"what": request.what, "withHashes": request.with_hashes})
        with DatabaseRows(self._database).snapshot():
            if request.format == "json":
                return self._write_json(kinds, request)
            if len(kinds) == 1:
                return {kinds[0]: self._write_csv(kinds[0], request.output, request)}
            return self._write_folder(kinds, request)

    def _write_folder(self, kinds: Iterable[str], request: ExportRequest) -> dict[str, int]:
        if request.output == STANDARD_OUTPUT:
            raise TransferProblem("Users and audit log become two CSV files: name a directory for them with --output.")
        folder = Path(request.output)
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise TransferProblem(f"{folder} cannot be created: {error.strerror}.") from error
        return {kind: self._write_csv(kind, str(folder / f"{kind}.csv"), request) for kind in kinds}

    def _write_csv(self, kind: str, output: str, request: ExportRequest) -> int:
        columns = self._columns(kind, request)
        count = 0
        with open_output(output) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            for record in self._records(kind, request):
                writer.writerow([to_cell(_flat(record[column])) for column in columns])
                count += 1
        return count

    def _write_json(self, kinds: Iterable[str], request: ExportRequest) -> dict[str, int]:
        counts = {}
        with open_output(request.output) as file:
            head = {"format": FORMAT, "version": VERSION, "exported_at": _timestamp(self._now())}
            file.write(json.dumps(head)[:-1])
            for kind in kinds:
                file.write(f', "{kind}": [')
                counts[kind] = _write_list(file, self._records(kind, request))
                file.write("\n]")
            file.write("}\n")
        return counts

    def _columns(self, kind: str, request: ExportRequest) -> tuple[str, ...]:
        if kind == "audit":
            return AUDIT_COLUMNS
        return (*USER_COLUMNS, *HASH_COLUMNS) if request.with_hashes else USER_COLUMNS

    def _records(self, kind: str, request: ExportRequest) -> Iterator[Record]:
        model: Any = User if kind == "users" else AuditEntry
        to_records = self._users if kind == "users" else _audits
        progress = Progress.on_stderr(f"exporting {kind}", model.select().count())
        try:
            for page in _pages(model):
                yield from to_records(page, request)
                progress.advance(len(page))
        finally:
            progress.end()

    def _users(self, page: list[User], request: ExportRequest) -> Iterator[Record]:
        reviews = _reviews_of(page) if request.format == "json" else {}
        players = _players_of(page) if request.with_hashes else {}
        for user in page:
            record = _user(user)
            if request.format == "json":
                record["reviews"] = reviews.get(user.id, [])
            if request.with_hashes:
                record |= self._password(user, players.get(user.username_key))
            yield record

    def _password(self, user: User, player: Player | None) -> Record:
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


def _user(user: User) -> Record:
    return {
        "username": user.username,
        "email": user.email,
        "is_email_verified": bool(user.is_email_verified),
        "status": user.status,
        "reason": user.reason,
        "registered_at": _timestamp(user.created_at),
        "registration_ip": user.registration_ip,
        "origin": user.origin,
        "platform": user.platform,
        "language": user.language,
        "reviewed_by": user.reviewed_by,
        "reviewed_at": _timestamp(user.reviewed_at),
        "banned_from": user.banned_from,
        "ban_expires_at": _timestamp(user.ban_expires_at),
        "password_set_at": _timestamp(user.password_set_at),
        "last_login_at": _timestamp(user.last_login_at),
        "is_email_noted": user.email is not None and user.email_key is None,
    }


def _reviews_of(page: list[User]) -> Mapping[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    for row in Review.select().where(Review.user_id.in_([user.id for user in page])).order_by(Review.id):
        found.setdefault(row.user_id, []).append(
            {
                "transition": row.transition,
                "status_before": row.status_before,
                "status_after": row.status_after,
                "reason": row.reason,
                "ban_expires_at": _timestamp(row.ban_expires_at),
                "operator": row.operator,
                "reviewed_at": _timestamp(row.reviewed_at),
            }
        )
    return found


def _players_of(page: list[User]) -> Mapping[str, Player]:
    keys = [user.username_key for user in page]
    return {row.username_key: row for row in Player.select().where(Player.username_key.in_(keys))}


def _audits(page: list[AuditEntry], _order: ExportRequest) -> Iterator[Record]:
    for entry in page:
        yield {
            "id": entry.id,
            "created_at": _timestamp(entry.created_at),
            "action": entry.action,
            "operator": entry.operator,
            "target": entry.target,
            "detail": None if entry.detail is None else json.loads(entry.detail),
            "ip": entry.ip,
            "occurrences": entry.occurrences,
        }


def _write_list(file: TextIO, records: Iterable[Record]) -> int:
    """Write one record per line, so that import errors can name the line. Return the number of records."""
    count = 0
    for record in records:
        file.write(",\n" if count else "\n")
        file.write(json.dumps(record, ensure_ascii=False))
        count += 1
    return count


def _flat(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def _timestamp(value: datetime | None) -> str | None:
    """Format as `2031-05-04T12:00:00.123Z`."""
    return None if value is None else value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
