"""`companion import`: users from CSV or JSON, or everything from VerifyMC.

No mail is sent, existing users stay, and a rerun is harmless.
"""

import argparse
import getpass
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from peewee import IntegrityError

from plugin_bridge.hashers import HASHERS, UnhashablePassword, is_hashable
from regsvc.app.app import App
from regsvc.auth.derived_secrets import new_nonce
from regsvc.auth.hashing import PASSLIB, StoredPassword
from regsvc.cli.given_config import actor_name
from regsvc.cli.transfer.user_files import ImportedUser, RecordError, RefusedRecord, is_storable, read_users
from regsvc.cli.transfer.verifymc import (
    CONVERTED,
    NO_STATUS,
    PLAIN,
    READY,
    UNUSABLE,
    VerifyMCData,
    VerifyMCSettings,
    read_verifymc,
)
from regsvc.core.email_address import EmailAddress, parse_email
from regsvc.core.errors import ChatAccountTaken, Refusal
from regsvc.core.progress import Progress
from regsvc.core.text import clean_lines, name_key
from regsvc.database.audit import Actor
from regsvc.database.bulk import insert_rows, select_rows
from regsvc.database.models import APPROVED, BANNED, PENDING, REJECTED, STATUSES, StoredQuestionnaire, User
from regsvc.users.chat_links import ChatAccount
from regsvc.users.credential_rules import claim, may_have
from regsvc.users.user_details import QuestionnaireResult

_ADOPTED: Final = "adopted"
_TOKEN_BYTES: Final = 32
_BATCH_ROWS: Final = 200
_MAX_RACES: Final = 3
_LONGEST_NAME: Final = 64
_EMAIL_CODES: Final = frozenset({"invalid_email", "email_taken"})
_NO_EMAIL: Final = frozenset({"your@email.com"})
_ALGORITHMS: Final = frozenset({*HASHERS, PASSLIB})
"""Algorithms that a login on the web verifies; AuthMe need not, since the login replaces the hash."""
EMAIL_LOST: Final = "email_lost"
CHAT_LOST: Final = "chat_lost"
PASSWORD_LOST: Final = "password_lost"  # noqa: S105 - a code
_COUNTED: Final = frozenset({EMAIL_LOST, CHAT_LOST, PASSWORD_LOST})
"""Codes of which a handover tells the number only."""
DUPLICATE_NAME: Final = "duplicate_name"
NOT_BANNED_HERE: Final = "not_banned_here"
NOT_ENDED_HERE: Final = "not_ended_here"
OUTCOMES: Final = ("imported", "matched", "skipped", "updated", "refused")
ImportReport = Counter[str]
"""Number of records by outcome (`OUTCOMES`), and of users by what was imported of them, or was not."""


@dataclass(frozen=True)
class CheckedUser:
    """A record that passed all checks that need no database."""

    row: ImportedUser
    address: EmailAddress | None
    stored: StoredPassword | None = field(default=None, repr=False)
    lost: tuple[str, ...] = ()
    """Codes of the parts that are not imported, although the user is."""
    contact: str | None = None
    """An address that is only noted, that nothing proves."""

    @property
    def key(self) -> str:
        return name_key(self.row.username)


def is_only_adopted(user: User) -> bool:
    """Return whether all that is known of the user comes from AuthMe's table, without a lock of ours."""
    is_decided = user.reviewed_at is not None or user.status == BANNED or user.status != user.applied_status
    return user.origin == _ADOPTED and not is_decided


@dataclass
class _Batch:
    """Decisions about the records of a batch."""

    new: list[CheckedUser] = field(default_factory=list)
    matched: list[tuple[User | None, CheckedUser]] = field(default_factory=list)
    filled: list[tuple[User, CheckedUser]] = field(default_factory=list)
    refused: list[RefusedRecord] = field(default_factory=list)
    noted: list[RefusedRecord] = field(default_factory=list)
    """Records of which something is told, although they are no failures."""
    skipped: int = 0
    seen: set[str] = field(default_factory=set)
    """As `Importer._seen`, of this batch alone."""

    def report(self) -> ImportReport:
        report = ImportReport(part for user in self.new for part in _parts(user, is_new=True))
        report.update(part for _known, user in self.matched for part in _parts(user, is_new=False))
        counts = (len(self.new), len(self.matched), self.skipped, len(self.filled), len(self.refused))
        report.update(dict(zip(OUTCOMES, counts, strict=True)))
        report[DUPLICATE_NAME] = sum(row.code == DUPLICATE_NAME for row in self.noted)
        return report


