"""Progress of long commands and sync runs: a bar on a terminal, a log line every few seconds otherwise."""

import logging
import sys
import time
from collections.abc import Callable
from typing import Final, Self, TextIO

log = logging.getLogger(__name__)

_DRAW_EVERY: Final = 0.1  # seconds
_LOG_EVERY: Final = 5.0  # seconds
_WIDTH: Final = 30


class Progress:
    """Progress of one task over `total` items; `total` None: the number is unknown, and there is no bar."""

    def __init__(
        self,
        title: str,
        total: int | None,
        terminal: TextIO | None,
        *,
        unit: str | None = None,
        quiet_for: float | None = None,
        passes: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the clock. Nothing is shown before `quiet_for` seconds; None: before the first regular update.

        `terminal` None: the log. With a `unit` ("players") the figures give rate and remaining time, else a percentage.
        """
        self._title = title
        self._total = total
        self._terminal = terminal
        self._unit = unit
        self._passes = passes
        self._clock = clock
        self._interval = _LOG_EVERY if terminal is None else _DRAW_EVERY
        self._started = clock()
        self._due_at = self._started + (self._interval if quiet_for is None else quiet_for)
        self._done = 0
        self._is_drawn = False

    @classmethod
    def on_stderr(cls, title: str, total: int | None, passes: int = 1) -> Self:
        """Return the progress of a command: on standard error if that is a terminal, else in the log.

        `passes`: how often `advance` is called for each item; the figures tell items.
        """
        return cls(title, total, sys.stderr if sys.stderr.isatty() else None, passes=passes)

    def advance(self, count: int) -> None:
        """Add `count` finished items, and show the progress if an update is due."""
        self._done += count
        if self._total is not None:
            self._done = min(self._done, self._total * self._passes)
        moment = self._clock()
        if moment < self._due_at:
            return
        self._due_at = moment + self._interval
        if self._terminal is None:
            log.info("%s: %s", self._title, self._figures(moment))
        else:
            self._draw(self._terminal, moment)

    def end(self) -> None:
        """Erase the bar; the command itself reports the result."""
        if self._is_drawn and self._terminal is not None:
            self._terminal.write("\r\x1b[K")
            self._terminal.flush()

    def _draw(self, terminal: TextIO, moment: float) -> None:
        parts = [] if self._unit is not None else [self._title]
        if self._total is not None:
            filled = int(_WIDTH * self._share())
            parts.append(f"[{'#' * filled}{'.' * (_WIDTH - filled)}]")
        terminal.write("\r\x1b[K" + " ".join([*parts, self._figures(moment)]))
        terminal.flush()
        self._is_drawn = True

    def _figures(self, moment: float) -> str:
        if self._total is None:
            return f"{self._done:,}"
        if self._unit is None:
            return f"{self._done // self._passes:,} of {self._total:,} ({self._share():.0%})"
        rate = self._done / max(moment - self._started, 0.001)
        remaining = (self._total - self._done) / rate if rate else 0.0
        return f"{self._done:,} of {self._total:,} {self._unit}, {rate:,.0f} a second, about {remaining:.0f} s to go"

    def _share(self) -> float:
        return self._done / (self._total * self._passes) if self._total else 1.0
