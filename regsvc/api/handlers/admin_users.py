"""One user whole, for admins."""

from __future__ import annotations

import msgspec

from regsvc.api.base import ApiHandler
from regsvc.api.endpoint import endpoint
from regsvc.api.handlers.admin import user_fields
from regsvc.api.replies import told
from regsvc.api.types.admin_users import (
    HistoryFields,
    JudgedAnswerFields,
    JudgedQuestionnaire,
    UserQuery,
    WholeUser,
    WholeUserFields,
)
from regsvc.api.types.mails import MailFields
from regsvc.api.types.users import ClientFields, PlayerFields, SessionFields
from regsvc.core import errors
from regsvc.users.user_details import QuestionnaireResult


class UserHandler(ApiHandler):
    @endpoint(errors.UserNotFound)
    async def get(self, query: UserQuery) -> WholeUser:
        """One user whole: history of the name and the address, mails and their fate, sessions, the player."""
        whole = await self.run(self.services.user_details.get, query.username)
        return WholeUser(
            user=told(
                WholeUserFields,
                whole,
                **msgspec.structs.asdict(user_fields(whole.entry)),
                questionnaire=_questionnaire(whole.questionnaire),
                history=[told(HistoryFields, review) for review in whole.history],
                mails=[told(MailFields, mail) for mail in whole.mails],
                sessions=[told(SessionFields, session) for session in whole.sessions],
                clients=[told(ClientFields, client) for client in whole.clients],
                player=None if whole.player is None else told(PlayerFields, whole.player),
            )
        )


def _questionnaire(result: QuestionnaireResult | None) -> JudgedQuestionnaire | None:
    if result is None:
        return None
    answers = [told(JudgedAnswerFields, answer) for answer in result.answers]
    return told(JudgedQuestionnaire, result, answers=answers)