class Importer:
    """Import of records in batches of one transaction each. Blocking."""

    def __init__(
        self, app: App, by: str, *, is_dry_run: bool = False, fill_emails: bool = False, is_handover: bool = False
    ) -> None:
        """`is_dry_run`: report only. `fill_emails`: give users without an address the file's.

        `is_handover`: the records are those of the program that ran here before. Users of whom only AuthMe's row is
        known get what the records say, and a part that cannot be imported does not keep out its user.
        """
        self._app = app
        self._worker = app.worker
        self._database, self._players = app.context.location.database, app.context.location.players
        self._reconciler = app.reconciler
        self._rules = app.credential_rules
        self._links, self._audit, self._now = app.chat_links, app.audit, app.context.now
        self._by = by
        self._is_dry_run = is_dry_run
        self._fill_emails = fill_emails
        self._is_handover = is_handover
        self.report = ImportReport()
        """What was imported so far."""
        self._seen: set[str] = set()
        """Lower-case names, addresses and chat accounts of the records so far."""

    def run(
        self,
        records: Iterable[ImportedUser | RefusedRecord],
        on_refused: Callable[[RefusedRecord], None],
        on_rows: Callable[[int], None],
    ) -> ImportReport:
        """Import all valid records. `on_refused` is called for each other one, and for each that is not imported whole;
        `on_rows` with the size of each batch.

        Raises `PlayersUnavailable`, `TransferProblem` and `DatabaseUnavailable`; earlier batches stay imported.
        """
        for batch in _batches(records):
            checked, refused = self._check(batch)
            given, refused = len(refused), self._without_existing(refused)
            decided = self._import_batch(checked)
            decided.skipped += given - len(refused)
            decided.refused += refused
            for row in sorted([*decided.refused, *decided.noted], key=lambda row: row.line):
                on_refused(row)
            self.report += decided.report()
            on_rows(len(batch))
        return self.report

    def _without_existing(self, refused: list[RefusedRecord]) -> list[RefusedRecord]:
        """Return those that are not there already: an old name may break today's rules, and is not changed anyway."""
        is_update = self._fill_emails
        old = [row for row in refused if not (is_update and row.code in _EMAIL_CODES)]
        keys = [name_key(row.name) for row in old if row.name and is_storable(row.name)]
        existing = self._worker.run_here(self._find_existing, keys) if keys else set()
        return [row for row in refused if name_key(row.name) not in existing]

    def _find_existing(self, keys: list[str]) -> set[str]:
        return {*_users_of(keys), *self._players.find_many(keys)}

    # --- checks without the database ---

    def _check(self, batch: list[ImportedUser | RefusedRecord]) -> tuple[list[CheckedUser], list[RefusedRecord]]:
        checked, refused = [], []
        for row in batch:
            if isinstance(row, RefusedRecord):
                refused.append(row)
                continue
            try:
                checked.append(self._check_record(row))
            except Refusal as refusal:
                refused.append(RefusedRecord(row.line, row.username, refusal.code))
            except RecordError as refusal:
                refused.append(RefusedRecord(row.line, row.username, str(refusal)))
        return checked, refused

    def _check_record(self, row: ImportedUser) -> CheckedUser:
        is_banned, lost = row.status == BANNED, row.lost
        if not (is_banned and _is_name(row.username)):  # a ban holds for names, too, that nobody may register today
            self._rules.check_username(row.username, row.platform)
        stored = None
        if row.hash is not None:
            stored = StoredPassword(row.hash, row.salt, (row.algorithm or "").upper())
            if stored.algorithm not in _ALGORITHMS:
                if not is_banned:
                    raise RecordError("unknown_algorithm")
                stored, lost = None, (*lost, "unknown_algorithm")
        if row.is_email_noted:
            return CheckedUser(row, None, stored, lost, contact=clean_lines(row.email or "") or None)
        try:
            return CheckedUser(row, _address(row), stored, lost)
        except Refusal as refusal:
            if not (self._is_handover or is_banned):
                raise
            return CheckedUser(row, None, stored, (*lost, EMAIL_LOST if self._is_handover else refusal.code))

    # --- the batch's transaction ---

    def _import_batch(self, checked: list[CheckedUser]) -> _Batch:
        for attempt in range(1, _MAX_RACES + 1):
            try:
                if not self._is_dry_run:
                    self._worker.run_here(self._adopt_players, [user.key for user in checked])
                    checked = self._worker.run_here(self._hash_passwords, checked)
                decided = self._worker.run_here(self._write, checked)
                self._seen |= decided.seen
                if not self._is_dry_run:
                    self._worker.run_here(self._follow_matched, decided)
                return decided
            except IntegrityError:  # lost a race against a registration: try again
                if attempt == _MAX_RACES:
                    raise
        raise AssertionError("unreachable")

    def _adopt_players(self, keys: list[str]) -> None:
        """Adopt existing players as the sync would, so that the file cannot redefine their passwords."""
        users = _users_of(keys)
        found = self._players.find_many([key for key in keys if key not in users])
        self._reconciler.reconcile_many(self._reconciler.loader.load([*found], found))

    def _hash_passwords(self, checked: list[CheckedUser]) -> list[CheckedUser]:
        """Hash the unhashed passwords of users who are created. It is slow, so it is done before the transaction."""
        keys = [user.key for user in checked if user.row.password is not None and user.stored is None]
        new = set(keys) - set(_users_of(keys)) - self._seen
        return [self._hash_password(user) if user.key in new else user for user in checked]

    def _hash_password(self, user: CheckedUser) -> CheckedUser:
        password = user.row.password or ""
        try:
            if is_hashable(password):
                return replace(user, stored=self._app.hashing.hash(password, user.row.username))
        except UnhashablePassword:
            pass
        return replace(user, lost=(*user.lost, PASSWORD_LOST))

    def _write(self, checked: list[CheckedUser]) -> _Batch:
        decided = _Batch()
        with self._database.atomic():
            keys = [user.key for user in checked]
            users, playing = _users_of(keys), self._find_unadopted(keys)
            for user in checked:
                try:
                    self._decide(user, users.get(user.key), decided, is_playing=user.key in playing)
                except RecordError as refusal:
                    decided.refused.append(RefusedRecord(user.row.line, user.row.username, str(refusal)))
                else:
                    decided.seen.add(user.key)
            if not self._is_dry_run:
                self._create(decided.new)
                self._complete([(known, user) for known, user in decided.matched if known])
                for known, user in decided.filled:
                    self._fill_email(known, user)
        return decided

    def _find_unadopted(self, keys: list[str]) -> set[str]:
        """Return the names with a player, in a dry run only, which does not adopt players first."""
        return set(self._players.find_many(keys)) if self._is_dry_run else set()

    def _decide(self, user: CheckedUser, known: User | None, decided: _Batch, *, is_playing: bool) -> None:
        """Add the record to what is decided. Raises `RecordError`."""
        if self._is_seen(user.key, decided):
            if not self._is_handover:
                raise RecordError(DUPLICATE_NAME)
            decided.noted.append(RefusedRecord(user.row.line, user.row.username, DUPLICATE_NAME))
        elif self._is_handover and (is_only_adopted(known) if known is not None else is_playing):
            decided.matched.append((known, self._grant(user, decided, known.id if known else None)))
        elif known is not None or is_playing:
            if self._fill_emails and known is not None and known.email is None and user.address is not None:
                decided.filled.append((known, self._grant(user, decided, known.id)))
            else:
                decided.skipped += 1
                if user.row.status == BANNED and (known is None or known.status != BANNED):
                    decided.noted.append(RefusedRecord(user.row.line, user.row.username, NOT_BANNED_HERE))
                is_member = user.row.status == APPROVED and (known is None or known.access == APPROVED)
                if is_member and _membership(user.row, self._now())["ended_because"] is not None:
                    decided.noted.append(RefusedRecord(user.row.line, user.row.username, NOT_ENDED_HERE))
        else:
            if self._players.find_colliding(user.key) is not None:
                raise RecordError("username_taken")
            if user.row.status in (PENDING, REJECTED) and self._rules.is_operator(user.row.username):
                raise RecordError("reserved_username")  # as at registration: who approves it may not know its author
            decided.new.append(self._grant(user, decided))

    def _grant(self, user: CheckedUser, decided: _Batch, own_id: int | None = None) -> CheckedUser:
        """Return the record without what belongs to another user; if it is no handover, raise `RecordError`."""
        address, account, lost = user.address, user.row.chat, user.lost
        if address is not None and not self._is_address_free(address, user, decided, own_id):
            if not self._is_handover and user.row.status != BANNED:
                raise RecordError("email_taken")
            user, lost = replace(user, address=None), (*lost, EMAIL_LOST if self._is_handover else "email_taken")
        elif address is not None:
            decided.seen.add(f"email:{address.key}")
        if account is not None:
            if self._is_seen(account.key, decided) or not self._is_chat_account_free(account):
                user, lost = replace(user, row=replace(user.row, chat=None)), (*lost, CHAT_LOST)
            decided.seen.add(account.key)
        told = [code for code in lost if code not in _COUNTED or not self._is_handover]
        decided.noted += [RefusedRecord(user.row.line, user.row.username, code, is_imported=True) for code in told]
        return replace(user, lost=lost)

    def _is_seen(self, what: str, decided: _Batch) -> bool:
        return what in self._seen or what in decided.seen

    def _is_address_free(self, address: EmailAddress, user: CheckedUser, decided: _Batch, own_id: int | None) -> bool:
        if self._is_seen(f"email:{address.key}", decided):
            return False
        return may_have(address, is_verified=user.row.is_email_verified, claimant_id=own_id)

    def _follow_matched(self, decided: _Batch) -> None:
        """Let the rows of matched players follow at once; the mass-change guard would hold locks back."""
        keys = [user.key for known, user in decided.matched if {user.row.status, known and known.status} != {APPROVED}]
        if keys:
            self._reconciler.reconcile_many(self._reconciler.loader.load(keys, self._players.find_many(keys)))

    # --- writing ---

    def _create(self, users: Sequence[CheckedUser]) -> None:
        """Insert users whose names and addresses are free. Raises `IntegrityError` if one no longer is."""
        for user in users:
            if user.address is not None and user.row.is_email_verified:
                claim(user.address.key, self._audit)
        insert_rows(self._database, User, [self._columns(user) for user in users])
        keys = [user.key for user in users]
        ids: dict[str, int] = dict(
            select_rows(self._database, User, [User.username_key, User.id], User.username_key, keys)
        )
        self._reconciler.record_registrations(ids)
        moment = self._now()
        has_ended = {user.key for user in users if _membership(user.row, moment)["ended_because"] is not None}
        playing = [it.key for it in users if it.row.status == APPROVED and it.stored and it.key not in has_ended]
        accounts = self._reconciler.loader.load_for_update(playing) if playing else []
        self._reconciler.record([(account, self._reconciler.request_row(account)) for account in accounts])
        self._record(users)
        self._attach({user.key: User(id=ids[user.key], username=user.row.username) for user in users}, users)

    def _complete(self, users: Sequence[tuple[User, CheckedUser]]) -> None:
        """Give users who were adopted from AuthMe's table what the records say of them; the password stays."""
        let_in = [user.key for known, user in users if user.row.status == APPROVED != known.status]
        self._reconciler.row_requester(let_in)(let_in)
        for known, user in users:
            User.update(self._completion(known, user)).where(User.id == known.id).execute()
        self._record([user for _known, user in users])
        self._attach({user.key: known for known, user in users}, [user for _known, user in users])

    def _fill_email(self, known: User, user: CheckedUser) -> None:
        """Give a user without an address that of the record."""
        User.update(self._address(known, user)).where(User.id == known.id, User.email_key.is_null()).execute()
        self._audit.record("user.email_changed", Actor(self._by), known.username, {"why": "imported"})

    def _is_chat_account_free(self, account: ChatAccount) -> bool:
        """Return whether no other user has this chat account."""
        try:
            self._links.require_free(account)
        except ChatAccountTaken:
            return False
        return True

    def _address(self, known: User, user: CheckedUser) -> dict[str, Any]:
        address = user.address
        if address is None:
            return {}
        if user.row.is_email_verified:
            claim(address.key, self._audit, claimant_id=known.id)
        return {
            "email": address.display,
            "email_key": address.key,
            "is_email_verified": user.row.is_email_verified,
        }

    def _completion(self, known: User, user: CheckedUser) -> dict[str, Any]:
        row = user.row
        has_better_email = known.email is None or (row.is_email_verified and not known.is_email_verified)
        return {
            **self._status(row),
            **(self._address(known, user) if has_better_email else {}),
            "platform": row.platform,
            "origin": "registered",
            "created_at": min(row.registered_at or known.created_at, known.created_at),
        }

    def _columns(self, user: CheckedUser) -> dict[str, Any]:
        row, address, moment, stored = user.row, user.address, self._now(), user.stored
        return {
            **self._status(row),
            **_membership(row, moment),
            "username": row.username,
            "username_key": user.key,
            "email": address.display if address else user.contact,
            "email_key": address.key if address else None,
            "is_email_verified": row.is_email_verified and address is not None,
            "language": row.language,
            "platform": row.platform,
            "registration_ip": row.registration_ip,
            "invited_by": row.invited_by,
            "member_for": row.member_for,
            "last_login_at": row.last_login_at,
            "origin": "registered" if row.origin == "registered" else "created",  # no row was adopted
            "created_at": row.registered_at or moment,
            "password_hash": stored.hash if stored else None,
            "password_salt": stored.salt if stored else None,
            "password_algorithm": stored.algorithm if stored else None,
            "password_set_at": (row.password_set_at or moment) if stored else None,
        }

    @staticmethod
    def _status(row: ImportedUser) -> dict[str, Any]:
        columns = ("status", "reason", "reviewed_by", "reviewed_at", "banned_from", "ban_expires_at", "may_reapply")
        return {"applied_status": row.status, **{name: getattr(row, name) for name in columns}}

    def _record(self, users: Collection[CheckedUser]) -> None:
        self._audit.record_all(
            Actor(self._by), [("user.imported", user.row.username, {"status": user.row.status}) for user in users]
        )

    def _attach(self, known: dict[str, User], users: Sequence[CheckedUser]) -> None:
        for user in users:
            if user.row.chat is not None:
                token_hash = self._links.token_hash(secrets.token_urlsafe(_TOKEN_BYTES))  # nobody has the token
                self._links.link(user.row.chat, token_hash, known[user.key], Actor(self._by))
        results = [(known[user.key].id, user.row.questionnaire) for user in users if user.row.questionnaire]
        insert_rows(self._database, StoredQuestionnaire, [_result(*result) for result in results])


