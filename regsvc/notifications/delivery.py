"""Background delivery of outbox messages. Requests never wait for it."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeVar

from regsvc.core.backoff import Backoff
from regsvc.core.errors import Busy, DatabaseUnavailable, Overloaded
from regsvc.core.exceptions import describe_exception
from regsvc.database.engine import Worker
from regsvc.notifications.outbox import OutboxMessage, OutboxStore
from regsvc.notifications.transport import Drop, PermanentFailure, TemporaryFailure, Transport, TransportUnavailable

log = logging.getLogger(__name__)

_MAX_CONCURRENT: Final = 4
_POLL_INTERVAL: Final = timedelta(seconds=15)
_DATABASE_POLL_INTERVAL: Final = timedelta(seconds=2)
_FIRST_PAUSE: Final = timedelta(seconds=1)
_LONGEST_PAUSE: Final = timedelta(minutes=1)
_SHUTDOWN_TIMEOUT: Final = timedelta(seconds=5)
_CLAIM_SHARE: Final = 0.9
"""Share of a claim after which the result of the attempt is no longer recorded."""
_TRY_AGAIN: Final = (DatabaseUnavailable, Overloaded, Busy)
"""Errors after which the same call may succeed a moment later."""

T = TypeVar("T")


class DeliveryWorker:
    """Background delivery of one kind of message: several recipients in parallel, messages of one recipient in order.

    `first_pause` is the first back-off while the server is unreachable, `shutdown_timeout` how long `run` waits for
    attempts under way after `stop`.
    """

    def __init__(
        self,
        worker: Worker,
        store: OutboxStore,
        transport: Transport,
        *,
        first_pause: timedelta = _FIRST_PAUSE,
        shutdown_timeout: timedelta = _SHUTDOWN_TIMEOUT,
    ) -> None:
        self._worker = worker
        self._store = store
        self._transport = transport
        self._noun = transport.noun
        self._backoff = Backoff(first_pause, _LONGEST_PAUSE)
        self._shutdown_timeout = shutdown_timeout
        self._in_flight: set[asyncio.Task[None]] = set()
        self._wakeup = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopping = False
        self._is_database_down = False

    async def run(self) -> None:
        """Deliver until `stop`, then wait for the attempts under way, `shutdown_timeout` at most, and return."""
        self._loop = asyncio.get_running_loop()
        try:
            while not self._is_stopping:
                self._wakeup.clear()
                await self._start_due()
                await self._wait()
        finally:
            self._loop = None
            await self._finish()

    def stop(self) -> None:
        """Start no further attempts and let `run` return. Called on the event loop."""
        self._is_stopping = True
        self._wakeup.set()

    def wake(self) -> None:
        """Check the outbox now. Thread-safe; called after the transaction that enqueued something has committed."""
        loop = self._loop
        if loop is None:
            return  # not running yet: `run` checks the outbox as soon as it starts
        with contextlib.suppress(RuntimeError):  # the loop has just been closed
            loop.call_soon_threadsafe(self._wakeup.set)

    async def _start_due(self) -> None:
        limit = 1 if self._backoff.is_active else _MAX_CONCURRENT
        free = limit - len(self._in_flight)
        if free <= 0 or self._backoff.remaining() > 0:
            return
        for message in await self._claim(free):
            task = asyncio.create_task(self._deliver(message))
            self._in_flight.add(task)
            task.add_done_callback(self._on_done)

    async def _claim(self, limit: int) -> list[OutboxMessage]:
        try:
            claimed = await self._worker.run(self._store.claim_due, limit)
        except _TRY_AGAIN:
            self._is_database_down = True  # reported where the database is used
            return []
        except Exception as error:  # whatever went wrong, delivery must resume once it is over
            if not self._is_database_down:
                log.error("cannot deliver %ss without the database: %s", self._noun, describe_exception(error))
            self._is_database_down = True
            return []
        self._is_database_down = False
        return claimed

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        self._wakeup.set()

    async def _wait(self) -> None:
        """Wait until something may be due: woken, an attempt ended, the back-off is over, or the poll interval is."""
        poll = (_DATABASE_POLL_INTERVAL if self._is_database_down else _POLL_INTERVAL).total_seconds()
        timeout = min(self._backoff.remaining() or poll, poll)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wakeup.wait(), timeout)

    async def _deliver(self, message: OutboxMessage) -> None:
        """Make one attempt, whatever happens.

        If its result cannot be recorded before the claim ends, the message is due again.
        """
        try:
            await self._attempt(message)
        except _TRY_AGAIN:
            text = "%s %d (%s): the result cannot be recorded, the database is unavailable"
            log.warning(text, self._noun, message.id, message.template)
        except Exception as error:
            log.error(
                "%s %d (%s) failed with an internal error: %s",
                self._noun,
                message.id,
                message.template,
                describe_exception(error),
            )
            await self._worker.run(self._store.record_failure, message, f"internal error: {type(error).__name__}")

    async def _attempt(self, message: OutboxMessage) -> None:
        deadline = asyncio.get_running_loop().time() + _CLAIM_SHARE * self._store.claim.total_seconds()
        run, store = partial(self._record, deadline), self._store
        try:
            await self._transport.send(message)
        except asyncio.CancelledError:  # later it was sent, and is not released
            await self._worker.run(store.release, message, "the companion was stopped")
            raise
        except _TRY_AGAIN:  # it was not even rendered
            await run(store.release, message, "the database was away")
            return
        except Drop as reason:
            await run(store.drop, message, str(reason))
            return
        except TransportUnavailable as error:
            await self._release(message, str(error), error.retry_after or timedelta())
            return
        except PermanentFailure as error:
            await run(store.record_failure, message, str(error), is_final=True)
        except TemporaryFailure as error:
            self._wake_after(await run(store.record_failure, message, str(error), retry_after=error.retry_after))
        else:
            await run(store.record_sent, message)
        if self._backoff.is_active:
            log.info("%ss can be sent again", self._noun)
            self._backoff.reset()

    async def _record(self, deadline: float, record: Callable[..., T], *args: Any, **options: Any) -> T:
        """Record a result, also if the database comes back only in a while: by its claim the message is still ours."""
        while True:
            try:
                return await self._worker.run(record, *args, **options)
            except _TRY_AGAIN:
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(_DATABASE_POLL_INTERVAL.total_seconds())

    def _wake_after(self, wait: timedelta | None) -> None:
        """Wake before the next poll if the retry is due sooner."""
        if wait is not None and wait < _POLL_INTERVAL:
            asyncio.get_running_loop().call_later(wait.total_seconds(), self._wakeup.set)

    async def _release(self, message: OutboxMessage, reason: str, retry_after: timedelta) -> None:
        if not self._backoff.is_active:
            log.warning("%ss cannot be sent at the moment: %s", self._noun, reason)
        self._backoff.extend(retry_after)
        await self._worker.run(self._store.release, message, reason)

    async def _finish(self) -> None:
        if not self._in_flight:
            return
        _done, late = await asyncio.wait(self._in_flight, timeout=self._shutdown_timeout.total_seconds())
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


class DeliveryWorkers:
    """The delivery workers of all kinds, running in parallel: an outage of one kind does not delay another."""

    def __init__(self) -> None:
        self._workers: dict[DeliveryWorker, Callable[[], bool]] = {}

    def add(self, worker: DeliveryWorker, *, is_on: Callable[[], bool] = lambda: True) -> None:
        """Add the worker of another kind, before `run`. `is_on` returns whether messages of this kind are enqueued."""
        self._workers[worker] = is_on

    async def run(self) -> None:
        """Deliver until `stop`; see `DeliveryWorker.run`."""
        await asyncio.gather(*(worker.run() for worker in self._workers))

    def stop(self) -> None:
        """Start no further attempts. Called on the event loop."""
        for worker in self._workers:
            worker.stop()

    def wake(self) -> None:
        """Check the outbox now, for the kinds that are enqueued. Thread-safe."""
        for worker, is_on in self._workers.items():
            if is_on():
                worker.wake()
