"""One user whole, as admins see him: what the list tells, and everything that led to it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from regsvc.core.clock import Clock
from regsvc.core.errors import UserNotFound
from regsvc.database.models import User
from regsvc.notifications.mail.history import MailEntry
from regsvc.users.user_list import UserEntry, UserList
from regsvc.users.user_records import (
    ClientRecord,
    PlayerRecord,
    ReviewRecord,
    SessionRecord,
    find_player,
    list_clients,
    list_history,
    list_mails,
    list_sessions,
)


@dataclass(frozen=True)
class AnsweredQuestion:
    """A question as it was asked, in the host's language, and its answer.

    `answers` are the options chosen, or the one text; empty: it was left out. `points` None: somebody has to read it.
    `note` is what the scoring service said, perhaps nothing.
    """

    question_id: int
    type: str
    question: str
    answers: tuple[str, ...]
    points: int | None
    max_points: int
    note: str


@dataclass(frozen=True)
class QuestionnaireResult:
    """What a user answered before registering; it can be shown whatever has become of the questions since."""

    score: int
    max_score: int
    pass_score: int
    is_passed: bool
    requires_review: bool
    summary: str
    submitted_at: datetime
    answers: tuple[AnsweredQuestion, ...]


AT_MOST: Final = 100
"""How many records of one kind are told; of mails and audit entries other routes tell the rest."""


@dataclass(frozen=True)
class UserWhole:
    """`entry` is the user's line in the list. Lists are newest first, each with at most `AT_MOST` records."""

    entry: UserEntry
    is_email_verified: bool
    origin: str
    registration_ip: str | None
    password_set_at: datetime | None
    banned_from: str | None
    questionnaire: QuestionnaireResult | None
    history: list[ReviewRecord]
    mails: list[MailEntry]
    sessions: list[SessionRecord]
    clients: list[ClientRecord]
    player: PlayerRecord | None


@dataclass(frozen=True)
class UserDetails:
    """Blocking: a rule for a worker thread."""

    users: UserList
    find_answers: Callable[[int], QuestionnaireResult | None]
    now: Clock

    def get(self, username: str) -> UserWhole:
        """Everything about the user of this name, in any case. Raises `UserNotFound`."""
        user = User.get_or_none(User.username_key == username.lower())
        entry = self.users.find_user(username)
        if user is None or entry is None:
            raise UserNotFound
        return UserWhole(
            entry=entry,
            is_email_verified=bool(user.is_email_verified),
            origin=user.origin,
            registration_ip=user.registration_ip,
            password_set_at=user.password_set_at,
            banned_from=user.banned_from,
            questionnaire=self.find_answers(user.id),
            history=list_history(user, AT_MOST),
            mails=list_mails(user, AT_MOST),
            sessions=list_sessions(user, self.now(), AT_MOST),
            clients=list_clients(user, AT_MOST),
            player=find_player(user),
        )
