"""Handlers that refuse a request before its body is read."""

from __future__ import annotations

from tornado.web import stream_request_body

from regsvc.api.base import ApiHandler
from regsvc.core.errors import BodyTooLarge, MalformedRequest

MAX_DISCARDED_BYTES = 1024 * 1024


@stream_request_body
class MalformedRequestHandler(ApiHandler):
    """Handler that refuses requests whose message framing is invalid, and disconnects."""

    async def prepare(self) -> None:
        raise MalformedRequest


@stream_request_body
class BodyTooLargeHandler(ApiHandler):
    """Handler that replies at once, and discards up to `MAX_DISCARDED_BYTES` of the body before it disconnects.

    Closing a connection while the client is still sending resets it, and the client may never see the answer.
    """

    _discarded_bytes = 0

    async def prepare(self) -> None:
        self.write_refusal(BodyTooLarge(self.services.config.http.max_body))
        if self.request.method == "HEAD" or "Expect" in self.request.headers:
            self.finish()  # a client that expects a 100 Continue has sent no body yet
            return
        await self.flush()

    def data_received(self, chunk: bytes) -> None:
        self._discarded_bytes += len(chunk)
        if self._discarded_bytes > MAX_DISCARDED_BYTES:
            self.finish()

    async def get(self) -> None:
        """Finish once the whole body was discarded, so that the connection can be reused."""

    head = post = put = patch = delete = options = get  # type: ignore[assignment]
