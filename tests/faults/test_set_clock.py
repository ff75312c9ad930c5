"""R86: whatever the clock does, nothing is late by more than seconds."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from time import monotonic, time

import pytest

from tests.support.programs import find_library
from tests.support.stack import Stack
from tests.support.watching import ask_until

LATE = 15.0
"""Seconds that a step may cost a busy machine; the smallest step is 7,200."""


class FakeTime:
    """The clock of a process with libfaketime, as far from the true one as a file says."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._ahead = timedelta()
        self.step(timedelta())

    @property
    def environment(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": find_library("faketime/libfaketimeMT.so.1"),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def step(self, amount: timedelta) -> None:
        self._ahead += amount
        written = self._file.with_suffix(".new")
        written.write_text(f"{self._ahead.total_seconds():+.0f}", "ascii")
        written.rename(self._file)

    def now_ms(self) -> int:
        return round((time() + self._ahead.total_seconds()) * 1000)


@pytest.fixture
def fake_time(tmp_path: Path) -> FakeTime:
    return FakeTime(tmp_path / "ahead")


@pytest.fixture
def stack(fake_time: FakeTime, tmp_path: Path) -> Iterator[Stack]:
    config = {"sync": {"every": "1 second"}}
    with Stack("sqlite", tmp_path, config=config, environment=fake_time.environment, is_quick=False) as stack:
        yield stack


def live_a_moment(stack: Stack, fake_time: FakeTime) -> None:
    """Alice's code comes, she is approved, logs in and is banned for two seconds; Bob registers in the game."""
    stack.get("/api/admin/verify", token=stack.olivia())  # after two hours she has to log in again
    alice, bob = stack.approved("alice"), stack.newcomer("bob")
    stack.authme.register(bob.name, bob.password)
    stack.user_token(alice)
    stack.decides("ban", alice, expiresAt=fake_time.now_ms() + 2000)
    ask_until(lambda: stack.status(bob), lambda status: status is not None)
    ask_until(lambda: stack.status(alice), lambda status: status == "approved")


def test_a_daemon_whose_clock_is_set_goes_on(stack: Stack, fake_time: FakeTime) -> None:
    """Two hours and two years, forward and back; once back, a mail that had to be repeated follows in seconds, too."""
    live_a_moment(stack, fake_time)
    for step in (timedelta(hours=2), timedelta(hours=-2), timedelta(days=-730), timedelta(days=730)):
        fake_time.step(step)
        began = monotonic()
        live_a_moment(stack, fake_time)
        assert monotonic() - began < LATE
