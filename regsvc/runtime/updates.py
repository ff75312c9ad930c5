"""Background checks for new versions: requests get the last result and wait for no feed."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final, Literal
from urllib.parse import urlsplit

from msgspec import Meta

from plugin_bridge.server.versions import find_version, is_newer
from plugin_bridge.text import decode_json
from regsvc import __version__
from regsvc.config.host_sections import UpdatesSection
from regsvc.core.addresses import is_loopback, is_private
from regsvc.core.backoff import backoff_delay
from regsvc.core.clock import Clock, is_over
from regsvc.core.http_response import NoResponse
from regsvc.core.shapes import Moment, Output
from regsvc.core.shared_lookup import CachedCall
from regsvc.http.messages import Reply
from regsvc.http.route import PUBLIC, Routes

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()

log = logging.getLogger(__name__)

Product = Literal["companion", "plugin"]

POLL_INTERVAL: Final = timedelta(minutes=1)
"""Interval at which the job tests whether a check is due."""
FIRST_RETRY_DELAY: Final = timedelta(minutes=5)
"""After a failed check; doubles up to `updates.every`."""

MAX_ANSWER_BYTES: Final = 512 * 1024

TIMEOUT: Final = timedelta(seconds=10)
"""For one fetch with all its redirects."""

MAX_REDIRECTS: Final = 3

_MAX_URL_LENGTH: Final = 500

_PAGE_URL: Final = re.compile(r"https?://[A-Za-z0-9._~:/?#@!$&()*+,;=%-]+")
_API_PREFIX: Final = "api."
"""Of a host with the API of another one, which has the pages: api.github.com."""

_OK: Final = 200

_NOT_MODIFIED: Final = 304


@dataclass(frozen=True)
class PublishedVersion:
    """The newest version and its release page; `page` is None if the feed names none."""

    version: str
    page: str | None


class InstalledPlugin(CachedCall[str | None]):
    """The version of AuthMe's jar, or None."""


class UpdateFeed:
    """Client for one release feed. Repeated requests are conditional (ETag).

    It connects to public addresses only, unless `address` is a private one itself, as an IP address or "localhost".
    """

    def __init__(self, address: str, *, timeout: timedelta = TIMEOUT) -> None:
        """`address` comes from the config; redirects from it are followed on its host, to https."""
        self._address = address
        self._host = urlsplit(address).hostname or ""
        self._public_only = not (is_loopback(self._host) or is_private(self._host))
        self._timeout = timeout
        self._etag: str | None = None
        self._published: PublishedVersion | None = None

    async def fetch(self) -> PublishedVersion:
        """Return the published version. Raises `NoResponse`, also for an answer that is not usable."""
        from regsvc.core.http_client import HttpClient

        headers = {"Accept": "application/json"} | ({} if self._etag is None else {"If-None-Match": self._etag})
        with HttpClient(self._timeout, max_body=MAX_ANSWER_BYTES, public_only=self._public_only) as client:
            response = await client.get(self._address, headers, max_redirects=MAX_REDIRECTS)
        if response.status == _NOT_MODIFIED and self._published is not None:
            return self._published
        if response.status != _OK:
            raise NoResponse(f"the feed answered with status {response.status}")
        published = _read(response.body, self._host)
        self._published, self._etag = published, response.headers.get("Etag")
        return published


def _read(body: bytes, host: str) -> PublishedVersion:
    try:
        data = decode_json(body)
    except ValueError as error:
        raise NoResponse("the answer is not JSON") from error
    version = data.get("tag_name") if isinstance(data, dict) else None
    if not isinstance(version, str) or find_version(version) is None:
        raise NoResponse("the answer names no version")
    return PublishedVersion(version.strip().removeprefix("v").removeprefix("V"), _page(data.get("html_url"), host))


def _page(address: object, host: str) -> str | None:
    """Return the URL of the release's page if front ends may link to it, else None: it is on the feed's own host.

    api.github.com has its pages on github.com, and so have others.
    """
    if not isinstance(address, str) or len(address) > _MAX_URL_LENGTH or _PAGE_URL.fullmatch(address) is None:
        return None
    try:
        is_known = urlsplit(address).hostname in (host, host.removeprefix(_API_PREFIX))
    except ValueError:
        return None
    return address if is_known else None


