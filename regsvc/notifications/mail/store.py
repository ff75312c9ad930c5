"""What the delivery of mails does in the database beyond what every delivery does."""

from collections.abc import Callable

from peewee import Database

from regsvc.auth.verification_codes import VerificationCodes
from regsvc.notifications.mail.renderer import MailRenderer, RenderedMail
from regsvc.notifications.mail.templates import MAILS
from regsvc.notifications.outbox import Errand, Outbox, Outcome
from regsvc.notifications.outbox_store import OutboxDesk


class MailDesk(OutboxDesk):
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

    def render(self, mail: Errand) -> RenderedMail:
        """The mail as it goes out. Raises `NothingToSend` where there is no point in it any more."""
        with self._database.atomic():
            return self._renderer.render(mail)

    def _follow_sent(self, errand: Errand) -> None:
        if "code" in MAILS[errand.template] and errand.row_id is not None:
            self._codes.handed_over(errand.row_id)
