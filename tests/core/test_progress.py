"""A long task shows how far it is; a short one shows nothing."""

import io
import itertools
import logging
from collections.abc import Callable

import pytest

from regsvc.core.progress import Progress


def steps_of(seconds: float) -> Callable[[], float]:
    """A clock that advances by so many seconds each time it is read."""
    return itertools.count(0.0, seconds).__next__


def sync_progress(total: int, terminal: io.StringIO | None, seconds: float) -> Progress:
    return Progress("sync", total, terminal, unit="players", quiet_for=2, clock=steps_of(seconds))


def test_a_terminal_gets_a_bar_that_goes_away() -> None:
    terminal = io.StringIO()
    progress = sync_progress(20_000, terminal, 3)
    progress.advance(10_000)
    assert "[###############...............] 10,000 of 20,000 players" in terminal.getvalue()
    assert "about 3 s to go" in terminal.getvalue()
    progress.end()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_the_log_gets_a_line_every_few_seconds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "regsvc.core.progress")
    progress = sync_progress(100_000, None, 1)
    for _batch in range(10):
        progress.advance(10_000)
    progress.end()
    assert [record.getMessage().split(" players")[0] for record in caplog.records] == [
        "sync: 20,000 of 100,000",
        "sync: 70,000 of 100,000",
    ]


def test_a_short_run_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "regsvc.core.progress")
    terminal = io.StringIO()
    for place in (terminal, None):
        progress = sync_progress(1_000, place, 0.1)
        progress.advance(1_000)
        progress.end()
    assert (terminal.getvalue(), caplog.records) == ("", [])


@pytest.mark.parametrize(
    ("total", "shown"),
    [(4, "exporting [###############...............] 2 of 4 (50%)"), (None, "exporting 2"), (0, "0 of 0 (100%)")],
)
def test_a_command_shows_its_title_and_a_share(total: int | None, shown: str) -> None:
    terminal = io.StringIO()
    Progress("exporting", total, terminal, clock=steps_of(1)).advance(2)
    assert terminal.getvalue().endswith(shown)


def test_what_is_done_twice_with_each_item_is_told_in_items() -> None:
    terminal = io.StringIO()
    progress = Progress("moving", 4, terminal, passes=2, clock=steps_of(1))
    progress.advance(4)
    assert terminal.getvalue().endswith("2 of 4 (50%)")
    progress.advance(4)
    assert terminal.getvalue().endswith("4 of 4 (100%)")
