"""Thread pool with a queue of limited length: work beyond it is refused at once, before it costs anything."""

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from regsvc.core.errors import Overloaded

P = ParamSpec("P")
T = TypeVar("T")


class BoundedPool:
    """Threads for one kind of blocking work, with at most `max_waiting` calls waiting for one of them.

    For the event loop alone: calls are counted there, without a lock.
    """

    def __init__(self, name: str, threads: int, max_waiting: int) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._threads = threads
        self._max_calls = threads + max_waiting
        self._calls = 0  # running or waiting
        self.refused = 0
        """Number of calls refused since the start because the queue was full."""

    @property
    def running(self) -> int:
        """Number of calls that have a thread."""
        return min(self._calls, self._threads)

    @property
    def waiting(self) -> int:
        """Number of calls that wait for a thread."""
        return self._calls - self.running

    @contextlib.contextmanager
    def reserve(self) -> Iterator[None]:
        """Reserve a place for one `run_reserved`, for callers with something to do before it that must not be wasted.

        Raises `Overloaded` when the queue is full.
        """
        if self._calls >= self._max_calls:
            self.refused += 1
            raise Overloaded(retry_after=1)
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1

    async def run_reserved(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` on a thread, inside a `reserve` block, and return its result."""
        call = functools.partial(work, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` on a thread and return its result. Raises `Overloaded` at once when the queue is full."""
        with self.reserve():
            return await self.run_reserved(work, *args, **kwargs)

    def close(self) -> None:
        """Let running calls finish and discard the waiting ones."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def drain(self, on_each_thread: Callable[[], None]) -> None:
        """Let running and waiting calls finish, then call `on_each_thread` on every thread and end them."""
        all_threads = threading.Barrier(self._threads)  # each waits for the others, so that each gets one call

        def finish() -> None:
            with contextlib.suppress(threading.BrokenBarrierError):
                all_threads.wait(timeout=10)
            on_each_thread()

        for _thread in range(self._threads):
            self._executor.submit(finish)
        self._executor.shutdown(wait=True)
