"""HTTP client for all outgoing requests: bounded in time and size, and following redirects only on demand.

Nothing here logs, and no error repeats an address, a header or a body: some of them are secrets.
"""

import errno
import socket
import ssl
from collections.abc import Mapping
from datetime import timedelta
from socket import AF_UNSPEC, AddressFamily
from time import monotonic
from typing import Any, Final, Self
from urllib.parse import urljoin, urlsplit

from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.httputil import HTTPHeaders, HTTPInputError, parse_response_start_line
from tornado.iostream import StreamBufferFullError, UnsatisfiableReadError
from tornado.netutil import DefaultLoopResolver
from tornado.simple_httpclient import HTTPStreamClosedError, HTTPTimeoutError, SimpleAsyncHTTPClient

from regsvc import __version__
from regsvc.core.addresses import is_public
from regsvc.core.http_response import LostAnswer, NoResponse, PrivateAddress, Response

USER_AGENT: Final = f"companion/{__version__}"

_MAX_BODY: Final = 64 * 1024  # bytes
_MAX_HEADERS: Final = 16 * 1024
_SHORTEST_TIMEOUT: Final = 0.001  # seconds; Tornado takes 0 for "no limit"
_HTTPS_PORT: Final = 443
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_UNREACHABLE: Final = frozenset({errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH})
# of sockets, names and certificates; of HTTP; of responses that are too large; of an address that cannot be used
_NETWORK_ERRORS: Final = (
    OSError,
    HTTPClientError,
    HTTPInputError,
    UnsatisfiableReadError,
    StreamBufferFullError,
    ValueError,
)


