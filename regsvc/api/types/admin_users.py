"""Types of the admin route for one user."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from regsvc.api.types.admin import UserFields
from regsvc.api.types.mails import MailFields
from regsvc.api.types.messages import EpochMilliseconds, Output, Reply, Request, Username
from regsvc.api.types.questionnaire import Kind
from regsvc.api.types.registration import Status
from regsvc.api.types.users import Address, ClientFields, Origin, PlayerFields, SessionFields, Transition


class UserDetailsQuery(Request, frozen=True, kw_only=True):
    """The user's name, in any case."""

    username: Username


class HistoryFields(Output, frozen=True, kw_only=True):
    """A decision about this user, or about an earlier user with the same name or e-mail address."""

    username: Username
    transition: Transition
    status_before: Status
    status_after: Status | None
    reason: str | None
    ban_expires_at: EpochMilliseconds | None
    operator: Annotated[str, Meta(examples=["Olivia"])]
    reviewed_at: EpochMilliseconds
    is_same_user: bool
    is_same_name: bool
    is_same_email: bool


class ScoredAnswerFields(Output, frozen=True, kw_only=True):
    """A question as it was asked, with the answers and their points; `points` is null until a person has read them."""

    question_id: Annotated[int, Meta(examples=[1])]
    type: Kind
    question: Annotated[str, Meta(examples=["What do you do?"])]
    answers: Annotated[list[str], Meta(examples=[["I talk to the player."]])]
    points: Annotated[int, Meta(examples=[10])] | None
    max_points: Annotated[int, Meta(examples=[10])]
    note: Annotated[str, Meta(description="The remark of the scoring service.", examples=[""])]


class QuestionnaireResultFields(Output, frozen=True, kw_only=True):
    """The result of the questionnaire that the user registered with."""

    score: Annotated[int, Meta(examples=[80])]
    max_score: Annotated[int, Meta(examples=[100])]
    pass_score: Annotated[int, Meta(examples=[60])]
    is_passed: bool
    requires_review: bool
    summary: Annotated[str, Meta(examples=["80 of 100 points; 60 are needed."])]
    submitted_at: EpochMilliseconds
    answers: list[ScoredAnswerFields]


class UserDetailsFields(UserFields, frozen=True, kw_only=True):
    """The user as in the list, with further details. Lists are newest first and have at most 100 entries."""

    is_email_verified: bool
    origin: Origin
    registration_ip: Address | None
    password_set_at: EpochMilliseconds | None
    banned_from: Annotated[Status, Meta(description="The status that returns when the ban ends.")] | None
    questionnaire: QuestionnaireResultFields | None
    history: list[HistoryFields]
    mails: list[MailFields]
    sessions: list[SessionFields]
    clients: list[ClientFields]
    player: PlayerFields | None


class UserDetailsReply(Reply, frozen=True, kw_only=True):
    user: UserDetailsFields


class PasswordLinkRequest(Request, frozen=True, kw_only=True):
    """The user to make a link for."""

    username: Username


class PasswordLinkReply(Reply, frozen=True, kw_only=True):
    """A link that sets the user's password once, until `expiresAt`. It is in this reply only."""

    username: Username
    status: Status
    link: Annotated[str, Meta(examples=["https://play.example.org/set-password#token=7.c2VjcmV0"])]
    expires_at: EpochMilliseconds
