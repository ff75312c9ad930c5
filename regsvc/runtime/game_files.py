"""Watcher for AuthMe's config.yml and the game servers' files: applies changes at run time, or warns about them."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Final

from plugin_bridge.authme.config import AuthMeConfig
from plugin_bridge.authme.config_changes import plan_change
from plugin_bridge.server.files import PropertiesFile, stamp_of
from plugin_bridge.server.player_uuids import PlayerUuids
from regsvc.config.sections import Config, ConfigError
from regsvc.database.location import read_authme, read_other_authmes
from regsvc.runtime.reload import PendingRestart

log = logging.getLogger(__name__)

POLL_INTERVAL: Final = timedelta(seconds=1.9)  # changes are to take effect within 2 seconds

_NEVER_READ: Final = object()


class _WatchedFile:
    """A file that may be written at any moment."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._seen: object = _NEVER_READ
        self._read: object = _NEVER_READ

    def has_changed(self) -> bool:
        """Return whether the file changed since this last returned True, and is not being written right now."""
        stamp = stamp_of(self.path)
        is_settled, self._seen = stamp == self._seen, stamp
        if stamp == self._read or not is_settled:
            return False
        self._read = stamp
        return True

    def look_again(self) -> None:
        """Let it count as changed, as its content is not known yet."""
        self._read = _NEVER_READ


class GameFileWatcher:
    """Watcher for AuthMe's config.yml, and for the server.properties of each game server.

    ops.json is read whenever operators are looked up. Files are read on a thread, and only when they changed.
    """

    def __init__(
        self,
        config: Config,
        running: AuthMeConfig | None,
        properties_files: Mapping[str, PropertiesFile],
        uuids: PlayerUuids,
        apply_config: Callable[[AuthMeConfig], None],
        apply_others: Callable[[Iterable[object]], None],
        pending_restart: PendingRestart,
    ) -> None:
        """`apply_config` receives the new effective config on the loop; it raises `ConfigError` if it is unusable.

        `apply_others` receives AuthMe's configs on the other game servers, or errors (`read_other_authmes`).
        `properties_files`, by server (`Config.game_servers`), and `uuids` are refreshed when their files have changed.
        """
        self._config = config
        self._running = running
        self._apply_config = apply_config
        self._apply_others = apply_others
        self._pending_restart = pending_restart
        self._uuids = uuids
        self._authme = _WatchedFile(config.authme_config_path)
        self._has_authme_changed = self._have_others_changed = self._is_unread = False
        self._others = [_WatchedFile(server.authme_config_path) for server in config.servers]
        self._properties_files = properties_files
        self._properties = {
            server: _WatchedFile(path)
            for server, game in config.game_servers.items()
            if (path := game.server_properties_path) is not None
        }
        self._known = {server: properties_files[server].current for server in self._properties}

    def look(self) -> bool:
        """Check all files once; return whether `apply` has something to do. Blocking; not while `apply` is at work."""
        self._uuids.refresh()
        for server, file in self._properties.items():
            if file.has_changed() or self._known[server] is None:
                self._read_properties(server)
        self._has_authme_changed |= self._authme.has_changed()
        self._have_others_changed |= any(file.has_changed() for file in self._others)
        return self._has_authme_changed or self._have_others_changed

    async def apply(self) -> None:
        """Read and apply what the last look found. On the event loop."""
        if self._has_authme_changed:
            self._has_authme_changed = False
            await self._read_authme()
        if self._have_others_changed:
            self._have_others_changed = False
            self._apply_others((await asyncio.to_thread(read_other_authmes, self._config)).values())

    async def _read_authme(self) -> None:
        try:
            read = await asyncio.to_thread(read_authme, self._config)
            self._compare(read)
        except ConfigError as error:
            was_unread, self._is_unread = self._is_unread, _is_unread(error)
            if self._is_unread:  # such as that this process may open no further file: it may not have changed at all
                self._authme.look_again()
            told = "cannot be read" if self._is_unread else "has changed but cannot be used"
            for problem in () if was_unread and self._is_unread else error.problems:
                log.error("AuthMe's config.yml %s; the old values stay: %s", told, problem)
        else:
            self._is_unread = False

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

    def _read_properties(self, server: str) -> None:
        name = f"server.properties of {server}" if server else "server.properties"
        known, read = self._known[server], self._properties_files[server].refresh()
        if read is None and known is not None:
            log.warning(
                "%s is missing or unreadable: the game's address, RCON and UUIDs are unknown until it is back", name
            )
        elif read is not None and known is not None:
            changed = [
                part.metadata["key"] for part in fields(read) if getattr(read, part.name) != getattr(known, part.name)
            ]
            if changed:
                log.info("%s has changed; now in effect: %s", name, ", ".join(changed))
        self._known[server] = read


def _is_unread(error: ConfigError) -> bool:
    """Return whether the system did not let us read the file."""
    cause = error.__cause__
    return isinstance(cause, OSError) or (cause is not None and isinstance(cause.__cause__, OSError))
