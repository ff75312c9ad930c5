"""Looks for new versions now and then, in the background; what a request is told was known before it came."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal

from regsvc.core.clock import Clock
from regsvc.runtime.update_feed import FeedUnusable, Published, UpdateFeed

log = logging.getLogger(__name__)

Product = Literal["companion", "plugin"]

LOOK_EVERY: Final = timedelta(minutes=1)
"""How often it is asked whether a look is due."""
FIRST_PAUSE: Final = timedelta(minutes=5)
"""After a look that failed; it doubles up to `updates.every`."""


@dataclass(frozen=True)
class Latest:
    """What the feeds said last. A product without an entry: nothing is known. `checked_at` None: no look yet."""

    published: Mapping[Product, Published] = field(default_factory=dict)
    checked_at: datetime | None = None


class Updates:
    """Asks the feeds, and remembers. For the event loop alone. Without feeds there is nothing to do."""

    def __init__(self, feeds: Mapping[Product, UpdateFeed], every: timedelta, now: Clock) -> None:
        """`every`: how long an answer is good for."""
        self._feeds = dict(feeds)
        self._every = every
        self._now = now
        self._due_at: datetime | None = None
        self._failures = 0
        self.latest = Latest()

    @property
    def is_enabled(self) -> bool:
        return bool(self._feeds)

    async def look_if_due(self) -> None:
        """Ask the feeds if their answers have become old. What fails is told in the debug log alone."""
        if self.is_enabled and (self._due_at is None or self._now() >= self._due_at):
            await self.look()

    async def look(self) -> dict[Product, str]:
        """Ask the feeds now. Returns what was wrong with each that failed; its last answer stays."""
        failures: dict[Product, str] = {}
        published = dict(self.latest.published)
        for product, feed in self._feeds.items():
            try:
                published[product] = await feed.fetch()
            except FeedUnusable as error:
                failures[product] = str(error)
                log.debug("the newest version of the %s is not known: %s", product, error)
        moment = self._now()
        checked_at = self.latest.checked_at if len(failures) == len(self._feeds) else moment
        self.latest = Latest(published, checked_at)
        self._failures = self._failures + 1 if failures else 0
        self._due_at = moment + self._pause()
        return failures

    def _pause(self) -> timedelta:
        if not self._failures:
            return self._every
        factor: int = 2 ** min(self._failures - 1, 20)
        return min(FIRST_PAUSE * factor, self._every)