def _result(user_id: int, result: QuestionnaireResult) -> dict[str, Any]:
    """Return the columns of a result."""
    answers = msgspec.json.encode(result.answers).decode()
    return {**vars(result), "nonce": new_nonce(), "user": user_id, "answers": answers, "expires_at": None}


def _is_name(name: str) -> bool:
    """Return whether a player may have had this name, under whatever rules."""
    return 0 < len(name) <= _LONGEST_NAME and name.isprintable() and " " not in name


def _address(row: ImportedUser) -> EmailAddress | None:
    """Parse the record's address. Raises the refusals of `parse_email`."""
    return parse_email(row.email) if row.email is not None and row.email.lower() not in _NO_EMAIL else None


def _membership(row: ImportedUser, moment: datetime) -> dict[str, Any]:
    """Return a user's columns for the membership of a record; one whose date has come has ended, and lets nobody in.

    Of who was no member nothing is kept, as any decision that takes an approval does.
    """
    names = ("member_until", "ended_because", "ended_at", "renewed_at", "stay_asked_at")
    if APPROVED not in (row.status, row.banned_from):
        return dict.fromkeys((*names, "applied_until", "applied_ended", "reminded_at"))
    until, because = row.member_until, row.ended_because
    is_over = row.ended_at is not None or (row.status == APPROVED and until is not None and until <= moment)
    if because is None and is_over:
        because = "date"
    return {name: getattr(row, name) for name in names} | {
        "applied_until": until,
        "reminded_at": None if until is None else moment,  # of what came before, nothing is mailed
        "ended_because": because,
        "applied_ended": because,
        "ended_at": None if because is None else row.ended_at or moment,
    }


