"""Writer of imported users, a batch in few statements. Everything runs inside the caller's transaction."""

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from peewee import Database

from regsvc.auth.derived_secrets import new_nonce
from regsvc.auth.hashing import StoredPassword
from regsvc.cli.transfer.user_files import ImportedQuestionnaire, ImportedUser
from regsvc.core.clock import Clock
from regsvc.core.email_address import EmailAddress
from regsvc.core.errors import ChatAccountTaken
from regsvc.core.text import name_key
from regsvc.database.audit import Actor, Audit
from regsvc.database.bulk import insert_rows, select_rows
from regsvc.database.models import APPROVED, BANNED, StoredQuestionnaire, User
from regsvc.sync.reconciler import Reconciler
from regsvc.users.chat_links import ChatAccount, ChatLinks
from regsvc.users.email_owners import claim

CHAT_PLATFORM: Final = "discord"
_ADOPTED: Final = "adopted"
_TOKEN_BYTES: Final = 32


@dataclass(frozen=True)
class CheckedUser:
    """A record that passed all checks that need no database."""

    row: ImportedUser
    address: EmailAddress | None
    stored: StoredPassword | None = field(default=None, repr=False)
    lost: tuple[str, ...] = ()
    """Codes of the parts that are not imported, although the user is."""
    contact: str | None = None
    """An address that is only noted, as `NewUser.contact`."""

    @property
    def key(self) -> str:
        return name_key(self.row.username)

    @property
    def chat_account(self) -> ChatAccount | None:
        """The chat account; its name is not known, only its id."""
        return ChatAccount(CHAT_PLATFORM, self.row.chat_id, self.row.chat_id) if self.row.chat_id else None


class UserWriter:
    """Writer of imported users, with what goes with them: sync record, chat link, questionnaire, audit entry."""

    def __init__(self, database: Database, reconciler: Reconciler, links: ChatLinks, audit: Audit, now: Clock) -> None:
        self.database = database
        self._reconciler = reconciler
        self._links = links
        self._audit = audit
        self._now = now

    def create(self, users: Sequence[CheckedUser], by: str) -> None:
        """Insert users whose names and addresses are free. Raises `IntegrityError` if one no longer is."""
        for user in users:
            if user.address is not None and user.row.is_email_verified:
                claim(user.address, self._audit)
        insert_rows(self.database, User, [self._columns(user) for user in users])
        keys = [user.key for user in users]
        ids: dict[str, int] = dict(
            select_rows(self.database, User, [User.username_key, User.id], User.username_key, keys)
        )
        self._reconciler.record_registrations(ids)
        playing = [user.key for user in users if user.row.status == APPROVED and user.stored is not None]
        accounts = self._reconciler.accounts.lock(playing) if playing else []
        self._reconciler.record([(account, self._reconciler.request_row(account)) for account in accounts])
        self._record(users, by)
        self._attach({user.key: User(id=ids[user.key], username=user.row.username) for user in users}, users, by)

    def complete(self, users: Sequence[tuple[User, CheckedUser]], by: str) -> None:
        """Give users who were adopted from AuthMe's table what the records say of them; the password stays."""
        for known, user in users:
            User.update(self._completion(known, user)).where(User.id == known.id).execute()
        self._record([user for _known, user in users], by)
        self._attach({user.key: known for known, user in users}, [user for _known, user in users], by)

    def fill_email(self, known: User, user: CheckedUser, by: str) -> None:
        """Give a user without an address that of the record."""
        User.update(self._address(known, user)).where(User.id == known.id, User.email_key.is_null()).execute()
        self._audit.record("user.email_changed", by, known.username, {"why": "imported"})

    def is_chat_account_free(self, account: ChatAccount) -> bool:
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
            claim(address, self._audit, claimant_id=known.id)
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
            "username": row.username,
            "username_key": user.key,
            "email": address.display if address else user.contact,
            "email_key": address.key if address else None,
            "is_email_verified": row.is_email_verified and address is not None,
            "language": row.language,
            "platform": row.platform,
            "origin": "registered" if row.origin == "registered" else "created",  # no row was adopted
            "created_at": row.registered_at or moment,
            "password_hash": stored.hash if stored else None,
            "password_salt": stored.salt if stored else None,
            "password_algorithm": stored.algorithm if stored else None,
            "password_set_at": moment if stored else None,
        }

    @staticmethod
    def _status(row: ImportedUser) -> dict[str, Any]:
        return {
            "status": row.status,
            "applied_status": row.status,
            "reason": row.reason,
            "reviewed_by": row.reviewed_by,
            "reviewed_at": row.reviewed_at,
            "banned_from": row.banned_from,
            "ban_expires_at": row.ban_expires_at,
        }

    def _record(self, users: Collection[CheckedUser], by: str) -> None:
        self._audit.record_all(
            by, [("user.imported", user.row.username, {"status": user.row.status}) for user in users]
        )

    def _attach(self, known: dict[str, User], users: Sequence[CheckedUser], by: str) -> None:
        for user in users:
            if user.chat_account is not None:
                token_hash = self._links.token_hash(secrets.token_urlsafe(_TOKEN_BYTES))  # nobody has the token
                self._links.link(user.chat_account, token_hash, known[user.key], Actor(by))
        results = [(known[user.key].id, user.row.questionnaire) for user in users if user.row.questionnaire]
        insert_rows(self.database, StoredQuestionnaire, [self._result(*result) for result in results])

    def _result(self, user_id: int, result: ImportedQuestionnaire) -> dict[str, Any]:
        """Return the columns of a result. Its highest score is not known: it is at least the one reached."""
        most = max(result.score, result.pass_score)
        return {
            "nonce": new_nonce(),
            "user": user_id,
            "score": result.score,
            "max_score": most,
            "pass_score": result.pass_score,
            "is_passed": result.is_passed,
            "requires_review": False,
            "summary": f"{result.score}/{most}\n{result.summary}".strip(),
            "answers": "[]",
            "submitted_at": result.submitted_at or self._now(),
            "expires_at": None,
        }


def is_only_adopted(user: User) -> bool:
    """Return whether all that is known of the user comes from AuthMe's table, without a lock of ours."""
    is_decided = user.reviewed_at is not None or user.status == BANNED or user.status != user.applied_status
    return user.origin == _ADOPTED and not is_decided
