"""Types of the routes of applications."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from regsvc.api.types.captcha import CaptchaProtectedRequest
from regsvc.api.types.messages import Email, EpochMilliseconds, Output, Reply, Request, Username
from regsvc.api.types.questionnaire import AnswerFields, OptionId, QuestionId, QuestionKey
from regsvc.api.types.registration import ApplicationToken, Status


class ApplicationQuery(Request, frozen=True, kw_only=True):
    """The token of the application, where it is not in the header `X-Application-Token`."""

    token: Annotated[ApplicationToken, Meta(description="Better sent as a header: proxies log addresses.")] | None = (
        None
    )


class GivenAnswerFields(Output, frozen=True, kw_only=True):
    """An answer that the applicant gave, in the host's language. Several options are on lines of their own."""

    question_id: QuestionId
    question: Annotated[str, Meta(examples=["What do you do?"])]
    answer: Annotated[str, Meta(description="Empty: skipped.", examples=["I talk to the player."])]
    selected_option_ids: list[OptionId]


class ApplicationReply(Reply, frozen=True, kw_only=True):
    """An application: its status, its place in the line of those who wait, and what the applicant may do.

    `place` is null unless it is pending, `usualSeconds` where too few reviews were made, `reapplyAt` unless it was
    rejected and its name is not free yet, `answers` where no questions were asked.
    """

    username: Username
    email: Email | None
    status: Status
    received_at: EpochMilliseconds
    place: Annotated[int, Meta(description="The place in the line, from 1.", examples=[3])] | None
    waiting: Annotated[int, Meta(description="The number of applications that wait for review.", examples=[12])]
    usual_seconds: Annotated[int, Meta(description="How long reviews usually take.", examples=[7200])] | None
    reason: str | None
    reviewed_at: EpochMilliseconds | None
    reapply_at: EpochMilliseconds | None
    ban_expires_at: EpochMilliseconds | None
    has_password: Annotated[bool, Meta(description="False: a link to set one is mailed with the approval.")]
    can_correct_email: bool
    answers: list[GivenAnswerFields] | None
    can_edit_answers: bool
    game_address: (
        Annotated[str, Meta(description="The address to type into the game.", examples=["play.example.org"])] | None
    )


class ChangeAnswersRequest(Request, frozen=True, kw_only=True):
    """All answers by question id, as in `POST /api/questionnaire/submit`; omitted questions count as unanswered."""

    answers: Annotated[
        dict[QuestionKey, AnswerFields],
        Meta(examples=[{"1": {"type": "single_choice", "selectedOptionIds": [0]}}]),
    ]


class CorrectAddressRequest(CaptchaProtectedRequest, frozen=True, kw_only=True):
    """The right address; with a captcha where one is required to request a code."""

    email: Email


class CorrectAddressReply(Reply, frozen=True, kw_only=True):
    """The address was replaced, and with it the token: the one presented is no longer valid."""

    email: Email
    application_token: ApplicationToken
