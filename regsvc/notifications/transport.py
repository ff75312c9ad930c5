"""Transports for outbox messages: one class per kind, all implementing this interface.

A new kind is a class beside `MailTransport`, `WebhookTransport` and `RconTransport`, and a delivery worker that the app
adds (`regsvc/app/app.py`).
"""

from abc import ABC, abstractmethod
from datetime import timedelta
from typing import ClassVar

from regsvc.notifications.outbox import OutboxMessage


class Drop(Exception):
    """There is no point in sending the message any more; `str()` gives the reason, without any secret."""


class PermanentFailure(Exception):
    """The message will never be accepted; `str()` gives the reason, without any secret."""


class TemporaryFailure(Exception):
    """The message was not accepted this time; `str()` gives the reason, without any secret."""

    def __init__(self, reason: str, retry_after: timedelta | None = None) -> None:
        """`retry_after` is the minimum wait that the other side asked for; None: it named none."""
        super().__init__(reason)
        self.retry_after = retry_after


class TransportUnavailable(Exception):
    """No message of this kind can be sent at the moment; `str()` gives the reason, without any secret."""

    def __init__(self, reason: str, retry_after: timedelta | None = None) -> None:
        """`retry_after` is the minimum wait that the other side asked for; None: it named none."""
        super().__init__(reason)
        self.retry_after = retry_after


class Transport(ABC):
    """Interface for sending the messages of one kind. `noun` is what the log calls one; its plural takes an s."""

    noun: ClassVar[str]

    @abstractmethod
    async def send(self, message: OutboxMessage) -> None:
        """Send the message; returns once the other side has accepted it.

        Raises `Drop`, `PermanentFailure`, `TemporaryFailure` or `TransportUnavailable`.
        """
