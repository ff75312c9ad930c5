"""Admin routes for what reviewers add to an application before they decide: notes, and points of answers."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from regsvc.api.base import ApiHandler
from regsvc.api.messages import MessageReply, Request, Username
from regsvc.api.questionnaire import Points, QuestionId
from regsvc.api.route import Routes
from regsvc.core import errors
from regsvc.core.rights import Permission
from regsvc.users.notes import MAX_NOTE

ROUTES: Final = Routes()


class NoteRequest(Request, frozen=True, kw_only=True):
    """A note about a user, for the team."""

    username: Username
    text: Annotated[str, Meta(min_length=1, max_length=MAX_NOTE, examples=["Plays with Bob."])]


@ROUTES.add("POST", "/api/admin/user/note", Permission.USERS_REVIEW, errors.UserNotFound)
async def add_note(call: ApiHandler, request: NoteRequest) -> MessageReply:
    """Write a note about a user. Players are not shown notes, but the export of their data has them."""
    username = await call.run(call.services.notes.add, request.username, request.text, call.principal.actor)
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
)
async def give_points(call: ApiHandler, request: PointsRequest) -> MessageReply:
    """Give the points of a text answer that you have read, while the user waits for review."""
    judge = call.services.questionnaires.judge
    username = await call.run(judge, request.username, request.question_id, request.points, call.principal)
    return MessageReply(message=call.message("points_given", username=username))
