"""Types of the questionnaire routes."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from regsvc.api.types.messages import EpochMilliseconds, Output, Reply, Request
from regsvc.api.types.registration import Proof

Points = Annotated[int, Meta(ge=0, examples=[60])]
QuestionId = Annotated[int, Meta(ge=1, description="The number that the host gave the question.", examples=[1])]
QuestionKey = Annotated[str, Meta(pattern="^[1-9][0-9]{0,8}$", description="The id of a question.", examples=["1"])]
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
