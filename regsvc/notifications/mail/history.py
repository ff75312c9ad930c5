"""The mail history that admins see: every mail in the outbox, its recipient and its state; and mails sent again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, UnsetType
from peewee import JOIN, Database

from regsvc.core import errors
from regsvc.core.email_address import parse_email
from regsvc.core.errors import InvalidField, MailNotFound, MailNotResendable, Refusal
from regsvc.core.rights import Permission
from regsvc.core.shapes import Moment, Output, Username
from regsvc.core.text import name_key
from regsvc.database.audit import Actor, Audit
from regsvc.database.bulk import EntryPage, find_page
from regsvc.database.models import OutboxEntry, Review, User
from regsvc.http.messages import Email, Language, PageNumber, PageSize, Pagination, Reply, make_pagination
from regsvc.http.route import Routes
from regsvc.notifications.delivery import Drop
from regsvc.notifications.mail import history
from regsvc.notifications.mail.queue import MailQueue
from regsvc.notifications.mail.renderer import MailRenderer
from regsvc.notifications.outbox import Fate, Outbox

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()

MailState = Literal["waiting", "sent", "failed", "dropped"]

WAITING: Final = "waiting"
"""Unfinished. Finished states are: sent (accepted by a server), failed (given up), dropped (no point in sending it)."""


class MailFields(Output, frozen=True):
    """A mail and its state: `waiting` is retried at `nextAttemptAt`, `failed` was given up.

    `username` is the user that the mail concerns: null if they are not registered yet, or no longer.
    """

    id: MailId
    template: MailName
    to: Email
    username: Username | None
    language: Language
    state: Fate
    attempts: Annotated[int, Meta(ge=0, examples=[1])]
    created_at: Moment
    next_attempt_at: Moment | None
    done_at: Moment | None
    last_error: Annotated[str, Meta(description="Why the last attempt failed, or why the mail was dropped.")] | None


def list_mails(page: int, size: int, *, to: str | None = None, state: MailState | None = None) -> EntryPage[MailFields]:
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


def mail_entry(row: Any, username: str | None) -> MailFields:
    """Return an outbox row as a history entry; `username` is the user it is about."""
    return MailFields(
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


@dataclass(frozen=True)
class MailResender:
    """Resending of finished mails, which become due again. Blocking: runs on a worker thread.

    A mail can be resent if a delivery would still send it: no expired code, no used link, no deleted user. A link is
    issued anew, which revokes the one mailed before. Rendering tells which can, so there is no second list of rules.
    The mail keeps its row with a new `created_at`, and so gets a new Message-ID: a mailbox would hide a repetition.
    """

    database: Database
    outbox: Outbox
    renderer: MailRenderer
    mail_queue: MailQueue
    audit: Audit

    def resend(self, mail_id: int, by: Actor) -> str:
        """Make the mail due again under its old id; its previous outcome stays in the audit log. Returns its recipient.

        Raises `MailUnavailable`, `MailNotFound` and `MailNotResendable`.
        """
        self.mail_queue.require_available()
        with self.database.atomic():
            entry = self.outbox.find(mail_id)
            if entry is None:
                raise MailNotFound
            before = state_of(entry)
            if before == WAITING:
                raise MailNotResendable("waiting")
            self._require_resendable(entry)
            if not self.outbox.requeue(entry):
                raise MailNotResendable("waiting")  # another admin was faster
            user = None if entry.user_id is None else User.get_or_none(User.id == entry.user_id)
            detail = {"mail": entry.id, "template": entry.template, "stateBefore": before}
            self.audit.record("mail.resent", by, None if user is None else user.username, detail)
        return entry.recipient

    def _require_resendable(self, entry: OutboxEntry) -> None:
        """Render the mail as a delivery would, then roll back."""
        if entry.template in _DECISIONS:
            last = Review.select(Review.id).where(Review.user_id == entry.user_id).order_by(Review.id.desc()).first()
            if last is None or last.id != entry.row_id:
                raise MailNotResendable("pointless")
        with self.database.atomic() as savepoint:
            try:
                self.renderer.render(entry)
            except Drop:
                raise MailNotResendable("pointless") from None
            savepoint.rollback()


MailName = Annotated[str, Meta(description="The kind of mail.", examples=["approved"])]

MAX_RESENT = 100

MailId = Annotated[int, Meta(ge=1, le=2**63 - 1, examples=[1])]


class MailsReply(Reply, frozen=True, kw_only=True):
    """A page of mails, newest first."""

    mails: list[MailFields]
    pagination: Pagination


class ResendReply(Reply, frozen=True, kw_only=True):
    """The mail is queued again, under the same id."""

    id: MailId
    state: Fate


class BulkResendResult(Output, frozen=True, kw_only=True):
    """The result for one of many mails: `state` if it is queued again, `code` if it was refused."""

    success: bool
    message: Annotated[str, Meta(examples=["The e-mail to alice@example.org will be sent again."])]
    id: MailId
    state: Fate | UnsetType = UNSET
    code: Annotated[str, Meta(examples=["mail_not_resendable"])] | UnsetType = UNSET


class BulkResendReply(Reply, frozen=True, kw_only=True):
    """One result per id, in the order of the request."""

    results: list[BulkResendResult]


@ROUTES.add("GET", "/api/admin/mails", Permission.SYSTEM_READ)
async def show_mails(
    call: Call,
    *,
    page: PageNumber = 1,
    size: PageSize = 20,
    to: (
        Annotated[Username, Meta(description="An e-mail address or a player's name.", examples=["alice@example.org"])]
        | None
    ) = None,
    state: (
        Annotated[Literal["waiting", "sent", "failed", "dropped"], Meta(description="The state of the mail.")] | None
    ) = None,
) -> MailsReply:
    """List the mails of the last weeks and their state, newest first.

    MailsQuery: A filter of mails.
    """
    found = await call.run_list(history.list_mails, page, size, to=to, state=state)
    return MailsReply(
        mails=list(found.entries),
        pagination=make_pagination(page, size, found.total, has_next=found.has_next),
    )


@ROUTES.add(
    "POST",
    "/api/admin/mails/resend",
    Permission.USERS_MANAGE,
    errors.MailNotFound,
    errors.MailNotResendable,
    errors.MailUnavailable,
)
async def resend_mails(
    call: Call,
    resender: MailResender,
    mail_queue: MailQueue,
    *,
    id: MailId | None = None,
    ids: Annotated[list[MailId], Meta(min_length=1, max_length=MAX_RESENT)] | None = None,
) -> ResendReply | BulkResendReply:
    """Resend mails that were sent, failed or dropped, if their content is still relevant.

    Expired content is never mailed again; a mailed link is replaced by a new one.

    ResendRequest: One mail (`id`) or many (`ids`).
    """
    if (id is None) == (ids is None):
        raise InvalidField("id" if id is None else "ids")
    if id is not None:
        to = await _resend(call, resender, id)
        reply: ResendReply | BulkResendReply = ResendReply(
            message=call.message("mail_resent", to=to), id=id, state=WAITING
        )
    else:
        reply = BulkResendReply(results=[await _resend_result(call, resender, it) for it in dict.fromkeys(ids or ())])
    mail_queue.wake_all()
    return reply


async def _resend(call: Call, resender: MailResender, mail_id: int) -> str:
    return await call.run(resender.resend, mail_id, call.principal.actor)


async def _resend_result(call: Call, resender: MailResender, mail_id: int) -> BulkResendResult:
    try:
        to = await _resend(call, resender, mail_id)
    except Refusal as refusal:
        message = call.translations.refusal(refusal, call.language)
        return BulkResendResult(success=False, message=message, id=mail_id, code=refusal.code)
    return BulkResendResult(success=True, message=call.message("mail_resent", to=to), id=mail_id, state=WAITING)
