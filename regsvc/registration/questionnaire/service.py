"""Submission of the questionnaire, its stored results, and its condition of a registration.

The client gets a token; the result itself stays in the database. The token is derived from its row
(`regsvc.auth.derived_secrets`) and can be redeemed once before it expires. The registration that redeems it assigns the
row to the new user, where it stays for the review.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType, structs
from peewee import Database

from regsvc.accounts.access import AccountAccess
from regsvc.auth.derived_secrets import DerivedSecrets, new_nonce, parse_row_id
from regsvc.auth.entitlement import Principal
from regsvc.auth.rate_limits import DurableLimits, in_total, limits_of, team_writes
from regsvc.auth.verification_codes import Proof, VerificationCodes, proven_at
from regsvc.config.sections import QuestionnaireSection
from regsvc.core import errors
from regsvc.core.addresses import Caller
from regsvc.core.clock import Clock
from regsvc.core.errors import (
    InvalidField,
    NotEnabled,
    QuestionnaireFailed,
    QuestionnaireRequired,
    RateLimited,
    UserNotFound,
    WrongStatus,
)
from regsvc.core.i18n import Translations
from regsvc.core.rights import Permission
from regsvc.core.shapes import Moment, Output, Username
from regsvc.core.text import name_key, whole
from regsvc.core.units import RateLimit
from regsvc.database.audit import Audit
from regsvc.database.bulk import redate, select_rows
from regsvc.database.engine import Worker
from regsvc.database.models import PENDING, StoredQuestionnaire, User
from regsvc.http.messages import MessageReply, Reply, Request
from regsvc.http.route import PUBLIC, Routes, SentAs
from regsvc.registration.questionnaire.questions import (
    Answer,
    ChoiceQuestion,
    Evaluation,
    Question,
    Questionnaire,
    ScoredAnswer,
    TextQuestion,
    weigh,
)
from regsvc.registration.questionnaire.scorer import ChatScorer, TextAnswer
from regsvc.registration.registration import RegistrationCondition, RegistrationRequest
from regsvc.users.user_details import AnsweredQuestion, Kind, QuestionnaireResult

if TYPE_CHECKING:
    from regsvc.http.call import Call


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


ROUTES: Final = Routes()


@dataclass(frozen=True)
class Submitter:
    """A client that submits answers, and its proof of an e-mail address, if it has one.

    `address`: the key of an address that was proven before.
    """

    caller: Caller
    proof: str | None = field(default=None, repr=False)
    address: str | None = None


@dataclass(frozen=True)
class Questionnaires:
    """The questionnaire of applicants, where the host has one."""

    questionnaire: Questionnaire
    """Without questions, where there is none."""
    config: QuestionnaireSection
    results: QuestionnaireResults
    database: Database
    worker: Worker
    codes: VerificationCodes
    limits: DurableLimits
    scorer: ChatScorer | None
    translations: Translations
    access: AccountAccess
    audit: Audit
    language: str
    """The host's language, in which results are saved for admins."""

    @property
    def is_enabled(self) -> bool:
        """Whether applicants have to pass a questionnaire."""
        return self.config.file is not None

    async def submit(self, answers: Mapping[str, Answer], submitter: Submitter) -> SubmitQuestionnaireReply:
        """Evaluate answers, keyed by question id as text, and save the result.

        Raises `InvalidAnswer`, `RateLimited` (also while a failed attempt cools down), `InvalidCode` for a proof that
        proves nothing, and `NotEnabled`.
        """
        if not self.is_enabled:
            raise NotEnabled
        evaluation = self.questionnaire.evaluate(answers)
        to_score = self._list_scorable(evaluation)
        if not to_score:
            return await self.worker.run(self._count_and_save, evaluation, submitter)
        await self.worker.run(self._count, submitter)
        scored = await asyncio.gather(*map(self._score, to_score))
        evaluation = evaluation.with_points({answer.question.id: answer for answer in scored})
        return await self.worker.run(self._save, evaluation, submitter)

    def judge(self, username: str, question_id: int, points: int, by: Principal) -> str:
        """Give the points of a text answer, as a member of the team who has read it; return the user's name. Blocking.

        Raises `UserNotFound`, `ProtectedOperator`, `WrongStatus` once the user is decided about, `RateLimited`, and
        `InvalidField`.
        """
        with self.database.atomic():
            key = name_key(username)
            select_rows(self.database, User, [User.id], User.username_key, [key], for_update=True)
            user = User.get_or_none(User.username_key == key)
            if user is None:
                raise UserNotFound
            self.access.require_permission(user, "points", by)
            if user.status != PENDING:
                raise WrongStatus(user.status)
            result = self.results.find_of(user.id)
            if result is None:
                raise InvalidField("questionId")
            judged = judge(result, question_id, points)
            self.limits.hit_all(team_writes(by.username))
            summary = self._summarize(judged.score, judged.max_score, judged.pass_score, judged.answers)
            self.results.rescore(user.id, replace(judged, summary=summary))
            detail = {"questionId": question_id, "points": points}
            self.audit.record("user.answer_judged", by.actor, user.username, detail)
        return str(user.username)

    def _list_scorable(self, evaluation: Evaluation) -> list[ScoredAnswer]:
        """Return the unread answers that the scorer can score; none for a failed submission."""
        if self.scorer is None or not evaluation.is_passed:
            return []
        return [answer for answer in evaluation.unread if answer.question.max_points > 0]

    async def _score(self, scored: ScoredAnswer) -> ScoredAnswer:
        """Return the answer with the scorer's points, or unchanged."""
        question = scored.question
        assert isinstance(question, TextQuestion)
        assert self.scorer is not None
        text = question.text.in_language(self.language)
        score = await self.scorer.score(
            TextAnswer(text, question.scoring_rule, question.max_score, scored.text),
        )
        return scored if score is None else replace(scored, points=score.points, note=score.reason)

    def _count_and_save(self, evaluation: Evaluation, submitter: Submitter) -> SubmitQuestionnaireReply:
        with self.database.atomic():
            self._count(submitter)
            return self._save(evaluation, submitter)

    def _count(self, submitter: Submitter) -> None:
        """Count a submission. Raises `RateLimited` or `InvalidCode`, counting nothing."""
        caller = submitter.caller
        with self.database.atomic():
            self._check_cool_down(submitter)
            total = in_total("questionnaire.total", self.config.limits_total, caller.network_key)
            limits = limits_of(caller, self.config.limits_per_client)
            self.limits.hit_all([("questionnaire.client", caller.limit_key, limits)], [total])

    def _save(self, evaluation: Evaluation, submitter: Submitter) -> SubmitQuestionnaireReply:
        with self.database.atomic():
            if evaluation.is_passed:
                self._check_cool_down(submitter)
            else:
                self._start_cool_down(submitter)
            answers = [record_answer(answer, self.language) for answer in evaluation.answers]
            summary = self._summarize(evaluation.score, evaluation.max_score, evaluation.pass_score, answers)
            seconds = None
            if submitter.proof is not None:  # else nothing tells when the applicant began
                seconds = round((self.results.now() - proven_at(submitter.proof)).total_seconds())
            token, saved = self.results.save(evaluation, answers, summary, seconds)
        return SubmitQuestionnaireReply(
            token=token,
            score=evaluation.score,
            max_score=evaluation.max_score,
            pass_score=evaluation.pass_score,
            passed=evaluation.is_passed,
            manual_review_required=evaluation.requires_review,
            submitted_at=saved.submitted_at,
            expires_at=saved.expires_at,
            remaining_seconds=UNSET if evaluation.is_passed else round(self.config.retry_after.total_seconds()),
        )

    # --- the cool-down after a failed submission ---
    # It is the proven address's, so that it meets no other address behind the same client. Without a proof it is the
    # client's, which every failed submission starts: leaving out the proof must not save the wait.

    def _start_cool_down(self, submitter: Submitter) -> None:
        """Start the cool-down. Raises `RateLimited` during one: of several failed attempts at once, one is saved."""
        self.limits.hit("questionnaire.failed", self._subject(submitter), self._cool_down)
        if submitter.proof is not None or submitter.address is not None:
            with suppress(RateLimited):  # the client already waits, after another address
                self.limits.hit("questionnaire.failed", submitter.caller.limit_key, self._cool_down)

    def _check_cool_down(self, submitter: Submitter) -> None:
        """Raise `RateLimited` during the cool-down, and `InvalidCode` for a proof that proves nothing."""
        wait = self.limits.remaining_seconds([("questionnaire.failed", self._subject(submitter), self._cool_down)])
        if wait > 0:
            raise RateLimited(wait)

    def _subject(self, submitter: Submitter) -> str:
        if submitter.address is not None:
            return submitter.address
        if submitter.proof is None:
            return submitter.caller.limit_key
        return self.codes.find_proven_address(submitter.proof, "register")

    @property
    def _cool_down(self) -> tuple[RateLimit, ...]:
        return (RateLimit(1, self.config.retry_after),) if self.config.retry_after else ()

    def _summarize(self, score: int, max_score: int, pass_score: int, answers: Sequence[AnsweredQuestion]) -> str:
        """Return the summary for the review queue: points, unread answers and the scorer's reasons."""
        lines = [self._text("points", score=score, max_score=max_score, pass_score=pass_score)]
        unread = [answer for answer in answers if answer.points is None]
        if unread:
            open_points = sum(answer.max_points for answer in unread)
            lines.append(self._text("unread", count=len(unread), open_points=open_points))
        for answer in answers:
            if answer.note:
                facts = {"question_id": answer.question_id, "points": answer.points, "max_points": answer.max_points}
                lines.append(self._text("scored", **facts, note=answer.note))
        return "\n".join(lines)

    def _text(self, key: str, **facts: object) -> str:
        return self.translations.text(f"questionnaire.{key}", self.language, **facts)


