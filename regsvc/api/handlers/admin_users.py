"""One user whole, for admins."""

from __future__ import annotations

import msgspec

from regsvc.api.base import ApiHandler
from regsvc.api.endpoint import endpoint
from regsvc.api.handlers.admin import user_fields
from regsvc.api.replies import to_reply
from regsvc.api.types.admin_users import (
    HistoryFields,
    QuestionnaireResultFields,
    ScoredAnswerFields,
    UserDetailsFields,
    UserDetailsQuery,
    UserDetailsReply,
)
from regsvc.api.types.mails import MailFields
from regsvc.api.types.users import ClientFields, PlayerFields, SessionFields
from regsvc.core import errors
from regsvc.users.user_details import QuestionnaireResult


class UserHandler(ApiHandler):
    @endpoint(errors.UserNotFound)
    async def get(self, query: UserDetailsQuery) -> UserDetailsReply:
        """One user whole: history of the name and the address, mails and their fate, sessions, the player."""
        whole = await self.run(self.services.user_details.get, query.username)
        return UserDetailsReply(
            user=to_reply(
                UserDetailsFields,
                whole,
                **msgspec.structs.asdict(user_fields(whole.entry)),
                questionnaire=_questionnaire(whole.questionnaire),
                history=[to_reply(HistoryFields, review) for review in whole.history],
                mails=[to_reply(MailFields, mail) for mail in whole.mails],
                sessions=[to_reply(SessionFields, session) for session in whole.sessions],
                clients=[to_reply(ClientFields, client) for client in whole.clients],
                player=None if whole.player is None else to_reply(PlayerFields, whole.player),
            )
        )


def _questionnaire(result: QuestionnaireResult | None) -> QuestionnaireResultFields | None:
    if result is None:
        return None
    answers = [to_reply(ScoredAnswerFields, answer) for answer in result.answers]
    return to_reply(QuestionnaireResultFields, result, answers=answers)
