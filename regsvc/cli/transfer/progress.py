"""How far a long command has come: a bar on a terminal, a line in the log now and then anywhere else."""

import logging
import sys
import time
from typing import Final, TextIO

log = logging.getLogger(__name__)

_WIDTH: Final = 30
_DRAWN_EVERY: Final = 0.1  # seconds
_LOGGED_EVERY: Final = 5.0  # seconds


class Progress:
    """Of one piece of work. `total` None: nobody knows how much there is."""

    def __init__(self, what: str, total: int | None, stream: TextIO | None = None) -> None:
        self._what = what
        self._total = total
        self._stream = stream or sys.stderr
        self._is_terminal = self._stream.isatty()
        self._done = 0
        self._told_at = time.monotonic()
        self._is_drawn = False

    def advance(self, count: int) -> None:
        """So many more are done."""
        self._done += count
        moment = time.monotonic()
        if moment - self._told_at < (_DRAWN_EVERY if self._is_terminal else _LOGGED_EVERY):
            return
        self._told_at = moment
        if self._is_terminal:
            self._draw()
        else:
            log.info("%s: %s", self._what, self._figures())

    def end(self) -> None:
        """Take the bar away; what was done is told by whoever did it."""
        if self._is_drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _draw(self) -> None:
        filled = round(_WIDTH * self._share())
        bar = f"[{'#' * filled}{' ' * (_WIDTH - filled)}] " if self._total is not None else ""
        self._stream.write(f"\r\x1b[K{self._what} {bar}{self._figures()}")
        self._stream.flush()
        self._is_drawn = True

    def _figures(self) -> str:
        if self._total is None:
            return f"{self._done:,}"
        return f"{self._done:,} of {self._total:,} ({self._share():.0%})"

    def _share(self) -> float:
        return min(1.0, self._done / self._total) if self._total else 1.0
