"""Where a test may end the process as a crash would: around each commit, and around each write of AuthMe's row.

`COMPANION_TEST_KILL_AT` names a file; where it is not set, as everywhere but in the tests, a point is an empty call.
While the file holds `<point>:<n>`, the process kills itself when it passes that point for the n-th time since.
"""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, get_args

VARIABLE: Final = "COMPANION_TEST_KILL_AT"

Point = Literal["before commit", "after commit", "before player write", "after player write"]
POINTS: Final[tuple[Point, ...]] = get_args(Point)


class _Order:
    """The file's word, looked up at each point."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._order = ""
        self._passed = 0

    def reach(self, point: Point) -> None:
        """Does not come back where the order says so."""
        with self._lock:
            order = self._file.read_text("utf-8") if self._file.exists() else ""
            if order != self._order:
                self._order, self._passed = order, 0
            name, _colon, number = order.rpartition(":")
            if name != point:
                return
            self._passed += 1
            if self._passed == int(number):
                os.kill(os.getpid(), signal.SIGKILL)


def _nothing_happens(point: Point) -> None:
    """What everybody gets who is no test."""


def _choose(given: str | None) -> Callable[[Point], None]:
    return _Order(Path(given)).reach if given else _nothing_happens


reach: Final = _choose(os.environ.get(VARIABLE))
"""Says that this point is passed now."""
