"""Handlers that refuse a request before its body is read."""

from __future__ import annotations

from collections.abc import Mapping

from tornado.web import stream_request_body

from regsvc.api.base import Access, ApiHandler
from regsvc.core.errors import Category, MalformedRequest, Refusal

MAX_DISCARDED_BYTES = 1024 * 1024


@stream_request_body
class MalformedRequestHandler(ApiHandler):
    """Handler that refuses requests whose message framing is invalid, and disconnects."""

    async def prepare(self) -> None:
        raise MalformedRequest


@stream_request_body
class EarlyRefusalHandler(ApiHandler):
    """Handler that refuses at once, and discards up to `MAX_DISCARDED_BYTES` of the body before it disconnects.

    Closing a connection while the client is still sending resets it, and the client may never see the answer.
    """

    _discarded_bytes = 0

    def initialize(self, access: Mapping[str, Access], refusal: Refusal) -> None:  # type: ignore[override]
        super().initialize(access)
        self._refusal = refusal

    async def prepare(self) -> None:
        self.write_refusal(self._refusal)
        if self._is_finished_at_once():
            self.finish()
            return
        await self.flush()

    def _is_finished_at_once(self) -> bool:
        headers = self.request.headers
        if self._refusal.category is Category.UNAVAILABLE:  # a body that is still to come would keep the connection
            return "Content-Length" in headers or "Transfer-Encoding" in headers
        return self.request.method == "HEAD" or "Expect" in headers  # no body will come, or it has not been sent yet

    def data_received(self, chunk: bytes) -> None:
        self._discarded_bytes += len(chunk)
        if self._discarded_bytes > MAX_DISCARDED_BYTES:
            self.finish()

    async def get(self) -> None:
        """Finish once the whole body was discarded, so that the connection can be reused."""

    head = post = put = patch = delete = options = get  # type: ignore[assignment]
