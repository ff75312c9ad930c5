"""A pool of threads that takes on only so much."""

import asyncio
import threading

import pytest

from regsvc.core.bounded_pool import BoundedPool
from regsvc.core.errors import Overloaded


async def test_what_is_reserved_keeps_its_place_until_the_block_ends() -> None:
    pool = BoundedPool("test", threads=1, max_waiting=0)
    with pool.reserve():
        with pytest.raises(Overloaded):
            await pool.run(str)
        assert await pool.run_reserved(str, "reserved") == "reserved"
    assert await pool.run(str, "after") == "after"
    assert (pool.refused, pool.running, pool.waiting) == (1, 0, 0)
    pool.close()


def test_a_reservation_ends_with_an_error_too() -> None:
    pool = BoundedPool("test", threads=1, max_waiting=0)
    with pytest.raises(ValueError, match="not wanted"), pool.reserve():
        raise ValueError("not wanted")
    assert pool.running == 0
    pool.close()


async def test_draining_finishes_what_waits_and_visits_every_thread() -> None:
    visited: set[str] = set()
    pool = BoundedPool("test", threads=3, max_waiting=10)
    calls = [asyncio.ensure_future(pool.run(abs, -number)) for number in range(10)]
    await asyncio.sleep(0)
    pool.drain(lambda: visited.add(threading.current_thread().name))
    assert await asyncio.gather(*calls) == list(range(10))
    assert len(visited) == 3
