"""Admin routes to list mails and to resend them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from regsvc.api.base import ApiHandler, to_reply
from regsvc.api.endpoint import endpoint
from regsvc.api.handlers.users import Fate, MailName
from regsvc.api.types.messages import (
    Email,
    EpochMilliseconds,
    Language,
    Output,
    PageNumber,
    PageSize,
    Pagination,
    Reply,
    Request,
    Username,
)
from regsvc.core import errors
from regsvc.core.errors import InvalidField, Refusal
from regsvc.database.audit import Actor
from regsvc.notifications.mail.history import WAITING, list_mails

MAX_RESENT = 100

MailId = Annotated[int, Meta(ge=1, le=2**63 - 1, examples=[1])]


class MailsQuery(Request, frozen=True, kw_only=True):
    """A filter of mails."""

    page: PageNumber = 1
    size: PageSize = 20
    to: (
        Annotated[Username, Meta(description="An e-mail address or a player's name.", examples=["alice@example.org"])]
        | None
    ) = None
    state: (
        Annotated[Literal["waiting", "sent", "failed", "dropped"], Meta(description="The state of the mail.")] | None
    ) = None


class MailFields(Output, frozen=True, kw_only=True):
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
    created_at: EpochMilliseconds
    next_attempt_at: EpochMilliseconds | None
    done_at: EpochMilliseconds | None
    last_error: Annotated[str, Meta(description="Why the last attempt failed, or why the mail was dropped.")] | None


class MailsReply(Reply, frozen=True, kw_only=True):
    """A page of mails, newest first."""

    mails: list[MailFields]
    pagination: Pagination


class ResendRequest(Request, frozen=True, kw_only=True):
    """One mail (`id`) or many (`ids`)."""

    id: MailId | None = None
    ids: Annotated[list[MailId], Meta(min_length=1, max_length=MAX_RESENT)] | None = None

    @property
    def targets(self) -> list[int]:
        """The ids in order, without duplicates; raises InvalidField unless exactly one field is given."""
        if self.ids is not None:
            if self.id is not None:
                raise InvalidField("ids")
            return list(dict.fromkeys(self.ids))
        if self.id is None:
            raise InvalidField("id")
        return [self.id]


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


class MailsHandler(ApiHandler):
    @endpoint()
    async def get(self, query: MailsQuery) -> MailsReply:
        """List the mails of the last weeks and their state, newest first."""
        page = await self.run(list_mails, query.page, query.size, to=query.to, state=query.state)
        return MailsReply(
            mails=[to_reply(MailFields, entry) for entry in page.entries],
            pagination=Pagination(
                current_page=query.page,
                page_size=query.size,
                total_count=page.total,
                total_pages=None if page.total is None else -(-page.total // query.size),
                has_next=page.has_next,
                has_prev=query.page > 1,
            ),
        )


class ResendHandler(ApiHandler):
    @endpoint(errors.MailNotFound, errors.MailNotResendable, errors.MailUnavailable)
    async def post(self, request: ResendRequest) -> ResendReply | BulkResendReply:
        """Resend mails that were sent, failed or dropped, if their content is still relevant.

        Expired content is never mailed again; a mailed link is replaced by a new one.
        """
        targets = request.targets
        if request.ids is None:
            to = await self._resend(targets[0])
            reply: ResendReply | BulkResendReply = ResendReply(
                message=self.message("mail_resent", to=to), id=targets[0], state=WAITING
            )
        else:
            reply = BulkResendReply(results=[await self._result(mail_id) for mail_id in targets])
        self.services.mail_queue.wake()
        return reply

    async def _resend(self, mail_id: int) -> str:
        by = Actor(self.require_admin().username, self.caller.address)
        return await self.run(self.services.mail_resender.resend, mail_id, by)

    async def _result(self, mail_id: int) -> BulkResendResult:
        try:
            to = await self._resend(mail_id)
        except Refusal as refusal:
            message = self.services.translations.refusal(refusal, self.language)
            return BulkResendResult(success=False, message=message, id=mail_id, code=refusal.code)
        return BulkResendResult(success=True, message=self.message("mail_resent", to=to), id=mail_id, state=WAITING)
