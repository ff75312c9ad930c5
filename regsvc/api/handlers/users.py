"""Routes for a user's own account: change the e-mail address, delete the account, export its data."""

from __future__ import annotations

from typing import Final

from regsvc.accounts.email_changes import EmailChangeRequest
from regsvc.api.base import ApiHandler
from regsvc.api.endpoint import endpoint
from regsvc.api.replies import to_reply
from regsvc.api.types.users import (
    ClientFields,
    DeleteUserReply,
    DeleteUserRequest,
    ExportedAnswer,
    ExportedAudit,
    ExportedChat,
    ExportedMail,
    ExportedQuestionnaire,
    ExportedReview,
    ExportedUser,
    ExportUserReply,
    PlayerFields,
    SessionFields,
    UpdateUserReply,
    UpdateUserRequest,
)
from regsvc.auth.address_proofs import NO_CODE_OR_PROOF, CodeOrProof
from regsvc.core import errors
from regsvc.users.user_details import QuestionnaireResult

UPDATE_REFUSALS: Final = (
    errors.InvalidEmail,
    errors.DomainNotAllowed,
    errors.WrongPassword,
    errors.InvalidCode,
    errors.EmailTaken,
    errors.RateLimited,
    errors.AuthMeUnavailable,
)


class UpdateUserHandler(ApiHandler):
    @endpoint(*UPDATE_REFUSALS)
    async def post(self, request: UpdateUserRequest) -> UpdateUserReply:
        """Change your own e-mail address, or verify the current one. The old address is notified."""
        given = CodeOrProof(request.code, request.proof)
        if given == NO_CODE_OR_PROOF:
            raise errors.InvalidField("code")
        return await self.change_email(EmailChangeRequest(request.email, given, request.current_password))

    async def change_email(self, change: EmailChangeRequest) -> UpdateUserReply:
        changed = await self.services.email_changes.change_own(self.require_session(), change, self.caller)
        return to_reply(UpdateUserReply, changed, message=self.message("email_changed"))


class DeleteUserHandler(ApiHandler):
    @endpoint(
        errors.WrongPassword,
        errors.TotpRequired,
        errors.ProtectedOperator,
        errors.WrongStatus,
        errors.RateLimited,
        errors.AuthMeUnavailable,
    )
    async def post(self, request: DeleteUserRequest) -> DeleteUserReply:
        """Delete your own account, here and in the game. Operators and recently rejected users cannot."""
        decided = await self.services.self_deletion.delete(
            self.require_session(), request.given_password, request.totp, self.caller
        )
        return to_reply(DeleteUserReply, decided, message=self.message("deleted_own", username=decided.username))


class ExportUserHandler(ApiHandler):
    @endpoint()
    async def get(self) -> ExportUserReply:
        """Export all data stored about you, without secrets and without data of other people."""
        export = await self.run(self.services.user_export.export, self.require_session())
        return to_reply(
            ExportUserReply,
            export,
            message=self.message("exported"),
            user=to_reply(ExportedUser, export.user, reason=self.word_reason(export.user.reason)),
            reviews=[
                to_reply(ExportedReview, review, reason=self.word_reason(review.reason)) for review in export.reviews
            ],
            sessions=[to_reply(SessionFields, session) for session in export.sessions],
            clients=[to_reply(ClientFields, client) for client in export.clients],
            mails=[to_reply(ExportedMail, mail) for mail in export.mails],
            audits=[to_reply(ExportedAudit, audit) for audit in export.audits],
            chat=None if export.chat is None else to_reply(ExportedChat, export.chat),
            questionnaire=_questionnaire(export.questionnaire),
            player=None if export.player is None else to_reply(PlayerFields, export.player),
        )


def _questionnaire(result: QuestionnaireResult | None) -> ExportedQuestionnaire | None:
    if result is None:
        return None
    answers = [to_reply(ExportedAnswer, answer) for answer in result.answers]
    return to_reply(ExportedQuestionnaire, result, answers=answers)
