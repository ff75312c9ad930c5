"""Refusals that are sent before the body is read."""

from __future__ import annotations

from tornado.web import stream_request_body

from regsvc.api.base import ApiHandler
from regsvc.core.errors import BodyTooLarge, MalformedRequest

DROPPED_AT_MOST = 1024 * 1024


@stream_request_body
class MalformedRequestHandler(ApiHandler):
    """For requests whose frame cannot be trusted: answered and disconnected."""

    async def prepare(self) -> None:
        raise MalformedRequest


@stream_request_body
class BodyTooLargeHandler(ApiHandler):
    """Answers at once, and lets the body run past for a while.

    Closing a connection while the client is still sending resets it, and the client may never see the answer.
    """

    _dropped_bytes = 0

    async def prepare(self) -> None:
        self.write_refusal(BodyTooLarge(self.services.config.http.max_body))
        if self.request.method == "HEAD" or "Expect" in self.request.headers:
            self.finish()  # a client that waits to be asked for its body has sent none of it
            return
        await self.flush()

    def data_received(self, chunk: bytes) -> None:
        self._dropped_bytes += len(chunk)
        if self._dropped_bytes > DROPPED_AT_MOST:
            self.finish()

    async def get(self) -> None:
        """The whole body has run past: the connection may be used again."""

    head = post = put = patch = delete = options = get  # type: ignore[assignment]
