"""Blocking calls that may be abandoned: on a thread of their own, which does not keep the process from ending."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    pass

T = TypeVar("T")

_running: set[threading.Thread] = set()


def start_call(work: Callable[[], T]) -> "Future[T]":
    """Run `work` on a new daemon thread; return the future of its result."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            if future.set_running_or_notify_cancel():  # from now on it cannot be cancelled, and so takes the result
                future.set_result(work())
        except BaseException as error:  # raised again where the result is asked for
            future.set_exception(error)
        finally:
            _running.discard(threading.current_thread())

    thread = threading.Thread(target=run, daemon=True)
    _running.add(thread)
    thread.start()
    return future


def call_within(seconds: float, work: Callable[[], T]) -> T:
    """Return the result of `work`, or raise its exception. Raises TimeoutError, and abandons it, if it takes longer."""
    return start_call(work).result(seconds)


async def await_call(work: Callable[[], T]) -> T:
    """Await the result of `work`; the process may end before it."""
    import asyncio

    return await asyncio.wrap_future(start_call(work))


def wait_for_calls(seconds: float) -> bool:
    """Wait for the calls that were abandoned, at most so long. Returns whether all of them have ended."""
    deadline = time.monotonic() + seconds
    for thread in [thread for thread in list(_running) if thread.is_alive()]:  # one that has not begun cannot be joined
        thread.join(max(0.0, deadline - time.monotonic()))
    return not any(thread.is_alive() for thread in list(_running))
