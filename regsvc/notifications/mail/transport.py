"""Carries mails to whoever takes them: written at the last moment, handed over, and no secret in what is said of it."""

from collections.abc import Callable
from typing import ClassVar

from peewee import Database

from regsvc.auth.verification_codes import VerificationCodes
from regsvc.database.engine import Worker
from regsvc.notifications.mail.backends import (
    MailBackend,
    MailServerUnavailable,
    PermanentMailFailure,
    TemporaryMailFailure,
)
from regsvc.notifications.mail.renderer import MailRenderer, RenderedMail, recipient_of
from regsvc.notifications.mail.templates import MAILS
from regsvc.notifications.outbox import Outbox, OutboxMessage, OutboxStore, Outcome
from regsvc.notifications.transport import Drop, PermanentFailure, TemporaryFailure, Transport, TransportUnavailable


class MailStore(OutboxStore):
    """Writes mails, and lets a code's minutes begin."""

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
        """The mail as it goes out. Raises `NothingToSend` where there is no point in it any more."""
        with self._database.atomic():
            return self._renderer.render(mail)

    def _on_sent(self, message: OutboxMessage) -> None:
        if "code" in MAILS[message.template] and message.row_id is not None:
            self._codes.mark_sent(message.row_id)


class SmtpTransport(Transport):
    """Where e-mail is off, what was promised before that is dropped."""

    noun: ClassVar[str] = "mail"

    def __init__(self, worker: Worker, store: MailStore, backend: MailBackend) -> None:
        self._worker = worker
        self._store = store
        self._backend = backend

    async def send(self, message: OutboxMessage) -> None:
        if not self._backend.is_available:
            raise Drop("e-mail is switched off")
        rendered = await self._worker.run(self._store.render, message)
        try:
            await self._backend.send(rendered.message, recipient_of(message))
        except MailServerUnavailable as error:
            raise TransportUnavailable(rendered.censor(str(error))) from error
        except PermanentMailFailure as error:
            raise PermanentFailure(rendered.censor(str(error))) from error
        except TemporaryMailFailure as error:
            raise TemporaryFailure(rendered.censor(str(error))) from error
