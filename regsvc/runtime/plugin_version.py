"""Which version of AuthMe the game server has, looked up on a thread and seldom."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Final

FRESH: Final = timedelta(seconds=10)


class InstalledPlugin:
    """Remembers what the jar says, however many ask. For the event loop alone."""

    def __init__(self, find_version: Callable[[], str | None], fresh: timedelta = FRESH) -> None:
        """`find_version` looks at files and may block; an answer younger than `fresh` is not looked up again."""
        self._find_version = find_version
        self._fresh = fresh.total_seconds()
        self._known: str | None = None
        self._look: asyncio.Task[None] | None = None
        self._is_old_at = 0.0  # on the loop's clock

    async def version(self) -> str | None:
        """None where it is not known. Only the very first to ask waits for the disk."""
        is_first = self._look is None
        if self._look is None or (self._look.done() and asyncio.get_running_loop().time() >= self._is_old_at):
            self._look = asyncio.create_task(self._look_up(), name="installed-plugin")
        if is_first or not self._is_old_at:
            await asyncio.shield(self._look)
        return self._known

    async def _look_up(self) -> None:
        self._known = await asyncio.to_thread(self._find_version)
        self._is_old_at = asyncio.get_running_loop().time() + self._fresh
