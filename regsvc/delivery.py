"""Brings the outbox's mails out of the house, in the background. No request waits for it."""

import asyncio
import contextlib
import logging
from datetime import timedelta
from typing import Final

from regsvc.db import Worker
from regsvc.errors import DatabaseAway, Overloaded, describe_bug
from regsvc.mail_desk import MailDesk
from regsvc.mail_renderer import RenderedMail
from regsvc.mailers import Mailer, MailPostponed, MailRefused, MailServerAway
from regsvc.outbox import OutboxMail

log = logging.getLogger(__name__)

_PARALLEL: Final = 4
_POLL: Final = timedelta(seconds=15)
_DATABASE_POLL: Final = timedelta(seconds=2)
_FIRST_PAUSE: Final = timedelta(seconds=1)
_LONGEST_PAUSE: Final = timedelta(minutes=1)
_FAREWELL: Final = timedelta(seconds=5)


class _Pause:
    """How long to leave a mail server alone that is away: doubling, and one attempt at a time."""

    def __init__(self, first: timedelta) -> None:
        self._first = first
        self._length = timedelta(0)
        self._until = 0.0  # on the loop's clock

    @property
    def is_on(self) -> bool:
        """Whether the last attempt found the server away."""
        return bool(self._length)

    def begin_or_extend(self) -> None:
        if self.remaining() > 0:
            return  # several attempts met the same outage
        self._length = min(max(self._first, self._length * 2), _LONGEST_PAUSE)
        self._until = asyncio.get_running_loop().time() + self._length.total_seconds()

    def end(self) -> None:
        self._length = timedelta(0)
        self._until = 0.0

    def remaining(self) -> float:
        """Seconds; 0 when an attempt may be made."""
        return max(0.0, self._until - asyncio.get_running_loop().time())


class MailDelivery:
    """The background job: `run` until `stop`. Several recipients at once, each one's mails in order.

    `first_pause` is how long a mail server that is away is left alone at first, `farewell` how long a stop waits for
    the mails under way.
    """

    def __init__(
        self,
        worker: Worker,
        desk: MailDesk,
        mailer: Mailer,
        *,
        first_pause: timedelta = _FIRST_PAUSE,
        farewell: timedelta = _FAREWELL,
    ) -> None:
        self._worker = worker
        self._desk = desk
        self._mailer = mailer
        self._pause = _Pause(first_pause)
        self._farewell = farewell
        self._in_flight: set[asyncio.Task[None]] = set()
        self._something_happened = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopping = False
        self._is_database_away = False

    async def run(self) -> None:
        """Deliver until `stop`; then finish what is under way, for some seconds at most, and come back."""
        self._loop = asyncio.get_running_loop()
        try:
            while not self._is_stopping:
                self._something_happened.clear()
                await self._begin_due()
                await self._wait()
        finally:
            self._loop = None
            await self._finish()

    def stop(self) -> None:
        """Begin no further mail; `run` comes back. Called on the loop."""
        self._is_stopping = True
        self._something_happened.set()

    def wake(self) -> None:
        """Look into the outbox now. From any thread, after the transaction that put something there."""
        loop = self._loop
        if loop is None:
            return  # not running yet: it looks as soon as it does
        with contextlib.suppress(RuntimeError):  # the loop has just been closed
            loop.call_soon_threadsafe(self._something_happened.set)

    async def _begin_due(self) -> None:
        limit = 1 if self._pause.is_on else _PARALLEL
        free = limit - len(self._in_flight)
        if free <= 0 or self._pause.remaining() > 0:
            return
        for mail in await self._claim(free):
            task = asyncio.create_task(self._deliver(mail))
            self._in_flight.add(task)
            task.add_done_callback(self._end)

    async def _claim(self, limit: int) -> list[OutboxMail]:
        try:
            claimed = await self._worker.run(self._desk.claim_due, limit)
        except (DatabaseAway, Overloaded):
            self._wait_for_database("it cannot be reached")
            return []
        except Exception as error:  # whatever it is, mails must leave again once it is over
            self._wait_for_database(describe_bug(error))
            return []
        self._is_database_away = False
        return claimed

    def _wait_for_database(self, why: str) -> None:
        """Told once, until it works again."""
        if not self._is_database_away:
            log.error("mails wait for the database: %s", why)
        self._is_database_away = True

    def _end(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        self._something_happened.set()

    async def _wait(self) -> None:
        """Until something may have become due: woken, a delivery ended, the pause is over, or the poll's turn."""
        poll = (_DATABASE_POLL if self._is_database_away else _POLL).total_seconds()
        timeout = min(self._pause.remaining() or poll, poll)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._something_happened.wait(), timeout)

    async def _deliver(self, mail: OutboxMail) -> None:
        """One attempt, whatever may happen. What is not recorded is due again when the claim runs out."""
        try:
            await self._attempt(mail)
        except asyncio.CancelledError:
            await self._worker.run(self._desk.put_back, mail, "the companion was stopped")
            raise
        except (DatabaseAway, Overloaded):
            log.warning("mail %d (%s): how it went cannot be recorded now", mail.id, mail.template)
        except Exception as bug:
            log.error("mail %d (%s) met a bug: %s", mail.id, mail.template, describe_bug(bug))
            await self._record_failure(mail, f"a bug: {type(bug).__name__}", is_final=False)

    async def _attempt(self, mail: OutboxMail) -> None:
        if not self._mailer.is_available:
            await self._worker.run(self._desk.drop, mail, "e-mail is switched off")
            return
        rendered = await self._worker.run(self._desk.render, mail)
        if rendered is not None:
            await self._hand_over(mail, rendered)

    async def _hand_over(self, mail: OutboxMail, rendered: RenderedMail) -> None:
        try:
            await self._mailer.send(rendered.message, mail.recipient)
        except MailServerAway as error:
            await self._put_back(mail, rendered.censor(str(error)))
            return
        except (MailRefused, MailPostponed) as error:
            is_final = isinstance(error, MailRefused)
            await self._record_failure(mail, rendered.censor(str(error)), is_final=is_final)
        else:
            await self._worker.run(self._desk.record_sent, mail)
        if self._pause.is_on:
            log.info("mails get out again")
            self._pause.end()

    async def _record_failure(self, mail: OutboxMail, error: str, *, is_final: bool) -> None:
        await self._worker.run(self._desk.record_failure, mail, error, is_final=is_final)

    async def _put_back(self, mail: OutboxMail, reason: str) -> None:
        if not self._pause.is_on:
            log.warning("mails wait, none gets out: %s", reason)
        self._pause.begin_or_extend()
        await self._worker.run(self._desk.put_back, mail, reason)

    async def _finish(self) -> None:
        if not self._in_flight:
            return
        _done, late = await asyncio.wait(self._in_flight, timeout=self._farewell.total_seconds())
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