@dataclass(frozen=True)
class QuestionnaireCondition(RegistrationCondition):
    """Condition that requires a passed questionnaire and assigns its result to the new user."""

    results: QuestionnaireResults

    def check(self, request: RegistrationRequest) -> None:
        """Raise `QuestionnaireRequired` or `QuestionnaireFailed`. Spends nothing."""
        if not _is_excused(request):
            self.results.check(request.questionnaire_token)

    def redeem(self, request: RegistrationRequest, user: User) -> bool:
        """Redeem the result for the user. Returns False where an admin has to read answers. Raises as `check` does."""
        if _is_excused(request):
            return True
        return not self.results.redeem(request.questionnaire_token, user.id).requires_review


def _is_excused(request: RegistrationRequest) -> bool:
    """Return whether an invitation frees them from the questionnaire; answers that they gave count all the same."""
    return request.questionnaire_token is None and request.is_granted("no_questionnaire")


QuestionKey = Annotated[
    str, Meta(pattern=whole("[1-9][0-9]{0,8}"), description="The id of a question.", examples=["1"])
]

OptionId = Annotated[int, Meta(description="The index of the option, from 0.", examples=[0])]


class QuestionInputFields(Output, frozen=True, kw_only=True):
    """The limits of an answer: choices have the first two fields, texts the others; lengths are in characters."""

    min_selections: Annotated[int, Meta(examples=[1])] | UnsetType = UNSET
    max_selections: Annotated[int, Meta(examples=[1])] | UnsetType = UNSET
    min_length: int | UnsetType = UNSET
    max_length: int | UnsetType = UNSET
    multiline: bool | UnsetType = UNSET
    placeholder: str | UnsetType = UNSET


