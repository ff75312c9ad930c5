"""What a delivery does in the database: rules for a worker thread, each a transaction of its own."""

from collections.abc import Callable
from datetime import timedelta

from peewee import Database

from regsvc.notifications.outbox import Errand, Outbox, Outcome


class OutboxDesk:
    """Between the outbox of one kind and whoever delivers it."""

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        on_finished: Callable[[Outcome], None] = lambda outcome: None,
    ) -> None:
        """`on_finished` is told of everything that is over, once that is recorded, on the thread that did it."""
        self._database = database
        self._outbox = outbox
        self._on_finished = on_finished

    def claim_due(self, limit: int) -> list[Errand]:
        """At most `limit` errands to carry out now. As long as nothing is due, nothing is written or locked."""
        due = self._outbox.list_due(limit)
        if not due:
            return []
        with self._database.atomic():
            return self._outbox.claim(due)

    def record_sent(self, errand: Errand) -> None:
        """Somebody else has it now."""
        with self._database.atomic():
            self._follow_sent(errand)
            self._outbox.mark_sent(errand.id)
        self._on_finished("sent")

    def record_failure(
        self, errand: Errand, error: str, *, is_final: bool = False, retry_after: timedelta | None = None
    ) -> timedelta | None:
        """This one was not taken. How long until it is tried again; None: never."""
        with self._database.atomic():
            wait = self._outbox.mark_failed(errand, error, is_final=is_final, retry_after=retry_after)
        if wait is None:
            self._on_finished("failed")
        return wait

    def put_back(self, errand: Errand, reason: str) -> None:
        """Nothing of this kind gets out at the moment."""
        with self._database.atomic():
            is_given_up = self._outbox.put_back(errand, reason)
        if is_given_up:
            self._on_finished("failed")

    def drop(self, errand: Errand, reason: str) -> None:
        """It will not be sent."""
        with self._database.atomic():
            self._outbox.mark_dropped(errand.id, reason)
        self._on_finished("dropped")

    def _follow_sent(self, errand: Errand) -> None:
        """What else comes of it having been sent, in the same transaction."""