def _parts(user: CheckedUser, *, is_new: bool) -> Iterator[str]:
    """Yield the parts that are imported of a user, and the codes of those that are not."""
    yield f"status {user.row.status}"
    if is_new:
        yield f"password {PASSWORD_LOST if PASSWORD_LOST in user.lost else user.row.password_kind or 'none'}"
        if user.stored is not None:
            yield f"algorithm {user.stored.algorithm}"
    if user.address is not None:
        yield "email verified" if user.row.is_email_verified else "email unverified"
    if user.row.chat is not None:
        yield "chat"
    if user.row.questionnaire is not None:
        yield "questionnaire"
    yield from user.lost


def _users_of(keys: Collection[str]) -> dict[str, User]:
    found = User.select().where(User.username_key.in_(list(keys))) if keys else ()
    return {user.username_key: user for user in found}


def _batches(records: Iterable[ImportedUser | RefusedRecord]) -> Iterator[list[ImportedUser | RefusedRecord]]:
    batch: list[ImportedUser | RefusedRecord] = []
    for record in records:
        batch.append(record)
        if len(batch) == _BATCH_ROWS:
            yield batch
            batch = []
    if batch:
        yield batch


_REFUSALS: Final = {
    "invalid_username": "the name breaks AuthMe's rules for names, or is a Bedrock name while bedrock.enabled is off",
    "username_taken": "another player in AuthMe's table has the same name to the database",
    "reserved_username": "an operator of the game server has the name, and the record is not approved; create this "
    "user with companion users create",
    "invalid_status": "the status is none of pending, approved, rejected and banned",
    "invalid_registered_at": "registered_at, or regTime, is not a time",
    "invalid_email": "this is no e-mail address",
    "email_taken": "another user has the e-mail address",
    "unknown_algorithm": "no password algorithm of this name is known",
    "invalid_hash": "the password's hash has characters that no hash has",
    "not_a_record": "the record is not an object, or a line with other fields than the header",
    DUPLICATE_NAME: "another record has the same name",
    NOT_BANNED_HERE: "the record bans a player who is here already and is not banned here",
    NOT_ENDED_HERE: "the record's membership has ended, of a player who is here already and may play",
    NO_STATUS: "the record has no status, so the user waits for a decision",
}
STANDARD_INPUT: Final = "-"
VERIFYMC: Final = "verifymc"


