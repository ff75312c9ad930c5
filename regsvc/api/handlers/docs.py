"""Route that serves the OpenAPI document."""

from __future__ import annotations

import asyncio
import threading
from typing import ClassVar

import msgspec

from regsvc.api.base import ApiHandler
from regsvc.api.endpoint import endpoint
from regsvc.api.openapi import DescribedRoute, OpenApiBuilder
from regsvc.core.i18n.translations import Translations

_Contents = tuple[tuple[DescribedRoute, ...], Translations, str, bool]


class OpenApiHandler(ApiHandler):
    _built: ClassVar[tuple[_Contents, bytes] | None] = None
    """The document that was built last, and what from."""
    _lock: ClassVar = threading.Lock()

    @endpoint()
    async def get(self) -> None:
        """Show this document."""
        config = self.services.config
        server_url = config.server.base_url or "/"
        contents = (self.application.routes, self.services.translations, server_url, config.http.legacy_status)
        built = self._built
        if built is None or built[0] != contents:
            # slow enough to block the event loop noticeably
            built = await asyncio.to_thread(self._build, contents)
        self.finish_with(built[1])

    @classmethod
    def _build(cls, contents: _Contents) -> tuple[_Contents, bytes]:
        """Build the document unless another thread has built it meanwhile."""
        with cls._lock:
            if cls._built is None or cls._built[0] != contents:
                routes, translations, server_url, is_legacy = contents
                builder = OpenApiBuilder(routes, translations, server_url=server_url, is_legacy=is_legacy)
                cls._built = (contents, msgspec.json.encode(builder.build()))
            return cls._built
