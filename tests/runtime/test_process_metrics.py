"""Metrics collected at a scrape: queues, and the lag of the event loop."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from peewee import Database

from regsvc.auth.hashing import HashPool
from regsvc.core.errors import Overloaded
from regsvc.database.engine import Worker
from regsvc.runtime.metrics import LoopLag, QueueCollector


class Busy:
    """Work that lasts until the test lets it end."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.may_end = threading.Event()

    def __call__(self) -> None:
        self.has_begun.set()
        assert self.may_end.wait(10)


@pytest.fixture
def busy() -> Busy:
    return Busy()


@pytest.fixture
def worker(our_database: Database) -> Iterator[Worker]:
    worker = Worker(our_database, 1)
    worker.is_open = True
    yield worker
    worker.close()


@pytest.fixture
def hash_pool() -> Iterator[HashPool]:
    pool = HashPool(threads=1, max_waiting=1)
    yield pool
    pool.close()


def told(figures: QueueCollector) -> dict[str, float]:
    return {sample.name: sample.value for metric in figures.collect() for sample in metric.samples}


async def test_what_waits_is_told(worker: Worker, hash_pool: HashPool, busy: Busy) -> None:
    figures = QueueCollector(worker, worker, hash_pool, LoopLag())
    work = [hash_pool.run(busy), hash_pool.run(busy), worker.run(busy), worker.run(busy), worker.run(busy)]
    tasks = [asyncio.ensure_future(coroutine) for coroutine in work]
    await asyncio.to_thread(busy.has_begun.wait, 10)
    with pytest.raises(Overloaded):
        await hash_pool.run(busy)
    during = told(figures)
    busy.may_end.set()
    await asyncio.gather(*tasks)
    during = during

    assert during["companion_hash_running"] == 1
    assert during["companion_hash_waiting"] == 1
    assert during["companion_worker_waiting"] == 2
    after = told(figures)
    assert [after[name] for name in after if name.endswith(("_running", "_waiting"))] == [0, 0, 0, 0]
    assert after["companion_hash_refused_total"] == 1


async def test_a_loop_that_was_busy_was_late() -> None:
    lag = LoopLag(every=timedelta(milliseconds=10))
    before = lag.seconds
    lag.start()
    loop = asyncio.get_running_loop()
    is_over = loop.time() + 0.05
    while loop.time() < is_over:
        pass  # busy: nothing else gets a turn
    for _turn in range(2):  # our own callback, which was due before, and the timer's
        await asyncio.sleep(0)
    lag.stop()
    before, after = before, lag.seconds
    assert before == 0
    assert after > 0.03


def test_a_loop_lag_that_was_never_started_may_be_stopped() -> None:
    LoopLag().stop()
