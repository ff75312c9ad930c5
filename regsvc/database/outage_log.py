"""Log lines about outages of our database: one when it begins, one when it is over."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

_REPEAT_AFTER: Final = 60.0
"""Seconds between two lines about a database that answers but accepts no changes."""


class OutageLog:
    """Outages of one database, however many threads and jobs meet them. May be shared by threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` counts seconds and never goes back."""
        self._clock = clock
        self._lock = threading.Lock()
        self._is_away = False
        self._unwritable_since: float | None = None

    def begin(self, reason: str) -> bool:
        """Record that the database cannot be reached; returns whether this is the first to notice."""
        with self._lock:
            is_new, self._is_away = not self._is_away, True
        if is_new:
            log.error("the database is away; requests get 503 until it is back (%s)", reason)
        return is_new

    def end(self) -> None:
        """Record that the database answers."""
        if not self._is_away:
            return
        with self._lock:
            is_over, self._is_away = self._is_away, False
        if is_over:
            log.info("the database is back")

    def refuse_write(self, reason: str) -> None:
        """Record that the database answers but accepts no changes. Nothing says when that is over: reads succeed."""
        with self._lock:
            moment = self._clock()
            is_due = self._unwritable_since is None or moment >= self._unwritable_since + _REPEAT_AFTER
            if is_due:
                self._unwritable_since = moment
        if is_due:
            log.error("the database cannot be written: its disk is full or read-only (%s)", reason)
