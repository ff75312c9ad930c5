"""Routes for the questionnaire: its questions, and the submission of answers."""

from __future__ import annotations

from math import ceil
from typing import Final

from msgspec import UNSET

from regsvc.api.base import ApiHandler
from regsvc.api.endpoint import endpoint
from regsvc.api.replies import to_reply
from regsvc.api.types.questionnaire import (
    AnswerFields,
    OptionFields,
    QuestionFields,
    QuestionInputFields,
    QuestionnaireConfigReply,
    QuestionnaireFields,
    QuestionnaireQuery,
    SubmitQuestionnaireReply,
    SubmitQuestionnaireRequest,
)
from regsvc.core import errors
from regsvc.registration.questionnaire.questions import Answer, ChoiceQuestion, Question, TextQuestion
from regsvc.registration.questionnaire.service import Submitter

SECONDS_PER_MINUTE: Final = 60


class QuestionnaireConfigHandler(ApiHandler):
    @endpoint()
    async def get(self, query: QuestionnaireQuery) -> QuestionnaireConfigReply:
        """Show the questions in the requested language, without the scoring."""
        questionnaires = self.services.questionnaires
        asked = questionnaires.questionnaire
        language = self.negotiate_language(asked.negotiate_language)
        return QuestionnaireConfigReply(
            data=QuestionnaireFields(
                enabled=questionnaires.is_enabled,
                pass_score=asked.pass_score,
                questions=[_question(question, language) for question in asked.questions],
            )
        )


class SubmitQuestionnaireHandler(ApiHandler):
    @endpoint(errors.InvalidAnswer, errors.InvalidCode, errors.RateLimited, errors.NotEnabled)
    async def post(self, request: SubmitQuestionnaireRequest) -> SubmitQuestionnaireReply:
        """Submit answers to the questionnaire. After answers that do not pass, the applicant has to wait.

        The wait is that of the proven address or, without a proof, that of all applicants behind the client's address,
        which failed answers with a proof start, too.
        """
        answers = {key: to_answer(fields) for key, fields in request.answers.items()}
        submitted = await self.services.questionnaires.submit(answers, Submitter(self.caller, request.proof))
        wait = round(submitted.wait.total_seconds())
        if submitted.is_passed:
            key = "questionnaire_to_read" if submitted.requires_review else "questionnaire_passed"
        else:
            key = "questionnaire_failed_wait" if wait else "questionnaire_failed"
        return to_reply(
            SubmitQuestionnaireReply,
            submitted,
            message=self.message(
                key, score=submitted.score, passScore=submitted.pass_score, minutes=ceil(wait / SECONDS_PER_MINUTE)
            ),
            passed=submitted.is_passed,
            manual_review_required=submitted.requires_review,
            remaining_seconds=UNSET if submitted.is_passed else wait,
        )


def to_answer(fields: AnswerFields) -> Answer:
    """Return an answer as the questionnaire evaluates it."""
    return Answer(fields.type, tuple(fields.selected_option_ids or ()), fields.text_answer or "")


def _question(question: Question, language: str) -> QuestionFields:
    return QuestionFields(
        id=question.id,
        question=question.text.in_language(language),
        language=question.text.find_tag(language) or None,
        type=question.type,
        required=question.is_required,
        input=_input(question, language),
        options=_options(question, language),
    )


def _input(question: Question, language: str) -> QuestionInputFields:
    if isinstance(question, ChoiceQuestion):
        return QuestionInputFields(min_selections=question.min_selections, max_selections=question.max_selections)
    assert isinstance(question, TextQuestion)
    return QuestionInputFields(
        min_length=question.min_length,
        max_length=question.max_length,
        multiline=question.is_multiline,
        placeholder=question.placeholder.in_language(language),
    )


def _options(question: Question, language: str) -> list[OptionFields]:
    if not isinstance(question, ChoiceQuestion):
        return []
    return [
        OptionFields(id=place, text=option.text.in_language(language)) for place, option in enumerate(question.options)
    ]
