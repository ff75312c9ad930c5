"""Questions that the team asks applicants, and their answers; like reviews they are kept after a user is gone.

An applicant who was asked does not wait for the team (`User.asked_at`) until they have answered the newest question.
There are at most `MAX_QUESTIONS` about a user, each with one answer: nobody can make the table grow without bound.
Everything runs inside the caller's transaction, which has locked the user.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final

from msgspec import Meta

from regsvc.core.clock import Clock, to_milliseconds
from regsvc.core.errors import AnswerTooLong, InvalidField, NothingAsked, TooManyQuestions, WrongStatus
from regsvc.core.shapes import Moment, Output
from regsvc.core.text import MAX_ANSWER, clean_lines
from regsvc.database.audit import Actor, Audit
from regsvc.database.models import PENDING, AskedQuestion, User
from regsvc.notifications.mail.queue import MailQueue
from regsvc.notifications.webhook import WebhookQueue
from regsvc.users.transitions import find_answers

MAX_QUESTION: Final = 2000
MAX_QUESTIONS: Final = 20


ANSWER_BY: Final = Meta(description="Until when to answer the team's question: without an answer, it is rejected then.")


class AskedFields(Output, frozen=True, kw_only=True):
    """A question of the team about an application, and the answer."""

    question: Annotated[str, Meta(examples=["Which Bob do you know?"])]
    asked_at: Moment
    answer: Annotated[str, Meta(examples=["The one who builds bridges."])] | None
    answered_at: Moment | None


class AskedUserFields(AskedFields, frozen=True, kw_only=True):
    """A question to this user, or to an earlier user with the same name or e-mail address, and the answer."""

    author: Annotated[str, Meta(examples=["Olivia"])]
    is_same_user: bool


class QuestionRecord(AskedUserFields, frozen=True, kw_only=True):
    """A question as it is recorded."""

    about: str | None
    """JSON of the answers to the questionnaire that the question is about."""


@dataclass(frozen=True)
class Questions:
    """Questions to applicants, and their answers. Blocking: for a worker thread."""

    mail_queue: MailQueue
    webhook: WebhookQueue
    audit: Audit
    now: Clock

    def ask(self, user: User, written: str, by: Actor) -> bool:
        """Ask a pending user, who then has to answer; returns whether they are mailed.

        Another question beside one that is open is asked as well; the very same one is asked only once. Raises
        `WrongStatus`, `TooManyQuestions`, and `InvalidField` for a question that is empty or too long.
        """
        text = clean_lines(written).strip()
        if not 0 < len(text) <= MAX_QUESTION:
            raise InvalidField("question")
        if user.status != PENDING:
            raise WrongStatus(user.status)
        asked = list(AskedQuestion.select().where(_is_about(user)).order_by(AskedQuestion.id))
        if user.asked_at is not None and asked and asked[-1].question == text:
            return self.mail_queue.can_reach(user)
        if len(asked) >= MAX_QUESTIONS:
            raise TooManyQuestions
        moment = to_milliseconds(self.now())
        question_id = AskedQuestion.insert(
            user_id=user.id,
            username_key=user.username_key,
            email_key=user.proven_key,
            author=by.name,
            question=text,
            answers=find_answers([user.id]).get(user.id),
            asked_at=moment,
        ).execute()
        _note(user, asked_at=moment, answered_at=None)
        self.audit.record("user.asked", by, user.username)
        self.webhook.enqueue("question_asked", user.username, user.status)
        return self.mail_queue.send(user, "asked", question_id)

    def answer(self, user: User, written: str, by: Actor) -> bool:
        """Store the answer to the newest question; returns False if the application was decided before.

        Such an answer is kept, too. Raises `NothingAsked`, `AnswerTooLong`, and `InvalidField` for an empty answer.
        """
        text = clean_lines(written).strip()
        if not text:
            raise InvalidField("text")
        if len(text) > MAX_ANSWER:
            raise AnswerTooLong
        newest = AskedQuestion.select().where(_is_about(user)).order_by(AskedQuestion.id.desc()).first()
        is_pending = user.status == PENDING
        if newest is None or newest.answered_at is not None or (is_pending and user.asked_at is None):
            raise NothingAsked
        moment = to_milliseconds(self.now())
        AskedQuestion.update(answer=text, answered_at=moment).where(AskedQuestion.id == newest.id).execute()
        if is_pending:
            _note(user, asked_at=None, answered_at=moment)
        self.audit.record("user.question_answered", by, user.username)
        self.webhook.enqueue("question_answered", user.username, user.status)
        return is_pending


def list_questions(user: User, limit: int) -> list[QuestionRecord]:
    """Return the questions to this user and earlier users of the name or proven address, newest first."""
    belongs = AskedQuestion.username_key == user.username_key
    if user.proven_key is not None:
        belongs = belongs | (AskedQuestion.email_key == user.proven_key)
    rows = AskedQuestion.select().where(belongs).order_by(AskedQuestion.id.desc()).limit(limit)
    return [_record(row, is_same_user=row.user_id == user.id) for row in rows]


def find_questions(users: Collection[User]) -> dict[int, list[QuestionRecord]]:
    """Return the questions to these very users, by user id, oldest first."""
    found: dict[int, list[QuestionRecord]] = {}
    if users:
        has_name = AskedQuestion.username_key.in_(sorted(user.username_key for user in users))  # the name has an index
        is_own = AskedQuestion.user_id.in_(sorted(user.id for user in users))
        for row in AskedQuestion.select().where(has_name, is_own).order_by(AskedQuestion.id):
            found.setdefault(row.user_id, []).append(_record(row, is_same_user=True))
    return found


def _is_about(user: User) -> Any:
    return (AskedQuestion.username_key == user.username_key) & (AskedQuestion.user_id == user.id)


def _record(row: AskedQuestion, *, is_same_user: bool) -> QuestionRecord:
    return QuestionRecord(
        question=row.question,
        author=row.author,
        asked_at=row.asked_at,
        answer=row.answer,
        answered_at=row.answered_at,
        is_same_user=is_same_user,
        about=row.answers,
    )


def _note(user: User, **changes: datetime | None) -> None:
    User.update(changes).where(User.id == user.id).execute()
    for name, value in changes.items():
        setattr(user, name, value)
