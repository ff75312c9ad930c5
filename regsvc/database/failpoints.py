"""Failpoints: a test can kill the process at them as a crash would, around each commit and each write to AuthMe's row.

`COMPANION_TEST_KILL_AT` names a file; without it, as everywhere but in the tests, `failpoints.reach` does nothing.
While the file holds `<point>:<n>`, the process kills itself when it reaches that point for the n-th time since.
"""

import os
import signal
import threading
from pathlib import Path
from typing import Final, Literal, get_args

VARIABLE: Final = "COMPANION_TEST_KILL_AT"

Point = Literal["before commit", "after commit", "before player write", "after player write"]
POINTS: Final[tuple[Point, ...]] = get_args(Point)


class _KillOrder:
    """Content of the file, read again at each point."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._order = ""
        self._passed = 0

    def reach(self, point: Point) -> None:
        """Kill the process if the order names this point and its count is reached."""
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


_order: Final = _KillOrder(Path(os.environ[VARIABLE])) if os.environ.get(VARIABLE) else None


def reach(point: Point) -> None:
    """Report that the process is at this point now."""
    if _order is not None:
        _order.reach(point)