class Updates:
    """Update checks, with the feeds' last answers. Use on the event loop only. Does nothing without feeds."""

    def __init__(self, feeds: Mapping[Product, UpdateFeed], every: timedelta, now: Clock) -> None:
        """`every`: the time between two checks."""
        self._feeds = dict(feeds)
        self._every = every
        self._now = now
        self._tried_at: datetime | None = None
        self._failures = 0
        self.published: Mapping[Product, PublishedVersion] = {}
        """The last answers; a product without an entry is unknown."""
        self.checked_at: datetime | None = None

    @property
    def is_enabled(self) -> bool:
        return bool(self._feeds)

    async def check_if_due(self) -> None:
        """Check the feeds if it is time to. Failures are logged at debug level only."""
        pause = self._every
        if self._failures:
            pause = backoff_delay(self._failures, FIRST_RETRY_DELAY, self._every)
        if self.is_enabled and (self._tried_at is None or is_over(self._tried_at, pause, self._now())):
            await self.check()

    async def check(self) -> dict[Product, str]:
        """Check the feeds now. Return the reason for each that failed; its last answer is kept."""
        failures: dict[Product, str] = {}
        published = dict(self.published)
        for product, feed in self._feeds.items():
            try:
                published[product] = await feed.fetch()
            except NoResponse as error:
                failures[product] = str(error)
                log.debug("cannot check for a new version of the %s: %s", product, error)
        moment = self._now()
        self.published = published
        if len(failures) < len(self._feeds):
            self.checked_at = moment
        self._failures = self._failures + 1 if failures else 0
        self._tried_at = moment
        return failures


def make_updates(config: UpdatesSection, now: Clock) -> Updates:
    """Return the checks of the configured feeds: none where update checks are off."""
    addresses: dict[Product, str] = {"plugin": config.plugin_url, "companion": config.own_url} if config.enabled else {}
    feeds = {product: UpdateFeed(address) for product, address in addresses.items() if address}
    return Updates(feeds, max(config.every, POLL_INTERVAL), now)


PluginVersionText = Annotated[str, Meta(examples=["5.6.0-beta2"])]


class PluginVersionFields(Output, frozen=True, kw_only=True):
    """The version of AuthMe's jar on the game server, and its newest release; null if unknown."""

    name: Annotated[str, Meta(examples=["AuthMe"])]
    current_version: PluginVersionText | None
    latest_version: PluginVersionText | None
    update_available: Annotated[bool, Meta(examples=[False])]


VersionText = Annotated[str, Meta(examples=["1.2.0"])]


class VersionReply(Reply, frozen=True, kw_only=True):
    """The versions of the companion and of the plugin it works with; null if unknown."""

    current_version: VersionText
    latest_version: VersionText | None
    update_available: Annotated[bool, Meta(examples=[False])]
    releases_url: Annotated[str, Meta(examples=["https://example.org/companion/releases/tag/1.2.0"])] | None
    checked_at: Moment | None
    plugin: PluginVersionFields


PLUGIN: Final = "AuthMe"


@ROUTES.add("GET", "/api/version", PUBLIC)
async def show_versions(call: Call, updates: Updates, plugin_version: InstalledPlugin) -> VersionReply:
    """Show the installed versions, and whether newer ones are available (checked in the background)."""
    own, plugin = updates.published.get("companion"), updates.published.get("plugin")
    installed = await plugin_version.get_last()
    return VersionReply(
        current_version=__version__,
        latest_version=own.version if own else None,
        update_available=is_newer(own.version if own else None, __version__),
        releases_url=own.page if own else None,
        checked_at=updates.checked_at,
        plugin=PluginVersionFields(
            name=PLUGIN,
            current_version=installed,
            latest_version=plugin.version if plugin else None,
            update_available=is_newer(plugin.version if plugin else None, installed),
        ),
    )
