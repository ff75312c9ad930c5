"""Threads for work that keeps a processor busy, with a queue of bounded length before them."""

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from regsvc.core.errors import Overloaded

P = ParamSpec("P")
T = TypeVar("T")


class BoundedPool:
    """A few threads of their own for one kind of work. What finds no room is refused at once, before it costs."""

    def __init__(self, name: str, threads: int, max_waiting: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._count = threads
        self._max_under_way = threads + max_waiting
        self._under_way = 0
        self.refused = 0
        """How often there was no room."""

    @property
    def running(self) -> int:
        """How many are worked on now."""
        return min(self._under_way, self._count)

    @property
    def waiting(self) -> int:
        """How many wait for a thread."""
        return self._under_way - self.running

    def require_room(self) -> None:
        """Raises `Overloaded` when too much waits already."""
        if self._under_way >= self._max_under_way:
            self.refused += 1
            raise Overloaded(retry_after=1)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `work` returns. Raises `Overloaded` at once when too much waits already."""
        self.require_room()
        self._under_way += 1
        try:
            call = functools.partial(work, *args, **kwargs)
            return await asyncio.get_running_loop().run_in_executor(self._threads, call)
        finally:
            self._under_way -= 1

    def close(self) -> None:
        """Let what runs end; what waits is not begun any more."""
        self._threads.shutdown(wait=True, cancel_futures=True)
