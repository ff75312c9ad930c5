"""Route that serves the OpenAPI document."""

from __future__ import annotations

import asyncio
from functools import lru_cache

import msgspec

from regsvc.api.base import ApiHandler
from regsvc.api.endpoint import endpoint
from regsvc.api.openapi import DescribedRoute, OpenApiBuilder
from regsvc.core.i18n import Translations


class OpenApiHandler(ApiHandler):
    @endpoint()
    async def get(self) -> None:
        """Show this document."""
        config, translations = self.services.config, self.services.translations
        server_url = config.server.base_url or "/"
        # built once, but slow enough to block the event loop noticeably
        text = await asyncio.to_thread(
            _document, self.application.routes, translations, server_url, config.http.legacy_status
        )
        self.finish_with(text)


@lru_cache(maxsize=1)
def _document(
    routes: tuple[DescribedRoute, ...], translations: Translations, server_url: str, is_legacy: bool
) -> bytes:
    return msgspec.json.encode(OpenApiBuilder(routes, translations, server_url=server_url, is_legacy=is_legacy).build())
