"""Posts webhooks. Its address is as good as a password to whoever knows it, so no log and no error repeats it."""

import contextlib
import http
import ssl
from collections.abc import Iterator
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import ClassVar, Final

from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.httputil import HTTPHeaders, HTTPInputError, parse_response_start_line
from tornado.iostream import UnsatisfiableReadError
from tornado.netutil import DefaultLoopResolver
from tornado.simple_httpclient import HTTPStreamClosedError, HTTPTimeoutError, SimpleAsyncHTTPClient

from regsvc import __version__
from regsvc.core.addresses import PrivateAddress, PublicResolver
from regsvc.core.clock import Clock
from regsvc.core.webhook_signature import signed_headers
from regsvc.notifications.outbox import OutboxMessage, RetryPolicy
from regsvc.notifications.transport import Away, Drop, Postponed, Refused, Transport
from regsvc.notifications.webhook.message import WebhookMessages

PATIENCE: Final = RetryPolicy(
    first_retry=timedelta(seconds=1),  # chat services ask for as much when much happens at once
    longest_retry=timedelta(minutes=5),
    max_age=timedelta(days=1),
    claim=timedelta(seconds=30),
)
"""A day of trying; then nobody waits for the news any more."""

_TIMEOUT: Final = timedelta(seconds=10)  # of a whole call; of connecting, half
_MAX_ANSWER: Final = 64 * 1024
_MAX_REFUSALS: Final = 3  # a receiver that is being set up may answer 404 for a while
_LONGEST_RETRY_AFTER: Final = timedelta(hours=1)
_COMES_AGAIN: Final = frozenset({408, 425, 429})

# of the network and TLS; of a host that no name can have; of HTTP; of a head without end
_CALL_FAILED: Final = (OSError, UnicodeError, HTTPClientError, HTTPInputError, UnsatisfiableReadError)


class WebhookTransport(Transport):
    """A POST for each event. Redirects are not followed, and of the answer only its head is read."""

    noun: ClassVar[str] = "webhook call"

    def __init__(self, url: str, secret: str, messages: WebhookMessages, now: Clock, *, allows_private: bool) -> None:
        """`allows_private`: the address may lie in a private network, or on this machine."""
        self._url = url
        self._secret = secret
        self._messages = messages
        self._now = now
        self._allows_private = allows_private

    async def carry(self, errand: OutboxMessage) -> None:
        answer = _Answer()
        request = self._request(errand, answer)
        with self._client() as client:
            try:
                await client.fetch(request, raise_error=False)
            except PrivateAddress as error:
                self._give_in(errand, f"{error}; see webhook.allow_private")
            except _CALL_FAILED as error:
                if answer.status is None:  # with a status the call came to its end, however the rest was
                    raise Away(_why(error)) from None
        self._judge(errand, answer)

    def _request(self, errand: OutboxMessage, answer: "_Answer") -> HTTPRequest:
        message = self._messages.compose(errand)
        headers = signed_headers(message.delivery, message.body, self._secret, self._now())
        return HTTPRequest(
            self._url,
            method="POST",
            headers={"Content-Type": "application/json", **headers},
            body=message.body,
            user_agent=f"companion/{__version__}",
            follow_redirects=False,
            decompress_response=False,
            connect_timeout=_TIMEOUT.total_seconds() / 2,
            request_timeout=_TIMEOUT.total_seconds(),
            header_callback=answer.read_line,
            streaming_callback=answer.leave_unread,
        )

    @contextlib.contextmanager
    def _client(self) -> Iterator[SimpleAsyncHTTPClient]:
        """One for each call: calls are rare, and it belongs to the loop it was made on."""
        resolver = DefaultLoopResolver() if self._allows_private else PublicResolver()
        client = SimpleAsyncHTTPClient(force_instance=True, resolver=resolver, max_body_size=_MAX_ANSWER)
        try:
            yield client
        finally:
            client.close()
            resolver.close()

    def _judge(self, errand: OutboxMessage, answer: "_Answer") -> None:
        status = answer.status or 0
        if 200 <= status < 300:
            return
        if status in _COMES_AGAIN or status >= 500:
            raise Postponed(_in_words(status), answer.retry_after(self._now()))
        self._give_in(errand, _in_words(status))

    def _give_in(self, errand: OutboxMessage, reason: str) -> None:
        if errand.attempts >= _MAX_REFUSALS:
            raise Refused(reason)
        raise Postponed(reason)


class NoWebhookTransport(Transport):
    """Drops what was promised before the webhook was taken out of the config."""

    noun: ClassVar[str] = "webhook call"

    async def carry(self, errand: OutboxMessage) -> None:
        raise Drop("there is no webhook any more")


class _Answer:
    """The head of an answer, as it comes in. `status` is None until there is one."""

    def __init__(self) -> None:
        self.status: int | None = None
        self._headers = HTTPHeaders()

    def read_line(self, line: str) -> None:
        """Tornado's `header_callback`: the first line, every header, and the empty line after them."""
        if line.startswith("HTTP/"):
            code = parse_response_start_line(line.rstrip("\r\n")).code
            self.status = code if code >= 200 else None  # 1xx announces the answer
            self._headers = HTTPHeaders()
        elif line.strip():
            self._headers.parse_line(line)

    def leave_unread(self, chunk: bytes) -> None:
        """Tornado's `streaming_callback`: what they say beside the status interests nobody."""

    def retry_after(self, moment: datetime) -> timedelta | None:
        """How long they want to be left alone, an hour at most; None where they do not say."""
        written = self._headers.get("Retry-After")
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


def _in_words(status: int) -> str:
    """Their status, in the standard's words rather than in theirs, which may repeat our address."""
    if 300 <= status < 400:
        return f"HTTP {status}: redirections are not followed"
    try:
        return f"HTTP {status} {http.HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"


def _why(error: Exception) -> str:
    """What went wrong on the way, without the address: the messages of exceptions may carry it."""
    if isinstance(error, HTTPTimeoutError):
        return "it took too long to answer"
    if isinstance(error, HTTPStreamClosedError):
        return "the connection was closed without an answer"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {error.verify_message.partition(',')[0]}"  # behind it stands its name
    if isinstance(error, OSError) and error.strerror:
        return f"{type(error).__name__}: {error.strerror}"
    return type(error).__name__