class HttpClient:
    """A context manager for the requests of one task, used on the event loop.

    Each task opens its own: Tornado's shared client keeps settings and connections between unrelated callers.
    """

    def __init__(
        self,
        timeout: timedelta,
        *,
        max_body: int = _MAX_BODY,
        public_only: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`timeout` is for all requests together, from now on; `max_body` is in bytes, for each response.

        `public_only`: connect to public addresses only. `tls` replaces the system's certificates (None).
        """
        self._ends_at = monotonic() + timeout.total_seconds()
        self._max_body = max_body
        self._tls = tls
        self._resolver = PublicResolver() if public_only else DefaultLoopResolver()

    def __enter__(self) -> Self:
        self._client = SimpleAsyncHTTPClient(
            force_instance=True,
            resolver=self._resolver,
            max_buffer_size=self._max_body,  # the only bound for a body without a length
            max_header_size=_MAX_HEADERS,
            max_body_size=self._max_body,
        )
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._client.close()
        self._resolver.close()

    async def get(self, url: str, headers: Mapping[str, str], *, max_redirects: int = 0) -> Response:
        """Send a GET request. Raises `NoResponse`, also for one redirect too many.

        Redirects are followed to https on the same host, on the same port or that of https.
        """
        for _redirect in range(max_redirects + 1):
            response = await self._fetch(self._request(url, headers))
            if not max_redirects or response.status not in _REDIRECTS:
                return response
            url = _redirect_target(url, response.headers.get("Location", ""))
        raise NoResponse("it redirects too often")

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Response:
        """Send a POST request. Raises `NoResponse`."""
        return await self.send("POST", url, headers, body)

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        """Send a request of any method. Raises `NoResponse`."""
        request = self._request(url, headers, body)
        request.method = method
        return await self._fetch(request)

    async def post_for_head(self, url: str, headers: Mapping[str, str], body: bytes, *, keep: int = 0) -> Response:
        """Send a POST request; the response's body is cut off after `keep` bytes, however it ends. Raises `NoResponse`.

        Connecting may take half of the time that is left.
        """
        head = _Head(keep)
        request = self._request(url, headers, body)
        request.connect_timeout = self._remaining / 2
        request.header_callback = head.read_line
        request.streaming_callback = head.read_body
        try:
            await self._fetch(request)
        except NoResponse:
            if head.status is None:
                raise
        assert head.status is not None
        return Response(head.status, head.headers, bytes(head.body))

    @property
    def _remaining(self) -> float:
        return max(_SHORTEST_TIMEOUT, self._ends_at - monotonic())

    def _request(self, url: str, headers: Mapping[str, str], body: bytes | None = None) -> HTTPRequest:
        return HTTPRequest(
            url,
            method="GET" if body is None else "POST",
            headers=dict(headers),
            body=body,
            connect_timeout=self._remaining,
            request_timeout=self._remaining,
            follow_redirects=False,  # they would carry credentials elsewhere
            decompress_response=False,  # a small body can unpack to a very large one
            user_agent=headers.get("User-Agent", USER_AGENT),
            ssl_options=self._tls,
        )

    async def _fetch(self, request: HTTPRequest) -> Response:
        try:
            response = await self._client.fetch(request, raise_error=False)
        except _NETWORK_ERRORS as error:
            raise (LostAnswer if _may_have_arrived(error) else NoResponse)(_reason(error)) from None
        return Response(response.code, response.headers, response.body)


class PublicResolver(DefaultLoopResolver):
    """DNS lookups that return public addresses only. Raises `PrivateAddress` when none is left."""

    async def resolve(self, host: str, port: int, family: AddressFamily = AF_UNSPEC) -> list[tuple[int, Any]]:
        found = await super().resolve(host, port, family)
        public = [(kind, address) for kind, address in found if is_public(str(address[0]))]
        if not public:
            raise PrivateAddress
        return public


class _Head:
    """The head of a response as it comes in, and `keep` bytes of its body. `status` is None until there is one."""

    def __init__(self, keep: int) -> None:
        self.body = bytearray()
        self._keep = keep
        self.status: int | None = None
        self.headers = HTTPHeaders()

    def read_line(self, line: str) -> None:
        """Tornado's `header_callback`: the first line, every header, and the empty line after them."""
        if line.startswith("HTTP/"):
            code = parse_response_start_line(line.rstrip("\r\n")).code
            self.status = code if code >= 200 else None  # 1xx announces the response
            self.headers = HTTPHeaders()
        elif line.strip():
            self.headers.parse_line(line)

    def read_body(self, chunk: bytes) -> None:
        """Tornado's `streaming_callback`."""
        self.body += chunk[: self._keep - len(self.body)]


def _redirect_target(url: str, location: str) -> str:
    try:
        target = urljoin(url, location)
        parts = urlsplit(target)
        is_https = parts.scheme == "https" and bool(parts.hostname)
        is_same = parts.hostname == urlsplit(url).hostname and parts.port in (None, _HTTPS_PORT, urlsplit(url).port)
    except ValueError:
        is_https = is_same = False
    if not is_https:
        raise NoResponse("it redirects to an address that is not https")
    if not is_same:
        raise NoResponse("it redirects to another server")
    return target


def _may_have_arrived(error: Exception) -> bool:
    """Whether the server may have received the request, as far as the error tells."""
    if isinstance(error, HTTPTimeoutError):
        return "connecting" not in str(error)
    if isinstance(error, socket.gaierror | ssl.SSLError | ValueError):
        return False
    return not (isinstance(error, OSError) and error.errno in _UNREACHABLE)


def _reason(error: Exception) -> str:
    """Return a description of the error without the address, which exception messages may contain."""
    if isinstance(error, HTTPTimeoutError):
        return "it took too long to answer"
    if isinstance(error, HTTPStreamClosedError):
        return "the connection was closed without an answer"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {error.verify_message.partition(',')[0]}"  # the host follows the comma
    if isinstance(error, socket.gaierror):
        return "the name of its server cannot be resolved"
    if isinstance(error, OSError) and error.strerror:
        return f"{type(error).__name__}: {error.strerror}"
    return type(error).__name__
