"""Registry of the requests in flight."""

from __future__ import annotations

import asyncio


class InFlight:
    """The requests that are not answered yet; a graceful shutdown waits for them."""

    def __init__(self) -> None:
        self._handlers: set[object] = set()
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    def add(self, handler: object) -> None:
        self._handlers.add(handler)
        self._is_empty.clear()

    def discard(self, handler: object) -> None:
        self._handlers.discard(handler)
        if not self._handlers:
            self._is_empty.set()

    async def wait_until_empty(self) -> None:
        await self._is_empty.wait()
