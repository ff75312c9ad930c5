"""Background delivery of outbox messages. Requests never wait for it."""

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import Any, ClassVar, Final, TypeVar

from regsvc.core.backoff import Backoff
from regsvc.core.errors import Busy, DatabaseUnavailable, Overloaded
from regsvc.core.exceptions import describe_exception
from regsvc.database.engine import Worker
from regsvc.database.models import OutboxEntry
from regsvc.notifications.outbox import Outbox

log = logging.getLogger(__name__)

_MAX_CONCURRENT: Final = 4
CHECK_INTERVAL: Final = timedelta(seconds=15)
"""Interval at which a job tests for all kinds whether a message is due that nobody was woken for."""
_DATABASE_POLL_INTERVAL: Final = timedelta(seconds=2)
_FIRST_PAUSE: Final = timedelta(seconds=1)
_LONGEST_PAUSE: Final = timedelta(minutes=1)
_LONGEST_ALLEGED_PAUSE: Final = timedelta(seconds=15)
"""Shorter: a recipient with many addresses may allege an outage for each, while others wait behind those."""
_PAUSE_SPREAD: Final = 0.2
"""Jitter of the pauses: many daemons that use one server do not all come back at once."""
_SHUTDOWN_TIMEOUT: Final = timedelta(seconds=5)
_CLAIM_SHARE: Final = 0.9
"""Share of a claim after which the result of the attempt is no longer recorded."""
_TRY_AGAIN: Final = (DatabaseUnavailable, Overloaded, Busy)
"""Errors after which the same call may succeed a moment later."""

T = TypeVar("T")

_Claims = list[tuple[OutboxEntry, Any]]
"""Claimed messages, each with what its transport has prepared, the `Drop` that it raised, or `_UNPREPARED`."""
_UNPREPARED: Final = object()


class Drop(Exception):
    """There is no point in sending the message any more; `str()` gives the reason, without any secret."""


class PermanentFailure(Exception):
    """The message will never be accepted; `str()` gives the reason, without any secret."""


class TemporaryFailure(Exception):
    """The message was not accepted this time; `str()` gives the reason, without any secret."""

    def __init__(self, reason: str, retry_after: timedelta | None = None) -> None:
        """`retry_after` is the minimum wait that the other side asked for; None: it named none."""
        super().__init__(reason)
        self.retry_after = retry_after


class TransportUnavailable(TemporaryFailure):
    """No message of this kind can be sent at the moment; `str()` gives the reason, without any secret."""

    def __init__(self, reason: str, retry_after: timedelta | None = None, *, is_alleged: bool = False) -> None:
        """`is_alleged`: a reply about this message says so, which its recipient's server may have written."""
        super().__init__(reason, retry_after)
        self.is_alleged = is_alleged


class Transport(ABC):
    """Interface for sending the messages of one kind. `noun` is what the log calls one; its plural takes an s.

    A new kind is a class beside `MailTransport`, `WebhookTransport` and `RconTransport`, and a delivery worker that the
    app adds (`regsvc/app/app.py`).
    """

    noun: ClassVar[str]

    def prepare(self, message: OutboxEntry) -> Any:
        """Return what `send` needs from the database: nothing. Blocking: for a worker thread. Raises `Drop`."""
        return None

    @abstractmethod
    async def send(self, message: OutboxEntry, prepared: Any) -> None:
        """Send the message, as it was prepared; returns once the other side has accepted it.

        Raises `Drop`, `PermanentFailure`, `TemporaryFailure` or `TransportUnavailable`.
        """


async def wake_if_due(
    worker: Worker, outbox: Outbox, deliveries: Iterable["DeliveryWorker"], follow: Callable[[], None]
) -> None:
    """Wake them all if any message is due, such as one that another process left, or if that is unknown.

    `follow` is called before, on the worker's thread: it makes those due that have waited for what is known by now.
    """

    def look() -> bool:
        follow()
        return outbox.is_any_due()

    is_due = True
    try:
        is_due = await worker.run(look)
    finally:
        for delivery in deliveries if is_due else ():
            delivery.check()


