"""`companion export`: users and the audit log for people, spreadsheets and other systems; memory is bounded."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, TextIO

from peewee import Database

from regsvc.cli.transfer.csv_text import to_cell
from regsvc.cli.transfer.database_rows import DatabaseRows
from regsvc.cli.transfer.output import STANDARD_OUTPUT, open_output
from regsvc.cli.transfer.tables import CHUNK, TransferProblem
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
    *("password_set_at", "last_login_at"),
)
HASH_COLUMNS: Final = ("hash", "salt", "algorithm")
AUDIT_COLUMNS: Final = ("id", "created_at", "action", "operator", "target", "detail", "ip", "occurrences")


@dataclass(frozen=True)
class ExportRequest:
    """What is asked for. `output`: a file, "-" for standard output; for all in CSV a directory."""

    format: Format
    what: What
    output: str
    with_hashes: bool


class Exporter:
    """Blocking; everything an export tells is of one moment."""

    def __init__(self, database: Database, audit: Audit, now: Clock, algorithm: str | None) -> None:
        """`algorithm`: what a hash of the game is called that we did not make."""
        self._database = database
        self._audit = audit
        self._now = now
        self._algorithm = algorithm

    def export(self, order: ExportRequest, by: str) -> dict[str, int]:
        """How many records of each kind. It leaves an audit entry. Raises `TransferProblem`."""
        if order.with_hashes and order.what == "audit":
            raise TransferProblem("--with-hashes is about users.")
        kinds = ("users", "audit") if order.what == "all" else (order.what,)
        self._audit.record("data.exported", by, detail={"what": order.what, "withHashes": order.with_hashes})
        with DatabaseRows(self._database).standing_still():
            if order.format == "json":
                return self._write_json(kinds, order)
            if len(kinds) == 1:
                return {kinds[0]: self._write_csv(kinds[0], order.output, order)}
            return self._write_folder(kinds, order)

    def _write_folder(self, kinds: Iterable[str], order: ExportRequest) -> dict[str, int]:
        if order.output == STANDARD_OUTPUT:
            raise TransferProblem("Users and audit log are two CSV files: name a directory for them with --output.")
        folder = Path(order.output)
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise TransferProblem(f"{folder} cannot be made: {error.strerror}.") from error
        return {kind: self._write_csv(kind, str(folder / f"{kind}.csv"), order) for kind in kinds}

    def _write_csv(self, kind: str, output: str, order: ExportRequest) -> int:
        columns = self._columns(kind, order)
        count = 0
        with open_output(output) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            for record in self._records(kind, order):
                writer.writerow([to_cell(_flat(record[column])) for column in columns])
                count += 1
        return count

    def _write_json(self, kinds: Iterable[str], order: ExportRequest) -> dict[str, int]:
        counts = {}
        with open_output(order.output) as file:
            head = {"format": FORMAT, "version": VERSION, "exported_at": _moment(self._now())}
            file.write(json.dumps(head)[:-1])
            for kind in kinds:
                file.write(f', "{kind}": [')
                counts[kind] = _write_list(file, self._records(kind, order))
                file.write("\n]")
            file.write("}\n")
        return counts

    def _columns(self, kind: str, order: ExportRequest) -> tuple[str, ...]:
        if kind == "audit":
            return AUDIT_COLUMNS
        return (*USER_COLUMNS, *HASH_COLUMNS) if order.with_hashes else USER_COLUMNS

    def _records(self, kind: str, order: ExportRequest) -> Iterator[Record]:
        model: Any = User if kind == "users" else AuditEntry
        to_records = self._users if kind == "users" else _audits
        progress = Progress.on_stderr(f"exporting {kind}", model.select().count())
        try:
            for page in _pages(model):
                yield from to_records(page, order)
                progress.advance(len(page))
        finally:
            progress.end()

    def _users(self, page: list[User], order: ExportRequest) -> Iterator[Record]:
        reviews = _reviews_of(page) if order.format == "json" else {}
        players = _players_of(page) if order.with_hashes else {}
        for user in page:
            record = _user(user)
            if order.format == "json":
                record["reviews"] = reviews.get(user.id, [])
            if order.with_hashes:
                record |= self._password(user, players.get(user.username_key))
            yield record

    def _password(self, user: User, player: Player | None) -> Record:
        """Set through us, else the one of the last agreement with the game; of a stranger's row none."""
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
    while page := list(model.select().where(model.id > after).order_by(model.id).limit(CHUNK)):
        yield page
        after = page[-1].id


def _user(user: User) -> Record:
    return {
        "username": user.username,
        "email": user.email,
        "is_email_verified": bool(user.is_email_verified),
        "status": user.status,
        "reason": user.reason,
        "registered_at": _moment(user.created_at),
        "registration_ip": user.registration_ip,
        "origin": user.origin,
        "platform": user.platform,
        "language": user.language,
        "reviewed_by": user.reviewed_by,
        "reviewed_at": _moment(user.reviewed_at),
        "banned_from": user.banned_from,
        "ban_expires_at": _moment(user.ban_expires_at),
        "password_set_at": _moment(user.password_set_at),
        "last_login_at": _moment(user.last_login_at),
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
                "ban_expires_at": _moment(row.ban_expires_at),
                "operator": row.operator,
                "reviewed_at": _moment(row.reviewed_at),
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
            "created_at": _moment(entry.created_at),
            "action": entry.action,
            "operator": entry.operator,
            "target": entry.target,
            "detail": None if entry.detail is None else json.loads(entry.detail),
            "ip": entry.ip,
            "occurrences": entry.occurrences,
        }


def _write_list(file: TextIO, records: Iterable[Record]) -> int:
    """A record a line, which whoever reads it is told by its number."""
    count = 0
    for record in records:
        file.write(",\n" if count else "\n")
        file.write(json.dumps(record, ensure_ascii=False))
        count += 1
    return count


def _flat(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def _moment(value: datetime | None) -> str | None:
    """`2031-05-04T12:00:00.123Z`."""
    return None if value is None else value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
