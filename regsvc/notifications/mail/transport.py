"""Delivery of mails: rendered at the last moment, sent, and kept out of every error text with their secrets."""

import asyncio
from abc import ABC, abstractmethod
from datetime import timedelta
from email.message import EmailMessage
from typing import ClassVar, Final

from peewee import Database

from regsvc.auth.verification_codes import VerificationCodes
from regsvc.core.email_address import EmailAddress, parse_email
from regsvc.database.engine import Worker, catch_up
from regsvc.database.models import OutboxEntry
from regsvc.notifications.delivery import Drop, PermanentFailure, TemporaryFailure, Transport
from regsvc.notifications.mail.renderer import MailRenderer, RenderedMail, recipient_of
from regsvc.notifications.mail.templates import MAILS
from regsvc.notifications.outbox import RetryPolicy

_TEST_LIMIT: Final = timedelta(seconds=10)
"""How long the mail server may take for a login, and for a mail, of a test."""


def mail_retry_policy(max_attempts: int) -> RetryPolicy:
    """Return a policy from half a minute to four hours: longer than greylisting servers make senders wait.

    Eight attempts take about three hours. An unreachable mail server costs no attempt.
    """
    return RetryPolicy(timedelta(seconds=30), timedelta(hours=4), max_attempts=max_attempts)


def start_code(message: OutboxEntry, codes: VerificationCodes) -> None:
    """Start the lifetime of the code in a mail that was sent, if there is one."""
    if "code" in MAILS[message.template] and message.row_id is not None:
        codes.mark_sent(message.row_id)


class MailBackend(ABC):
    """Interface of mail backends. `sender` is their From address, with or without a display name."""

    is_available: ClassVar[bool] = True

    def __init__(self, sender: str) -> None:
        self.sender = sender

    @abstractmethod
    async def send(self, message: EmailMessage, recipient: EmailAddress) -> None:
        """Send the mail; returns once it has been accepted.

        Raises `PermanentFailure`, `TemporaryFailure`, and `TransportUnavailable` where no mail can be sent, to anybody.
        Their text is the server's reply, which may quote the mail.
        """

    async def find_problem(self, limit: timedelta) -> str | None:
        """Return why no mail can be sent now and what to do, or None. Sends nothing; takes `limit` at most."""
        return None


class MailTransport(Transport):
    """Transport that sends mails through the configured backend.

    Where e-mail is disabled, mails enqueued earlier are dropped.
    """

    noun: ClassVar[str] = "mail"

    def __init__(self, database: Database, worker: Worker, renderer: MailRenderer, backend: MailBackend) -> None:
        self._database = database
        self._worker = worker
        self._renderer = renderer
        self._backend = backend

    async def send(self, message: OutboxEntry) -> None:
        if not self._backend.is_available:
            raise Drop("e-mail is disabled")
        rendered = await self._worker.run(self._render, message)
        try:
            await self._backend.send(rendered.message, recipient_of(message))
        except TemporaryFailure as error:  # or `TransportUnavailable`
            raise type(error)(rendered.censor(str(error)), error.retry_after) from error
        except PermanentFailure as error:
            raise PermanentFailure(rendered.censor(str(error))) from error

    def _render(self, mail: OutboxEntry) -> RenderedMail:
        """Return the mail as it will be sent. Raises `Drop` if there is no point in it any more.

        On a cluster of databases that is decided only by a node that has applied everything: the row that a mail is
        about may arrive after the mail.
        """
        try:
            with self._database.atomic():
                return self._renderer.render(mail)
        except Drop:
            if not catch_up(self._database):
                raise
        with self._database.atomic():
            return self._renderer.render(mail)


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
    except (PermanentFailure, TemporaryFailure) as error:
        return str(error)
    return None
