"""A long run says how far it is; a short one says nothing."""

import io
import itertools
import logging

import pytest

from regsvc.core.progress import Progress


def seconds_apart(step: float) -> itertools.count:  # type: ignore[type-arg]
    """A clock that goes on by so many seconds each time somebody looks."""
    return itertools.count(0.0, step)


def test_a_terminal_gets_a_bar_that_goes_away() -> None:
    terminal, clock = io.StringIO(), seconds_apart(3)
    progress = Progress(20_000, terminal, lambda: next(clock))
    progress.advance(10_000)
    assert "[###############...............] 10,000 of 20,000 players" in terminal.getvalue()
    assert "about 3 s to go" in terminal.getvalue()
    progress.end()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_the_log_gets_a_line_every_few_seconds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "regsvc.core.progress")
    clock = seconds_apart(1)
    progress = Progress(100_000, None, lambda: next(clock))
    for _batch in range(10):
        progress.advance(10_000)
    progress.end()
    assert [record.getMessage().split(" players")[0] for record in caplog.records] == [
        "sync: 20,000 of 100,000",
        "sync: 70,000 of 100,000",
    ]


def test_a_short_run_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "regsvc.core.progress")
    terminal, clock = io.StringIO(), seconds_apart(0.1)
    for told in (terminal, None):
        progress = Progress(1_000, told, lambda: next(clock))
        progress.advance(1_000)
        progress.end()
    assert (terminal.getvalue(), caplog.records) == ("", [])
