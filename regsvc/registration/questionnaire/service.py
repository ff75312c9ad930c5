"""Answering the questionnaire, and registering with what came of it."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import ClassVar

from peewee import Database

from regsvc.auth.rate_limits import DurableLimits
from regsvc.core.caller import Caller
from regsvc.core.errors import NotEnabled, RateLimited
from regsvc.core.i18n import Translations
from regsvc.core.units import RateLimit
from regsvc.database.engine import Worker
from regsvc.registration.questionnaire.questions import Answer, Evaluation, Questionnaire, ScoredAnswer, TextQuestion
from regsvc.registration.questionnaire.results import QuestionnaireResults, record_answer
from regsvc.registration.questionnaire.scorer import Scorer, TextAnswer
from regsvc.registration.steps import Application, RegistrationStep
from regsvc.users.user_details import QuestionnaireResult


@dataclass(frozen=True)
class SubmittedAnswers:
    """What came of a submission; `token` stands for it at the registration."""

    token: str
    score: int
    max_score: int
    pass_score: int
    is_passed: bool
    requires_review: bool
    submitted_at: datetime
    expires_at: datetime


class Questionnaires(ABC):
    """What handlers ask about the questionnaire, whether there is one or not."""

    is_enabled: ClassVar[bool]

    def __init__(self, questionnaire: Questionnaire, results: QuestionnaireResults) -> None:
        self.questionnaire = questionnaire
        self._results = results

    @abstractmethod
    async def submit(self, answers: Mapping[str, Answer], caller: Caller) -> SubmittedAnswers:
        """Judge the answers, by the id of their question as text, and keep what comes of it.

        Raises `InvalidAnswer`, `RateLimited` (also while a failed attempt cools down) and `NotEnabled`.
        """

    @property
    @abstractmethod
    def steps(self) -> Sequence[RegistrationStep]:
        """What a registration has to bring."""

    def find_result_of(self, user_id: int) -> QuestionnaireResult | None:
        """What this user answered; None: nothing. A rule, for a worker thread."""
        return self._results.find_of(user_id)

    def purge_expired(self) -> int:
        """Delete results that nobody can use any more; how many they were. A rule, for a worker thread."""
        return self._results.purge_expired()


class NoQuestionnaire(Questionnaires):
    """It is switched off: nothing is asked. What was answered while it was on is still there."""

    is_enabled = False
    steps = ()

    def __init__(self, results: QuestionnaireResults, pass_score: int) -> None:
        super().__init__(Questionnaire((), pass_score), results)

    async def submit(self, answers: Mapping[str, Answer], caller: Caller) -> SubmittedAnswers:
        raise NotEnabled


@dataclass(frozen=True)
class SubmissionLimits:
    """How often answers may be submitted, and how long to wait after some that did not pass (zero: not at all)."""

    limits: DurableLimits
    per_client: tuple[RateLimit, ...]
    total: tuple[RateLimit, ...]
    retry_after: timedelta

    def hit(self, client: str) -> None:
        """Count a submission in the caller's transaction. Raises `RateLimited`, with nothing counted."""
        self.check_cool_down(client)
        self.limits.hit_all(
            [("questionnaire.client", client, self.per_client), ("questionnaire.total", "", self.total)]
        )

    def start_cool_down(self, client: str) -> None:
        """Raises `RateLimited` if one is under way: of several attempts at once, one counts."""
        self.limits.hit("questionnaire.failed", client, self._cool_down)

    def check_cool_down(self, client: str) -> None:
        """Raises `RateLimited` while a failed attempt of this client is too fresh."""
        wait = self.limits.remaining_seconds("questionnaire.failed", client, self._cool_down)
        if wait > 0:
            raise RateLimited(wait)

    @property
    def _cool_down(self) -> tuple[RateLimit, ...]:
        return (RateLimit(1, self.retry_after),) if self.retry_after else ()