def describe_refusal(row: RefusedRecord) -> str:
    """Return a sentence about a record that was not imported, or not whole."""
    outcome = "imported, but not whole" if row.is_imported else "not imported"
    return f"{outcome}: {row.name!r} (record {row.line}): {_explain(row.code)}"


def _explain(code: str) -> str:
    """Return what a code means; those without words of their own name a column."""
    return _REFUSALS.get(code) or f"the value of {code.removeprefix('invalid_')} cannot be used"


def describe_operators(data: VerifyMCData, is_operator: Callable[[str], bool]) -> list[str]:
    """Return a line about approved records with operators' names: their passwords open /admin."""
    approved = (user.username for user in data.users if isinstance(user, ImportedUser) and user.status == APPROVED)
    operators = [name for name in approved if is_operator(name)]
    if not operators:
        return []
    names = ", ".join(ascii(name) for name in sorted(operators))
    advice = "check that these records are theirs, as their passwords open /admin"
    return [f"operators of the game server: {names}; {advice}"]


def describe_handover(
    data: VerifyMCData,
    report: ImportReport,
    algorithms: Collection[str],
    new_entries: int,
    kept_entries: int,
    password_rule: str,
    *,
    is_dry_run: bool,
) -> list[str]:
    """Return the lines of the report.

    `algorithms`: AuthMe's; `kept_entries`: audit entries that are not too old; `password_rule`: ours at registration.
    """
    records, entries = _count(len(data.users), "record"), _count(len(data.entries), "audit entry")
    lines = [
        f"VerifyMC: {records} and {entries} in {data.origin}",
        f"{'new users' if not is_dry_run else 'would become users'}: {report['imported']}",
        f"{'matched' if not is_dry_run else 'would be matched'} with players in AuthMe's table, whose passwords stay: "
        f"{report['matched']}",
        f"users here already, left as they are: {report['skipped']}",
        *([f"users who get the address of their record: {report['updated']}"] if report["updated"] else ()),
        f"records of a name that another record has, left out: {report[DUPLICATE_NAME]}",
        f"not imported: {report['refused']}",
        *_verifymc_parts(data, report, algorithms),
        *_entries(data, new_entries, kept_entries),
        *_left_out(data, password_rule),
    ]
    if is_dry_run:
        return [*lines, "nothing was changed: this was a dry run"]
    if report["imported"]:
        lines.append(
            "the next sync run creates the players of new users who are approved and whose password AuthMe knows"
        )
    return [*lines, "no mail was sent; the same command can be repeated"]


