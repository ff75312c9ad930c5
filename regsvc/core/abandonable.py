"""Blocking calls that may be abandoned: on a thread of their own, which does not keep the process from ending."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def start_call(work: Callable[[], T]) -> "Future[T]":
    """Run `work` on a new daemon thread; return the future of its result."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # raised again where the result is asked for
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def call_within(seconds: float, work: Callable[[], T]) -> T:
    """Return the result of `work`, or raise its exception. Raises TimeoutError, and abandons it, if it takes longer."""
    return start_call(work).result(seconds)


async def await_call(work: Callable[[], T]) -> T:
    """Await the result of `work`; the process may end before it."""
    return await asyncio.wrap_future(start_call(work))
