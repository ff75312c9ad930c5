"""Wiring of e-mail."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from regsvc.app.auth import AuthParts
from regsvc.app.context import AppContext
from regsvc.app.runtime import RuntimeParts
from regsvc.auth.derived_secrets import ApplicationTokens, DerivedSecrets
from regsvc.auth.password_links import PasswordLinks
from regsvc.auth.rate_limits import MemoryLimits
from regsvc.auth.verification_codes import GuessLimits, VerificationCodes
from regsvc.core.clock import Clock
from regsvc.core.email_address import parse_email
from regsvc.core.game_address import public_game_address
from regsvc.core.units import RateLimit
from regsvc.notifications.delivery import DeliveryWorker
from regsvc.notifications.mail.admin_digest import AdminDigest
from regsvc.notifications.mail.backends import make_mail_backend
from regsvc.notifications.mail.http_backend import (
    MailBackend,
    MailServerUnavailable,
    PermanentMailFailure,
    TemporaryMailFailure,
)
from regsvc.notifications.mail.queue import Budget, MailLimits, MailQueue
from regsvc.notifications.mail.renderer import MailRenderer, NextSteps
from regsvc.notifications.mail.templates import load_mail_templates
from regsvc.notifications.mail.transport import MailStore, MailTransport
from regsvc.notifications.outbox import Outbox, RetryPolicy
from regsvc.users.retention import find_reapply_at_after

_TEST_LIMIT: Final = timedelta(seconds=10)
"""How long the mail server may take for a login, and for a mail, of a test."""


@dataclass(frozen=True)
class MailParts:
    """Verification codes, password links, and the queue, rendering and delivery of mails."""

    base_url: str
    """Where players reach the companion."""
    backend: MailBackend
    outbox: Outbox
    codes: VerificationCodes
    links: PasswordLinks
    application_tokens: ApplicationTokens
    renderer: MailRenderer
    delivery_worker: DeliveryWorker
    mail_queue: MailQueue
    limits: MailLimits
    forgot_limits: MailLimits
    admin_digest: AdminDigest

    async def send_test(self, address: str, language: str) -> str | None:
        """Send a mail without the outbox. Returns why it failed, or None. Raises `InvalidEmail`."""
        recipient = parse_email(address)
        if problem := await self.backend.find_problem(_TEST_LIMIT):
            return problem
        message = self.renderer.compose("mail_test", recipient, language, {})
        try:
            async with asyncio.timeout(_TEST_LIMIT.total_seconds()):
                await self.backend.send(message, recipient)
        except TimeoutError:
            return "the mail server can be reached, but takes too long to accept a mail"
        except (PermanentMailFailure, TemporaryMailFailure, MailServerUnavailable) as error:
            return str(error)
        return None


def wire_mail(
    context: AppContext, runtime: RuntimeParts, auth: AuthParts, base_url: str, wake: Callable[[], None]
) -> MailParts:
    """Mails leave with `runtime.delivery_workers`; services call `wake` once a transaction with mails has committed."""
    config, now = context.config, context.now
    secrets = DerivedSecrets(context.keys.installation_key)
    backend = make_mail_backend(config.mail, context.authme.mail if context.authme else None)
    links = PasswordLinks(secrets, now)
    application_tokens = ApplicationTokens(secrets)
    outbox = Outbox(now, "mail", mail_retry_policy(config.mail.max_attempts))
    codes = VerificationCodes(
        secrets,
        now,
        GuessLimits(MemoryLimits(now), config.verification.tries_per_client),
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
        config=lambda: runtime.live.current,
        next_steps=_make_next_steps(runtime, base_url, application_tokens, now),
    )
    store = MailStore(context.location.database, outbox, codes, renderer, on_finished=runtime.metrics.count_mail)
    delivery_worker = DeliveryWorker(runtime.worker, store, MailTransport(runtime.worker, store, backend))
    runtime.delivery_workers.add(delivery_worker)
    mail_queue = MailQueue(
        outbox,
        config.server.language,
        is_available=backend.is_available and config.registration.requires_code,
        wake=wake,
        wake_mails=delivery_worker.wake,
    )
    admins = [parse_email(written) for written in config.mail.admins] if backend.is_available else []
    admin_digest = AdminDigest(
        context.location.database, mail_queue, admins, config.mail.admin_digest, config.mail.remind_after, now
    )
    return MailParts(
        base_url,
        backend,
        outbox,
        codes,
        links,
        application_tokens,
        renderer,
        delivery_worker,
        mail_queue,
        _make_limits("mail", config.verification.limits_total, context, runtime, auth),
        _make_limits("forgot", config.verification.limits_total_forgot, context, runtime, auth),
        admin_digest,
    )


def _make_next_steps(
    runtime: RuntimeParts, base_url: str, application_tokens: ApplicationTokens, now: Clock
) -> NextSteps:
    live, config = runtime.live, runtime.live.current
    return NextSteps(
        base_url,
        public_game_address(config.game.address),
        has_own_pages=config.http.web_root is None,
        application_tokens=application_tokens,
        find_reapply_at=lambda review: find_reapply_at_after(review, live.current.registration.reapply_after, now()),
        word_reason=runtime.translations.reason,
        offered_language=runtime.translations.offered_for,
    )


def _make_limits(
    budget: Budget, total: tuple[RateLimit, ...], context: AppContext, runtime: RuntimeParts, auth: AuthParts
) -> MailLimits:
    config = context.config.verification
    return MailLimits(
        auth.limits,
        budget,
        config.limits_per_address,
        config.limits_per_client,
        total,
        is_known=auth.known_clients.is_known,
        on_used_up=runtime.metrics.count_used_up_budget,
    )


def mail_retry_policy(max_attempts: int) -> RetryPolicy:
    """Return a policy from half a minute to four hours: longer than greylisting servers make senders wait.

    Eight attempts take about three hours. An unreachable mail server costs no attempt.
    """
    return RetryPolicy(timedelta(seconds=30), timedelta(hours=4), max_attempts=max_attempts)
