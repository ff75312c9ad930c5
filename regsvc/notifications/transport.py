"""What carries the errands of the outbox out of the house: one class for each kind, all with this one plan.

A new kind is a class beside `SmtpTransport` and `WebhookTransport`, and a room that adds its delivery, as
`regsvc/app/webhook.py` does.
"""

from abc import ABC, abstractmethod
from datetime import timedelta
from typing import ClassVar

from regsvc.notifications.outbox import OutboxMessage


class Drop(Exception):
    """There is nothing to do any more; `str()` says why, without any secret."""


class Refused(Exception):
    """This one will never be taken; `str()` says why, without any secret."""


class Postponed(Exception):
    """This one is not taken now; `str()` says why, without any secret."""

    def __init__(self, reason: str, retry_after: timedelta | None = None) -> None:
        """`retry_after` is how long the other side wants to be left alone; None: it does not say."""
        super().__init__(reason)
        self.retry_after = retry_after


class Away(Exception):
    """Nothing of this kind gets out at the moment; `str()` says why, without any secret."""


class Transport(ABC):
    """Carries out one errand. `noun` is what the log calls it, with an s for many."""

    noun: ClassVar[str]

    @abstractmethod
    async def carry(self, errand: OutboxMessage) -> None:
        """Comes back when somebody else has taken it. Raises `Drop`, `Refused`, `Postponed` or `Away`."""
