"""`companion import`: creates users from a file. No mail is sent, existing users stay, and a rerun is harmless."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from peewee import Database, IntegrityError

from plugin_bridge.authme.players import Players
from regsvc.auth.hashing import PASSLIB
from regsvc.cli.transfer.user_files import ImportedUser, RecordError, UnreadableRecord
from regsvc.core.clock import Clock
from regsvc.core.email_address import EmailAddress, parse_email
from regsvc.core.errors import Refusal
from regsvc.database.audit import Audit
from regsvc.database.engine import Worker
from regsvc.database.models import APPROVED, User
from regsvc.sync.reconciler import Reconciler
from regsvc.users.credential_rules import CredentialRules
from regsvc.users.email_owners import claim, may_have

_BATCH_ROWS: Final = 200
_MAX_RACES: Final = 3
_EMAIL_CODES: Final = frozenset({"invalid_email", "email_taken"})
_NO_EMAIL: Final = frozenset({"your@email.com"})


@dataclass(frozen=True)
class ImportRequest:
    """Options of an import. `is_dry_run`: report only. `fill_emails`: give users without an address the file's."""

    by: str
    is_dry_run: bool = False
    fill_emails: bool = False


@dataclass
class ImportReport:
    """Number of records by outcome."""

    imported: int = 0
    skipped: int = 0
    updated: int = 0
    refused: int = 0

    @property
    def total(self) -> int:
        return self.imported + self.skipped + self.updated + self.refused

    def add(self, other: "ImportReport") -> None:
        self.imported += other.imported
        self.skipped += other.skipped
        self.updated += other.updated
        self.refused += other.refused


@dataclass(frozen=True)
class RefusedRecord:
    """A record that was not imported: its line, its username and the reason as a code."""

    line: int
    name: str
    code: str


@dataclass(frozen=True)
class _CheckedRecord:
    """A record that passed all checks that need no database."""

    row: ImportedUser
    address: EmailAddress | None

    @property
    def key(self) -> str:
        return self.row.username.lower()


