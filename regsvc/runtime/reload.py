"""Config reload at run time: some keys take effect at once, the others at the next start, and are told until then."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import fields, replace
from itertools import chain
from typing import Any, Final

from regsvc.config.layers import SECTIONS
from regsvc.config.sections import Config, ConfigError
from regsvc.core.exceptions import describe_exception


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
