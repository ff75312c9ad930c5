"""What the routes of the questionnaire carry."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from regsvc.api.types.messages import EpochMilliseconds, Output, Reply, Request

Points = Annotated[int, Meta(ge=0, examples=[60])]
QuestionId = Annotated[int, Meta(ge=1, description="The host's own number of the question.", examples=[1])]
QuestionKey = Annotated[str, Meta(pattern="^[1-9][0-9]{0,8}$", description="The id of a question.", examples=["1"])]
OptionId = Annotated[int, Meta(description="The place of the option, from 0.", examples=[0])]
Kind = Annotated[
    str,
    Meta(
        extra_json_schema={"enum": ["single_choice", "multiple_choice", "text"]},
        examples=["single_choice"],
    ),
]


class QuestionnaireQuery(Request, frozen=True, kw_only=True):
    """The language to ask in, of those that the host wrote."""


class QuestionInputFields(Output, frozen=True, kw_only=True):
    """How a question may be answered: choices have the first two, texts the others; lengths are in characters."""

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
    """One question. What its answers are worth is not told."""

    id: QuestionId
    question: Annotated[str, Meta(examples=["What do you do?"])]
    type: Kind
    required: bool
    input: QuestionInputFields
    options: list[OptionFields]


class QuestionnaireFields(Output, frozen=True, kw_only=True):
    """The questions in their order; none where the questionnaire is switched off."""

    enabled: bool
    pass_score: Points
    questions: list[QuestionFields]


class QuestionnaireConfigReply(Reply, frozen=True, kw_only=True):
    data: QuestionnaireFields


class AnswerFields(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """The answer to one question: the ids of the options chosen, or a text. A type that is given has to be right."""

    type: Annotated[str, Meta(examples=["single_choice"])] | None = None
    selected_option_ids: list[OptionId] | None = None
    text_answer: str | None = None


class SubmitQuestionnaireRequest(Request, frozen=True, kw_only=True):
    """The answers, by the id of their question; those left out are not answered."""

    answers: Annotated[
        dict[QuestionKey, AnswerFields],
        Meta(examples=[{"1": {"type": "single_choice", "selectedOptionIds": [0]}}]),
    ]


class SubmitQuestionnaireReply(Reply, frozen=True, kw_only=True):
    """What came of the answers. Show the token at the registration, before it expires.

    `passed` with `manualReviewRequired`: good enough to register, but a person has to read it before the player may
    play; `score` may still grow then.
    """

    token: Annotated[str, Meta(description="Good for one registration.", examples=["pJ7Vd0cVbq8yR3v0cY2mB5kT"])]
    score: Points
    max_score: Points
    pass_score: Points
    passed: bool
    manual_review_required: bool
    submitted_at: EpochMilliseconds
    expires_at: EpochMilliseconds
