"""Interface of mail backends, and the failures that they report."""

from abc import ABC, abstractmethod
from datetime import timedelta
from email.message import EmailMessage
from typing import ClassVar

from regsvc.core.email_address import EmailAddress


class PermanentMailFailure(Exception):
    """The server will never accept this mail; `str()` is the server's reply."""


class TemporaryMailFailure(Exception):
    """The server does not accept this mail now; `str()` is the server's reply."""

    def __init__(self, reply: str, retry_after: timedelta | None = None) -> None:
        """`retry_after` is the minimum wait that the server asked for; None: it named none."""
        super().__init__(reply)
        self.retry_after = retry_after


class MailServerUnavailable(Exception):
    """No mail can be sent at the moment, to any recipient; `str()` gives the reason."""

    def __init__(self, reason: str, retry_after: timedelta | None = None) -> None:
        """`retry_after` is the minimum wait that the server asked for; None: it named none."""
        super().__init__(reason)
        self.retry_after = retry_after


class MailBackend(ABC):
    """Interface of mail backends. `sender` is their From address, with or without a display name."""

    is_available: ClassVar[bool] = True

    def __init__(self, sender: str) -> None:
        self.sender = sender

    @abstractmethod
    async def send(self, message: EmailMessage, recipient: EmailAddress) -> None:
        """Send the mail; returns once it has been accepted.

        Raises `PermanentMailFailure`, `TemporaryMailFailure` or `MailServerUnavailable`.
        """

    async def find_problem(self, limit: timedelta) -> str | None:
        """Return why no mail can be sent now and what to do, or None. Sends nothing; takes `limit` at most."""
        return None
