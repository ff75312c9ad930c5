"""Transactions of delivery: claim due messages and record their results."""

from collections.abc import Callable
from datetime import timedelta

from peewee import Database

from regsvc.notifications.outbox import Outbox, OutboxMessage, Outcome


class OutboxStore:
    """Transactions that a delivery worker runs on the outbox of one kind."""

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        on_finished: Callable[[Outcome], None] = lambda outcome: None,
    ) -> None:
        """`on_finished` is called once a final outcome has been committed, on the thread that recorded it."""
        self._database = database
        self._outbox = outbox
        self._on_finished = on_finished

    @property
    def claim(self) -> timedelta:
        """Time for which a claimed message is reserved for this process."""
        return self._outbox.claim_period

    def claim_due(self, limit: int) -> list[OutboxMessage]:
        """Claim at most `limit` due messages. While nothing is due, nothing is written or locked."""
        due = self._outbox.list_due(limit)
        if not due:
            return []
        with self._database.atomic():
            return self._outbox.claim(due)

    def record_sent(self, message: OutboxMessage) -> None:
        """Record that the other side has accepted the message."""
        with self._database.atomic():
            self._on_sent(message)
            self._outbox.mark_sent(message.id)
        self._on_finished("sent")

    def record_failure(
        self, message: OutboxMessage, error: str, *, is_final: bool = False, retry_after: timedelta | None = None
    ) -> timedelta | None:
        """Record a failed attempt; returns the time until the next one, or None if the message is given up."""
        with self._database.atomic():
            wait = self._outbox.mark_failed(message, error, is_final=is_final, retry_after=retry_after)
        if wait is None:
            self._on_finished("failed")
        return wait

    def release(self, message: OutboxMessage, reason: str) -> None:
        """Return the message to the queue without counting the attempt: nothing of this kind can be sent now."""
        with self._database.atomic():
            is_given_up = self._outbox.release(message, reason)
        if is_given_up:
            self._on_finished("failed")

    def drop(self, message: OutboxMessage, reason: str) -> None:
        """Record that the message will not be sent."""
        with self._database.atomic():
            self._outbox.mark_dropped(message.id, reason)
        self._on_finished("dropped")

    def _on_sent(self, message: OutboxMessage) -> None:
        """Apply further effects of the successful delivery, in its transaction. The default has none."""
