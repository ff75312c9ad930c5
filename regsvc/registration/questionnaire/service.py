"""Submission of the questionnaire, and its step of the registration."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import ClassVar

from peewee import Database

from regsvc.auth.address_proofs import AddressProofs
from regsvc.auth.rate_limits import DurableLimits
from regsvc.auth.shared_limits import SharedHit, in_total
from regsvc.core.caller import Caller
from regsvc.core.errors import NotEnabled, RateLimited
from regsvc.core.i18n.translations import Translations
from regsvc.core.units import RateLimit
from regsvc.database.engine import Worker
from regsvc.registration.questionnaire.questions import Answer, Evaluation, Questionnaire, ScoredAnswer, TextQuestion
from regsvc.registration.questionnaire.results import QuestionnaireResults, record_answer
from regsvc.registration.questionnaire.scorer import Scorer, TextAnswer
from regsvc.registration.validation import Application, RegistrationStep
from regsvc.users.user_details import QuestionnaireResult


@dataclass(frozen=True)
class SubmittedAnswers:
    """Result of a submission; the registration redeems `token`."""

    token: str
    score: int
    max_score: int
    pass_score: int
    is_passed: bool
    requires_review: bool
    submitted_at: datetime
    expires_at: datetime
    wait: timedelta = timedelta(0)
    """Time until the next answers are accepted, where these did not pass."""


@dataclass(frozen=True)
class Submitter:
    """A client that submits answers, and its proof of an e-mail address, if it has one.

    `address`: the key of an address that was proven before.
    """

    caller: Caller
    proof: str | None = field(default=None, repr=False)
    address: str | None = None


class Questionnaires(ABC):
    """Interface of the questionnaire, whether there is one or not."""

    is_enabled: ClassVar[bool]

    def __init__(self, questionnaire: Questionnaire, results: QuestionnaireResults) -> None:
        self.questionnaire = questionnaire
        self._results = results

    @abstractmethod
    async def submit(self, answers: Mapping[str, Answer], submitter: Submitter) -> SubmittedAnswers:
        """Evaluate answers, keyed by question id as text, and save the result.

        Raises `InvalidAnswer`, `RateLimited` (also while a failed attempt cools down), `InvalidCode` for a proof that
        proves nothing, and `NotEnabled`.
        """

    @property
    @abstractmethod
    def steps(self) -> Sequence[RegistrationStep]:
        """Steps of a registration."""

    def find_result_of(self, user_id: int) -> QuestionnaireResult | None:
        """Return the user's result, or None. Blocking: for a worker thread."""
        return self.find_results_of([user_id]).get(user_id)

    def replace_result_of(self, user_id: int, token: str) -> None:
        """Assign the result of this token to a user who has an earlier one, inside the caller's transaction.

        Raises `QuestionnaireRequired` and `QuestionnaireFailed`.
        """
        self._results.replace_of(user_id, token)

    def find_results_of(self, user_ids: Collection[int]) -> dict[int, QuestionnaireResult]:
        """Return the results of those of these users who have one, by user id. Blocking: for a worker thread."""
        return self._results.find_all_of(user_ids)

    def purge_expired(self) -> int:
        """Delete expired results and return their number. Blocking: for a worker thread."""
        return self._results.purge_expired()


class NoQuestionnaire(Questionnaires):
    """The questionnaire is off. Results from when it was on remain available."""

    is_enabled = False
    steps = ()

    def __init__(self, results: QuestionnaireResults, pass_score: int) -> None:
        super().__init__(Questionnaire((), pass_score), results)

    async def submit(self, answers: Mapping[str, Answer], submitter: Submitter) -> SubmittedAnswers:
        raise NotEnabled


@dataclass(frozen=True)
class SubmissionLimits:
    """Limits on submissions, and the cool-down after a failed one (`retry_after`; zero: none).

    The cool-down is the proven address's, so that it meets no other address behind the same client. Without a proof it
    is the client's, which every failed submission starts: leaving out the proof must not save the wait.
    """

    proofs: AddressProofs
    limits: DurableLimits
    per_client: tuple[RateLimit, ...]
    total: tuple[RateLimit, ...]
    retry_after: timedelta

    def hit(self, submitter: Submitter) -> None:
        """Count a submission in the current transaction. Raises `RateLimited` or `InvalidCode`, counting nothing."""
        self.check_cool_down(submitter)
        caller = submitter.caller
        total = in_total("questionnaire.total", self.total)
        self.limits.hit_all(
            [("questionnaire.client", caller.limit_key, self.per_client)],
            [SharedHit(total, caller.network_key, is_known=lambda: False)],
        )

    def start_cool_down(self, submitter: Submitter) -> None:
        """Start the cool-down. Raises `RateLimited` during one: of several failed attempts at once, one is saved."""
        self.limits.hit("questionnaire.failed", self._subject(submitter), self._cool_down)
        if submitter.proof is not None or submitter.address is not None:
            with suppress(RateLimited):  # the client already waits, after another address
                self.limits.hit("questionnaire.failed", submitter.caller.limit_key, self._cool_down)

    def check_cool_down(self, submitter: Submitter) -> None:
        """Raise `RateLimited` during the cool-down, and `InvalidCode` for a proof that proves nothing."""
        wait = self.limits.remaining_seconds("questionnaire.failed", self._subject(submitter), self._cool_down)
        if wait > 0:
            raise RateLimited(wait)

    def _subject(self, submitter: Submitter) -> str:
        if submitter.address is not None:
            return submitter.address
        if submitter.proof is None:
            return submitter.caller.limit_key
        return self.proofs.find_address(submitter.proof, "register")

    @property
    def _cool_down(self) -> tuple[RateLimit, ...]:
        return (RateLimit(1, self.retry_after),) if self.retry_after else ()


