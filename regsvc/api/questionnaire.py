"""Routes for the questionnaire: its questions, and the submission of answers."""

from __future__ import annotations

from math import ceil
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from regsvc.api.base import ApiHandler
from regsvc.api.messages import EpochMilliseconds, Output, Proof, Reply, Request, to_reply
from regsvc.api.route import PUBLIC, Routes
from regsvc.core import errors
from regsvc.core.text import whole
from regsvc.registration.questionnaire.questions import Answer, ChoiceQuestion, Question, TextQuestion
from regsvc.registration.questionnaire.service import Submitter

ROUTES: Final = Routes()

Points = Annotated[int, Meta(ge=0, examples=[60])]
QuestionId = Annotated[int, Meta(ge=1, description="The number that the host gave the question.", examples=[1])]
QuestionKey = Annotated[
    str, Meta(pattern=whole("[1-9][0-9]{0,8}"), description="The id of a question.", examples=["1"])
]
OptionId = Annotated[int, Meta(description="The index of the option, from 0.", examples=[0])]
Kind = Annotated[
    str,
    Meta(
        extra_json_schema={"enum": ["single_choice", "multiple_choice", "text"]},
        examples=["single_choice"],
    ),
]


class QuestionnaireQuery(Request, frozen=True, kw_only=True):
    """The language of the questions, one of those that the host provides."""


class QuestionInputFields(Output, frozen=True, kw_only=True):
    """The limits of an answer: choices have the first two fields, texts the others; lengths are in characters."""

    min_selections: Annotated[int, Meta(examples=[1])] | UnsetType = UNSET
    max_selections: Annotated[int, Meta(examples=[1])] | UnsetType = UNSET
    min_length: int | UnsetType = UNSET
    max_length: int | UnsetType = UNSET
    multiline: bool | UnsetType = UNSET
    placeholder: str | UnsetType = UNSET


class OptionFields(Output, frozen=True, kw_only=True):
    id: OptionId
    text: Annotated[str, Meta(examples=["I talk to the player."])]


class QuestionFields(Output, frozen=True, kw_only=True):
    """A question, without the points of its answers."""

    id: QuestionId
    question: Annotated[str, Meta(examples=["What do you do?"])]
    language: Annotated[
        str | None,
        Meta(description="Language of the question; null if the host wrote it without naming one.", examples=["en"]),
    ]
    type: Kind
    required: bool
    input: QuestionInputFields
    options: list[OptionFields]


class QuestionnaireFields(Output, frozen=True, kw_only=True):
    """The questions in order; none if the questionnaire is switched off."""

    enabled: bool
    pass_score: Points
    questions: list[QuestionFields]


class QuestionnaireConfigReply(Reply, frozen=True, kw_only=True):
    data: QuestionnaireFields


class AnswerFields(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """The answer to one question: the ids of the chosen options, or a text. If `type` is given, it must be correct."""

    type: Annotated[str, Meta(examples=["single_choice"])] | None = None
    selected_option_ids: list[OptionId] | None = None
    text_answer: str | None = None


class SubmitQuestionnaireRequest(Request, frozen=True, kw_only=True):
    """The answers by question id; omitted questions count as unanswered."""

    answers: Annotated[
        dict[QuestionKey, AnswerFields],
        Meta(examples=[{"1": {"type": "single_choice", "selectedOptionIds": [0]}}]),
    ]
    proof: (
        Annotated[
            Proof,
            Meta(description="The wait after answers that do not pass is its address's; without it, the client's."),
        ]
        | None
    ) = None


class SubmitQuestionnaireReply(Reply, frozen=True, kw_only=True):
    """The result of the answers. Send the token with the registration, before it expires.

    `passed` with `manualReviewRequired`: good enough to register, but a person has to read the answers before the
    player may play; `score` may still grow then.
    """

    token: Annotated[str, Meta(description="Valid for one registration.", examples=["pJ7Vd0cVbq8yR3v0cY2mB5kT"])]
    score: Points
    max_score: Points
    pass_score: Points
    passed: bool
    manual_review_required: bool
    submitted_at: EpochMilliseconds
    expires_at: EpochMilliseconds
    remaining_seconds: (
        Annotated[
            int, Meta(description="Seconds until the next answers are accepted, if these did not pass.", examples=[300])
        ]
        | UnsetType
    ) = UNSET


SECONDS_PER_MINUTE: Final = 60


@ROUTES.add("GET", "/api/questionnaire/config", PUBLIC)
async def show_questionnaire(call: ApiHandler, query: QuestionnaireQuery) -> QuestionnaireConfigReply:
    """Show the questions in the requested language, without the scoring."""
    questionnaires = call.services.questionnaires
    asked = questionnaires.questionnaire
    language = call.negotiate_language(asked.languages)
    return QuestionnaireConfigReply(
        data=QuestionnaireFields(
            enabled=questionnaires.is_enabled,
            pass_score=asked.pass_score,
            questions=[_question(question, language) for question in asked.questions],
        )
    )


@ROUTES.add(
    "POST",
    "/api/questionnaire/submit",
    PUBLIC,
    errors.InvalidAnswer,
    errors.InvalidCode,
    errors.RateLimited,
    errors.NotEnabled,
    has_large_body=True,
)
async def submit_questionnaire(call: ApiHandler, request: SubmitQuestionnaireRequest) -> SubmitQuestionnaireReply:
    """Submit answers to the questionnaire. After answers that do not pass, the applicant has to wait.

    The wait is that of the proven address or, without a proof, that of all applicants behind the client's address,
    which failed answers with a proof start, too.
    """
    answers = {key: to_answer(fields) for key, fields in request.answers.items()}
    submitted = await call.services.questionnaires.submit(answers, Submitter(call.caller, request.proof))
    wait = round(submitted.wait.total_seconds())
    if submitted.is_passed:
        key = "questionnaire_to_read" if submitted.requires_review else "questionnaire_passed"
    else:
        key = "questionnaire_failed_wait" if wait else "questionnaire_failed"
    return to_reply(
        SubmitQuestionnaireReply,
        submitted,
        message=call.message(
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
