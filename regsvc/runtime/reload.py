"""Config reload at run time: some keys take effect at once, the others at the next start, and are told until then."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any, Final

from plugin_bridge.authme.config import AuthMeConfig, plan_change
from plugin_bridge.server.files import PropertiesFile, stamp_of
from plugin_bridge.server.player_uuids import PlayerUuids
from regsvc.config.layers import SECTIONS
from regsvc.config.sections import Config, ConfigError
from regsvc.core.exceptions import describe_exception
from regsvc.database.location import keep_authme, read_authme, read_other_authmes


class PendingRestart:
    """Keys that have changed in a config file and take effect at the next start. Use on the event loop only."""

    def __init__(self) -> None:
        self._keys: dict[str, tuple[str, ...]] = {}

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the keys in all files, or a few words where there is no single key."""
        return tuple(chain.from_iterable(self._keys.values()))

    def set(self, file: str, keys: tuple[str, ...], *, is_requested: bool = False) -> None:
        """Replace the keys of one file. Log what has changed; with `is_requested` also if nothing has."""
        before, self._keys[file] = self._keys.get(file, ()), keys
        if keys and (is_requested or keys != before):
            log.warning(
                "%s has changed; these keys take effect after a restart of the companion (systemctl restart "
                "companion; its container, or its server in the panel): %s",
                file,
                ", ".join(keys),
            )
        elif before and not keys:
            log.info("%s: the restart of the companion is not needed any more", file)


log = logging.getLogger(__name__)

RELOADABLE: Final = frozenset(
    {
        "server.announcement",
        "server.description",
        "server.theme",
        "server.accent",
        "server.custom_css",
        "server.logo_url",
        "server.banner_url",
        "server.favicon",
        "server.links",
        "server.index",
        "http.legacy_status",
        "http.trusted_proxies",
        "http.status_limit",
        "http.allowed_origins",
        "http.max_body",
        "http.max_buffered_bodies",
        "http.max_connections",
        "http.max_connections_per_client",
        "http.write_timeout",
        "authme.password",
        "auth.login_limits",
        "auth.operators_need_totp",
        "auth.team_needs_totp",
        "registration.open",
        "metrics.enabled",
        "metrics.token",
        "log.level",
        "log.format",
    }
)
"""Keys that services read from `LiveConfig` at every use."""

_STYLE_FILE: Final = "server.custom_css"


def plan_reload(running: Config, read: Config) -> tuple[Config, tuple[str, ...], tuple[str, ...]]:
    """Return the running config with the changes that take effect now, and the names of the keys that differ.

    First those that change now, then those that wait for the next start.
    """
    differing = [
        f"{section}.{declared.name}"
        for section in SECTIONS
        for declared in fields(getattr(running, section))
        if getattr(getattr(running, section), declared.name) != getattr(getattr(read, section), declared.name)
    ]
    if running.custom_css != read.custom_css and _STYLE_FILE not in differing:
        differing.append(_STYLE_FILE)  # another text in the same file
    applied = tuple(name for name in differing if name in RELOADABLE)
    waiting = [name for name in differing if name not in RELOADABLE]
    if running.downloads != read.downloads:
        waiting.append("downloads")
    if running.servers != read.servers:
        waiting.append("game.server")
    if running.team_chats != read.team_chats:
        waiting.append("team_chat")
    if running.more_webhooks != read.more_webhooks:
        waiting.append("webhook")
    return _with_keys(running, read, applied), applied, tuple(waiting)


def _with_keys(running: Config, read: Config, names: tuple[str, ...]) -> Config:
    changes: dict[str, Any] = {}
    for name in names:
        section, _dot, key = name.partition(".")
        so_far = changes.get(section, getattr(running, section))
        changes[section] = replace(so_far, **{key: getattr(getattr(read, section), key)})
    changes |= {"custom_css": read.custom_css, "warnings": read.warnings, "without_effect": read.without_effect}
    return replace(running, **changes)


class Reloader:
    """Reload of the config on request, one reload at a time. Use on the event loop only."""

    def __init__(
        self,
        running: Config,
        read: Callable[[], Config],
        apply_config: Callable[[Config], None],
        pending_restart: PendingRestart,
    ) -> None:
        """`read` blocks and raises `ConfigError`; `apply_config` receives the new effective config."""
        self._running = running
        self._read = read
        self._apply_config = apply_config
        self._pending_restart = pending_restart
        self._requested = asyncio.Event()

    def request_reload(self) -> None:
        """Reload soon; requests made before it begins are merged into one."""
        self._requested.set()

    async def run(self) -> None:
        """Serve requests until cancelled. An unusable config is logged and the running one stays."""
        while True:
            await self._requested.wait()
            self._requested.clear()
            try:
                self._reload(await asyncio.to_thread(self._read))
            except ConfigError as error:
                for problem in error.problems:
                    log.error("the config was not reloaded: %s", problem)
            except Exception as error:
                log.error("the config was not reloaded: %s", describe_exception(error))

    def _reload(self, read: Config) -> None:
        before = self._running
        config, applied, waiting = plan_reload(before, read)
        self._apply_config(config)
        self._running = config
        log.info("the config was reloaded: %s", ", ".join(applied) or "nothing has changed")
        self._pending_restart.set("the companion's config", waiting, is_requested=True)
        for warning in read.warnings:
            if warning not in before.warnings:
                log.warning(warning)


# --- Watcher for AuthMe's config.yml and the game servers' files ---
# Watcher for AuthMe's config.yml and the game servers' files: applies changes at run time, or warns about them.


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
            await asyncio.to_thread(keep_authme, self._config)
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