def _left_out(data: VerifyMCData, password_rule: str) -> Iterator[str]:
    if data.other_fields:
        fields = ", ".join(f"{name!a} ({count})" for name, count in data.other_fields.most_common(10))
        yield f"fields that are not kept here, left out: {fields}"
    if data.settings.requires_password and password_rule == "optional":  # noqa: S105 - a mode
        yield (
            "its players had to choose a password when they registered (authme.require_password): for the same here, "
            'set registration.password = "required"'
        )


def _verifymc_parts(data: VerifyMCData, report: ImportReport, algorithms: Collection[str]) -> Iterator[str]:
    if report["imported"] + report["matched"] == 0:
        return
    yield "by status: " + ", ".join(f"{report[f'status {status}']} {status}" for status in STATUSES)
    passwords = {
        READY: "kept as they are",
        CONVERTED: "plain SHA-256, made AuthMe's SHA256",
        PLAIN: "not hashed, hashed now",
        UNUSABLE: "hashes of no known form, left out",
        PASSWORD_LOST: "that cannot be hashed, left out",
        "none": "without one",
    }
    found = [f"{report[f'password {kind}']} {words}" for kind, words in passwords.items() if report[f"password {kind}"]]
    if found:
        yield f"passwords of new users: {', '.join(found)}"
    yield from _unknown_algorithms(report, algorithms)
    yield f"e-mail addresses: {report['email verified']} verified, {report['email unverified']} unverified"
    if report["email unverified"] and not data.settings.are_emails_verified:
        yield "  (if the players proved them by codes, import with --verified-emails)"
    if report[EMAIL_LOST]:
        yield f"e-mail addresses left out, as another user has them or they are none: {report[EMAIL_LOST]}"
    yield f"chat links: {report['chat']}" + (f", left out: {report[CHAT_LOST]}" if report[CHAT_LOST] else "")
    yield f"questionnaire results: {report['questionnaire']}"


