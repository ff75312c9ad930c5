"""Admin routes to list mails and to resend them."""

from __future__ import annotations

from regsvc.api.base import ApiHandler
from regsvc.api.endpoint import endpoint
from regsvc.api.replies import to_reply
from regsvc.api.types.mails import (
    BulkResendReply,
    BulkResendResult,
    MailFields,
    MailsQuery,
    MailsReply,
    ResendReply,
    ResendRequest,
)
from regsvc.api.types.messages import Pagination
from regsvc.core import errors
from regsvc.core.errors import Refusal
from regsvc.database.audit import Actor
from regsvc.notifications.mail.history import WAITING
from regsvc.notifications.mail.resend import ResentMail


class MailsHandler(ApiHandler):
    @endpoint()
    async def get(self, query: MailsQuery) -> MailsReply:
        """List the mails of the last weeks and their state, newest first."""
        page = await self.run(
            self.services.mail_history.list_mails, query.page, query.size, to=query.to, state=query.state
        )
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
            resent = await self._resend(targets[0])
            reply: ResendReply | BulkResendReply = ResendReply(
                message=self.message("mail_resent", to=resent.to), id=resent.id, state=WAITING
            )
        else:
            reply = BulkResendReply(results=[await self._result(mail_id) for mail_id in targets])
        self.services.mail_queue.wake()
        return reply

    async def _resend(self, mail_id: int) -> ResentMail:
        by = Actor(self.require_admin().username, self.caller.address)
        return await self.run(self.services.mail_resender.resend, mail_id, by)

    async def _result(self, mail_id: int) -> BulkResendResult:
        try:
            resent = await self._resend(mail_id)
        except Refusal as refusal:
            message = self.services.translations.refusal(refusal, self.language)
            return BulkResendResult(success=False, message=message, id=mail_id, code=refusal.code)
        return BulkResendResult(
            success=True, message=self.message("mail_resent", to=resent.to), id=resent.id, state=WAITING
        )
