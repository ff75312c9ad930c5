"""Delivery of mails: rendered at the last moment, sent, and kept out of every error text with their secrets."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import ClassVar, Final

from peewee import Database

from regsvc.auth.verification_codes import VerificationCodes
from regsvc.core.email_address import parse_email
from regsvc.database.engine import Worker, catch_up
from regsvc.notifications.mail.http_backend import (
    MailBackend,
    MailServerUnavailable,
    PermanentMailFailure,
    TemporaryMailFailure,
)
from regsvc.notifications.mail.renderer import MailRenderer, NothingToSend, RenderedMail, recipient_of
from regsvc.notifications.mail.templates import MAILS
from regsvc.notifications.outbox import Outbox, OutboxMessage, OutboxStore, Outcome, RetryPolicy
from regsvc.notifications.transport import Drop, PermanentFailure, TemporaryFailure, Transport, TransportUnavailable

_TEST_LIMIT: Final = timedelta(seconds=10)
"""How long the mail server may take for a login, and for a mail, of a test."""


def mail_retry_policy(max_attempts: int) -> RetryPolicy:
    """Return a policy from half a minute to four hours: longer than greylisting servers make senders wait.

    Eight attempts take about three hours. An unreachable mail server costs no attempt.
    """
    return RetryPolicy(timedelta(seconds=30), timedelta(hours=4), max_attempts=max_attempts)


class MailStore(OutboxStore):
    """Outbox store that renders mails and starts the lifetime of the codes in them."""

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        codes: VerificationCodes,
        renderer: MailRenderer,
        on_finished: Callable[[Outcome], None] = lambda outcome: None,
    ) -> None:
        super().__init__(database, outbox, on_finished)
        self._codes = codes
        self._renderer = renderer

    def render(self, mail: OutboxMessage) -> RenderedMail:
        """Return the mail as it will be sent. Raises `NothingToSend` if there is no point in it any more.

        On a cluster of databases that is decided only by a node that has applied everything: the row that a mail is
        about may arrive after the mail.
        """
        try:
            return self._render(mail)
        except NothingToSend:
            if not catch_up(self._database):
                raise
        return self._render(mail)

    def _render(self, mail: OutboxMessage) -> RenderedMail:
        with self._database.atomic():
            return self._renderer.render(mail)

    def _on_sent(self, message: OutboxMessage) -> None:
        if "code" in MAILS[message.template] and message.row_id is not None:
            self._codes.mark_sent(message.row_id)


class MailTransport(Transport):
    """Transport that sends mails through the configured backend.

    Where e-mail is disabled, mails enqueued earlier are dropped.
    """

    noun: ClassVar[str] = "mail"

    def __init__(self, worker: Worker, store: MailStore, backend: MailBackend) -> None:
        self._worker = worker
        self._store = store
        self._backend = backend

    async def send(self, message: OutboxMessage) -> None:
        if not self._backend.is_available:
            raise Drop("e-mail is disabled")
        rendered = await self._worker.run(self._store.render, message)
        try:
            await self._backend.send(rendered.message, recipient_of(message))
        except MailServerUnavailable as error:
            raise TransportUnavailable(rendered.censor(str(error)), error.retry_after) from error
        except PermanentMailFailure as error:
            raise PermanentFailure(rendered.censor(str(error))) from error
        except TemporaryMailFailure as error:
            raise TemporaryFailure(rendered.censor(str(error)), error.retry_after) from error


async def send_test_mail(backend: MailBackend, renderer: MailRenderer, address: str, language: str) -> str | None:
    """Send a mail without the outbox. Returns why it failed, or None. Raises `InvalidEmail`."""
    recipient = parse_email(address)
    if problem := await backend.find_problem(_TEST_LIMIT):
        return problem
    message = renderer.compose("mail_test", recipient, language, {})
    try:
        async with asyncio.timeout(_TEST_LIMIT.total_seconds()):
            await backend.send(message, recipient)
    except TimeoutError:
        return "the mail server can be reached, but takes too long to accept a mail"
    except (PermanentMailFailure, TemporaryMailFailure, MailServerUnavailable) as error:
        return str(error)
    return None