def _unknown_algorithms(report: ImportReport, algorithms: Collection[str]) -> Iterator[str]:
    prefix = "algorithm "
    counts = {part.removeprefix(prefix): count for part, count in report.items() if part.startswith(prefix)}
    unknown = {name: count for name, count in counts.items() if name not in algorithms}
    if algorithms and unknown:
        yield (
            f"{sum(unknown.values())} of these passwords have an algorithm that AuthMe does not verify "
            f"({', '.join(sorted(unknown))}): they work on the web, and from the first login there in the game, or at "
            "once if you add it to settings.security.legacyHashes in AuthMe's config.yml"
        )


def _entries(data: VerifyMCData, new: int, kept: int) -> Iterator[str]:
    yield f"audit entries: {new} new, {kept - new} here already"
    if len(data.entries) > kept:
        yield f"audit entries older than retention.audit, left out: {len(data.entries) - kept}"
    if data.other_entries:
        kinds = ", ".join(sorted(data.other_entries)[:5])
        yield f"audit entries of kinds that are not kept here, left out: {data.other_entries.total()} ({kinds})"


def _count(number: int, thing: str) -> str:
    plural = f"{thing[:-1]}ies" if thing.endswith("y") else f"{thing}s"
    return f"{number} {thing if number == 1 else plural}"


def read_url(value: str, title: str) -> str:
    """Return the value, or for "-" the next line of standard input: other users can see a command line.

    `title` is the prompt on a terminal.
    """
    if value != STANDARD_INPUT:
        return value
    if sys.stdin.isatty():
        return getpass.getpass(f"{title} (not shown): ").strip()
    return sys.stdin.readline().strip()