class Importer:
    """Import of records in batches of one transaction each. Blocking."""

    def __init__(
        self,
        *,
        database: Database,
        worker: Worker,
        players: Players,
        reconciler: Reconciler,
        rules: CredentialRules,
        algorithms: Collection[str],
        audit: Audit,
        now: Clock,
    ) -> None:
        """`algorithms`: those whose hashes AuthMe verifies, including the configured one; empty without AuthMe."""
        self._database = database
        self._worker = worker
        self._players = players
        self._reconciler = reconciler
        self._rules = rules
        self._algorithms = frozenset(algorithms) or frozenset({PASSLIB})
        self._audit = audit
        self._now = now
        self._seen: set[str] = set()

    def run(
        self,
        records: Iterable[ImportedUser | UnreadableRecord],
        request: ImportRequest,
        on_refused: Callable[[RefusedRecord], None],
        on_rows: Callable[[int], None],
    ) -> ImportReport:
        """Import all valid records. `on_refused` is called for each other one, `on_rows` with the size of each batch.

        Raises `PlayersUnavailable`, `TransferProblem` and `DatabaseUnavailable`; earlier batches stay imported.
        """
        report = ImportReport()
        for batch in _batches(records):
            checked, refused = self._check(batch)
            given, refused = len(refused), self._without_existing(refused, request)
            done, taken = self._import_batch(checked, request)
            done.skipped += given - len(refused)
            for row in sorted([*refused, *taken], key=lambda refused: refused.line):
                on_refused(row)
            done.refused = len(refused) + len(taken)
            report.add(done)
            on_rows(len(batch))
        return report

    def _without_existing(self, refused: list[RefusedRecord], request: ImportRequest) -> list[RefusedRecord]:
        """Return those that are not there already: an old name may break today's rules, and is not changed anyway."""
        is_update = request.fill_emails
        keys = [row.name.lower() for row in refused if row.name and not (is_update and row.code in _EMAIL_CODES)]
        existing = self._worker.run_here(self._find_existing, keys) if keys else set()
        return [row for row in refused if row.name.lower() not in existing]

    def _find_existing(self, keys: list[str]) -> set[str]:
        return {*_users_of(keys), *self._players.find_many(keys)}

    def _check(self, batch: list[ImportedUser | UnreadableRecord]) -> tuple[list[_CheckedRecord], list[RefusedRecord]]:
        checked, refused = [], []
        for row in batch:
            if isinstance(row, UnreadableRecord):
                refused.append(RefusedRecord(row.line, row.name, row.code))
                continue
            try:
                checked.append(self._check_record(row))
            except Refusal as refusal:
                refused.append(RefusedRecord(row.line, row.username, refusal.code))
            except RecordError as refusal:
                refused.append(RefusedRecord(row.line, row.username, str(refusal)))
        return checked, refused

    def _check_record(self, row: ImportedUser) -> _CheckedRecord:
        self._rules.check_username(row.username, row.platform)
        if row.hash is not None and (row.algorithm or "").upper() not in self._algorithms:
            raise RecordError("unknown_algorithm")
        has_email = row.email is not None and row.email.lower() not in _NO_EMAIL
        return _CheckedRecord(row, parse_email(str(row.email)) if has_email else None)

    def _import_batch(
        self, checked: list[_CheckedRecord], request: ImportRequest
    ) -> tuple[ImportReport, list[RefusedRecord]]:
        for attempt in range(1, _MAX_RACES + 1):
            try:
                if not request.is_dry_run:
                    self._worker.run_here(self._adopt_players, [row.key for row in checked])
                done = self._worker.run_here(self._write, checked, request)
                self._seen |= {row.key for row in checked}
                return done
            except IntegrityError:  # lost a race against a registration: try again
                if attempt == _MAX_RACES:
                    raise
        raise AssertionError("unreachable")

    def _adopt_players(self, keys: list[str]) -> None:
        """Adopt existing players as the sync would, so that the file cannot redefine them."""
        users = _users_of(keys)
        for key in self._players.find_many([key for key in keys if key not in users]):
            self._reconciler.reconcile(key)

    def _write(self, checked: list[_CheckedRecord], request: ImportRequest) -> tuple[ImportReport, list[RefusedRecord]]:
        report, refused = ImportReport(), []
        seen = set(self._seen)
        with self._database.atomic():
            users = _users_of([row.key for row in checked])
            for row in checked:
                try:
                    if row.key in users or row.key in seen or self._has_player(row.key, request):
                        is_filled = request.fill_emails and self._fill_email(users.get(row.key), row, request)
                        report.updated += is_filled
                        report.skipped += not is_filled
                    else:
                        self._create_user(row, request)
                        report.imported += 1
                except RecordError as refusal:
                    refused.append(RefusedRecord(row.row.line, row.row.username, str(refusal)))
                else:
                    seen.add(row.key)
        return report, refused

    def _has_player(self, key: str, request: ImportRequest) -> bool:
        """Return whether a player has this name. Checked in a dry run only, which does not adopt players first."""
        return request.is_dry_run and bool(self._players.find_many([key]))

    def _create_user(self, checked: _CheckedRecord, request: ImportRequest) -> None:
        row = checked.row
        if self._players.find_colliding(checked.key) is not None:
            raise RecordError("username_taken")
        self._check_email_is_free(checked)
        if request.is_dry_run:
            self._remember_email(checked)
            return
        if checked.address is not None and row.is_email_verified:
            claim(checked.address, self._audit)
        user_id = User.insert(self._user_columns(checked)).execute()
        self._reconciler.record_registration(checked.key, user_id)
        if row.status == APPROVED and row.hash is not None:
            account = self._reconciler.accounts.lock([checked.key])[0]
            self._reconciler.record(account, self._reconciler.request_row(account))
        self._audit.record("user.imported", request.by, row.username, {"status": row.status})

    def _check_email_is_free(self, checked: _CheckedRecord, own_id: int | None = None) -> None:
        if checked.address is None:
            return
        if f"email:{checked.address.key}" in self._seen:
            raise RecordError("email_taken")
        if not may_have(checked.address, is_verified=checked.row.is_email_verified, claimant_id=own_id):
            raise RecordError("email_taken")

    def _remember_email(self, checked: _CheckedRecord) -> None:
        """Remember an address that a dry run did not write."""
        if checked.address is not None:
            self._seen.add(f"email:{checked.address.key}")

    def _fill_email(self, user: User | None, checked: _CheckedRecord, request: ImportRequest) -> bool:
        if user is None or user.email is not None or checked.address is None:
            return False
        self._check_email_is_free(checked, user.id)
        if not request.is_dry_run:
            if checked.row.is_email_verified:
                claim(checked.address, self._audit, claimant_id=user.id)
            User.update(
                email=checked.address.display,
                email_key=checked.address.key,
                is_email_verified=checked.row.is_email_verified,
            ).where(User.id == user.id, User.email_key.is_null()).execute()
            self._audit.record("user.email_changed", request.by, user.username, {"why": "imported"})
        return True

    def _user_columns(self, checked: _CheckedRecord) -> dict[str, Any]:
        row, address, moment = checked.row, checked.address, self._now()
        created_at = row.registered_at or moment
        return {
            "username": row.username,
            "username_key": checked.key,
            "email": address.display if address else None,
            "email_key": address.key if address else None,
            "is_email_verified": row.is_email_verified and address is not None,
            "status": row.status,
            "applied_status": row.status,
            "reason": row.reason,
            "language": row.language,
            "platform": row.platform,
            "origin": "registered" if row.origin == "registered" else "created",  # no row was adopted
            "created_at": created_at,
            "reviewed_by": row.reviewed_by,
            "reviewed_at": row.reviewed_at,
            "banned_from": row.banned_from,
            "ban_expires_at": row.ban_expires_at,
            "password_hash": row.hash,
            "password_salt": row.salt if row.hash else None,
            "password_algorithm": (row.algorithm or "").upper() if row.hash else None,
            "password_set_at": moment if row.hash else None,
        }


def _users_of(keys: Collection[str]) -> dict[str, User]:
    found = User.select().where(User.username_key.in_(list(keys))) if keys else ()
    return {user.username_key: user for user in found}


def _batches(records: Iterable[ImportedUser | UnreadableRecord]) -> Iterator[list[ImportedUser | UnreadableRecord]]:
    batch: list[ImportedUser | UnreadableRecord] = []
    for record in records:
        batch.append(record)
        if len(batch) == _BATCH_ROWS:
            yield batch
            batch = []
    if batch:
        yield batch
