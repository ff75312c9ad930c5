"""Stored results of questionnaires. The client gets a token; the result itself stays in the database.

The token is derived from its row (`regsvc.auth.derived_secrets`) and can be redeemed once before it expires. The
registration that redeems it assigns the row to the new user, where it stays for the review.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

import msgspec

from regsvc.auth.derived_secrets import DerivedSecrets, new_nonce, parse_row_id
from regsvc.core.clock import Clock
from regsvc.core.errors import InvalidField, QuestionnaireFailed, QuestionnaireRequired
from regsvc.database.bulk import redate
from regsvc.database.models import StoredQuestionnaire, User
from regsvc.registration.questionnaire.questions import ChoiceQuestion, Evaluation, ScoredAnswer, weigh
from regsvc.users.user_details import AnsweredQuestion, QuestionnaireResult

_PURPOSE: Final = "questionnaire"
_MAX_SUMMARY: Final = 1000
_PURGE_BATCH: Final = 1000


@dataclass(frozen=True)
class QuestionnaireResults:
    """Store of results.

    Every method works inside the caller's transaction. `valid`: how long a token can be redeemed.
    """

    secrets: DerivedSecrets
    now: Clock
    valid: timedelta

    def save(
        self, evaluation: Evaluation, answers: Sequence[AnsweredQuestion], summary: str, seconds: int | None = None
    ) -> tuple[str, StoredQuestionnaire]:
        """Save a result without a user; return its token and its row.

        A failed one is saved too, so that its token is refused with the reason. `seconds`: that the answers took.
        """
        moment = self.now()
        row = StoredQuestionnaire.create(
            nonce=new_nonce(),
            score=evaluation.score,
            max_score=evaluation.max_score,
            pass_score=evaluation.pass_score,
            is_passed=evaluation.is_passed,
            requires_review=evaluation.requires_review,
            summary=summary[:_MAX_SUMMARY],
            answers=msgspec.json.encode(answers).decode(),
            submitted_at=moment,
            expires_at=moment + self.valid,
            answer_seconds=seconds,
        )
        return self.secrets.link_token(row.id, row.nonce, _PURPOSE), row

    def check(self, token: str | None) -> StoredQuestionnaire:
        """Return the row that the token can redeem now, without redeeming it.

        Raises `QuestionnaireRequired` for a token that is missing, unknown, expired or used, and `QuestionnaireFailed`.
        """
        row_id = None if token is None else parse_row_id(token)
        row = None if row_id is None else StoredQuestionnaire.get_or_none(StoredQuestionnaire.id == row_id)
        if row is None or token is None or row.expires_at is None or row.expires_at <= self.now():  # or was redeemed
            raise QuestionnaireRequired
        if not self.secrets.is_link_token(token, row.id, row.nonce, _PURPOSE):
            raise QuestionnaireRequired
        if not row.is_passed:
            raise QuestionnaireFailed
        result: StoredQuestionnaire = row
        return result

    def redeem(self, token: str | None, user_id: int) -> StoredQuestionnaire:
        """Redeem the token for this user. Raises as `check` does, also when another request redeemed it first."""
        row = self.check(token)
        is_free = (StoredQuestionnaire.id == row.id) & StoredQuestionnaire.user.is_null()
        if not StoredQuestionnaire.update(user=user_id, expires_at=None).where(is_free).execute():
            raise QuestionnaireRequired
        return row

    def replace_of(self, user_id: int, token: str) -> None:
        """Redeem the token for a user who has an earlier result, which is deleted. Raises as `redeem` does."""
        StoredQuestionnaire.delete().where(StoredQuestionnaire.user == user_id).execute()
        self.redeem(token, user_id)

    def rescore(self, user_id: int, result: QuestionnaireResult) -> None:
        """Store the points of a result that has been judged, and what follows from them."""
        StoredQuestionnaire.update(
            score=result.score,
            is_passed=result.is_passed,
            requires_review=result.requires_review,
            summary=result.summary[:_MAX_SUMMARY],
            answers=msgspec.json.encode(result.answers).decode(),
        ).where(StoredQuestionnaire.user == user_id).execute()

    def find_of(self, user_id: int) -> QuestionnaireResult | None:
        """Return the user's result, or None."""
        return self.find_all_of([user_id]).get(user_id)

    def find_all_of(self, user_ids: Collection[int]) -> dict[int, QuestionnaireResult]:
        """Return the results of those of these users who have one, by user id."""
        if not user_ids:
            return {}
        rows = StoredQuestionnaire.select().where(StoredQuestionnaire.user.in_(sorted(user_ids)))
        return {row.user_id: _result_of(row) for row in rows if row.user_id is not None}

    def purge_expired(self) -> int:
        """Delete expired results and those of users deleted with SQL; return their number."""
        redate(self.now(), StoredQuestionnaire.submitted_at, StoredQuestionnaire.expires_at)
        expired = StoredQuestionnaire.delete().where(StoredQuestionnaire.expires_at < self.now()).execute()
        return int(expired) + self._purge_orphans()

    def _purge_orphans(self) -> int:
        """Delete results of deleted users; selected without a lock first, because there rarely are any."""
        user_id = StoredQuestionnaire._meta.fields["user"]
        orphans = (
            StoredQuestionnaire.select(StoredQuestionnaire.id)
            .where(user_id.is_null(False), user_id.not_in(User.select(User.id)))
            .limit(_PURGE_BATCH)
        )
        ids = [row.id for row in orphans]
        return int(StoredQuestionnaire.delete().where(StoredQuestionnaire.id.in_(ids)).execute()) if ids else 0


def _result_of(row: StoredQuestionnaire) -> QuestionnaireResult:
    return QuestionnaireResult(
        score=row.score,
        max_score=row.max_score,
        pass_score=row.pass_score,
        is_passed=row.is_passed,
        requires_review=row.requires_review,
        summary=row.summary,
        submitted_at=row.submitted_at,
        answers=msgspec.json.decode(row.answers, type=tuple[AnsweredQuestion, ...]),
    )


def judge(result: QuestionnaireResult, question_id: int, points: int) -> QuestionnaireResult:
    """Return the result with these points for the answer to a text question; its summary is still the old one.

    Raises `InvalidField` for a question without such an answer, and for more points than it brings.
    """
    answers = {answer.question_id: answer for answer in result.answers}
    judged = answers.get(question_id)
    if judged is None or judged.type != "text" or not judged.answers:
        raise InvalidField("questionId")
    if not 0 <= points <= judged.max_points:
        raise InvalidField("points")
    answers[question_id] = replace(judged, points=points)
    weighed = weigh([(answer.points, answer.max_points) for answer in answers.values()], result.pass_score)
    score, is_passed, requires_review = weighed
    return replace(
        result, answers=tuple(answers.values()), score=score, is_passed=is_passed, requires_review=requires_review
    )


def record_answer(scored: ScoredAnswer, language: str) -> AnsweredQuestion:
    """Return the answer as stored, with its texts in this language."""
    question = scored.question
    chosen = tuple(option.text.in_language(language) for option in scored.options)
    return AnsweredQuestion(
        question_id=question.id,
        type=question.type,
        question=question.text.in_language(language),
        answers=chosen or ((scored.text,) if scored.text else ()),
        option_ids=_list_option_ids(scored),
        points=scored.points,
        max_points=question.max_points,
        note=scored.note,
    )


def _list_option_ids(scored: ScoredAnswer) -> tuple[int, ...]:
    if not isinstance(scored.question, ChoiceQuestion):
        return ()
    return tuple(
        place
        for place, option in enumerate(scored.question.options)
        if any(option is chosen for chosen in scored.options)
    )
