"""Changes that applicants make while they wait for review: their answers, and addresses that nothing proves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta
from msgspec.structs import replace
from peewee import Database

from regsvc.accounts.captcha import CAPTCHA_REFUSALS, CaptchaProof, CaptchaProtectedRequest, Captchas
from regsvc.auth.derived_secrets import ApplicationToken, ApplicationTokens
from regsvc.auth.rate_limits import DurableLimits, LimitCheck
from regsvc.config.live import LiveConfig
from regsvc.core import errors
from regsvc.core.addresses import Caller
from regsvc.core.email_address import EmailAddress, EmailPolicy
from regsvc.core.errors import (
    AnswerTooLate,
    ApplicationNotFound,
    NotEnabled,
    QuestionnaireFailed,
    RateLimited,
    WrongStatus,
)
from regsvc.core.text import MAX_ANSWER
from regsvc.core.units import RateLimit
from regsvc.database.audit import Actor, Audit
from regsvc.database.bulk import select_rows
from regsvc.database.engine import Worker
from regsvc.database.models import PENDING, User
from regsvc.http.messages import Email, Reply
from regsvc.http.route import APPLICATION_TOKEN, PUBLIC, Routes
from regsvc.notifications.mail.queue import MailLimits
from regsvc.notifications.webhook import WebhookQueue
from regsvc.registration.applications.status import (
    ApplicationReply,
    Applications,
    application_reply,
    may_correct_email,
    token_of,
)
from regsvc.registration.questionnaire.questions import Answer
from regsvc.registration.questionnaire.service import AnswerFields, QuestionKey, Questionnaires, Submitter, to_answer
from regsvc.users.questions import Questions

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()

_CHANGES: Final = (RateLimit(10, timedelta(hours=1)), RateLimit(30, timedelta(days=1)))
"""Changes of the answers of one application, each of which the team is told."""


class CorrectAddressReply(Reply, frozen=True, kw_only=True):
    """The address was replaced, and with it the token: the one presented is no longer valid."""

    email: Email
    application_token: ApplicationToken


@dataclass(frozen=True)
class ApplicationChanges:
    """Changes of applications by those who have their tokens, while they wait for review."""

    database: Database
    worker: Worker
    applications: Applications
    tokens: ApplicationTokens
    questionnaires: Questionnaires
    email_policy: EmailPolicy
    captchas: Captchas
    mail_limits: MailLimits
    limits: DurableLimits
    live: LiveConfig
    questions: Questions
    audit: Audit
    webhook: WebhookQueue
    wake: Callable[[], None]
    """Wakes the open streams."""

    async def correct_address(
        self, token: str, email: str, captcha: CaptchaProof, caller: Caller
    ) -> CorrectAddressReply:
        """Replace an address that is a note for the moderators (`registration.methods`); nothing is mailed to it.

        Captchas and limits are those of codes. Raises `InvalidEmail`, `DomainNotAllowed`, `RateLimited`, the captcha's
        refusals, `ApplicationNotFound`, `WrongStatus`, and `NotEnabled` where the address is proven or codes are
        required.
        """
        address = self.email_policy.parse(email)
        with self.captchas.guard("verify_send", captcha, caller):
            corrected = await self.worker.run(self._correct, token, address, caller)
        self.wake()
        return corrected

    async def change_answers(self, token: str, answers: Mapping[str, Answer], caller: Caller) -> ApplicationReply:
        """Replace the answers by others that pass the questionnaire, and return the application.

        Raises `ApplicationNotFound`, `WrongStatus`, `NotEnabled` where no questions were asked, `RateLimited` after too
        many changes, and what a submission of answers raises. Failed answers start the same wait, of the proven
        address, and raise `QuestionnaireFailed`: the earlier ones stay.
        """
        address = await self.worker.run(self._find_address, token)
        submitted = await self.questionnaires.submit(answers, Submitter(caller, address=address))
        if not submitted.passed:
            wait = submitted.remaining_seconds or 0
            raise QuestionnaireFailed(
                "kept", score=submitted.score, pass_score=submitted.pass_score, remaining_seconds=wait
            )
        await self.worker.run(self._replace_answers, token, submitted.token, caller)
        self.wake()
        return await self.applications.find(token)

    async def answer_question(self, token: str, text: str, caller: Caller) -> ApplicationReply:
        """Answer the team's newest question, and return the application, which then waits for the team.

        Raises `ApplicationNotFound`, `NothingAsked`, `AnswerTooLong`, `InvalidField` for an empty answer, and
        `AnswerTooLate` once the answer is stored where the application was decided before.
        """
        is_in_time = await self.worker.run(self._answer, token, text, caller)
        self.wake()
        if not is_in_time:
            raise AnswerTooLate
        return await self.applications.find(token)

    def _answer(self, token: str, text: str, caller: Caller) -> bool:
        with self._locked(token, is_pending=False) as user:
            return self.questions.answer(user, text, Actor(user.username, caller.address))

    def _correct(self, token: str, address: EmailAddress, caller: Caller) -> CorrectAddressReply:
        with self._locked(token) as user:
            if not may_correct_email(user, requires_code=self.live.current.registration.requires_code):
                raise NotEnabled
            self.mail_limits.hit(address.mailbox, caller)
            user.email, user.email_key = address.display, None
            User.update(email=user.email, email_key=None).where(User.id == user.id).execute()
            by = Actor(user.username, caller.address)
            self.audit.record("user.email_changed", by, user.username, {"why": "corrected"})
        return CorrectAddressReply(email=address.display, application_token=self.tokens.token_of(user))

    def _find_address(self, token: str) -> str | None:
        """Return the key of the address that the applicant has proven, or None.

        Raises `RateLimited` where no change is left, so that no answer is scored in vain.
        """
        with self._locked(token) as user:
            if self.questionnaires.results.find_of(user.id) is None:
                raise NotEnabled
            if (seconds := self.limits.remaining_seconds([_changes_of(user)])) > 0:
                raise RateLimited(seconds)
            return user.proven_key

    def _replace_answers(self, token: str, submitted: str, caller: Caller) -> None:
        with self._locked(token) as user:
            self.limits.hit(*_changes_of(user))
            self.questionnaires.results.replace_of(user.id, submitted)
            self.audit.record("user.answers_changed", Actor(user.username, caller.address), user.username)
            self.webhook.enqueue("answers_changed", user.username, user.status)

    @contextmanager
    def _locked(self, token: str, *, is_pending: bool = True) -> Iterator[User]:
        """Begin a transaction and yield the user of this token, locked; `is_pending`: while pending only.

        The token is verified before, so that a guess locks nothing, and after, as the lock may have waited for a change
        that ended it. Raises `ApplicationNotFound` and `WrongStatus`.
        """
        with self.database.atomic():
            select_rows(self.database, User, [User.id], User.id, [self._find_user(token).id], for_update=True)
            user = self._find_user(token)
            if is_pending and user.status != PENDING:
                raise WrongStatus(user.status)
            yield user

    def _find_user(self, token: str) -> User:
        user = self.tokens.find_users([token]).get(token)
        if user is None:
            raise ApplicationNotFound
        return user


def _changes_of(user: User) -> LimitCheck:
    """Return the limit of changed answers of an application; one that was withdrawn and made anew has none left."""
    return "application.answers", user.username_key, _CHANGES


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
    has_status_limit=True,
)
async def change_answers(
    call: Call,
    application_changes: ApplicationChanges,
    *,
    answers: Annotated[
        dict[QuestionKey, AnswerFields],
        Meta(examples=[{"1": {"type": "single_choice", "selectedOptionIds": [0]}}]),
    ],
) -> ApplicationReply:
    """Replace the answers of an application that waits for review. If the new ones fail, the earlier ones stay.

    The token is taken from the header alone. The limits are those of the questionnaire, and ten changes an hour and
    thirty a day of one application; failed answers start its wait for the applicant's address.

    ChangeAnswersRequest: All answers by question id, as in `POST /api/questionnaire/submit`; omitted questions count
    as unanswered.
    """
    given = {key: to_answer(fields) for key, fields in answers.items()}
    changed = await application_changes.change_answers(token_of(call), given, call.caller)
    return application_reply(call, changed, message=call.message("answers_changed"))


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
    has_status_limit=True,
)
async def answer_question(
    call: Call,
    application_changes: ApplicationChanges,
    *,
    text: Annotated[
        str, Meta(description=f"At most {MAX_ANSWER} characters.", examples=["The one who builds bridges."])
    ],
) -> ApplicationReply:
    """Answer the newest question of the team, for whose review the application then waits again.

    The token is taken from the header alone. An answer that comes after the decision is kept, and refused with
    `answer_too_late`.

    AnswerQuestionRequest: The answer to the newest question.
    """
    answered = await application_changes.answer_question(token_of(call), text, call.caller)
    return application_reply(call, answered, message=call.message("question_answered"))


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
    has_status_limit=True,
)
async def correct_address(
    call: Call,
    application_changes: ApplicationChanges,
    request: CaptchaProtectedRequest,
    *,
    email: Email,
) -> CorrectAddressReply:
    """Correct an address that nothing proves (`canCorrectEmail`), while the application waits for review.

    The token is taken from the header alone. Nothing is mailed to such addresses.

    CorrectAddressRequest: The right address; with a captcha where one is required to request a code.
    """
    changes = application_changes
    corrected = await changes.correct_address(token_of(call), email, request.captcha, call.caller)
    return replace(corrected, message=call.message("email_changed"))
