"""Routes of an application, which its token opens: status, a stream of it, changes of answers and address."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Final

from msgspec import UNSET, Meta, UnsetType

from regsvc.api.base import ApiHandler
from regsvc.api.events import EVENT_STREAM, send_events
from regsvc.api.messages import Email, EpochMilliseconds, Output, Reply, Request, Status, Username, WaitingFor, to_reply
from regsvc.api.questionnaire import AnswerFields, OptionId, QuestionId, QuestionKey, to_answer
from regsvc.api.registration import CAPTCHA_REFUSALS, ApplicationToken, CaptchaProtectedRequest
from regsvc.api.route import APPLICATION_TOKEN, PUBLIC, Routes
from regsvc.api.users import AskedFields, OwnWhyReply, explain_to_player
from regsvc.core import errors
from regsvc.core.text import MAX_ANSWER
from regsvc.registration.applications.status import ApplicationStatus
from regsvc.runtime.events import HEARTBEAT, PREAMBLE, encode_event

ROUTES: Final = Routes()


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

    `waitingFor` is "applicant" until the newest of `questions`, which are oldest first, is answered, and null once the
    application is decided. `place` is null unless it waits for review, `usualSeconds` where too few reviews were made,
    `reapplyAt` unless it was rejected and its name is not free yet, `answers` where no questionnaire was asked.
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
    has_password: Annotated[
        bool, Meta(description="False: with AuthMe, a link to set one is mailed with the approval.")
    ]
    can_correct_email: bool
    waiting_for: WaitingFor | None
    questions: Annotated[list[AskedFields], Meta(description="Oldest first; only the newest can be answered.")]
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


class AnswerQuestionRequest(Request, frozen=True, kw_only=True):
    """The answer to the newest question."""

    text: Annotated[
        str, Meta(description=f"At most {MAX_ANSWER} characters.", examples=["The one who builds bridges."])
    ]


class CorrectAddressRequest(CaptchaProtectedRequest, frozen=True, kw_only=True):
    """The right address; with a captcha where one is required to request a code."""

    email: Email


class CorrectAddressReply(Reply, frozen=True, kw_only=True):
    """The address was replaced, and with it the token: the one presented is no longer valid."""

    email: Email
    application_token: ApplicationToken


APPLICATION_TOKEN_HEADER: Final = "X-Application-Token"  # noqa: S105 - a name


@ROUTES.add(
    "GET", "/api/application", PUBLIC, errors.ApplicationNotFound, errors.RateLimited, credentials=(APPLICATION_TOKEN,)
)
async def show_application(call: ApiHandler, query: ApplicationQuery) -> ApplicationReply:
    """Show an application to clients with its token, which opens nothing else.

    The token is in the reply to the registration and in the receipt's link. It ends with the application, and when
    the user's address changes.
    """
    call.services.status_limits.hit(call.address)
    found = await call.services.applications.find(_token_of(call, query))
    return _application_reply(call, found)


@ROUTES.add(
    "GET",
    "/api/application/why",
    PUBLIC,
    errors.ApplicationNotFound,
    errors.RateLimited,
    credentials=(APPLICATION_TOKEN,),
)
async def explain_application(call: ApiHandler, query: ApplicationQuery) -> OwnWhyReply:
    """Tell why the applicant cannot join the game, to clients with the token of the application."""
    call.services.status_limits.hit(call.address)
    found = await call.services.applications.find(_token_of(call, query))
    return await explain_to_player(call, found.username)


@ROUTES.add(
    "GET",
    "/api/application/events",
    PUBLIC,
    errors.ApplicationNotFound,
    errors.RateLimited,
    errors.TooManyStreams,
    media_type=EVENT_STREAM,
    credentials=(APPLICATION_TOKEN,),
)
async def stream_application(call: ApiHandler, query: ApplicationQuery) -> None:
    """Stream an application, at once and within two seconds of any change, to clients with its token.

    Events are `application`; their `data` is what `GET /api/application` replies. A comment is sent every 20
    seconds. The stream ends with the application, and when the user's address changes. The number of streams is
    limited; a client that gets `too_many_streams` can still ask for the application from time to time.
    """
    call.services.status_limits.hit(call.address)
    streams = call.services.application_streams
    async with streams.listen(_token_of(call, query), call.caller) as stream:
        await send_events(call, stream, _encode_each(call, streams.statuses(stream)))


@ROUTES.add(
    "POST",
    "/api/application/answers",
    PUBLIC,
    errors.ApplicationNotFound,
    errors.WrongStatus,
    errors.NotEnabled,
    errors.InvalidAnswer,
    errors.QuestionnaireFailed,
    errors.QuestionnaireRequired,
    errors.RateLimited,
    credentials=(APPLICATION_TOKEN,),
    has_large_body=True,
)
async def change_answers(call: ApiHandler, request: ChangeAnswersRequest) -> ApplicationReply:
    """Replace the answers of an application that waits for review. If the new ones fail, the earlier ones stay.

    The token is taken from the header alone. The limits are those of the questionnaire, and ten changes an hour and
    thirty a day of one application; failed answers start its wait for the applicant's address.
    """
    call.services.status_limits.hit(call.address)
    answers = {key: to_answer(fields) for key, fields in request.answers.items()}
    changed = await call.services.application_changes.change_answers(_token_of(call), answers, call.caller)
    return _application_reply(call, changed, message=call.message("answers_changed"))


@ROUTES.add(
    "POST",
    "/api/application/answer",
    PUBLIC,
    errors.ApplicationNotFound,
    errors.NothingAsked,
    errors.AnswerTooLate,
    errors.AnswerTooLong,
    errors.RateLimited,
    credentials=(APPLICATION_TOKEN,),
    has_large_body=True,
)
async def answer_question(call: ApiHandler, request: AnswerQuestionRequest) -> ApplicationReply:
    """Answer the newest question of the team, for whose review the application then waits again.

    The token is taken from the header alone. An answer that comes after the decision is kept, and refused with
    `answer_too_late`.
    """
    call.services.status_limits.hit(call.address)
    answered = await call.services.application_changes.answer_question(_token_of(call), request.text, call.caller)
    return _application_reply(call, answered, message=call.message("question_answered"))


@ROUTES.add(
    "POST",
    "/api/application/email",
    PUBLIC,
    errors.ApplicationNotFound,
    errors.WrongStatus,
    errors.NotEnabled,
    errors.InvalidEmail,
    errors.DomainNotAllowed,
    *CAPTCHA_REFUSALS,
    credentials=(APPLICATION_TOKEN,),
)
async def correct_address(call: ApiHandler, request: CorrectAddressRequest) -> CorrectAddressReply:
    """Correct an address that nothing proves (`canCorrectEmail`), while the application waits for review.

    The token is taken from the header alone. Nothing is mailed to such addresses.
    """
    call.services.status_limits.hit(call.address)
    changes = call.services.application_changes
    corrected = await changes.correct_address(_token_of(call), request.email, request.captcha, call.caller)
    return to_reply(CorrectAddressReply, corrected, message=call.message("email_changed"))


def _token_of(call: ApiHandler, query: ApplicationQuery | None = None) -> str:
    """Return the token in the header or else in the query; empty if there is none."""
    in_query = None if query is None else query.token
    return call.request.headers.get(APPLICATION_TOKEN_HEADER) or in_query or ""


async def _encode_each(call: ApiHandler, statuses: AsyncIterator[ApplicationStatus | None]) -> AsyncIterator[bytes]:
    yield PREAMBLE
    async for status in statuses:
        yield HEARTBEAT if status is None else encode_event("application", _application_reply(call, status))


def _application_reply(
    call: ApiHandler, found: ApplicationStatus, message: str | UnsetType = UNSET
) -> ApplicationReply:
    """Return the application as its routes show it, with the reason in the caller's language."""
    answers: list[GivenAnswerFields] = []
    for given in found.answers or ():
        shown = "\n".join(given.answers)
        answers.append(to_reply(GivenAnswerFields, given, answer=shown, selected_option_ids=list(given.option_ids)))
    return to_reply(
        ApplicationReply,
        found,
        message=message,
        reason=call.word_reason(found.reason),
        answers=None if found.answers is None else answers,
    )
