"""Creation of users: the row, what it replaces, and its player."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from math import ceil
from typing import Final

from peewee import Database, IntegrityError

from plugin_bridge.authme.players import PlayerRow, Players, PlayersUnavailable
from regsvc.auth.hashing import StoredPassword
from regsvc.config.live import LiveConfig
from regsvc.core import errors
from regsvc.core.clock import Clock
from regsvc.core.email_address import mailbox_of
from regsvc.core.errors import Refusal
from regsvc.core.text import name_key
from regsvc.database.audit import Actor, Audit
from regsvc.database.engine import violates_unique
from regsvc.database.models import BANNED, GENERATED, PENDING, REJECTED, UNVERIFIED, User
from regsvc.sync.effects import Effects, intent_effects
from regsvc.sync.reconciler import Reconciler
from regsvc.sync.records import Account, UserRecord
from regsvc.sync.rules import request_row
from regsvc.users.credential_rules import claim
from regsvc.users.retention import find_reapply_at
from regsvc.users.transitions import DecisionDetails, Transitions

log = logging.getLogger(__name__)


def new_user(
    username: str,
    password: StoredPassword | None,
    origin: str,
    moment: datetime,
    *,
    email: str | None = None,
    email_key: str | None = None,
    platform: str = "java",
    language: str | None = None,
    ip: str | None = None,
    invited_by: str | None = None,
    member_for: str | None = None,
) -> User:
    """Return a pending user, not inserted yet.

    `email_key`: of an address that is proven. Without it `email` is a note: it belongs to nobody and is mailed nothing.
    """
    return User(
        username=username,
        username_key=name_key(username),
        email=email,
        email_key=email_key,
        is_email_verified=email_key is not None,
        status=PENDING,
        applied_status=PENDING,
        language=language,
        platform=platform,
        origin=origin,
        registration_ip=ip,
        invited_by=invited_by,
        member_for=member_for,
        created_at=moment,
        password_hash=password.hash if password else None,
        password_salt=password.salt if password else None,
        password_algorithm=password.algorithm if password else None,
        password_set_at=moment if password else None,
    )


@dataclass(frozen=True)
class UserCreation:
    """Insertion and approval of new users. Blocking: for a worker thread."""

    database: Database
    players: Players
    reconciler: Reconciler
    transitions: Transitions
    audit: Audit
    live: LiveConfig
    now: Clock

    @contextmanager
    def transaction(self, key: str) -> Iterator[PlayerRow | None]:
        """Open the transaction in which the user of this lower-case name is created.

        Yields the row that AuthMe's table considers to have this name, or None. Raises `UsernameTaken`, `ReapplyLater`,
        `EmailTaken` and `errors.AuthMeUnavailable`.
        """
        try:
            colliding = self.players.find_colliding(key)  # a busy file is waited for before our own database is held
            with self.database.atomic():
                yield colliding
        except IntegrityError as error:
            raise _taken(error) from None
        except PlayersUnavailable as error:
            raise errors.AuthMeUnavailable from error

    def reconcile(self, account: Account, intended: Effects) -> None:
        """Let the row of an approved user follow, after `transaction`; by what `approve` returned."""
        try:
            self.reconciler.reconcile_after_commit(account, intended)
        except PlayersUnavailable as error:
            log.warning("the player of a new user waits for the sync: %s", error)

    def insert(self, user: User, colliding: PlayerRow | None, by: Actor) -> None:
        """Insert a `new_user`, inside `transaction`, which yields `colliding`.

        Only if a unique index refuses the row it looks why: first the name, then the address, on every database. Then
        the mailbox, of those who register themselves: an operator creates whom they want.

        Raises `UsernameTaken`, `ReapplyLater` and `EmailTaken`.
        """
        keeps_row, is_applicant = False, user.origin == "registered"
        if colliding is not None or not _insert_if_free(user):
            keeps_row = self._free_name(user.username_key, colliding)
            if user.email_key is not None:
                self._require_address_free(user.email_key, is_mailbox=is_applicant)
                claim(user.email_key, self.audit)
            _insert(user)
        elif user.email_key is not None and is_applicant:
            self._require_address_free(user.email_key, own_id=user.id)
        if keeps_row:
            self.reconciler.inherit_lock(user.username_key, user.id)
        else:
            self.reconciler.record_registrations({user.username_key: user.id})
        self.transitions.announce_registration(user, by)

    def approve(self, user: User, by: Actor) -> tuple[Account, Effects]:
        """Approve a user just inserted, inside `transaction`, and request the player's row.

        Returns what `reconcile` is to be called with after the transaction.
        """
        account = self.reconciler.loader.load_for_update([user.username_key])[0]
        request = request_row(account, self.reconciler.policy)
        self.transitions.change(user, "approve", by, DecisionDetails(needs_password=request.needs_password))
        account = replace(account, user=UserRecord.from_row(user))
        intended = intent_effects(request.intent)
        self.reconciler.reconcile_in_transaction(account, intended)
        return account, intended

    def require_free(self, key: str, email_key: str | None) -> None:
        """Raise what `insert` would about a lower-case name and a proven address. Changes and locks nothing.

        Without an address it tells what the status of the name tells anybody, and nothing of AuthMe's table. Raises
        `UsernameTaken`, `ReapplyLater`, `EmailTaken` for a banned user's mailbox, and `errors.AuthMeUnavailable`.
        """
        try:
            colliding = None if email_key is None else self.players.find_colliding(key)
            self._find_replaceable(key, colliding, self.reconciler.load)
        except PlayersUnavailable as error:
            raise errors.AuthMeUnavailable from error
        if email_key is not None:
            self._require_address_free(email_key)

    def _free_name(self, key: str, colliding: PlayerRow | None) -> bool:
        """Delete a rejected user that holds the name. Raises `UsernameTaken` and `ReapplyLater`.

        True: AuthMe has a row of this name that we keep locked; it stays locked.
        """
        holder, keeps_row = self._find_replaceable(
            key, colliding, lambda key: self.reconciler.loader.load_for_update([key])[0]
        )
        if holder is not None:
            User.delete().where(User.id == holder.id).execute()  # its reviews stay
        return keeps_row

    def _find_replaceable(
        self, key: str, colliding: PlayerRow | None, load: Callable[[str], Account]
    ) -> tuple[User | None, bool]:
        """Return the rejected user that holds the name, if any, and whether AuthMe's row of it is one we keep locked.

        Raises `UsernameTaken` and `ReapplyLater`.
        """
        holder = User.get_or_none(User.username_key == key)
        keeps_row = False
        if holder is not None:
            if holder.status != REJECTED:
                raise errors.UsernameTaken
            keeps_row = _has_unverified_locked_row(load(key))
        if not keeps_row and colliding is not None:
            raise errors.UsernameTaken
        if holder is not None:
            self._require_replaceable(holder)
        return holder, keeps_row

    def _require_address_free(self, email_key: str, *, is_mailbox: bool = True, own_id: int | None = None) -> None:
        """Raise `EmailTaken` where a ban, and `ReapplyLater` where a rejection holds the address' whole mailbox.

        Rejections do with `registration.reapply_holds`. Only clients that have proven the address come here; who was
        banned or rejected must have proven theirs, too. `is_mailbox` False: only the very address is looked for.
        """
        is_it = User.mailbox == mailbox_of(email_key) if is_mailbox else User.email_key == email_key
        holds = self.live.current.registration.reapply_holds == "address"
        decided = (BANNED, REJECTED) if holds else (BANNED,)
        holders = User.select().where(is_it, User.is_email_verified, User.status.in_(decided), User.id != (own_id or 0))
        for holder in sorted(holders, key=lambda it: it.status):  # a ban is told first
            if holder.status == BANNED:
                raise errors.EmailTaken("banned")
            self._require_reapply_time(holder, "email")

    def _require_reapply_time(self, holder: User, field: str) -> None:
        reapply_after, now = self.live.current.registration.reapply_after, self.now()
        reapply_at = find_reapply_at(holder, reapply_after, now)
        if reapply_at is not None:
            seconds = ceil((reapply_at - now).total_seconds())
            raise errors.ReapplyLater(seconds, round(reapply_at.timestamp() * 1000), field=field)

    def _require_replaceable(self, holder: User) -> None:
        self._require_reapply_time(holder, "username")
        if holder.reviewed_at is None or holder.applied_status != REJECTED:
            raise errors.UsernameTaken


def _has_unverified_locked_row(account: Account) -> bool:
    return (
        account.player is not None
        and account.player.is_locked
        and account.sync_record is not None
        and account.sync_record.kept_origin == UNVERIFIED
    )


_WRITTEN_BY_THE_DATABASE: Final = {"id", "changed_at"} | GENERATED
_INSERTED: Final = [column for column in User._meta.sorted_fields if column.name not in _WRITTEN_BY_THE_DATABASE]


def _insert(user: User) -> None:
    user.id = User.insert({column: getattr(user, column.name) for column in _INSERTED}).execute()


def _insert_if_free(user: User) -> bool:
    """Insert the user; returns False where another user has the name or the address."""
    try:
        _insert(user)
    except IntegrityError as error:
        if not violates_unique(error):
            raise
        return False
    return True


def _taken(error: IntegrityError) -> Refusal:
    """Return the refusal for the unique index that was violated. Raises any other error again."""
    if not violates_unique(error):
        raise error
    message = str(error.args[-1] if error.args else error).rpartition("for key")[2]
    return errors.EmailTaken() if "email_key" in message else errors.UsernameTaken()
