"""Time and threads of the simulated process: one seed says when the time moves, and which thread goes on.

`simulate_time_and_threads` comes before the first import of the product, which takes `time.monotonic` for default
values, and derives classes from `threading.local`.
"""

import _threading_local
import asyncio
import hashlib
import random
import selectors
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import timedelta
from typing import Any, Final

from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]

from tests.support.manual_clock import ManualClock

_LONGEST_WAIT: Final = 60.0
"""Seconds for which a thread waits for an event without a time-out."""
OUTSIDE: Final = "game"
"""The pool of another process, which goes on when the product is killed."""
_real_sleep: Final = time.sleep


class Killed(BaseException):
    """Ends the process: no code of the product catches it."""


class SimulatedClock(ManualClock):
    """Clock of the machine, and the steady one beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.steady = 10_000.0

    def advance(self, **amount: float) -> None:
        """Let time pass on both clocks, in whole milliseconds."""
        passed = timedelta(milliseconds=max(round(timedelta(**amount) / timedelta(milliseconds=1)), 1))
        self.steady += passed.total_seconds()
        self._moment += passed


class Trace:
    """What happened, in order: its digest, and the last lines for people."""

    def __init__(self, clock: SimulatedClock) -> None:
        self.last: deque[str] = deque(maxlen=400)
        self.echo: Callable[[str], object] | None = None
        self.hand_overs = 0
        self._clock = clock
        self._digest = hashlib.sha256()

    def note(self, line: str) -> None:
        line = f"{self._clock():%m-%d %H:%M:%S.%f} {line}"
        self._digest.update(line.encode())
        self.last.append(line)
        if self.echo is not None:
            self.echo(line)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()[:16]


class _Thread:
    """Thread of one of the product's pools. It is a greenlet: to change to it costs no wait for the real machine."""

    def __init__(self, scheduler: "Scheduler", name: str) -> None:
        self.name = name
        self.point = "start"
        self.wakes_at = 0.0
        self.call: Callable[[], Any] | None = None
        self.outcome: asyncio.Future[Any] | None = None
        self.result: tuple[bool, Any] | None = None
        self.greenlet = greenlet(self._work)
        self._scheduler = scheduler

    def _work(self) -> None:
        while self.call is not None:
            try:
                self.result = True, self.call()
            except BaseException as error:  # the caller's
                self.result = False, error
            self._scheduler.came_back()


