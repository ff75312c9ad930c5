"""Admin routes of reviewers: the queue in figures, questions to applicants, notes, points, and invitations."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final

from msgspec import Meta

from regsvc.api.admin import Count
from regsvc.api.admin_users import DECISION_REFUSALS, DecisionReply, decision_reply
from regsvc.api.base import ApiHandler
from regsvc.api.messages import (
    EpochMilliseconds,
    InvitationGrant,
    MessageReply,
    Output,
    Reply,
    Request,
    Username,
    to_reply,
)
from regsvc.api.questionnaire import Points, QuestionId
from regsvc.api.route import Routes
from regsvc.auth.invitations import InvitationRecord
from regsvc.core import errors
from regsvc.core.rights import GRANTS, MAX_INVITATION, MAX_INVITED, USUAL_INVITATION, Permission
from regsvc.users.notes import MAX_NOTE
from regsvc.users.questions import MAX_QUESTION

ROUTES: Final = Routes()


class DecidedFields(Output, frozen=True, kw_only=True):
    """Number of approvals and rejections that people made on a day."""

    day: Annotated[str, Meta(description="In the host's time zone.", examples=["2026-11-27"])]
    approved: Count
    rejected: Count


class OverviewReply(Reply, frozen=True, kw_only=True):
    """The review queue in figures."""

    waiting: Annotated[Count | None, Meta(description="Users who wait for the team; null: very many.")]
    asked: Annotated[Count | None, Meta(description="Users who have to answer a question first; null: very many.")]
    oldest: Annotated[Username | None, Meta(description="Who has waited longest for the team.")]
    oldest_since: Annotated[EpochMilliseconds | None, Meta(description="When they registered.")]
    usual_seconds: Annotated[
        int | None, Meta(description="How long reviews usually take; null: too few were made.", examples=[7200])
    ]
    decided: Annotated[
        list[DecidedFields] | None, Meta(description="The last seven days, today last; null: very many decisions.")
    ]


@ROUTES.add("GET", "/api/admin/overview", Permission.USERS_READ)
async def show_overview(call: ApiHandler) -> OverviewReply:
    """Tell how many applications wait, since when, how long reviews take, and what was decided in the last days."""
    found = await call.run(call.services.applications.overview)
    decided = None if found.decided is None else [to_reply(DecidedFields, it, day=str(it.day)) for it in found.decided]
    return to_reply(OverviewReply, found, decided=decided)


class AskRequest(Request, frozen=True, kw_only=True):
    """A question to an applicant."""

    username: Username
    question: Annotated[str, Meta(min_length=1, max_length=MAX_QUESTION, examples=["Which Bob do you know?"])]


@ROUTES.add(
    "POST",
    "/api/admin/user/ask",
    Permission.USERS_REVIEW,
    *DECISION_REFUSALS,
    errors.TooManyQuestions,
    errors.RateLimited,
)
async def ask(call: ApiHandler, request: AskRequest) -> DecisionReply:
    """Ask an applicant something: the application stays pending, and waits for the answer (`waitingFor`).

    The applicant is mailed a link to it; `warnings` says if they cannot be. A question that is open stays
    open beside another one, and an answer answers both.
    """
    asked = await call.run(call.services.decisions.ask, request.username, request.question, call.principal)
    call.services.mail_queue.wake_all()
    return decision_reply(call, asked, "asked")


class NoteRequest(Request, frozen=True, kw_only=True):
    """A note about a user, for the team."""

    username: Username
    text: Annotated[str, Meta(min_length=1, max_length=MAX_NOTE, examples=["Plays with Bob."])]


@ROUTES.add(
    "POST",
    "/api/admin/user/note",
    Permission.USERS_REVIEW,
    errors.UserNotFound,
    errors.TooManyNotes,
    errors.RateLimited,
)
async def add_note(call: ApiHandler, request: NoteRequest) -> MessageReply:
    """Write a note about a user. Players are not shown notes, but the export of their data has them."""
    by, add = call.principal, call.services.notes.add
    username = await call.run(add, request.username, request.text, by.actor, by.username)
    return MessageReply(message=call.message("note_added", username=username))


class PointsRequest(Request, frozen=True, kw_only=True):
    """The points of an answer to a text question."""

    username: Username
    question_id: QuestionId
    points: Points


@ROUTES.add(
    "POST",
    "/api/admin/user/points",
    Permission.USERS_REVIEW,
    errors.UserNotFound,
    errors.WrongStatus,
    errors.ProtectedOperator,
    errors.RateLimited,
)
async def give_points(call: ApiHandler, request: PointsRequest) -> MessageReply:
    """Give the points of a text answer that you have read, while the user waits for review."""
    judge = call.services.questionnaires.judge
    username = await call.run(judge, request.username, request.question_id, request.points, call.principal)
    return MessageReply(message=call.message("points_given", username=username))


class InvitationFields(Output, frozen=True, kw_only=True):
    """An invitation, without its link."""

    id: Annotated[int, Meta(examples=[1])]
    grants: list[InvitationGrant]
    uses: Annotated[int, Meta(examples=[3])]
    used: Annotated[int, Meta(examples=[1])]
    made_by: Annotated[str, Meta(examples=["Olivia"])]
    created_at: EpochMilliseconds
    expires_at: EpochMilliseconds
    revoked_at: EpochMilliseconds | None


class InvitationsReply(Reply, frozen=True, kw_only=True):
    """The newest invitations, newest first."""

    invitations: list[InvitationFields]


class InviteRequest(Request, frozen=True, kw_only=True):
    """For how many registrations and days an invitation is, and what the invited need not do."""

    uses: Annotated[int, Meta(ge=1, le=MAX_INVITED, examples=[3])] = 1
    days: Annotated[int, Meta(ge=1, le=MAX_INVITATION.days, examples=[7])] = USUAL_INVITATION.days
    grants: Annotated[tuple[InvitationGrant, ...], Meta(max_length=10)] = ()


class InviteReply(Reply, frozen=True, kw_only=True):
    """The link is in this reply only."""

    link: Annotated[str, Meta(examples=["https://play.example.org/register#invite=…"])]
    record: InvitationFields


class InvitationIdRequest(Request, frozen=True, kw_only=True):
    id: Annotated[int, Meta(ge=1, le=2**63 - 1, examples=[1])]


@ROUTES.add("GET", "/api/admin/invitations", Permission.USERS_REVIEW)
async def list_invitations(call: ApiHandler) -> InvitationsReply:
    """List the newest 500 invitations."""
    found = await call.run(call.services.invitations.list_all)
    return InvitationsReply(invitations=[_invitation_fields(it) for it in found])


@ROUTES.add("POST", "/api/admin/invitation", Permission.USERS_REVIEW, errors.RateLimited)
async def invite(call: ApiHandler, request: InviteRequest) -> InviteReply:
    """Make a link with which players register. It ends with your right to review, or when you revoke it.

    One that is made with an API token ends with the token at the latest.
    """
    if not set(request.grants) <= set(GRANTS):
        raise errors.InvalidField("grants")
    by, lifetime = call.principal, timedelta(days=request.days)
    create = call.services.invitations.create
    made_by = by.actor, by.username or None, by.ends_at
    has_factor = by.has_second_factor
    link, record = await call.run(
        create, request.uses, lifetime, request.grants, *made_by, token_id=by.token_id, has_second_factor=has_factor
    )
    return InviteReply(message=call.message("invitation_created"), link=link, record=_invitation_fields(record))


@ROUTES.add("POST", "/api/admin/invitation/revoke", Permission.USERS_REVIEW, errors.NoSuchInvitation)
async def revoke_invitation(call: ApiHandler, request: InvitationIdRequest) -> MessageReply:
    """Revoke an invitation. Users who registered with it stay registered."""
    await call.run(call.services.invitations.revoke, request.id, call.principal.actor)
    return MessageReply(message=call.message("invitation_revoked"))


def _invitation_fields(record: InvitationRecord) -> InvitationFields:
    return to_reply(InvitationFields, record, grants=list(record.grants))


class ReadingRequest(Request, frozen=True, kw_only=True):
    """The user who is open at the caller's; empty: nobody."""

    username: Username = ""


class ReadersReply(Reply, frozen=True, kw_only=True):
    """The others of the team who have the user open."""

    readers: Annotated[list[str], Meta(examples=[["Olivia"]])]


@ROUTES.add("POST", "/api/admin/user/reading", Permission.USERS_READ)
async def note_reading(call: ApiHandler, request: ReadingRequest) -> ReadersReply:
    """Tell that you have a user open, every ten seconds, and learn who else has. It is forgotten after thirty."""
    return ReadersReply(readers=await call.run(call.services.notes.read, request.username, call.principal.actor))
