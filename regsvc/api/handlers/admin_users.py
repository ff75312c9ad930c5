"""Admin routes of one user: all details, and the end of a session."""

from __future__ import annotations

import msgspec

from regsvc.api.base import ApiHandler, to_reply
from regsvc.api.endpoint import endpoint
from regsvc.api.handlers.admin import DecisionHandler, user_fields
from regsvc.api.handlers.mails import MailFields
from regsvc.api.handlers.users import ClientFields, PlayerFields, SessionFields, SessionId
from regsvc.api.types.admin import (
    HistoryFields,
    QuestionnaireResultFields,
    ScoredAnswerFields,
    UserDetailsFields,
    UserDetailsQuery,
    UserDetailsReply,
)
from regsvc.api.types.messages import MessageReply, Request, Username
from regsvc.core import errors
from regsvc.users.user_details import QuestionnaireResult


class UserHandler(ApiHandler):
    @endpoint(errors.UserNotFound)
    async def get(self, query: UserDetailsQuery) -> UserDetailsReply:
        """Show all details of a user: history of the name and the e-mail address, mails, sessions, the player."""
        details = await self.run(self.services.user_details.get, query.username)
        return UserDetailsReply(
            user=to_reply(
                UserDetailsFields,
                details,
                **msgspec.structs.asdict(user_fields(details.entry, self.word_reason)),
                questionnaire=_questionnaire(details.questionnaire),
                history=[
                    to_reply(HistoryFields, review, reason=self.word_reason(review.reason))
                    for review in details.history
                ],
                mails=[to_reply(MailFields, mail) for mail in details.mails],
                sessions=[to_reply(SessionFields, session) for session in details.sessions],
                clients=[to_reply(ClientFields, client) for client in details.clients],
                player=None if details.player is None else to_reply(PlayerFields, details.player),
            )
        )


def _questionnaire(result: QuestionnaireResult | None) -> QuestionnaireResultFields | None:
    if result is None:
        return None
    answers = [to_reply(ScoredAnswerFields, answer) for answer in result.answers]
    return to_reply(QuestionnaireResultFields, result, answers=answers)


class EndUserSessionRequest(Request, frozen=True, kw_only=True):
    """The user, and one of the user's sessions."""

    username: Username
    session: SessionId


class EndUserSessionHandler(DecisionHandler):
    @endpoint(errors.UserNotFound, errors.SessionNotFound, errors.ProtectedOperator)
    async def post(self, request: EndUserSessionRequest) -> MessageReply:
        """End one session of a user."""
        end = self.services.session_ending.end_of
        username = await self.run(end, request.username, request.session, self.principal)
        return MessageReply(message=self.message("session_ended_of", username=username))
