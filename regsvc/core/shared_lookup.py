"""Concurrent look-ups that are answered together, by one call for all of them."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, TypeVar

from regsvc.core.errors import Overloaded

K = TypeVar("K")
V = TypeVar("V")


class SharedLookup(Generic[K, V]):
    """Look-ups by key. Those that arrive while a call is running are answered together by the next one.

    Results are not kept: a look-up is answered by a call that began after it arrived, and so sees every change made
    before. While nothing is running a look-up does not wait for others. For the event loop alone.
    """

    def __init__(
        self,
        find_all: Callable[[Sequence[K]], Awaitable[Mapping[K, V]]],
        *,
        max_batch: int = 100,
        max_waiting: int = 2000,
    ) -> None:
        """`find_all` returns the values of the given keys (each of them once) that have one."""
        self._find_all = find_all
        self._max_batch = max_batch
        self._max_waiting = max_waiting
        self._waiting: deque[tuple[K, asyncio.Future[V | None]]] = deque()
        self._answering: asyncio.Task[None] | None = None

    async def find(self, key: K) -> V | None:
        """Return the value of a key, or None.

        Raises the error of the call that was to answer, and `Overloaded` at once when too many look-ups wait.
        """
        if len(self._waiting) >= self._max_waiting:
            raise Overloaded(retry_after=1)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[V | None] = loop.create_future()
        self._waiting.append((key, answer))
        if self._answering is None:
            self._answering = loop.create_task(self._answer_waiting(), name="shared look-up")
        return await answer

    async def _answer_waiting(self) -> None:
        """Answer batch by batch until nothing waits."""
        try:
            while batch := self._take_batch():
                await self._answer(batch)
        finally:
            self._answering = None

    def _take_batch(self) -> list[tuple[K, "asyncio.Future[V | None]"]]:
        """Take the look-ups that waited longest, but for those whose caller has been cancelled."""
        batch: list[tuple[K, asyncio.Future[V | None]]] = []
        while self._waiting and len(batch) < self._max_batch:
            key, answer = self._waiting.popleft()
            if not answer.done():
                batch.append((key, answer))
        return batch

    async def _answer(self, batch: Sequence[tuple[K, "asyncio.Future[V | None]"]]) -> None:
        """Answer a batch by one call; its error is the answer to each."""
        try:
            found = await self._find_all(list({key: None for key, _answer in batch}))
        except asyncio.CancelledError:  # the process is ending
            for _key, answer in batch:
                answer.cancel()
            raise
        except Exception as error:
            for _key, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
        else:
            for key, answer in batch:
                if not answer.done():
                    answer.set_result(found.get(key))
