"""The mail history that admins see: every mail in the outbox, its recipient and its state."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from peewee import JOIN

from regsvc.core.email_address import parse_email
from regsvc.core.errors import Refusal
from regsvc.core.names import name_key
from regsvc.database.id_pages import find_page
from regsvc.database.models import OutboxEntry, Review, User

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


@dataclass(frozen=True)
class MailPage:
    """Mails, newest first. `total` is None where more than `id_pages.MAX_COUNT` match."""

    entries: tuple[MailEntry, ...]
    total: int | None
    has_next: bool


class MailHistory:
    """List of mails for admins. Blocking: runs on a worker thread."""

    def list_mails(self, page: int, size: int, *, to: str | None = None, state: MailState | None = None) -> MailPage:
        """Return a page (the first is 1), newest first; empty past the end. Filters that are None match everything.

        `to` is an address, or a player's name: that also finds mails about the player to other addresses.
        """
        conditions: list[Any] = [OutboxEntry.kind == "mail"]
        if to is not None:
            conditions.append(_is_to_address(to) if "@" in to else _is_about(name_key(to)))
        if state is not None:
            conditions.append(_is_in(state))
        found = find_page(OutboxEntry, conditions, page, size)
        rows = {row.id: row for row in _full_rows().where(OutboxEntry.id.in_(found.ids))} if found.ids else {}
        entries = tuple(mail_entry(rows[mail_id], rows[mail_id].username) for mail_id in found.ids if mail_id in rows)
        return MailPage(entries, found.total, found.has_next)


def state_of(entry: OutboxEntry) -> str:
    """Return the state of the mail so far."""
    return entry.outcome or WAITING


def _is_in(state: MailState) -> Any:
    return OutboxEntry.outcome.is_null() if state == WAITING else OutboxEntry.outcome == state


def _is_to_address(written: str) -> Any:
    try:
        key = parse_email(written).key
    except Refusal:
        key = written.lower()  # no mail has it, but asking is allowed
    return OutboxEntry.recipient_key == key


def _is_about(username_key: str) -> Any:
    """Match mails about every user who has or had this name, and mails to the address of the user who has it now."""
    users = list(User.select(User.id, User.email_key).where(User.username_key == username_key))
    former = Review.select(Review.user_id).where(Review.username_key == username_key).distinct()
    ids = {*(user.id for user in users), *(review.user_id for review in former)}
    addresses = [user.email_key for user in users if user.email_key is not None]
    return OutboxEntry.user_id.in_(sorted(ids)) | OutboxEntry.recipient_key.in_(addresses)


def _full_rows() -> Any:
    return (
        OutboxEntry.select(OutboxEntry, User.username)
        .join(User, JOIN.LEFT_OUTER, on=(User.id == OutboxEntry.user_id))
        .objects()
    )


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
