"""Watcher for AuthMe's config.yml and server.properties: applies what can change at run time, warns about the rest."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Final

from plugin_bridge.authme.config import AuthMeConfig
from plugin_bridge.authme.config_changes import plan_change
from plugin_bridge.server.files import PropertiesFile
from regsvc.config.sections import Config, ConfigError
from regsvc.database.location import read_authme
from regsvc.runtime.pending_restart import PendingRestart

log = logging.getLogger(__name__)

POLL_INTERVAL: Final = timedelta(seconds=2)

# inode, size, mtime and ctime in ns; None: no such file, or it may not be looked at
_Stamp = tuple[int, int, int, int] | None
_PROPERTY_NAMES: Final = {
    "rcon_enabled": "enable-rcon",
    "rcon_ip": "rcon.ip",
    "rcon_port": "rcon.port",
    "rcon_password": "rcon.password",
}
_NEVER_READ: Final = (-1, -1, -1, -1)


class _WatchedFile:
    """A file that may be written at any moment."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._seen: _Stamp = _NEVER_READ
        self._read: _Stamp = _NEVER_READ

    def has_changed(self, stamp: _Stamp) -> bool:
        """Return whether the file changed since this last returned True, and is not being written right now."""
        is_settled, self._seen = stamp == self._seen, stamp
        if stamp == self._read or not is_settled:
            return False
        self._read = stamp
        return True


class GameFileWatcher:
    """Watcher for AuthMe's config.yml and server.properties. (ops.json is read whenever operators are looked up.)

    Use on the event loop only; files are read on a thread, and only when they changed.
    """

    def __init__(
        self,
        config: Config,
        running: AuthMeConfig | None,
        properties: PropertiesFile,
        apply_config: Callable[[AuthMeConfig], None],
        pending_restart: PendingRestart,
    ) -> None:
        """`apply_config` receives the new effective config on the loop; it raises `ConfigError` if it is unusable.

        `properties` is refreshed when its file has changed.
        """
        self._config = config
        self._running = running
        self._apply_config = apply_config
        self._pending_restart = pending_restart
        self._authme = _WatchedFile(config.authme_config_path)
        self._server = _WatchedFile(config.game.server_properties_path)
        self._properties_file = properties
        self._properties = properties.current

    async def poll(self) -> None:
        """Check both files once, with one call to a thread; a job calls this every few seconds."""
        files = [self._authme.path, self._server.path]
        authme, server = await asyncio.to_thread(lambda: [_find_stamp(path) for path in files])
        if self._authme.has_changed(authme):
            await self._read_authme()
        if self._server.has_changed(server) or self._properties is None:
            await self._read_properties()

    async def _read_authme(self) -> None:
        try:
            read = await asyncio.to_thread(read_authme, self._config)
            self._compare(read)
        except ConfigError as error:
            for problem in error.problems:
                log.error("AuthMe's config.yml has changed but cannot be used; the old values stay: %s", problem)

    def _compare(self, read: AuthMeConfig | None) -> None:
        if self._running is None or read is None:
            self._set_waiting(("whether there is an AuthMe",) if self._running is not read else ())
            return
        change = plan_change(self._running, read)
        self._set_waiting(change.waiting)
        if change.applied:
            self._apply_config(change.config)
            self._running = change.config
            log.info("AuthMe's config.yml has changed; now in effect: %s", ", ".join(change.applied))

    def _set_waiting(self, keys: tuple[str, ...]) -> None:
        self._pending_restart.set("AuthMe's config.yml", keys)

    async def _read_properties(self) -> None:
        read = await asyncio.to_thread(self._properties_file.refresh)
        if read is None and self._properties is not None:
            log.warning(
                "server.properties is missing or unreadable: the game's address, RCON and UUIDs are unknown until it "
                "is back"
            )
        elif read is not None and self._properties is not None:
            changed = [
                _PROPERTY_NAMES.get(part.name, part.name.replace("_", "-"))
                for part in fields(read)
                if getattr(read, part.name) != getattr(self._properties, part.name)
            ]
            if changed:
                log.info("server.properties has changed; now in effect: %s", ", ".join(changed))
        self._properties = read


def _find_stamp(path: Path | None) -> _Stamp:
    if path is None:
        return None
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
