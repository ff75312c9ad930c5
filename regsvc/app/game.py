"""Wiring of the game servers' status, the plugin's version and update checks."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from plugin_bridge.server.files import PropertiesFile
from plugin_bridge.server.plugin_jar import PluginJar
from regsvc.app.context import AppContext
from regsvc.config.sections import Config, GameServer
from regsvc.core.clock import Clock
from regsvc.core.game_address import find_game_address
from regsvc.runtime.game_status import PING_INTERVAL, GameStatus
from regsvc.runtime.jobs import Job
from regsvc.runtime.updates import POLL_INTERVAL, PluginVersionCache, Product, UpdateFeed, Updates


@dataclass(frozen=True)
class GameParts:
    """Watchers of the game server and of updates; requests read their last results without waiting."""

    updates: Updates
    plugin: PluginVersionCache
    game_status: GameStatus
    network: Mapping[str, GameStatus]
    """The status of each game server by name, the main one first; empty if there is only one."""
    has_game: bool
    """Whether the config names the game server."""

    def list_jobs(self) -> list[Job]:
        """Return the periodic jobs of the features that are on."""
        jobs = []
        if self.updates.is_enabled:
            jobs.append(
                Job("updates", POLL_INTERVAL, self.updates.check_if_due, runs_at_start=True, cancel_on_stop=True)
            )
        for name, status in (self.network or {"": self.game_status}).items():
            if status is not self.game_status or self.has_game:
                label = f"game status {name}".rstrip()
                jobs.append(Job(label, PING_INTERVAL, status.refresh, runs_at_start=True, cancel_on_stop=True))
        return jobs


def wire_game(context: AppContext) -> GameParts:
    config = context.config
    game = config.game
    plugins = game.directory / "plugins" if game.directory else None
    statuses = {
        server: _wire_status(section, context.properties_files[server], context.now)
        for server, section in config.game_servers.items()
        if not server or _is_known(section)
    }
    main = statuses.pop("")
    return GameParts(
        updates=Updates(_feeds(config), max(config.updates.every, timedelta(minutes=1)), context.now),
        plugin=PluginVersionCache(PluginJar(plugins).find_version),
        game_status=main,
        network={game.name or config.server.name: main, **statuses} if statuses else {},
        has_game=_is_known(game),
    )


def _wire_status(game: GameServer, properties: PropertiesFile, now: Clock) -> GameStatus:
    find_address = partial(find_game_address, game.address, game.server_properties_path)
    return GameStatus(find_address, now, is_hidden=partial(_is_status_hidden, properties))


def _is_known(game: GameServer) -> bool:
    """Return whether the config tells where to ask for the server's status."""
    return bool(game.address) or game.directory is not None


def _is_status_hidden(properties: PropertiesFile) -> bool:
    """Return whether the game server is set to answer no status pings. Blocking."""
    current = properties.refresh()
    return current is not None and not current.enable_status


def _feeds(config: Config) -> dict[Product, UpdateFeed]:
    """Return the update feeds; none where updates are off."""
    if not config.updates.enabled:
        return {}
    addresses: dict[Product, str] = {"plugin": config.updates.plugin_url, "companion": config.updates.own_url}
    return {product: UpdateFeed(address) for product, address in addresses.items() if address}