def add_import_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "file",
        type=str,
        metavar="FILE",
        help="made by `companion export`, or any with at least usernames; with --from verifymc, its folder, its "
        "users.json, or its database: mysql://USER:PASSWORD@HOST:PORT/NAME, or - to type that",
    )
    parser.add_argument(
        "--from",
        dest="predecessor",
        choices=(VERIFYMC,),
        help="take over the users, decisions, audit log and chat links of this plugin (docs/moving.md)",
    )
    parser.add_argument("--format", choices=("csv", "json"), help="default: by the name of the file")
    parser.add_argument("--dry-run", action="store_true", help="only report what would be done")
    parser.add_argument(
        "--update", action="store_true", help="also give existing users without an e-mail address the one in the file"
    )
    parser.add_argument(
        "--verified-emails",
        action="store_true",
        help="with --from: the players proved their addresses by codes (default: if its config.yml asks for that)",
    )


def run_import(args: argparse.Namespace, app: App) -> int:
    """Import, and return the exit status: 1 if a record was refused. Raises `TransferProblem`."""
    if args.predecessor is not None:
        return _import_verifymc(args, app)
    importer = Importer(app, actor_name(), is_dry_run=args.dry_run, fill_emails=args.update)
    ignored = set[str]()
    records = read_users(Path(args.file), args.format, ignored)
    report = _run(importer, records, _print_refused, is_dry_run=args.dry_run)
    verb = "would import" if args.dry_run else "imported"
    print(f"{verb} {report['imported']}, updated {report['updated']}, unchanged (existing) {report['skipped']}", end="")
    print(f", refused {report['refused']}")
    if ignored:
        print(f"columns that mean nothing here: {', '.join(map(ascii, sorted(ignored)[:10]))}", file=sys.stderr)
    if report["imported"] and not args.dry_run:
        print("the next sync run creates players for imported users who are approved and have a password")
    return 1 if report["refused"] else 0


def _import_verifymc(args: argparse.Namespace, app: App) -> int:
    bedrock, algorithms = app.context.config.bedrock, app.live.authme.algorithms
    prefix = bedrock.prefix if bedrock.enabled else ""
    settings = VerifyMCSettings(algorithms, prefix, are_emails_verified=args.verified_emails)
    data = read_verifymc(read_url(args.file, "VerifyMC's database"), settings)
    refused = list[RefusedRecord]()
    importer = Importer(app, actor_name(), is_dry_run=args.dry_run, fill_emails=args.update, is_handover=True)
    new_entries, kept = _import_entries(data, app, is_dry_run=args.dry_run)
    report = _run(importer, data.users, refused.append, is_dry_run=args.dry_run)
    rule = app.context.config.registration.password_rule(has_authme=app.context.location.players.is_enabled)
    told = describe_handover(data, report, algorithms, new_entries, kept, rule, is_dry_run=args.dry_run)
    print("\n".join([*describe_operators(data, app.credential_rules.is_operator), *told]))
    for row in refused:
        print(describe_refusal(row), file=sys.stderr)
    return 1 if report["refused"] else 0


def _run(
    importer: Importer,
    records: Iterable[ImportedUser | RefusedRecord],
    on_refused: Callable[[RefusedRecord], None],
    *,
    is_dry_run: bool,
) -> ImportReport:
    progress = Progress.on_stderr("importing", None)
    try:
        return importer.run(records, on_refused, progress.advance)
    except Exception:
        total = sum(importer.report[outcome] for outcome in OUTCOMES)
        if total and not is_dry_run:
            print(
                f"companion: the import stopped after {total} records, which stay as they are now; "
                "the same command can be run again",
                file=sys.stderr,
            )
        raise
    finally:
        progress.end()


def _import_entries(data: VerifyMCData, app: App, *, is_dry_run: bool) -> tuple[int, int]:
    """Add the audit entries that are young enough to be kept; return the number of new ones, and of all of these."""
    since: datetime = app.context.now() - app.context.config.retention.audit
    young = sorted((entry for entry in data.entries if entry.happened_at >= since), key=lambda entry: entry.happened_at)

    def add() -> int:
        with app.context.location.database.atomic():
            return app.audit.record_past(young, is_dry_run=is_dry_run)

    return app.worker.run_here(add), len(young)


def _print_refused(row: RefusedRecord) -> None:
    end = "; imported without it" if row.is_imported else ""
    print(f"line {row.line}: {row.name!r}: {row.code} ({_explain(row.code)}){end}", file=sys.stderr)
