"""Tells the host's admins who waits for a review: at most so often, and only when somebody new does."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from peewee import Database, fn

from regsvc.core.clock import Clock
from regsvc.core.email_address import EmailAddress
from regsvc.database.models import PENDING, Installation, User
from regsvc.notifications.mail.queue import MailQueue


class AdminDigest:
    """What the admins were told last stands in the database: a restart, or a second daemon, tells nothing twice."""

    def __init__(
        self, database: Database, mail_queue: MailQueue, admins: Sequence[EmailAddress], every: timedelta, now: Clock
    ) -> None:
        """Without `admins` nobody is told."""
        self._database = database
        self._mail_queue = mail_queue
        self._admins = tuple(admins)
        self._every = every
        self._now = now

    def run(self) -> int:
        """Promise the mails if it is time; how many they are. Blocking.

        Users count up and no number is used twice, so whoever is newer than the newest told of was told of never.
        """
        if not self._admins or not self._mail_queue.is_available:
            return 0
        with self._database.atomic():
            told: Installation = Installation.get()
            newest = self._find_newest()
            if newest is None or newest <= (told.digested_user_id or 0) or not self._is_time(told.digested_at):
                return 0
            if not self._note(told, newest):
                return 0
            for admin in self._admins:
                self._mail_queue.send_digest(admin)
        self._mail_queue.wake()
        return len(self._admins)

    def _find_newest(self) -> int | None:
        newest: int | None = User.select(fn.MAX(User.id)).where(User.status == PENDING).scalar()
        return newest

    def _is_time(self, last_at: datetime | None) -> bool:
        return last_at is None or self._now() - last_at >= self._every

    def _note(self, told: Installation, newest: int) -> bool:
        """False when another process was faster."""
        is_as_read: Any = Installation.digested_at == told.digested_at
        if told.digested_at is None:
            is_as_read = Installation.digested_at.is_null()
        noted = Installation.update(digested_at=self._now(), digested_user_id=newest).where(is_as_read).execute()
        return bool(noted)
