"""Mails that go out again because an admin wishes so."""

from dataclasses import dataclass
from typing import Final

from peewee import Database

from regsvc.core.errors import MailNotFound, MailNotResendable
from regsvc.database.audit import Actor, Audit
from regsvc.database.models import OutboxEntry, Review, User
from regsvc.notifications.mail.history import WAITING, state_of
from regsvc.notifications.mail.queue import MailQueue
from regsvc.notifications.mail.renderer import MailRenderer, NothingToSend
from regsvc.notifications.outbox import Outbox, message_from_row

_DECISIONS: Final = frozenset({"approved", "approved_set_password", "rejected", "banned", "unbanned"})
"""Mails that tell of a decision, which is news only until the next one."""


@dataclass(frozen=True)
class ResentMail:
    """What goes out again."""

    id: int
    to: str


class MailResender:
    """Blocking: a rule for a worker thread.

    What may go out again is what a delivery would still write: no code that expired, no link that was used, nothing
    about a user who is gone. A link is issued anew, and the one mailed before is dead then.
    """

    def __init__(
        self, database: Database, outbox: Outbox, renderer: MailRenderer, mail_queue: MailQueue, audit: Audit
    ) -> None:
        self._database = database
        self._outbox = outbox
        self._renderer = renderer
        self._mail_queue = mail_queue
        self._audit = audit

    def resend(self, mail_id: int, by: Actor) -> ResentMail:
        """Promise the mail anew, under its old id; the audit log keeps what became of it the last time.

        Raises `MailUnavailable`, `MailNotFound` and `MailNotResendable`.
        """
        self._mail_queue.require_available()
        with self._database.atomic():
            entry = self._outbox.find(mail_id)
            if entry is None:
                raise MailNotFound
            before = state_of(entry)
            if before == WAITING:
                raise MailNotResendable("waiting")
            self._require_news(entry)
            if not self._outbox.requeue(entry):
                raise MailNotResendable("waiting")  # another admin was faster
            user = None if entry.user_id is None else User.get_or_none(User.id == entry.user_id)
            detail = {"mail": entry.id, "template": entry.template, "stateBefore": before}
            self._audit.record("mail.resent", by.name, None if user is None else user.username, detail, by.ip)
        return ResentMail(entry.id, entry.recipient)

    def _require_news(self, entry: OutboxEntry) -> None:
        """Write it as a delivery would, and undo that."""
        if entry.template in _DECISIONS and not _is_last_word(entry):
            raise MailNotResendable("pointless")
        with self._database.atomic() as trial:
            try:
                self._renderer.render(message_from_row(entry))
            except NothingToSend:
                raise MailNotResendable("pointless") from None
            trial.rollback()


def _is_last_word(entry: OutboxEntry) -> bool:
    last = Review.select(Review.id).where(Review.user_id == entry.user_id).order_by(Review.id.desc()).first()
    return last is not None and last.id == entry.row_id
