"""Calls that may be abandoned, and the end of a process that abandoned one."""

import asyncio
import subprocess
import sys
import threading

import pytest

from regsvc.doctor.abandonable import await_call, call_within, start_call, wait_for_calls

END_WITH_A_CALL_RUNNING = """
import threading
import companion
from regsvc.doctor.abandonable import start_call
companion.main = lambda: (print("served"), start_call(threading.Event().wait), 7)[-1]
companion.run_and_exit()
"""


def test_a_call_that_takes_too_long_is_abandoned_and_can_be_waited_for() -> None:
    answered = threading.Event()
    with pytest.raises(TimeoutError):
        call_within(0.01, answered.wait)
    assert not wait_for_calls(0.01)
    answered.set()
    assert wait_for_calls(10)


def test_an_error_is_raised_where_the_result_is_asked_for() -> None:
    with pytest.raises(ZeroDivisionError):
        start_call(lambda: 1 // 0).result(10)
    assert wait_for_calls(10)


async def test_a_call_whose_result_is_no_longer_awaited_ends_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    complaints: list[object] = []
    monkeypatch.setattr(threading, "excepthook", complaints.append)
    has_begun, may_end = threading.Event(), threading.Event()

    def work() -> None:
        has_begun.set()
        may_end.wait(10)

    awaiting = asyncio.create_task(await_call(work))
    await asyncio.to_thread(has_begun.wait, 10)
    awaiting.cancel()
    await asyncio.wait([awaiting])
    may_end.set()
    assert wait_for_calls(10)
    assert complaints == []


def test_the_process_ends_with_its_status_although_an_abandoned_call_never_returns() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", END_WITH_A_CALL_RUNNING], capture_output=True, text=True, timeout=30, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "served\n", "")
