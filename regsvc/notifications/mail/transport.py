"""Carries mails to whoever takes them: written at the last moment, handed over, and no secret in what is said of it."""

from typing import ClassVar

from regsvc.database.engine import Worker
from regsvc.notifications.mail.backends import Mailer, MailPostponed, MailRefused, MailServerAway
from regsvc.notifications.mail.renderer import recipient_of
from regsvc.notifications.mail.store import MailDesk
from regsvc.notifications.outbox import Errand
from regsvc.notifications.transport import Away, Carrier, Pointless, Postponed, Refused


class MailCarrier(Carrier):
    """Where e-mail is off, what was promised before that is dropped."""

    noun: ClassVar[str] = "mail"

    def __init__(self, worker: Worker, desk: MailDesk, mailer: Mailer) -> None:
        self._worker = worker
        self._desk = desk
        self._mailer = mailer

    async def carry(self, errand: Errand) -> None:
        if not self._mailer.is_available:
            raise Pointless("e-mail is switched off")
        rendered = await self._worker.run(self._desk.render, errand)
        try:
            await self._mailer.send(rendered.message, recipient_of(errand))
        except MailServerAway as error:
            raise Away(rendered.censor(str(error))) from error
        except MailRefused as error:
            raise Refused(rendered.censor(str(error))) from error
        except MailPostponed as error:
            raise Postponed(rendered.censor(str(error))) from error
