"""E-mails are enqueued with what is needed to render them at delivery. And when admins are notified.

Mails are enqueued inside the transaction of the change they are about. A new mail needs its name here, an entry in
`templates.MAILS`, its texts in `texts/`, and its line in `renderer`.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from peewee import Database, Select, fn

from regsvc.auth.rate_limits import DurableLimits, LimitCheck, LockedWindows, SharedLimits, in_total, limits_of
from regsvc.core.addresses import Caller
from regsvc.core.clock import SKEW, Clock, is_over
from regsvc.core.email_address import EmailAddress
from regsvc.core.errors import MailUnavailable, RateLimited
from regsvc.core.units import RateLimit
from regsvc.database.models import ASKS_TO_STAY, AWAITS_REVIEW, Installation, User
from regsvc.notifications.outbox import Outbox

UserMail = Literal[
    "received",
    "approved",
    "approved_set_password",
    "approved_new_password",
    "rejected",
    "banned",
    "unbanned",
    "unbanned_set_password",
    "reopened",
    "asked",
    "ban_ended",
    "ban_ended_set_password",
    "ban_ended_unapproved",
    "decision_undone",
    "deleted",
    "password_link",
    "password_changed",
    "email_changed",
    "totp_enabled",
    "totp_disabled",
    "totp_reset",
    "token_made",
    "chat_code_made",
    "password_link_made",
    "membership_ended",
    "membership_ending",
    "membership_renewed",
    "membership_declined",
    "account_deleted",
]
"""Mails to a user, at the address on record."""
AddressMail = Literal["verification_code", "unlink_code", "already_registered", "reset_password"]
"""Mails to an address as a client has sent it."""
AdminMail = Literal["digest", "registration_paused"]
"""Mails to the admins in the config: who awaits review, and that registration is closed because of them."""


@dataclass(frozen=True)
class MailQueue:
    """Queue that puts mails into the outbox. Where players are mailed nothing, mere notifications are not written."""

    outbox: Outbox
    default_language: str
    _: KW_ONLY
    is_available: bool
    """Whether players are mailed: mail is not off, and registrations prove addresses."""
    wake_all: Callable[[], None]
    """Wakes every delivery and the live streams; to be called once the transaction has committed."""
    wake_mails: Callable[[], None]
    """Wakes the delivery of mails, likewise."""

    def require_available(self) -> None:
        """Raise `MailUnavailable` where players are mailed nothing."""
        if not self.is_available:
            raise MailUnavailable

    def can_reach(self, user: User) -> bool:
        """Return whether the user is mailed: players are, and the user has an address, proven or of AuthMe's table."""
        return self.is_available and user.email is not None and user.email_key is not None

    def send(self, user: User, mail: UserMail, row_id: int | None = None, *, payload: str | None = None) -> bool:
        """Enqueue a mail to a user; returns False for one who cannot be reached.

        It is rendered from the row: the review if it is about a decision, the question if it asks one; or from the
        payload.
        """
        if not self.can_reach(user) or user.email is None or user.email_key is None:
            return False
        to = EmailAddress(user.email, user.email_key)
        language = user.language or self.default_language
        self.outbox.put(mail, to, language, user_id=user.id, row_id=row_id, payload=payload)
        return True

    def send_to(
        self,
        to: EmailAddress,
        language: str,
        mail: AddressMail,
        *,
        user_id: int | None = None,
        verification_id: int | None = None,
    ) -> None:
        """Enqueue a mail to an address. One with a code is rendered from the row that `VerificationCodes.issue` wrote.

        What is mailed in place of a code names its row, too, which is to live no longer (`start_code`).

        `user_id` None where the mail is about a user: nobody has this address, and nothing is mailed. Both cases write
        the same rows, so that response times do not reveal whether the address is known.
        """
        self.outbox.put(mail, to, language, user_id=user_id, row_id=verification_id)

    def send_to_admin(self, to: EmailAddress, mail: AdminMail) -> None:
        """Enqueue a mail for an admin, about the users who await review at the time of delivery."""
        self.outbox.put(mail, to, self.default_language)


Budget = Literal["mail", "forgot"]
"""What mails are counted as: codes and notices, or links for forgotten passwords."""


