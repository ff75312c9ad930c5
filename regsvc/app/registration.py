"""Wiring of the registration and of e-mail verification."""

from dataclasses import dataclass

from regsvc.accounts.captcha.captcha import Captchas
from regsvc.accounts.email_verification import EmailVerification
from regsvc.app.auth import AuthParts
from regsvc.app.context import AppContext
from regsvc.app.mail import MailParts
from regsvc.app.passwords import PasswordParts
from regsvc.app.runtime import RuntimeParts
from regsvc.app.sync import SyncParts
from regsvc.core.email_address import EmailPolicy
from regsvc.registration.applications.address import AddressCorrection, AnswerChanges, PendingApplications
from regsvc.registration.applications.service import ApplicationService
from regsvc.registration.applications.status import Applications
from regsvc.registration.applications.streams import ApplicationStreams
from regsvc.registration.questionnaire.service import Questionnaires
from regsvc.registration.registration import Registration
from regsvc.registration.user_creation import UserCreation
from regsvc.registration.validation import (
    ApplicationValidator,
    ApprovalStep,
    CaptchaStep,
    ClientLimit,
    MailedCode,
    RegistrationStep,
)


@dataclass(frozen=True)
class RegistrationParts:
    """The registration and the verification of e-mail addresses."""

    verification: EmailVerification
    registration: Registration
    applications: ApplicationService


def wire_registration(
    context: AppContext,
    runtime: RuntimeParts,
    auth: AuthParts,
    mail: MailParts,
    passwords: PasswordParts,
    sync: SyncParts,
    captchas: Captchas,
    questionnaires: Questionnaires,
    feature_steps: list[RegistrationStep],
) -> RegistrationParts:
    """`feature_steps`: steps of other features, from cheap to expensive, those of the questionnaire included."""
    config, location, live = context.config.registration, context.location, runtime.live
    email_policy = EmailPolicy(config.email_domains, config.blocked_email_domains, accepts_aliases=config.email_aliases)
    verification = EmailVerification(
        location.database, runtime.worker, mail.codes, mail.mail_queue, mail.limits, email_policy, captchas, live
    )
    users = UserCreation(
        location.database, location.players, sync.reconciler, sync.transitions, auth.audit, live, context.now
    )
    registration = Registration(
        worker=runtime.worker,
        validator=ApplicationValidator(live, passwords.rules, email_policy),
        proof=MailedCode(verification) if config.requires_code else ClientLimit(auth.limits, live),
        hashing=passwords.hashing,
        users=users,
        tokens=mail.application_tokens,
        steps=[CaptchaStep(captchas), *feature_steps, ApprovalStep(live)],
        wake=mail.mail_queue.wake,
    )
    applications = Applications(runtime.worker, mail.application_tokens, questionnaires, live, context.now)
    pending, wake = PendingApplications(location.database, mail.application_tokens), mail.mail_queue.wake
    service = ApplicationService(
        applications,
        ApplicationStreams(applications),
        AnswerChanges(pending, runtime.worker, applications, questionnaires, auth.audit, wake),
        AddressCorrection(pending, runtime.worker, email_policy, captchas, mail.limits, live, auth.audit, wake),
    )
    return RegistrationParts(verification, registration, service)
