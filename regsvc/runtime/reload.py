"""Reading the config again while we run: some keys change at once, the others at the next start."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from regsvc.config.layers import SECTIONS
from regsvc.config.sections import Config, ConfigError
from regsvc.core.exceptions import describe_exception

log = logging.getLogger(__name__)

RELOADABLE: Final = frozenset(
    {
        "server.announcement",
        "server.theme",
        "server.logo_url",
        "http.legacy_status",
        "http.trusted_proxies",
        "http.status_limit",
        "http.allowed_origins",
        "http.max_body",
        "auth.login_limits",
        "registration.open",
        "metrics.enabled",
        "metrics.token",
        "log.level",
        "log.format",
    }
)
"""Keys that are asked for anew at every use, or that `App.take_over` hands on."""


@dataclass(frozen=True)
class Reload:
    """`config` is the running one with what may change; `applied` and `waiting` name the keys that differ."""

    config: Config
    applied: tuple[str, ...]
    waiting: tuple[str, ...]


def plan_reload(running: Config, read: Config) -> Reload:
    """What changes at once, and what waits for the next start."""
    differing = [
        f"{section}.{declared.name}"
        for section in SECTIONS
        for declared in fields(getattr(running, section))
        if getattr(getattr(running, section), declared.name) != getattr(getattr(read, section), declared.name)
    ]
    applied = tuple(name for name in differing if name in RELOADABLE)
    waiting = [name for name in differing if name not in RELOADABLE]
    if running.downloads != read.downloads:
        waiting.append("downloads")
    return Reload(_with_keys(running, read, applied), applied, tuple(waiting))


def _with_keys(running: Config, read: Config, names: tuple[str, ...]) -> Config:
    changes: dict[str, Any] = {}
    for name in names:
        section, _dot, key = name.partition(".")
        so_far = changes.get(section, getattr(running, section))
        changes[section] = replace(so_far, **{key: getattr(getattr(read, section), key)})
    return replace(running, **changes, warnings=read.warnings)


class Reloader:
    """Reloads one time after the other, whenever it is told to. For the event loop alone."""

    def __init__(self, running: Config, read: Callable[[], Config], take_over: Callable[[Config], None]) -> None:
        """`read` blocks and raises `ConfigError`; `take_over` gets what the running config becomes."""
        self._running = running
        self._read = read
        self._take_over = take_over
        self._told = asyncio.Event()

    def tell(self) -> None:
        """Reload soon; several calls before it begins are one."""
        self._told.set()

    async def run(self) -> None:
        """Until cancelled. A config that cannot be used is told in the log, and the running one stays."""
        while True:
            await self._told.wait()
            self._told.clear()
            try:
                self._reload(await asyncio.to_thread(self._read))
            except ConfigError as error:
                for problem in error.problems:
                    log.error("the config was not reloaded: %s", problem)
            except Exception as error:
                log.error("the config was not reloaded: %s", describe_exception(error))

    def _reload(self, read: Config) -> None:
        before, reload = self._running, plan_reload(self._running, read)
        self._take_over(reload.config)
        self._running = reload.config
        log.info("the config was reloaded: %s", ", ".join(reload.applied) or "nothing new")
        if reload.waiting:
            log.warning("these keys wait for a restart: %s", ", ".join(reload.waiting))
        for warning in read.warnings:
            if warning not in before.warnings:
                log.warning(warning)