@dataclass(frozen=True)
class MailLimits:
    """Limits on mails triggered by unauthenticated clients: to one address, from one client or network, in total."""

    limits: DurableLimits
    budget: Budget
    per_address: tuple[RateLimit, ...]
    per_client: tuple[RateLimit, ...]
    total: tuple[RateLimit, ...]
    is_known: Callable[[str], bool]
    """Returns whether a user logged in from this client lately: it may use the reserve of the total."""
    on_used_up: Callable[[Budget], None]
    """Called when the total is used up for a mail."""

    def hit(self, mailbox: str, caller: Caller) -> int:
        """Count one mail in the caller's transaction; returns the seconds until the next one to this mailbox.

        Raises `RateLimited` without counting anything.
        """
        to_address, total = self._limits_of(mailbox, caller)
        with self.limits.counting([self._per_client(caller)], [to_address, total]) as windows:
            wait = max(windows.wait(to_address), self._wait_for_total(windows, total))
            if wait:
                raise RateLimited(wait)
            windows.count(to_address)
            windows.count(total)
        return windows.seconds_until_next((to_address.scope, mailbox, self.per_address))

    def may_mail(self, mailbox: str, caller: Caller, *, is_known: bool) -> bool:
        """Count one mail that is sent to known addresses alone; returns whether it is to be sent.

        Only those that are sent are charged to the total, so a refusal because of it would tell what is known: nothing
        is sent, and nothing raised. Raises `RateLimited` because of the other limits.
        """
        to_address, total = self._limits_of(mailbox, caller)
        with self.limits.counting([self._per_client(caller)], [to_address, total], writes_twice=True) as windows:
            if wait := windows.wait(to_address):
                raise RateLimited(wait)
            windows.count(to_address)
            is_left = not self._wait_for_total(windows, total)  # looked up for known and unknown addresses alike
            is_sent = is_known and is_left
            if is_sent:
                windows.count(total)
        return is_sent

    def _wait_for_total(self, windows: LockedWindows, total: SharedLimits) -> int:
        wait = windows.wait(total)
        if wait:
            self.on_used_up(self.budget)
        return wait

    def _per_client(self, caller: Caller) -> LimitCheck:
        return f"{self.budget}.client", caller.limit_key, limits_of(caller, self.per_client)

    def _limits_of(self, mailbox: str, caller: Caller) -> tuple[SharedLimits, SharedLimits]:
        """Return the limits on mails to this mailbox, and on all mails."""

        def is_known() -> bool:
            return self.is_known(caller.limit_key)

        return (
            SharedLimits(f"{self.budget}.address", self.per_address, caller.network_key, is_known, subject=mailbox),
            in_total(f"{self.budget}.total", self.total, caller.network_key, is_known),
        )


def total_of(budget: Budget, limits: Sequence[RateLimit]) -> SharedLimits:
    """Return the limits on all mails of a budget."""
    return in_total(f"{budget}.total", limits)


def _find_newest() -> tuple[int | None, datetime | None]:
    """Return the highest id of those who await review, and when a member last asked to stay, with one statement."""
    pending = User.select(fn.MAX(User.id)).where(AWAITS_REVIEW)
    asked = User.select(fn.MAX(User.stay_asked_at)).where(ASKS_TO_STAY)
    [(newest, asked_at)] = Select(columns=[pending, asked]).bind(User._meta.database).tuples()
    return newest, User.stay_asked_at.python_value(asked_at)


class AdminDigest:
    """Periodic mail to admins. Its state is in the database, so a restart or a second daemon never sends one twice."""

    def __init__(
        self,
        database: Database,
        mail_queue: MailQueue,
        admins: Sequence[EmailAddress],
        every: timedelta,
        remind_after: timedelta,
        now: Clock,
    ) -> None:
        """`admins` is empty where e-mail is disabled; then nothing is sent. `remind_after` zero: no reminders."""
        self._database = database
        self._mail_queue = mail_queue
        self._admins = tuple(admins)
        self._every = every
        self._remind_after = remind_after
        self._now = now

    def run(self) -> int:
        """Enqueue the digest if it is due; returns the number of mails. Blocking.

        User ids are never reused, so any pending id above the last notified one has not been announced yet. Who was
        asked something waits for nobody here, and counts again with the answer.
        """
        if not self._admins:
            return 0
        with self._database.atomic():
            installation: Installation = Installation.get()
            newest, asked_at = _find_newest()
            if newest is None and asked_at is None:
                return 0
            has_new = (newest or 0) > (installation.digested_user_id or 0) or self._is_answered(installation, asked_at)
            if not (has_new and self._is_due(installation.digested_at)) and not self._is_reminder_due(installation):
                return 0
            if not self._record(installation, newest or 0):
                return 0
            self.tell("digest")
        self._mail_queue.wake_all()
        return len(self._admins)

    def tell(self, mail: AdminMail) -> None:
        """Enqueue this mail for every admin, in the caller's transaction."""
        for admin in self._admins:
            self._mail_queue.send_to_admin(admin, mail)

    def _is_due(self, last_at: datetime | None) -> bool:
        return last_at is None or is_over(last_at, self._every, self._now())

    def _is_reminder_due(self, installation: Installation) -> bool:
        """Return whether an applicant has waited too long, and the last digest is as old, and due at all."""
        if not self._remind_after or installation.digested_at is None or not self._is_due(installation.digested_at):
            return False
        now = self._now()
        since = fn.COALESCE(User.answered_at, User.created_at)
        is_long_ago = (since <= now - self._remind_after) | (since > now + SKEW)
        waits_long = User.select().where(AWAITS_REVIEW, is_long_ago).exists()
        return waits_long and is_over(installation.digested_at, self._remind_after, now)

    def _is_answered(self, installation: Installation, asked_at: datetime | None) -> bool:
        """Return whether an applicant answered a question after the last digest, or a member asked to stay."""
        last_at = installation.digested_at
        if asked_at is not None and (last_at is None or asked_at > last_at):
            return True
        return last_at is not None and User.select().where(AWAITS_REVIEW, User.answered_at > last_at).exists()

    def _record(self, installation: Installation, newest: int) -> bool:
        """Record the notification; returns False when another process was faster."""
        is_as_read: Any = Installation.digested_at == installation.digested_at
        if installation.digested_at is None:
            is_as_read = Installation.digested_at.is_null()
        last = max(newest, installation.digested_user_id or 0)
        updated = Installation.update(digested_at=self._now(), digested_user_id=last).where(is_as_read).execute()
        return bool(updated)
