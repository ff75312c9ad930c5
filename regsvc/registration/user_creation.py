"""Creation of users: the row, what it replaces, and its player."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Final

from peewee import Database, IntegrityError

from plugin_bridge.authme.players import PlayerRow, Players, PlayersUnavailable
from regsvc.auth.hashing import StoredPassword
from regsvc.config.live import LiveConfig
from regsvc.core import errors
from regsvc.core.clock import Clock
from regsvc.core.email_address import EmailAddress
from regsvc.core.errors import Refusal
from regsvc.core.text import name_key
from regsvc.database.audit import Actor, Audit
from regsvc.database.engine import violates_unique
from regsvc.database.models import PENDING, REJECTED, UNVERIFIED, User
from regsvc.database.prepared import prepare_insert
from regsvc.sync.reconciler import Reconciler
from regsvc.users.email_owners import claim
from regsvc.users.retention import find_reapply_at
from regsvc.users.transitions import DecisionDetails, Transitions

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class NewUser:
    """A user to be inserted as pending.

    `address` is a proven one. `contact` is an address that nothing proves: stored without its key, it belongs to nobody
    and is mailed nothing.
    """

    username: str
    address: EmailAddress | None
    password: StoredPassword | None
    origin: str
    platform: str = "java"
    language: str | None = None
    ip: str | None = None
    contact: str | None = None

    @property
    def key(self) -> str:
        return name_key(self.username)

    def values(self, moment: datetime) -> dict[str, object]:
        """Return the columns of the row."""
        address, password = self.address, self.password
        return {
            "username": self.username,
            "username_key": self.key,
            "email": address.display if address else self.contact,
            "email_key": address.key if address else None,
            "is_email_verified": address is not None,
            "status": PENDING,
            "applied_status": PENDING,
            "language": self.language,
            "platform": self.platform,
            "origin": self.origin,
            "registration_ip": self.ip,
            "created_at": moment,
            "password_hash": password.hash if password else None,
            "password_salt": password.salt if password else None,
            "password_algorithm": password.algorithm if password else None,
            "password_set_at": moment if password else None,
        }


class UserCreation:
    """Insertion and approval of new users. Blocking: for a worker thread."""

    def __init__(
        self,
        database: Database,
        players: Players,
        reconciler: Reconciler,
        transitions: Transitions,
        audit: Audit,
        live: LiveConfig,
        now: Clock,
    ) -> None:
        self._database = database
        self._players = players
        self._reconciler = reconciler
        self._transitions = transitions
        self._audit = audit
        self._live = live
        self._now = now

    @contextmanager
    def transaction(self, key: str) -> Iterator[PlayerRow | None]:
        """Open the transaction in which the user of this lower-case name is created; the player follows after it.

        Yields the row in AuthMe's table that has this name. Raises `UsernameTaken`, `ReapplyLater`, `EmailTaken` and
        `errors.AuthMeUnavailable`.
        """
        try:
            colliding = self._players.find_colliding(key)  # a busy file is waited for before our own database is held
            with self._database.atomic():
                yield colliding
        except IntegrityError as error:
            raise _taken(error) from None
        except PlayersUnavailable as error:
            raise errors.AuthMeUnavailable from error
        self._reconcile_after_commit(key)

    def insert(self, new: NewUser, colliding: PlayerRow | None, by: Actor) -> User:
        """Insert the user as pending, inside `transaction`, which yields `colliding`.

        Raises `UsernameTaken`, `ReapplyLater` and `EmailTaken`.
        """
        values, keeps_row = new.values(self._now()), False
        user_id = None if colliding is not None else _insert_if_free(values)
        if user_id is None:
            keeps_row = self._free_name(new.key, colliding)
            if new.address is not None:
                claim(new.address, self._audit)
            user_id = _INSERT.insert(**values)
        user = User(id=user_id, **values)
        if keeps_row:
            self._reconciler.inherit_lock(new.key, user.id)
        else:
            self._reconciler.record_registration(new.key, user.id)
        self._transitions.record_registration(user, by)
        return user

    def approve(self, user: User, by: Actor) -> User:
        """Approve a user just inserted, inside `transaction`, and request the player's row."""
        approved = self._transitions.change(user, "approve", by, DecisionDetails())
        account = self._reconciler.accounts.lock([user.username_key])[0]
        self._reconciler.reconcile_in_transaction(account, self._reconciler.request_row(account))
        return approved

    def acknowledge(self, user: User) -> None:
        """Mail the receipt to a user just inserted, who waits for review, inside `transaction`."""
        self._transitions.acknowledge(user)

    def _reconcile_after_commit(self, key: str) -> None:
        try:
            self._reconciler.reconcile_after_commit(key)
        except PlayersUnavailable as error:
            log.warning("the player of a new user waits for the sync: %s", error)

    def _free_name(self, key: str, colliding: PlayerRow | None) -> bool:
        """Delete a rejected user that holds the name. Raises `UsernameTaken` and `ReapplyLater`.

        True: AuthMe has a row of this name that we keep locked; it stays locked.
        """
        holder = User.get_or_none(User.username_key == key)
        keeps_row = False
        if holder is not None:
            if holder.status != REJECTED:
                raise errors.UsernameTaken
            keeps_row = self._has_unverified_locked_row(key)
        if not keeps_row and colliding is not None:
            raise errors.UsernameTaken
        if holder is not None:
            self._require_replaceable(holder)
            User.delete().where(User.id == holder.id).execute()  # its reviews stay
        return keeps_row

    def _require_replaceable(self, holder: User) -> None:
        reapply_after, now = self._live.current.registration.reapply_after, self._now()
        reapply_at = find_reapply_at(
            holder.status, holder.reviewed_at, reapply_after, now, may_reapply=holder.may_reapply
        )
        if reapply_at is not None:
            raise errors.ReapplyLater(ceil((reapply_at - now).total_seconds()), round(reapply_at.timestamp() * 1000))
        if holder.reviewed_at is None or holder.applied_status != REJECTED:
            raise errors.UsernameTaken

    def _has_unverified_locked_row(self, key: str) -> bool:
        account = self._reconciler.accounts.lock([key])[0]
        return (
            account.player is not None
            and account.player.is_locked
            and account.sync_record is not None
            and account.sync_record.kept_origin == UNVERIFIED
        )


_INSERT: Final = prepare_insert(
    User,
    User.username,
    User.username_key,
    User.email,
    User.email_key,
    User.is_email_verified,
    User.status,
    User.applied_status,
    User.language,
    User.platform,
    User.origin,
    User.registration_ip,
    User.created_at,
    User.password_hash,
    User.password_salt,
    User.password_algorithm,
    User.password_set_at,
)


def _insert_if_free(values: dict[str, object]) -> int | None:
    """Insert the user; returns None where another user has the name or the address."""
    try:
        return _INSERT.insert(**values)
    except IntegrityError as error:
        if not violates_unique(error):
            raise
        return None


def _taken(error: IntegrityError) -> Refusal:
    """Return the refusal for the unique index that was violated. Raises any other error again."""
    if not violates_unique(error):
        raise error
    message = str(error.args[-1] if error.args else error).rpartition("for key")[2]
    return errors.EmailTaken() if "email_key" in message else errors.UsernameTaken()
