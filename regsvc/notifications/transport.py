"""What carries the messages of the outbox out of the house: one class for each kind, all with this one plan.

A new kind is a class beside `SmtpTransport` and `WebhookTransport`, and a room that adds its delivery, as
`regsvc/app/webhook.py` does.
"""

from abc import ABC, abstractmethod
from datetime import timedelta
from typing import ClassVar

from regsvc.notifications.outbox import OutboxMessage


class Drop(Exception):
    """There is nothing to do any more; `str()` says why, without any secret."""


class PermanentFailure(Exception):
    """This one will never be taken; `str()` says why, without any secret."""


class TemporaryFailure(Exception):
    """This one is not taken now; `str()` says why, without any secret."""

    def __init__(self, reason: str, retry_after: timedelta | None = None) -> None:
        """`retry_after` is how long the other side wants to be left alone; None: it does not say."""
        super().__init__(reason)
        self.retry_after = retry_after


class TransportUnavailable(Exception):
    """Nothing of this kind gets out at the moment; `str()` says why, without any secret."""


class Transport(ABC):
    """Carries out one message. `noun` is what the log calls it, with an s for many."""

    noun: ClassVar[str]

    @abstractmethod
    async def send(self, message: OutboxMessage) -> None:
        """Send the message; returns once the other side has accepted it.

        Raises `Drop`, `PermanentFailure`, `TemporaryFailure` or `TransportUnavailable`.
        """
