"""The digest for admins: which users await review. Sent at a limited rate: when new ones arrived, or one waits long."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from peewee import Database, fn

from regsvc.core.clock import Clock
from regsvc.core.email_address import EmailAddress
from regsvc.database.models import PENDING, Installation, User
from regsvc.notifications.mail.queue import MailQueue


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

        User ids are never reused, so any pending id above the last notified one has not been announced yet.
        """
        if not self._admins:
            return 0
        with self._database.atomic():
            installation: Installation = Installation.get()
            newest = self._find_newest()
            if newest is None:
                return 0
            has_new = newest > (installation.digested_user_id or 0)
            if not (has_new and self._is_due(installation.digested_at)) and not self._is_reminder_due(installation):
                return 0
            if not self._record(installation, newest):
                return 0
            for admin in self._admins:
                self._mail_queue.send_digest(admin)
        self._mail_queue.wake()
        return len(self._admins)

    def _find_newest(self) -> int | None:
        newest: int | None = User.select(fn.MAX(User.id)).where(User.status == PENDING).scalar()
        return newest

    def _is_due(self, last_at: datetime | None) -> bool:
        return last_at is None or self._now() - last_at >= self._every

    def _is_reminder_due(self, installation: Installation) -> bool:
        """Return whether an applicant has waited too long, and the last digest is as old, and due at all."""
        if not self._remind_after or installation.digested_at is None or not self._is_due(installation.digested_at):
            return False
        latest = self._now() - self._remind_after
        waits_long = User.select().where(User.status == PENDING, User.created_at <= latest).exists()
        return bool(installation.digested_at <= latest and waits_long)

    def _record(self, installation: Installation, newest: int) -> bool:
        """Record the notification; returns False when another process was faster."""
        is_as_read: Any = Installation.digested_at == installation.digested_at
        if installation.digested_at is None:
            is_as_read = Installation.digested_at.is_null()
        updated = Installation.update(digested_at=self._now(), digested_user_id=newest).where(is_as_read).execute()
        return bool(updated)
