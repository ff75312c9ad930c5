"""How far a long run has come: a bar on a terminal, lines in the log otherwise. Short runs say nothing."""

import logging
import time
from collections.abc import Callable
from typing import Final, TextIO

log = logging.getLogger(__name__)

_WORTH_TELLING: Final = 2.0
"""Seconds that a run may take in silence."""
_DRAWN_EVERY: Final = 0.2
_LOGGED_EVERY: Final = 5.0
_WIDTH: Final = 30


class Progress:
    """Of one run over `total` rows. `terminal` None: the log."""

    def __init__(self, total: int, terminal: TextIO | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._total = total
        self._terminal = terminal
        self._clock = clock
        self._started = clock()
        self._tell_at = self._started + _WORTH_TELLING
        self._done = 0
        self._is_drawn = False

    def advance(self, count: int) -> None:
        """So many more have been looked at."""
        self._done = min(self._done + count, self._total)
        moment = self._clock()
        if moment < self._tell_at:
            return
        if self._terminal is None:
            log.info("sync: %s", self._figures(moment))
            self._tell_at = moment + _LOGGED_EVERY
        else:
            self._draw(self._terminal, moment)
            self._tell_at = moment + _DRAWN_EVERY

    def end(self) -> None:
        """Leave the terminal as it was."""
        if self._is_drawn and self._terminal is not None:
            self._terminal.write("\r\x1b[K")
            self._terminal.flush()

    def _draw(self, terminal: TextIO, moment: float) -> None:
        filled = _WIDTH * self._done // max(1, self._total)
        terminal.write(f"\r\x1b[K[{'#' * filled}{'.' * (_WIDTH - filled)}] {self._figures(moment)}")
        terminal.flush()
        self._is_drawn = True

    def _figures(self, moment: float) -> str:
        rate = self._done / max(moment - self._started, 0.001)
        remaining = (self._total - self._done) / rate if rate else 0.0
        return f"{self._done:,} of {self._total:,} players, {rate:,.0f} a second, about {remaining:.0f} s to go"