class OptionFields(Output, frozen=True, kw_only=True):
    id: OptionId
    text: Annotated[str, Meta(examples=["I talk to the player."])]


QuestionId = Annotated[int, Meta(ge=1, description="The number that the host gave the question.", examples=[1])]
Points = Annotated[int, Meta(ge=0, examples=[60])]


class QuestionFields(Output, frozen=True, kw_only=True):
    """A question, without the points of its answers."""

    id: QuestionId
    question: Annotated[str, Meta(examples=["What do you do?"])]
    language: Annotated[
        str | None,
        Meta(description="Language of the question; null if the host wrote it without naming one.", examples=["en"]),
    ]
    type: Kind
    required: bool
    input: QuestionInputFields
    options: list[OptionFields]


class QuestionnaireFields(Output, frozen=True, kw_only=True):
    """The questions in order; none if the questionnaire is switched off."""

    enabled: bool
    pass_score: Points
    questions: list[QuestionFields]


class AnswerFields(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """The answer to one question: the ids of the chosen options, or a text. If `type` is given, it must be correct."""

    type: Annotated[str, Meta(examples=["single_choice"])] | None = None
    selected_option_ids: list[OptionId] | None = None
    text_answer: str | None = None


class SubmitQuestionnaireReply(Reply, frozen=True, kw_only=True):
    """The result of the answers. Send the token with the registration, before it expires.

    `passed` with `manualReviewRequired`: good enough to register, but a person has to read the answers before the
    player may play; `score` may still grow then.
    """

    token: Annotated[str, Meta(description="Valid for one registration.", examples=["pJ7Vd0cVbq8yR3v0cY2mB5kT"])]
    score: Points
    max_score: Points
    pass_score: Points
    passed: bool
    manual_review_required: bool
    submitted_at: Moment
    expires_at: Moment
    remaining_seconds: (
        Annotated[
            int, Meta(description="Seconds until the next answers are accepted, if these did not pass.", examples=[300])
        ]
        | UnsetType
    ) = UNSET


SECONDS_PER_MINUTE: Final = 60


@ROUTES.add("GET", "/api/questionnaire/config", PUBLIC)
async def show_questionnaire(
    call: Call, questionnaires: Questionnaires, _query: Request
) -> Annotated[QuestionnaireFields, SentAs("data", "QuestionnaireConfigReply")]:
    """Show the questions in the requested language, without the scoring.

    QuestionnaireQuery: The language of the questions, one of those that the host provides.
    """
    asked = questionnaires.questionnaire
    language = call.negotiate_language(asked.languages)
    return QuestionnaireFields(
        enabled=questionnaires.is_enabled,
        pass_score=asked.pass_score,
        questions=[_question(question, language) for question in asked.questions],
    )


@ROUTES.add(
    "POST",
    "/api/questionnaire/submit",
    PUBLIC,
    errors.InvalidAnswer,
    errors.InvalidCode,
    errors.RateLimited,
    errors.NotEnabled,
    has_large_body=True,
)
async def submit_questionnaire(
    call: Call,
    questionnaires: Questionnaires,
    *,
    answers: Annotated[
        dict[QuestionKey, AnswerFields],
        Meta(examples=[{"1": {"type": "single_choice", "selectedOptionIds": [0]}}]),
    ],
    proof: (
        Annotated[
            Proof,
            Meta(description="The wait after answers that do not pass is its address's; without it, the client's."),
        ]
        | None
    ) = None,
) -> SubmitQuestionnaireReply:
    """Submit answers to the questionnaire. After answers that do not pass, the applicant has to wait.

    The wait is that of the proven address or, without a proof, that of all applicants behind the client's address,
    which failed answers with a proof start, too.

    SubmitQuestionnaireRequest: The answers by question id; omitted questions count as unanswered.
    """
    given = {key: to_answer(fields) for key, fields in answers.items()}
    submitted = await questionnaires.submit(given, Submitter(call.caller, proof))
    wait = submitted.remaining_seconds or 0
    if submitted.passed:
        key = "questionnaire_to_read" if submitted.manual_review_required else "questionnaire_passed"
    else:
        key = "questionnaire_failed_wait" if wait else "questionnaire_failed"
    minutes = ceil(wait / SECONDS_PER_MINUTE)
    message = call.message(key, score=submitted.score, passScore=submitted.pass_score, minutes=minutes)
    return structs.replace(submitted, message=message)


def to_answer(fields: AnswerFields) -> Answer:
    """Return an answer as the questionnaire evaluates it."""
    return Answer(fields.type, tuple(fields.selected_option_ids or ()), fields.text_answer or "")


def _question(question: Question, language: str) -> QuestionFields:
    return QuestionFields(
        id=question.id,
        question=question.text.in_language(language),
        language=question.text.find_tag(language) or None,
        type=question.type,
        required=question.is_required,
        input=_input(question, language),
        options=_options(question, language),
    )


def _input(question: Question, language: str) -> QuestionInputFields:
    if isinstance(question, ChoiceQuestion):
        return QuestionInputFields(min_selections=question.min_selections, max_selections=question.max_selections)
    assert isinstance(question, TextQuestion)
    return QuestionInputFields(
        min_length=question.min_length,
        max_length=question.max_length,
        multiline=question.is_multiline,
        placeholder=question.placeholder.in_language(language),
    )


def _options(question: Question, language: str) -> list[OptionFields]:
    if not isinstance(question, ChoiceQuestion):
        return []
    return [
        OptionFields(id=place, text=option.text.in_language(language)) for place, option in enumerate(question.options)
    ]


@ROUTES.add(
    "POST",
    "/api/admin/user/points",
    Permission.USERS_REVIEW,
    errors.UserNotFound,
    errors.WrongStatus,
    errors.ProtectedOperator,
    errors.RateLimited,
)
async def give_points(
    call: Call, questionnaires: Questionnaires, *, username: Username, question_id: QuestionId, points: Points
) -> MessageReply:
    """Give the points of a text answer that you have read, while the user waits for review.

    PointsRequest: The points of an answer to a text question.
    """
    judge = questionnaires.judge
    username = await call.run(judge, username, question_id, points, call.principal)
    return MessageReply(message=call.message("points_given", username=username))
