"""Responses to outgoing requests, and the reasons why there was none; apart from the client, which needs Tornado."""

import http
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

_RETRYABLE: Final = frozenset({408, 425, 429})
_LONGEST_RETRY_AFTER: Final = timedelta(hours=1)


class NoResponse(Exception):
    """The request got no response that can be used. `str()` says why, without the address."""


class PrivateAddress(NoResponse):
    """The host has no public address."""

    def __init__(self) -> None:
        super().__init__("it leads to no public address")


class LostAnswer(NoResponse):
    """The server may have received the request: the connection ended, or took too long, after it was opened."""


@dataclass(frozen=True)
class Response:
    """`body` is empty if the caller did not want it. `headers` are looked up without regard to case."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_temporary(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in _RETRYABLE or self.status >= 500

    def describe(self) -> str:
        """Return the status with the standard's phrase, not the server's: that one may repeat the URL."""
        if 300 <= self.status < 400:
            return f"HTTP {self.status}: redirects are not followed"
        try:
            return f"HTTP {self.status} {http.HTTPStatus(self.status).phrase}"
        except ValueError:
            return f"HTTP {self.status}"

    def retry_after(self, moment: datetime, header: str = "Retry-After") -> timedelta | None:
        """Return the wait that the server asked for, an hour at most; None where it named none."""
        written = self.headers.get(header)
        if not written:
            return None
        try:
            wait = timedelta(seconds=float(written))
        except (ValueError, OverflowError):
            try:
                wait = parsedate_to_datetime(written) - moment
            except (ValueError, TypeError, OverflowError):
                return None
        return min(max(wait, timedelta()), _LONGEST_RETRY_AFTER)