class ActiveQuestionnaire(Questionnaires):
    """It is switched on: who registers has passed it."""

    is_enabled = True

    def __init__(
        self,
        questionnaire: Questionnaire,
        results: QuestionnaireResults,
        *,
        database: Database,
        worker: Worker,
        limits: SubmissionLimits,
        scorer: Scorer,
        translations: Translations,
        language: str,
    ) -> None:
        """`language`: the host's, in which results are kept for the admins."""
        super().__init__(questionnaire, results)
        self._database = database
        self._worker = worker
        self._limits = limits
        self._scorer = scorer
        self._translations = translations
        self._language = language

    @property
    def steps(self) -> Sequence[RegistrationStep]:
        return (QuestionnaireStep(self._results),)

    async def submit(self, answers: Mapping[str, Answer], caller: Caller) -> SubmittedAnswers:
        evaluation = self.questionnaire.evaluate(answers)
        to_score = self._list_scorable(evaluation)
        if not to_score:
            return await self._worker.run(self._check_limits_and_save, evaluation, caller)
        await self._worker.run(self._check_limits, caller)
        scored = await asyncio.gather(*map(self._score, to_score))
        evaluation = evaluation.with_points({answer.question.id: answer for answer in scored})
        return await self._worker.run(self._keep, evaluation, caller)

    def _list_scorable(self, evaluation: Evaluation) -> list[ScoredAnswer]:
        """The answers whose points somebody could tell at once. Where all is lost, nobody is asked."""
        if not self._scorer.is_available or not evaluation.is_passed:
            return []
        return [answer for answer in evaluation.unread if answer.question.max_points > 0]

    async def _score(self, scored: ScoredAnswer) -> ScoredAnswer:
        """With the scorer's points, or as it was."""
        question = scored.question
        assert isinstance(question, TextQuestion)
        text = question.text.in_language(self._language)
        score_result = await self._scorer.score(
            TextAnswer(text, question.scoring_rule, question.max_score, scored.text),
        )
        return scored if score_result is None else replace(scored, points=score_result.points, note=score_result.reason)

    def _check_limits_and_save(self, evaluation: Evaluation, caller: Caller) -> SubmittedAnswers:
        with self._database.atomic():
            self._check_limits(caller)
            return self._keep(evaluation, caller)

    def _check_limits(self, caller: Caller) -> None:
        with self._database.atomic():
            self._limits.hit(caller.limit_key)

    def _keep(self, evaluation: Evaluation, caller: Caller) -> SubmittedAnswers:
        with self._database.atomic():
            if evaluation.is_passed:
                self._limits.check_cool_down(caller.limit_key)
            else:
                self._limits.start_cool_down(caller.limit_key)
            answers = [record_answer(answer, self._language) for answer in evaluation.answers]
            kept = self._results.keep(evaluation, answers, self._summarise(evaluation))
        return SubmittedAnswers(
            token=kept.token,
            score=evaluation.score,
            max_score=evaluation.max_score,
            pass_score=evaluation.pass_score,
            is_passed=evaluation.is_passed,
            requires_review=evaluation.requires_review,
            submitted_at=kept.submitted_at,
            expires_at=kept.expires_at,
        )

    def _summarise(self, evaluation: Evaluation) -> str:
        """What the review queue shows: the points, what waits for a reader, and what the scorer said."""
        lines = [
            self._say(
                "points", score=evaluation.score, max_score=evaluation.max_score, pass_score=evaluation.pass_score
            )
        ]
        if evaluation.unread:
            lines.append(self._say("unread", count=len(evaluation.unread), open_points=evaluation.open_points))
        for answer in evaluation.answers:
            if answer.note:
                question = answer.question
                facts = {"question_id": question.id, "points": answer.points, "max_points": question.max_points}
                lines.append(self._say("scored", **facts, note=answer.note))
        return "\n".join(lines)

    def _say(self, key: str, **facts: object) -> str:
        return self._translations.text(f"questionnaire.{key}", self._language, **facts)


class QuestionnaireStep(RegistrationStep):
    """A registration needs a result that passed, and takes it over."""

    def __init__(self, results: QuestionnaireResults) -> None:
        self._results = results

    def check(self, application: Application) -> None:
        """Raises `QuestionnaireRequired` or `QuestionnaireFailed`; spends nothing."""
        self._results.check(application.questionnaire_token)

    def redeem(self, application: Application, user_id: int) -> bool:
        """The result is the user's. False: somebody has to read the answers. Raises as `check` does."""
        return not self._results.redeem(application.questionnaire_token, user_id).requires_review
