"""A user's own account: another e-mail address, everything to take away, and leaving for good."""

from __future__ import annotations

from regsvc.accounts.email_changes import EmailChangeRequest
from regsvc.api.base import ApiHandler
from regsvc.api.endpoint import endpoint
from regsvc.api.replies import told
from regsvc.api.types.users import (
    ClientFields,
    DeleteUserRequest,
    ExportedAnswer,
    ExportedAudit,
    ExportedChat,
    ExportedMail,
    ExportedQuestionnaire,
    ExportedReview,
    ExportedUser,
    PlayerFields,
    SessionFields,
    UpdateUserRequest,
    UserDeleted,
    UserExported,
    UserUpdated,
)
from regsvc.core import errors
from regsvc.users.user_details import QuestionnaireResult


class UpdateUserHandler(ApiHandler):
    @endpoint(
        errors.InvalidEmail,
        errors.DomainNotAllowed,
        errors.WrongPassword,
        errors.InvalidCode,
        errors.EmailTaken,
        errors.RateLimited,
        errors.PlayersAway,
    )
    async def post(self, request: UpdateUserRequest) -> UserUpdated:
        """Change one's own e-mail address, or prove the one there is. The old address is told."""
        wished = EmailChangeRequest(request.email, request.code.strip(), request.current_password)
        changes = self.services.self_service.email_changes
        changed = await changes.change_own(self.require_session(), wished, self.caller)
        return UserUpdated(message=self.say("email_changed"), email=changed.email, warnings=list(changed.warnings))


class DeleteUserHandler(ApiHandler):
    @endpoint(
        errors.WrongPassword,
        errors.TotpRequired,
        errors.ProtectedOperator,
        errors.WrongStatus,
        errors.RateLimited,
        errors.PlayersAway,
    )
    async def post(self, request: DeleteUserRequest) -> UserDeleted:
        """Delete one's own account, here and in the game. Operators cannot, nor who was rejected a moment ago."""
        decided = await self.services.self_service.deletion.delete(
            self.require_session(), request.shown_password, request.totp, self.caller
        )
        return UserDeleted(
            message=self.say("deleted_own", username=decided.username),
            username=decided.username,
            warnings=list(decided.warnings),
        )


class ExportUserHandler(ApiHandler):
    @endpoint()
    async def get(self) -> UserExported:
        """Everything that is kept about the caller: no secrets, and nothing about other people."""
        export = await self.run(self.services.self_service.export.export, self.require_session())
        return told(
            UserExported,
            export,
            message=self.say("exported"),
            success=True,
            user=told(ExportedUser, export.user),
            reviews=[told(ExportedReview, review) for review in export.reviews],
            sessions=[told(SessionFields, session) for session in export.sessions],
            clients=[told(ClientFields, client) for client in export.clients],
            mails=[told(ExportedMail, mail) for mail in export.mails],
            audits=[told(ExportedAudit, audit) for audit in export.audits],
            chat=None if export.chat is None else told(ExportedChat, export.chat),
            questionnaire=_questionnaire(export.questionnaire),
            player=None if export.player is None else told(PlayerFields, export.player),
        )


def _questionnaire(result: QuestionnaireResult | None) -> ExportedQuestionnaire | None:
    if result is None:
        return None
    answers = [told(ExportedAnswer, answer) for answer in result.answers]
    return told(ExportedQuestionnaire, result, answers=answers)
