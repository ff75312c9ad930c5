"""A few questions to somebody else's server within one time-out, none of which may hurt us.

Redirects are not followed (they would carry credentials elsewhere), answers are bounded in size and time, and nothing
of what was sent or answered is logged but the status and the error code of RFC 6749.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import Any, Final, Self
from urllib.parse import urlencode

import msgspec
from tornado.httpclient import HTTPClientError, HTTPRequest, HTTPResponse
from tornado.iostream import StreamBufferFullError, UnsatisfiableReadError
from tornado.simple_httpclient import SimpleAsyncHTTPClient

from regsvc import __version__
from regsvc.core.errors import ProviderAway

log = logging.getLogger(__name__)

_LARGEST_ANSWER: Final = 64 * 1024  # bytes; a profile has a few hundred
_LARGEST_HEADERS: Final = 16 * 1024
# of the network and TLS; of HTTP; of answers that are too large; of a host that no name can have
_NO_ANSWER: Final = (OSError, HTTPClientError, UnsatisfiableReadError, StreamBufferFullError, UnicodeError)
_ERROR_CODE: Final = re.compile(r"[a-z_]{1,40}")


@dataclass(frozen=True)
class Answer:
    """What came back to the question `what`: a status, and the JSON object, empty unless there was one."""

    what: str
    status: int
    fields: Mapping[str, Any] = field(repr=False)

    @property
    def is_ok(self) -> bool:
        return self.status == 200

    def unusable(self) -> ProviderAway:
        """The refusal for an answer that does not say what was asked for; the log tells the host."""
        if self.is_ok:
            log.warning("the chat provider's answer about the %s lacks what it should have", self.what)
        return ProviderAway()


class Conversation:
    """Asks one question after the other. A context manager, for the event loop."""

    def __init__(self, timeout: timedelta) -> None:
        """`timeout`: for all questions together."""
        self._ends_at = monotonic() + timeout.total_seconds()

    def __enter__(self) -> Self:
        # an own client for each: the shared one keeps connections, cookies or settings of nobody knows whom
        self._client = SimpleAsyncHTTPClient(
            force_instance=True,
            max_buffer_size=_LARGEST_ANSWER,
            max_header_size=_LARGEST_HEADERS,
            max_body_size=_LARGEST_ANSWER,
        )
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._client.close()

    async def get(self, what: str, url: str, headers: Mapping[str, str]) -> Answer:
        """`what`: the question's name in the log. Raises `ProviderAway` when there is no answer in time."""
        return await self._ask(what, url, headers, None)

    async def post(self, what: str, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> Answer:
        """The same with a form as HTML sends it."""
        form_type = {"Content-Type": "application/x-www-form-urlencoded"}
        return await self._ask(what, url, {**headers, **form_type}, urlencode(form))

    async def _ask(self, what: str, url: str, headers: Mapping[str, str], body: str | None) -> Answer:
        seconds = max(0.001, self._ends_at - monotonic())  # 0 would be "no limit"
        request = HTTPRequest(
            url,
            method="GET" if body is None else "POST",
            headers={**headers, "Accept": "application/json"},
            body=body,
            connect_timeout=seconds,
            request_timeout=seconds,
            follow_redirects=False,
            decompress_response=False,  # a small answer can unpack to a large one
            user_agent=f"Companion/{__version__}",
        )
        try:
            response = await self._client.fetch(request, raise_error=False)
        except _NO_ANSWER as error:
            log.warning("the chat provider gave no answer about the %s: %s", what, type(error).__name__)
            raise ProviderAway from None
        return _read(what, response)


def _read(what: str, response: HTTPResponse) -> Answer:
    fields = _parse(response.body)
    if response.code != 200:
        code = str(fields.get("error", ""))
        told = f" ({code})" if _ERROR_CODE.fullmatch(code) else ""
        log.warning("the chat provider answered %d about the %s%s", response.code, what, told)
    return Answer(what, response.code, fields)


def _parse(body: bytes) -> Mapping[str, Any]:
    """The JSON object, {} for anything else."""
    try:
        fields = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}