class Scheduler:
    """The threads of one process, of which one runs at a time, and the loop's own.

    They change at hand-overs: where a call begins or ends, at statements outside a transaction, and after commits.
    `meet_fault` is called at each, on the thread that is there, and may raise what the database would.
    """

    def __init__(self, chance: random.Random, clock: SimulatedClock, trace: Trace) -> None:
        self.clock = clock
        self.chance = chance
        self.meet_fault: Callable[[str, Any], None] = lambda point, database: None
        self.is_dead = False
        self.is_ended = False
        """Whether its threads are gone, and only coroutines are to be unwound."""
        self.is_fair = False
        """Whether threads go on in the order in which they came, as while the world settles."""
        self.current: _Thread | None = None
        self.loop: SimulatedLoop | None = None
        self._trace = trace
        self._main = getcurrent()
        self._threads: dict[str, list[_Thread]] = defaultdict(list)
        self._waiting: dict[str, deque[tuple[Callable[[], Any], asyncio.Future[Any]]]] = defaultdict(deque)
        self._quiet: list[asyncio.Future[None]] = []

    # --- for the loop ---

    def submit(self, pool: str, size: int, call: Callable[[], Any], outcome: "asyncio.Future[Any]") -> None:
        """Run a call on a thread of this pool, which has so many."""
        if self.is_dead:
            outcome.set_exception(Killed())
            return
        self._waiting[pool].append((call, outcome))
        while len(self._threads[pool]) < min(size, len(self._waiting[pool]) + self._count_busy(pool)):
            self._threads[pool].append(_Thread(self, f"{pool}-{len(self._threads[pool])}"))
        self._assign(pool)

    def _count_busy(self, pool: str) -> int:
        return sum(thread.outcome is not None for thread in self._threads[pool])

    def _assign(self, pool: str) -> None:
        for thread in self._threads[pool]:
            if thread.outcome is None and self._waiting[pool]:
                thread.call, thread.outcome = self._waiting[pool].popleft()
                thread.point, thread.wakes_at = "call", 0.0

    def list_ready(self) -> list[_Thread]:
        busy = (thread for pool in self._threads.values() for thread in pool if thread.outcome is not None)
        return [thread for thread in busy if thread.wakes_at <= self.clock.steady]

    def find_next_waking(self) -> float | None:
        busy = [thread for pool in self._threads.values() for thread in pool if thread.outcome is not None]
        return min((thread.wakes_at for thread in busy), default=None)

    def step(self, ready: list[_Thread]) -> None:
        """Let one thread go on to its next hand-over."""
        thread = ready[0] if self.is_fair else self.chance.choice(ready)
        self._trace.hand_overs += 1
        self._let_go_on(thread)
        self._trace.note(f"  {thread.name}: {thread.point if thread.result is None else 'done'}")
        if thread.result is not None:
            self._finish(thread)

    def _let_go_on(self, thread: _Thread) -> None:
        self.current, self._main = thread, getcurrent()
        thread.greenlet.switch()
        self.current = None

    def _finish(self, thread: _Thread) -> None:
        assert thread.result is not None
        (is_good, result), outcome = thread.result, thread.outcome
        thread.result = thread.outcome = None
        assert outcome is not None
        if isinstance(result, Killed):
            self.is_dead = True
        if not outcome.done():
            (outcome.set_result if is_good else outcome.set_exception)(result)
        self._assign(thread.name.rpartition("-")[0])

    def quiet(self) -> "asyncio.Future[None]":
        """Return what is done when nothing goes on any more but by time."""
        assert self.loop is not None
        self._quiet.append(self.loop.create_future())
        return self._quiet[-1]

    def end_quiet(self) -> bool:
        """Wake those who wait for quiet, if nothing is under way; return whether there were any."""
        is_busy = any(thread.outcome is not None for pool in self._threads.values() for thread in pool)
        waiting, self._quiet = ([], self._quiet) if is_busy else (self._quiet, [])
        for future in waiting:
            if not future.done():
                future.set_result(None)
        return bool(waiting)

    # --- for the threads ---

    @property
    def is_running_a_thread(self) -> bool:
        """Whether the caller is one of the threads, and not the simulation itself."""
        return self.current is not None

    def hand_over(self, point: str, wait: float = 0.0, *, may_switch: bool = True, database: Any = None) -> None:
        """Let another thread go on, perhaps, unless this one holds locks. Raises `Killed` once the process is dead."""
        thread = self.current
        if thread is None:
            return
        if self._is_over(thread):
            return
        thread.point = point
        self.meet_fault(point, database)
        if not may_switch or (wait <= 0 and not (self._is_anybody_else_ready() and self.chance.random() < 0.4)):
            return
        thread.point, thread.wakes_at = point, self.clock.steady + wait
        self.came_back()
        self._is_over(thread)

    def _is_over(self, thread: _Thread) -> bool:
        """Return whether the process is dead and this thread another's. Raises `Killed` on its own."""
        if self.is_dead and not thread.name.startswith(OUTSIDE):
            raise Killed
        return self.is_dead

    def _is_anybody_else_ready(self) -> bool:
        return len(self.list_ready()) > 1 or (self.loop is not None and self.loop.has_work)

    def came_back(self) -> None:
        self._main.switch()

    def end(self, close: Callable[[], None]) -> None:
        """End all threads, each in the middle of what it does; `close` is called on each at last."""
        self.is_dead = True
        for thread in [thread for pool in self._threads.values() for thread in pool]:
            while thread.outcome is not None and thread.point != "call":
                self._let_go_on(thread)
                if thread.result is not None:
                    thread.outcome = thread.result = None
            for call in (close, None):
                thread.call = call
                self._let_go_on(thread)
                thread.result = None
        self.is_ended = True


