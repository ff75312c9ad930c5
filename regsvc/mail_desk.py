"""What a delivery does in the database: rules for a worker thread, each a transaction of its own."""

from collections.abc import Callable

from peewee import Database

from regsvc.mail_renderer import MailRenderer, NothingToSend, RenderedMail
from regsvc.outbox import Outbox, OutboxMail, Outcome
from regsvc.verification import VerificationCodes


class MailDesk:
    """Between the outbox and whoever delivers."""

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        codes: VerificationCodes,
        renderer: MailRenderer,
        on_finished: Callable[[Outcome], None] = lambda outcome: None,
    ) -> None:
        """`on_finished` is told of every mail that is over, once that is recorded, on the thread that did it."""
        self._database = database
        self._outbox = outbox
        self._codes = codes
        self._renderer = renderer
        self._on_finished = on_finished

    def claim_due(self, limit: int) -> list[OutboxMail]:
        """At most `limit` mails to deliver now."""
        with self._database.atomic():
            return self._outbox.claim_due(limit)

    def render(self, mail: OutboxMail) -> RenderedMail | None:
        """The mail as it goes out; None when it was dropped because there is nothing to send any more."""
        with self._database.atomic():
            try:
                return self._renderer.render(mail)
            except NothingToSend as reason:
                self._outbox.mark_dropped(mail.id, str(reason))
        self._on_finished("dropped")
        return None

    def record_sent(self, mail: OutboxMail) -> None:
        """Somebody else has it now; a code's minutes begin."""
        with self._database.atomic():
            if mail.template == "verification_code" and mail.row_id is not None:
                self._codes.handed_over(mail.row_id)
            self._outbox.mark_sent(mail.id)
        self._on_finished("sent")

    def record_failure(self, mail: OutboxMail, error: str, *, is_final: bool) -> None:
        """This mail was not taken."""
        with self._database.atomic():
            is_given_up = self._outbox.mark_failed(mail, error, is_final=is_final)
        if is_given_up:
            self._on_finished("failed")

    def put_back(self, mail: OutboxMail, reason: str) -> None:
        """No mail gets out at the moment."""
        with self._database.atomic():
            self._outbox.put_back(mail, reason)

    def drop(self, mail: OutboxMail, reason: str) -> None:
        """It will not be sent."""
        with self._database.atomic():
            self._outbox.mark_dropped(mail.id, reason)
        self._on_finished("dropped")
