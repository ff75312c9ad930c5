"""Looks for new versions now and then, in the background; what a request is told was known before it came."""

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from regsvc.core.clock import Clock
from regsvc.core.http_client import HttpClient, NoResponse
from regsvc.core.versions import find_version

MAX_ANSWER_BYTES: Final = 512 * 1024

PATIENCE: Final = timedelta(seconds=10)
"""For one fetch with all its redirects."""

MAX_REDIRECTS: Final = 3

_LONGEST_ADDRESS: Final = 500

_PAGE: Final = re.compile(r"https?://[A-Za-z0-9._~:/?#@!$&()*+,;=%-]+")

_OK: Final = 200

_NOT_MODIFIED: Final = 304


@dataclass(frozen=True)
class Published:
    """The newest version and the page that tells of it; `page` None: the feed names none."""

    version: str
    page: str | None


class FeedUnusable(Exception):
    """The feed is away, or says nothing that can be used; `str()` is a few words for the log."""


class UpdateFeed:
    """One feed. Asked again, it is sent the tag of its last answer and need not repeat itself."""

    def __init__(self, address: str, *, patience: timedelta = PATIENCE) -> None:
        """`address` is the host's own choice; redirects from it must lead to https."""
        self._address = address
        self._timeout = patience
        self._tag: str | None = None
        self._published: Published | None = None

    async def fetch(self) -> Published:
        """What is published now. Raises `FeedUnusable`, whatever is wrong."""
        headers = {"Accept": "application/json"} | ({} if self._tag is None else {"If-None-Match": self._tag})
        try:
            with HttpClient(self._timeout, max_body=MAX_ANSWER_BYTES) as client:
                response = await client.get(self._address, headers, max_redirects=MAX_REDIRECTS)
        except NoResponse as error:
            raise FeedUnusable(str(error)) from error
        if response.status == _NOT_MODIFIED and self._published is not None:
            return self._published
        if response.status != _OK:
            raise FeedUnusable(f"it answers {response.status}")
        published = _read(response.body)
        self._published, self._tag = published, response.headers.get("Etag")
        return published


def _read(body: bytes) -> Published:
    try:
        told: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise FeedUnusable("its answer is no JSON") from error
    version = told.get("tag_name") if isinstance(told, dict) else None
    if not isinstance(version, str) or find_version(version) is None:
        raise FeedUnusable("its answer names no version")
    return Published(version.strip().removeprefix("v").removeprefix("V"), _page(told.get("html_url")))


def _page(address: object) -> str | None:
    """Front ends make a link of it."""
    is_usable = isinstance(address, str) and _PAGE.fullmatch(address) is not None
    return address if isinstance(address, str) and is_usable and len(address) <= _LONGEST_ADDRESS else None


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
