"""Everything about e-mail, wired."""

from dataclasses import dataclass
from datetime import timedelta

from plugin_bridge.authme.config import AuthMeConfig
from regsvc.app.context import AppContext
from regsvc.auth.derived_secrets import DerivedSecrets
from regsvc.auth.password_links import PasswordLinks
from regsvc.auth.verification_codes import VerificationCodes
from regsvc.config.sections import Config, ConfigError
from regsvc.core.email_address import EmailAddress, EmailPolicy, parse_email
from regsvc.core.errors import Refusal
from regsvc.database.engine import Worker
from regsvc.notifications.delivery import DeliveryWorker, DeliveryWorkers
from regsvc.notifications.mail.admin_digest import AdminDigest
from regsvc.notifications.mail.backends import AuthMeMailAccount, MailBackend, make_mail_backend
from regsvc.notifications.mail.limits import MailLimits
from regsvc.notifications.mail.queue import MailQueue
from regsvc.notifications.mail.renderer import MailRenderer
from regsvc.notifications.mail.templates import load_mail_templates
from regsvc.notifications.mail.transport import MailStore, SmtpTransport
from regsvc.notifications.outbox import Outbox, RetryPolicy
from regsvc.runtime.metrics import Metrics


@dataclass(frozen=True)
class MailParts:
    """Everything about e-mail: what is promised, how it is written, who delivers it."""

    backend: MailBackend
    outbox: Outbox
    codes: VerificationCodes
    links: PasswordLinks
    renderer: MailRenderer
    delivery_worker: DeliveryWorker
    mail_queue: MailQueue
    limits: MailLimits
    email_policy: EmailPolicy
    admin_digest: AdminDigest


def wire_mail(
    context: AppContext, worker: Worker, base_url: str, metrics: Metrics, delivery_workers: DeliveryWorkers
) -> MailParts:
    """Mails leave with `delivery_workers`."""
    config, now = context.config, context.now
    secrets = DerivedSecrets(context.keys.installation_key)
    backend = make_mail_backend(config.mail, _authme_mail(context.authme))
    links = PasswordLinks(secrets, now)
    outbox = Outbox(now, "mail", mail_retry_policy(config.mail.max_attempts))
    codes = VerificationCodes(
        secrets,
        now,
        valid=config.verification.code_valid,
        max_tries=config.verification.max_tries,
        digits=config.verification.code_digits,
    )
    renderer = MailRenderer(
        load_mail_templates(config.mail.templates),
        codes,
        links,
        outbox,
        now,
        sender=backend.sender,
        server_name=config.server.name,
        base_url=base_url,
    )
    store = MailStore(context.location.database, outbox, codes, renderer, on_finished=metrics.count_mail)
    delivery_worker = DeliveryWorker(worker, store, SmtpTransport(worker, store, backend))
    delivery_workers.add(delivery_worker)
    mail_queue = MailQueue(
        outbox, config.server.language, is_available=backend.is_available, wake=delivery_workers.wake
    )
    limits = MailLimits(
        config.verification.limits_per_address,
        config.verification.limits_per_client,
        config.verification.limits_total,
    )
    policy = EmailPolicy(
        config.registration.email_domains,
        config.registration.blocked_email_domains,
        accepts_aliases=config.registration.email_aliases,
    )
    admin_digest = AdminDigest(context.location.database, mail_queue, _admins(config), config.mail.admin_digest, now)
    return MailParts(backend, outbox, codes, links, renderer, delivery_worker, mail_queue, limits, policy, admin_digest)


def _admins(config: Config) -> list[EmailAddress]:
    """Raises `ConfigError` for what looked like an address and is none."""
    try:
        return [parse_email(written) for written in config.mail.admins]
    except Refusal as error:
        raise ConfigError(["mail.admins: one of these is no e-mail address that mail can be sent to"]) from error


def mail_retry_policy(max_attempts: int) -> RetryPolicy:
    """From half a minute to some hours: longer than a server that postpones strangers lets them wait.

    Eight attempts take about three hours. A mail server that is away costs no attempt.
    """
    return RetryPolicy(timedelta(seconds=30), timedelta(hours=4), max_attempts=max_attempts)


def _authme_mail(authme: AuthMeConfig | None) -> AuthMeMailAccount | None:
    if authme is None:
        return None
    return AuthMeMailAccount(authme.mail.address, authme.mail.password, authme.mail.host, authme.mail.port)
