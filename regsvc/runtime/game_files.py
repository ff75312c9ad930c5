"""Notices that the game server's files change while we run: what can be taken over is, and the rest is told once."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from plugin_bridge.authme.config import AuthMeConfig
from plugin_bridge.authme.config_changes import plan_change
from plugin_bridge.server.files import ServerFileError, ServerProperties, read_server_properties
from regsvc.config.sections import Config, ConfigError
from regsvc.database.location import read_authme

log = logging.getLogger(__name__)

LOOK_EVERY: Final = timedelta(seconds=2)

_Stamp = tuple[int, int, int] | None  # None: there is no file, or nobody may look
_PROPERTY_NAMES: Final = {
    "rcon_enabled": "enable-rcon",
    "rcon_ip": "rcon.ip",
    "rcon_port": "rcon.port",
    "rcon_password": "rcon.password",
}
_NEVER_READ: Final = (-1, -1, -1)


class _Watched:
    """A file that may be written at any moment."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._seen: _Stamp = _NEVER_READ
        self._read: _Stamp = _NEVER_READ

    async def is_news(self) -> bool:
        """Whether it is another one than when this was last true, and is not being written at the moment."""
        stamp = await asyncio.to_thread(_find_stamp, self.path)
        is_settled, self._seen = stamp == self._seen, stamp
        if stamp == self._read or not is_settled:
            return False
        self._read = stamp
        return True


class GameWatch:
    """AuthMe's config.yml and server.properties; ops.json is looked at by whoever asks for operators.

    For the event loop alone; files are read on a thread, and only when they are others than before.
    """

    def __init__(self, config: Config, running: AuthMeConfig | None, take_over: Callable[[AuthMeConfig], None]) -> None:
        """`take_over` gets what the running config becomes, on the loop; it raises `ConfigError` if that cannot be."""
        self._config = config
        self._running = running
        self._take_over = take_over
        self._waiting: tuple[str, ...] = ()
        self._authme = _Watched(config.authme_config_path)
        self._server = _Watched(config.game.server_properties_path)
        self._properties = _read_properties(config.game.server_properties_path)

    @property
    def waits_for_restart(self) -> bool:
        """Whether something has changed that only a restart takes over."""
        return self._waiting != ()

    async def look(self) -> None:
        """Once, as a job does every few seconds."""
        await self._look_at_authme()
        await self._look_at_properties()

    async def _look_at_authme(self) -> None:
        if not await self._authme.is_news():
            return
        try:
            read = await asyncio.to_thread(read_authme, self._config)
            self._compare(read)
        except ConfigError as error:
            for problem in error.problems:
                log.error("AuthMe's config.yml has changed and cannot be used, what it said before stays: %s", problem)

    def _compare(self, read: AuthMeConfig | None) -> None:
        if self._running is None or read is None:
            self._note_waiting(("whether there is an AuthMe",) if self._running is not read else ())
            return
        change = plan_change(self._running, read)
        if change.applied:
            self._take_over(change.config)
            self._running = change.config
            log.info("AuthMe's config.yml has changed, and is followed in: %s", ", ".join(change.applied))
        self._note_waiting(change.waiting)

    def _note_waiting(self, waiting: tuple[str, ...]) -> None:
        if waiting and waiting != self._waiting:
            log.warning(
                "AuthMe's config.yml has changed, and waits for a restart of the companion in: %s", ", ".join(waiting)
            )
        self._waiting = waiting

    async def _look_at_properties(self) -> None:
        if not await self._server.is_news():
            return
        read = await asyncio.to_thread(_read_properties, self._server.path)
        if read is None and self._properties is not None:
            log.warning("server.properties is gone or cannot be read: addresses, the console and UUIDs are not known")
        elif read is not None and self._properties is not None:
            changed = [
                _PROPERTY_NAMES.get(part.name, part.name.replace("_", "-"))
                for part in fields(read)
                if getattr(read, part.name) != getattr(self._properties, part.name)
            ]
            if changed:
                log.info("server.properties has changed, and is followed in: %s", ", ".join(changed))
        self._properties = read


class GameWatchFigures(Collector):
    """What monitoring can tell a host who does not read logs."""

    def __init__(self, watch: GameWatch) -> None:
        self._watch = watch

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "companion_restart_needed",
            "1: AuthMe's config has changed in a way that only a restart takes over.",
            self._watch.waits_for_restart,
        )


def _find_stamp(path: Path | None) -> _Stamp:
    if path is None:
        return None
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _read_properties(path: Path | None) -> ServerProperties | None:
    if path is None:
        return None
    try:
        return read_server_properties(path)
    except ServerFileError:
        return None
