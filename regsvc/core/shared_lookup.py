"""Look-ups that share calls: concurrent ones are answered together, and a result may be kept for a while."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Generic, TypeVar

from regsvc.core.errors import Overloaded

K = TypeVar("K")
V = TypeVar("V")


class CachedCall(Generic[V]):
    """A call that is made again once its last result is older than `max_age`; callers share the one under way.

    One that fails is not kept. `name` is its task's. For the event loop alone.
    """

    def __init__(self, call: Callable[[], Awaitable[V]], max_age: timedelta, name: str) -> None:
        self._call = call
        self._max_age = max_age.total_seconds()
        self._name = name
        self._task: asyncio.Task[V] | None = None
        self._expires_at = 0.0  # on the loop's clock; 0: there is no result
        self._last: list[V] = []

    def start(self, *, force: bool = False) -> asyncio.Task[V]:
        """Return the call under way, else the last one while its result may be used, unless forced; else a new one."""
        now = asyncio.get_running_loop().time()
        if self._task is None or (self._task.done() and (force or now >= self._expires_at)):
            self._expires_at = 0.0
            self._task = asyncio.create_task(self._run(), name=self._name)
        return self._task

    async def get(self, *, force: bool = False) -> V:
        """Wait for the result; see `start`."""
        return await asyncio.shield(self.start(force=force))

    async def get_last(self) -> V:
        """Return the last result at once, also if it is too old and a call begins; only the first is waited for."""
        task = self.start()
        return self._last[0] if self._last else await asyncio.shield(task)

    async def _run(self) -> V:
        self._last[:] = [await self._call()]
        self._expires_at = asyncio.get_running_loop().time() + self._max_age
        return self._last[0]


class SharedLookup(Generic[K, V]):
    """Look-ups by key. Those that arrive while a call is running are answered together by the next one.

    Results are not kept: a look-up is answered by a call that began after it arrived, and so sees every change made
    before. While nothing is running a look-up waits for no more than what the loop is about to do. For the event loop
    alone.
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
        """Answer batch by batch until nothing waits.

        Before each, the loop sends the answers of the last one, and reads the requests that have come: more share a
        call, and its thread and the loop do not take turns at the interpreter.
        """
        try:
            while self._waiting:
                for _turn in ("answers", "requests"):
                    await asyncio.sleep(0)
                oldest = [self._waiting.popleft() for _ in range(min(len(self._waiting), self._max_batch))]
                if batch := [(key, answer) for key, answer in oldest if not answer.done()]:  # but those cancelled
                    await self._answer(batch)
        finally:
            self._answering = None

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