class _NoSelector(selectors.SelectSelector):
    """Selector of a loop without sockets: what the loop would wait for is what the scheduler does next."""

    scheduler: Scheduler

    def select(self, timeout: float | None = None) -> list[Any]:
        scheduler = self.scheduler
        assert scheduler.loop is not None
        if scheduler.is_dead:
            if scheduler.is_ended:
                scheduler.clock.advance(seconds=timeout or 0)
            else:
                scheduler.loop.stop()
            return []
        ready = scheduler.list_ready()
        if timeout == 0:
            if ready and scheduler.chance.random() < 0.5:
                scheduler.step(ready)
        elif ready:
            scheduler.step(ready)
        elif not scheduler.end_quiet():
            due = [] if timeout is None else [timeout]
            waking = scheduler.find_next_waking()
            due += [] if waking is None else [waking - scheduler.clock.steady]
            assert due, "nothing will ever happen"
            scheduler.clock.advance(seconds=min(due) + 0.001)
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Event loop whose time is the simulated one, and whose threads are the scheduler's."""

    def __init__(self, scheduler: Scheduler) -> None:
        selector = _NoSelector()
        selector.scheduler = scheduler
        super().__init__(selector)
        self._scheduler = scheduler
        self._pools: dict[int, str] = {}
        scheduler.loop = self

    def time(self) -> float:
        return self._scheduler.clock.steady

    @property
    def has_work(self) -> bool:
        return bool(self._ready)  # type: ignore[attr-defined]

    def _write_to_self(self) -> None:
        """Nobody sleeps who would have to be woken."""

    def run_in_executor(  # type: ignore[override]  # its own signature has type variables
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> Any:
        pool: Any = executor
        size = 4 if pool is None else pool._max_workers
        name = "to_thread" if pool is None else self._pools.get(id(pool))
        if name is None:  # several daemons have pools of one name
            name = f"{pool._thread_name_prefix}{'b' * list(self._pools.values()).count(pool._thread_name_prefix)}"
            self._pools[id(pool)] = name
        outcome = self.create_future()
        self._scheduler.submit(name, size, lambda: func(*args), outcome)
        return outcome


class _Event(threading.Event):
    """Event for which a simulated thread waits in simulated time."""

    def wait(self, timeout: float | None = None) -> bool:
        scheduler = _now.scheduler
        if scheduler is None or scheduler.current is None:
            return super().wait(timeout)
        until = scheduler.clock.steady + (_LONGEST_WAIT if timeout is None else timeout)
        while not self.is_set() and scheduler.clock.steady < until:
            scheduler.hand_over("wait", min(0.01, until - scheduler.clock.steady))
        return self.is_set()


class _Now:
    """The simulation that this process runs at this moment."""

    clock = SimulatedClock()
    scheduler: Scheduler | None = None

    def sleep(self, seconds: float) -> None:
        if self.scheduler is None or self.scheduler.current is None:
            _real_sleep(seconds)
        else:
            self.scheduler.hand_over("sleep", seconds)


_now: Final = _Now()


def simulate_with(scheduler: Scheduler) -> None:
    """Let this scheduler be the one of the process."""
    _now.scheduler, _now.clock = scheduler, scheduler.clock


def simulate_time_and_threads() -> None:
    """Replace what this Python process has of both."""
    time.monotonic = lambda: _now.clock.steady
    time.time = lambda: _now.clock().timestamp()
    time.sleep = _now.sleep  # type: ignore[assignment]
    threading.Event = _Event  # type: ignore[misc]
    threading.local = _threading_local.local  # type: ignore[assignment]  # in Python: of each greenlet its own
    vars(_threading_local)["current_thread"] = getcurrent