class ActiveQuestionnaire(Questionnaires):
    """The questionnaire is on: applicants have to pass it."""

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
        """`language`: the host's language, in which results are saved for admins."""
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

    async def submit(self, answers: Mapping[str, Answer], submitter: Submitter) -> SubmittedAnswers:
        evaluation = self.questionnaire.evaluate(answers)
        to_score = self._list_scorable(evaluation)
        if not to_score:
            return await self._worker.run(self._check_limits_and_save, evaluation, submitter)
        await self._worker.run(self._check_limits, submitter)
        scored = await asyncio.gather(*map(self._score, to_score))
        evaluation = evaluation.with_points({answer.question.id: answer for answer in scored})
        return await self._worker.run(self._save, evaluation, submitter)

    def _list_scorable(self, evaluation: Evaluation) -> list[ScoredAnswer]:
        """Return the unread answers that the scorer can score; none for a failed submission."""
        if not self._scorer.is_available or not evaluation.is_passed:
            return []
        return [answer for answer in evaluation.unread if answer.question.max_points > 0]

    async def _score(self, scored: ScoredAnswer) -> ScoredAnswer:
        """Return the answer with the scorer's points, or unchanged."""
        question = scored.question
        assert isinstance(question, TextQuestion)
        text = question.text.in_language(self._language)
        score = await self._scorer.score(
            TextAnswer(text, question.scoring_rule, question.max_score, scored.text),
        )
        return scored if score is None else replace(scored, points=score.points, note=score.reason)

    def _check_limits_and_save(self, evaluation: Evaluation, submitter: Submitter) -> SubmittedAnswers:
        with self._database.atomic():
            self._check_limits(submitter)
            return self._save(evaluation, submitter)

    def _check_limits(self, submitter: Submitter) -> None:
        with self._database.atomic():
            self._limits.hit(submitter)

    def _save(self, evaluation: Evaluation, submitter: Submitter) -> SubmittedAnswers:
        with self._database.atomic():
            if evaluation.is_passed:
                self._limits.check_cool_down(submitter)
            else:
                self._limits.start_cool_down(submitter)
            answers = [record_answer(answer, self._language) for answer in evaluation.answers]
            saved = self._results.save(evaluation, answers, self._summarize(evaluation))
        return SubmittedAnswers(
            token=saved.token,
            score=evaluation.score,
            max_score=evaluation.max_score,
            pass_score=evaluation.pass_score,
            is_passed=evaluation.is_passed,
            requires_review=evaluation.requires_review,
            submitted_at=saved.submitted_at,
            expires_at=saved.expires_at,
            wait=timedelta(0) if evaluation.is_passed else self._limits.retry_after,
        )

    def _summarize(self, evaluation: Evaluation) -> str:
        """Return the summary for the review queue: points, unread answers and the scorer's reasons."""
        lines = [
            self._text(
                "points", score=evaluation.score, max_score=evaluation.max_score, pass_score=evaluation.pass_score
            )
        ]
        if evaluation.unread:
            lines.append(self._text("unread", count=len(evaluation.unread), open_points=evaluation.open_points))
        for answer in evaluation.answers:
            if answer.note:
                question = answer.question
                facts = {"question_id": question.id, "points": answer.points, "max_points": question.max_points}
                lines.append(self._text("scored", **facts, note=answer.note))
        return "\n".join(lines)

    def _text(self, key: str, **facts: object) -> str:
        return self._translations.text(f"questionnaire.{key}", self._language, **facts)


class QuestionnaireStep(RegistrationStep):
    """Step that requires a passed questionnaire and assigns its result to the new user."""

    def __init__(self, results: QuestionnaireResults) -> None:
        self._results = results

    def check(self, application: Application) -> None:
        """Raise `QuestionnaireRequired` or `QuestionnaireFailed`. Spends nothing."""
        self._results.check(application.questionnaire_token)

    def redeem(self, application: Application, user_id: int) -> bool:
        """Redeem the result for the user. Returns False where an admin has to read answers. Raises as `check` does."""
        return not self._results.redeem(application.questionnaire_token, user_id).requires_review
