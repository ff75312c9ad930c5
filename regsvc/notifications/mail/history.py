"""The mail history that admins see: every mail in the outbox, its recipient and its state; and mails sent again."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from peewee import JOIN, Database

from regsvc.core.email_address import parse_email
from regsvc.core.errors import MailNotFound, MailNotResendable, Refusal
from regsvc.core.text import name_key
from regsvc.database.audit import Actor, Audit
from regsvc.database.bulk import EntryPage, find_page
from regsvc.database.models import OutboxEntry, Review, User
from regsvc.notifications.delivery import Drop
from regsvc.notifications.mail.queue import MailQueue
from regsvc.notifications.mail.renderer import MailRenderer
from regsvc.notifications.outbox import Outbox

MailState = Literal["waiting", "sent", "failed", "dropped"]

WAITING: Final = "waiting"
"""Unfinished. Finished states are: sent (accepted by a server), failed (given up), dropped (no point in sending it)."""


@dataclass(frozen=True)
class MailEntry:
    """One mail. `username` is the user it is about; None where it is about none, or the user is gone."""

    id: int
    template: str
    to: str
    username: str | None
    language: str
    state: str
    attempts: int
    created_at: datetime
    next_attempt_at: datetime | None
    done_at: datetime | None
    last_error: str | None


def list_mails(page: int, size: int, *, to: str | None = None, state: MailState | None = None) -> EntryPage[MailEntry]:
    """Return a page (the first is 1), newest first; empty past the end. Filters that are None match everything.
    Blocking.

    `to` is an address, or a player's name: that also finds mails about the player to other addresses.
    """
    conditions: list[Any] = [OutboxEntry.kind == "mail"]
    if to is not None:
        conditions.append(_is_to_address(to) if "@" in to else _is_about(name_key(to)))
    if state is not None:
        conditions.append(OutboxEntry.outcome.is_null() if state == WAITING else OutboxEntry.outcome == state)
    rows = OutboxEntry.select(OutboxEntry, User.username).join(
        User, JOIN.LEFT_OUTER, on=(User.id == OutboxEntry.user_id)
    )
    order = [OutboxEntry.id.desc()]
    return find_page(
        OutboxEntry, conditions, order, page, size, rows.objects(), lambda row: mail_entry(row, row.username)
    )


def state_of(entry: OutboxEntry) -> str:
    """Return the state of the mail so far."""
    return entry.outcome or WAITING


def _is_to_address(written: str) -> Any:
    try:
        key = parse_email(written).key
    except Refusal:
        key = written.lower()  # no mail has it, but asking is allowed
    return OutboxEntry.recipient_key == key


def _is_about(username_key: str) -> Any:
    """Match mails about all users who have or had this name, and mails to the proven address of the one who has it."""
    columns = (User.id, User.email_key, User.is_email_verified)
    users = list(User.select(*columns).where(User.username_key == username_key))
    former = Review.select(Review.user_id).where(Review.username_key == username_key).distinct()
    ids = {*(user.id for user in users), *(review.user_id for review in former)}
    addresses = [user.proven_key for user in users if user.proven_key is not None]
    return OutboxEntry.user_id.in_(sorted(ids)) | OutboxEntry.recipient_key.in_(addresses)


def mail_entry(row: Any, username: str | None) -> MailEntry:
    """Return an outbox row as a history entry; `username` is the user it is about."""
    return MailEntry(
        id=row.id,
        template=row.template,
        to=row.recipient,
        username=username,
        language=row.language,
        state=state_of(row),
        attempts=row.attempts,
        created_at=row.created_at,
        next_attempt_at=row.next_attempt_at,
        done_at=row.done_at,
        last_error=row.last_error,
    )


_DECISIONS: Final = frozenset(
    {
        "approved",
        "approved_set_password",
        "approved_new_password",
        "rejected",
        "banned",
        "unbanned",
        "unbanned_set_password",
        "reopened",
        "ban_ended",
        "ban_ended_set_password",
        "ban_ended_unapproved",
    }
)
"""Mails about a decision, which are of interest only until the next decision."""


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

    def resend(self, mail_id: int, by: Actor) -> str:
        """Make the mail due again under its old id; its previous outcome stays in the audit log. Returns its recipient.

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
            self._audit.record("mail.resent", by, None if user is None else user.username, detail)
        return entry.recipient

    def _require_resendable(self, entry: OutboxEntry) -> None:
        """Render the mail as a delivery would, then roll back."""
        if entry.template in _DECISIONS:
            last = Review.select(Review.id).where(Review.user_id == entry.user_id).order_by(Review.id.desc()).first()
            if last is None or last.id != entry.row_id:
                raise MailNotResendable("pointless")
        with self._database.atomic() as savepoint:
            try:
                self._renderer.render(entry)
            except Drop:
                raise MailNotResendable("pointless") from None
            savepoint.rollback()