class DeliveryWorker:
    """Background delivery of one kind of message: several recipients in parallel, messages of one recipient in order.

    `is_on` returns whether messages of this kind are enqueued; None: they always are. `first_pause` is the first
    back-off while the server is unreachable, `shutdown_timeout` how long `run` waits for attempts after `stop`.
    """

    def __init__(
        self,
        worker: Worker,
        outbox: Outbox,
        transport: Transport,
        *,
        is_on: Callable[[], bool] | None = None,
        first_pause: timedelta = _FIRST_PAUSE,
        shutdown_timeout: timedelta = _SHUTDOWN_TIMEOUT,
    ) -> None:
        self._worker = worker
        self._outbox = outbox
        self._transport = transport
        self._noun = transport.noun
        self._is_on = is_on
        self._first_pause = first_pause
        self._backoff = Backoff(first_pause, _LONGEST_PAUSE, spread=_PAUSE_SPREAD)
        self._is_alleged = False  # whether the outage of the back-off is only what replies to recipients say
        self._shutdown_timeout = shutdown_timeout
        self._in_flight: dict[asyncio.Task[None], OutboxEntry] = {}
        self._wakeup = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopping = False
        self._is_database_down = False
        self._has_skipped = False  # whether nobody has looked since all were busy

    async def run(self) -> None:
        """Deliver until `stop`, then wait for the attempts under way, `shutdown_timeout` at most, and return."""
        self._loop = asyncio.get_running_loop()
        try:
            while not self._is_stopping:
                self._wakeup.clear()
                await self._start_due()
                # until woken, an attempt ended, the back-off is over, or the database may be back
                waits = self._backoff.remaining(), self._is_database_down * _DATABASE_POLL_INTERVAL.total_seconds()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wakeup.wait(), min(filter(None, waits), default=None))
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
        if loop is None or (self._is_on is not None and not self._is_on()):
            return  # not running yet (`run` checks the outbox as soon as it starts), or nothing is enqueued
        with contextlib.suppress(RuntimeError):  # the loop has just been closed
            loop.call_soon_threadsafe(self._wakeup.set)

    def check(self) -> None:
        """Check the outbox now, also for what was enqueued while `is_on` was true. Called on the event loop."""
        self._wakeup.set()

    def follow_clock(self, step: timedelta) -> None:
        """Move the messages that wait by as much as the clock was set. Blocking."""
        self._outbox.follow_clock(step)

    async def _start_due(self) -> None:
        """Start attempts: in an outage one after each pause.

        An alleged outage holds up no urgent message: a recipient could write the reply that alleges it.
        """
        self._has_skipped = False
        if self._backoff.is_active and self._is_alleged:
            await self._start(_MAX_CONCURRENT, urgent_only=True)
            if any(not self._outbox.is_urgent(message) for message in self._in_flight.values()):
                return
            limit = len(self._in_flight) + 1
        else:
            limit = 1 if self._backoff.is_active else _MAX_CONCURRENT
        if self._backoff.remaining() == 0:
            await self._start(min(limit, _MAX_CONCURRENT))

    async def _start(self, limit: int, *, urgent_only: bool = False) -> None:
        """Start attempts until so many are under way."""
        is_full = limit <= len(self._in_flight)
        self._has_skipped |= is_full
        if is_full:
            return
        for message, prepared in await self._claim(limit - len(self._in_flight), urgent_only):
            task = asyncio.create_task(self._deliver(message, prepared))
            self._in_flight[task] = message

    async def _claim(self, limit: int, urgent_only: bool) -> _Claims:
        try:
            claimed = await self._worker.run(self._claim_here, limit, urgent_only)
        except _TRY_AGAIN:
            self._is_database_down = True  # reported where the database is used
            return []
        except Exception as error:  # whatever went wrong, delivery must resume once it is over
            if not self._is_database_down:
                log.error("cannot deliver %ss without the database: %s", self._noun, describe_exception(error))
            self._is_database_down = True
            return []
        self._is_database_down = False
        return self._not_under_way(claimed)

    def _claim_here(self, limit: int, urgent_only: bool = False) -> _Claims:
        """Claim and prepare messages. Blocking: for a worker thread."""
        claims: _Claims = []
        for message in self._outbox.claim_due(limit, urgent_only):
            try:
                prepared = self._transport.prepare(message)
            except Drop as reason:
                prepared = reason
            except Exception:  # it is claimed already: the attempt prepares it again, in a call that can be repeated
                prepared = _UNPREPARED
            claims.append((message, prepared))
        return claims

    def _not_under_way(self, claimed: _Claims) -> _Claims:
        """Leave out what is under way: the clock was set forward, to where the claim is over."""
        return [claim for claim in claimed if claim[0] not in self._in_flight.values()]

    async def _deliver(self, message: OutboxEntry, prepared: Any) -> None:
        """Make one attempt after another, as long as each has claimed the next message with its result."""
        task, claimed = asyncio.current_task(), None
        assert task is not None
        try:
            while True:
                claimed = None
                claimed = await self._attempt_once(message, prepared)
                if not claimed:
                    return
                [(message, prepared)] = claimed
                self._in_flight[task] = message
        finally:
            self._in_flight.pop(task, None)
            if claimed is None or self._has_skipped:  # else nothing is due
                self._wakeup.set()

    async def _attempt_once(self, message: OutboxEntry, prepared: Any) -> _Claims | None:
        """Make one attempt, whatever happens; returns what was claimed next, None if nobody has looked.

        If its result cannot be recorded before the claim ends, the message is due again.
        """
        try:
            return await self._attempt(message, prepared)
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
            await self._worker.run(self._outbox.record_failure, message, f"internal error: {type(error).__name__}")
        return None

    async def _attempt(self, message: OutboxEntry, prepared: Any) -> _Claims | None:
        deadline = asyncio.get_running_loop().time() + _CLAIM_SHARE * self._outbox.claim_period.total_seconds()
        run, outbox = partial(self._record, deadline), self._outbox
        try:
            if prepared is _UNPREPARED:
                prepared = await self._worker.run(self._transport.prepare, message)
            if isinstance(prepared, Drop):
                raise prepared
            await self._transport.send(message, prepared)
        except asyncio.CancelledError:  # later it was sent, and is not released
            await self._worker.run(outbox.release, message, "the companion was stopped")
            raise
        except _TRY_AGAIN:  # it was not even rendered
            await run(outbox.release, message, "the database was away")
            return None
        except Drop as reason:
            await run(outbox.drop, message, str(reason))
            return None
        except TransportUnavailable as error:
            if not error.is_alleged or not outbox.is_urgent(message):
                self._note_outage(error)
            if error.is_alleged:
                self._wake_in(await run(outbox.withhold, message, str(error), error.retry_after))
            else:
                await self._worker.run(outbox.release, message, str(error))
            return None
        except PermanentFailure as error:
            await run(outbox.record_failure, message, str(error), is_final=True)
        except TemporaryFailure as error:
            self._wake_in(await run(outbox.record_failure, message, str(error), retry_after=error.retry_after))
        else:
            if not self._backoff.is_active:
                claimed = await run(self._record_sent_and_claim, message)
                return None if claimed is None else self._not_under_way(claimed)
            await run(outbox.record_sent, message)
            if self._is_alleged:
                self._backoff.reset()
        if self._backoff.is_active and not self._is_alleged:
            log.info("%ss can be sent again", self._noun)
            self._backoff.reset()
        return None

    def _record_sent_and_claim(self, message: OutboxEntry) -> _Claims | None:
        """Record a success, and claim the next message unless `stop` was called. Blocking: for a worker thread."""
        self._outbox.record_sent(message)
        try:
            return [] if self._is_stopping else self._claim_here(1)
        except Exception:  # the success stands, and must not be recorded again: `run` looks, and tells what is wrong
            return None

    def _note_outage(self, error: TransportUnavailable) -> None:
        """Start the next pause. A reply to a recipient ends what only kept us from getting that far."""
        if error.is_alleged != self._is_alleged:
            self._is_alleged = error.is_alleged
            longest = _LONGEST_ALLEGED_PAUSE if error.is_alleged else _LONGEST_PAUSE
            self._backoff = Backoff(self._first_pause, longest, spread=_PAUSE_SPREAD)
        if error.is_alleged:
            self._backoff.extend()
            return
        if not self._backoff.is_active:
            log.warning("%ss cannot be sent at the moment: %s", self._noun, error)
        self._backoff.extend(error.retry_after or timedelta())

    def _wake_in(self, wait: timedelta | None) -> None:
        if wait is not None and wait < CHECK_INTERVAL:
            asyncio.get_running_loop().call_later(wait.total_seconds(), self._wakeup.set)

    async def _record(self, deadline: float, record: Callable[..., T], *args: Any, **options: Any) -> T:
        """Record a result, also if the database comes back only in a while: by its claim the message is still ours."""
        while True:
            try:
                return await self._worker.run(record, *args, **options)
            except _TRY_AGAIN:
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(_DATABASE_POLL_INTERVAL.total_seconds())

    async def _finish(self) -> None:
        if not self._in_flight:
            return
        _done, late = await asyncio.wait(self._in_flight, timeout=self._shutdown_timeout.total_seconds())
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
