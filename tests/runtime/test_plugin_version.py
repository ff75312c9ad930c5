"""Cached version of AuthMe: looked up rarely, and only the first call waits."""

import asyncio
import threading
from datetime import timedelta

from regsvc.core.shared_lookup import CachedCall


class Disk:
    """A folder with a jar; `looks` counts how often it is opened, `may_answer` releases the answer."""

    def __init__(self) -> None:
        self.version: str | None = "5.6.0"
        self.looks = 0
        self.may_answer = threading.Event()
        self.may_answer.set()

    def find_version(self) -> str | None:
        self.looks += 1
        assert self.may_answer.wait(10)
        return self.version


def cached_version(disk: Disk, max_age: timedelta = timedelta(seconds=10)) -> CachedCall[str | None]:
    return CachedCall(lambda: asyncio.to_thread(disk.find_version), max_age, "installed-plugin")


async def test_however_many_ask_the_disk_is_asked_once() -> None:
    disk = Disk()
    plugin = cached_version(disk)
    found = await asyncio.gather(*(plugin.get_last() for _request in range(50)))
    assert {*found, await plugin.get_last()} == {"5.6.0"}
    assert disk.looks == 1


async def test_nobody_waits_for_a_slow_disk_twice() -> None:
    disk = Disk()
    plugin = cached_version(disk, timedelta(0))
    assert await plugin.get_last() == "5.6.0"
    disk.version = "6.0.1"
    disk.may_answer.clear()
    assert [await plugin.get_last() for _request in range(10)] == ["5.6.0"] * 10
    disk.may_answer.set()
    await next(task for task in asyncio.all_tasks() if task.get_name() == "installed-plugin")
    assert await plugin.get_last() == "6.0.1"
    assert disk.looks >= 2


async def test_no_version_is_remembered_too() -> None:
    disk = Disk()
    disk.version = None
    plugin = cached_version(disk)
    assert [await plugin.get_last() for _request in range(5)] == [None] * 5
    assert disk.looks == 1
