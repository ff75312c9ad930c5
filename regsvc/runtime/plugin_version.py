"""Cached lookup of the installed AuthMe version."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Final

MAX_AGE: Final = timedelta(seconds=10)


class PluginVersionCache:
    """Cache of the version found in the plugin's jar. Use on the event loop only."""

    def __init__(self, find_version: Callable[[], str | None], max_age: timedelta = MAX_AGE) -> None:
        """`find_version` reads files and may block; its result is reused for `max_age`."""
        self._find_version = find_version
        self._max_age = max_age.total_seconds()
        self._version: str | None = None
        self._lookup: asyncio.Task[None] | None = None
        self._expires_at = 0.0  # on the loop's clock

    async def get(self) -> str | None:
        """Return the version, None if it is unknown. Only the very first call waits for the disk."""
        is_first = self._lookup is None
        if self._lookup is None or (self._lookup.done() and asyncio.get_running_loop().time() >= self._expires_at):
            self._lookup = asyncio.create_task(self._look_up(), name="installed-plugin")
        if is_first or not self._expires_at:
            await asyncio.shield(self._lookup)
        return self._version

    async def _look_up(self) -> None:
        self._version = await asyncio.to_thread(self._find_version)
        self._expires_at = asyncio.get_running_loop().time() + self._max_age
