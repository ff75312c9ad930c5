"""Mails that an admin sends again."""

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

_DECISIONS: Final = frozenset(
    {"approved", "approved_set_password", "rejected", "banned", "unbanned", "ban_ended", "ban_ended_unapproved"}
)
"""Mails about a decision, which are of interest only until the next decision."""


@dataclass(frozen=True)
class ResentMail:
    """A mail that is due again."""

    id: int
    to: str


class MailResender:
    """Resending of finished mails, which become due again. Blocking: runs on a worker thread.

    A mail can be resent if a delivery would still send it: no expired code, no used link, no deleted user. A link is
    issued anew, which revokes the one mailed before. Rendering tells which can, so there is no second list of rules.
    The mail keeps its row with a new `created_at`, and so gets a new Message-ID: a mailbox would hide a repetition.
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
        """Make the mail due again under its old id; its previous outcome stays in the audit log.

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
            self._require_resendable(entry)
            if not self._outbox.requeue(entry):
                raise MailNotResendable("waiting")  # another admin was faster
            user = None if entry.user_id is None else User.get_or_none(User.id == entry.user_id)
            detail = {"mail": entry.id, "template": entry.template, "stateBefore": before}
            self._audit.record("mail.resent", by.name, None if user is None else user.username, detail, by.ip)
        return ResentMail(entry.id, entry.recipient)

    def _require_resendable(self, entry: OutboxEntry) -> None:
        """Render the mail as a delivery would, then roll back."""
        if entry.template in _DECISIONS and not _is_latest_decision(entry):
            raise MailNotResendable("pointless")
        with self._database.atomic() as savepoint:
            try:
                self._renderer.render(message_from_row(entry))
            except NothingToSend:
                raise MailNotResendable("pointless") from None
            savepoint.rollback()


def _is_latest_decision(entry: OutboxEntry) -> bool:
    last = Review.select(Review.id).where(Review.user_id == entry.user_id).order_by(Review.id.desc()).first()
    return last is not None and last.id == entry.row_id
