"""A real worker that tests can wait for."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from peewee import Database

from regsvc.database.engine import Worker

WAIT = 10.0  # seconds until a test fails
P = ParamSpec("P")
T = TypeVar("T")


class WatchedWorker(Worker):
    """A real worker that lets a test wait for the result of a call."""

    wake: Callable[[], None]
    """Wakes the delivery under test, if the test sets it."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, 2)
        self.is_open = True
        self.rule_ended = asyncio.Condition()
        self.calls = 0

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self.calls += 1
        try:
            return await super().run(work, *args, **kwargs)
        finally:
            async with self.rule_ended:
                self.rule_ended.notify_all()

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until the condition holds after some call; raises TimeoutError after `WAIT`."""
        async with asyncio.timeout(WAIT), self.rule_ended:
            await self.rule_ended.wait_for(is_so)
