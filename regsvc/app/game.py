"""Wiring of the game server's status, the plugin's version and update checks."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from plugin_bridge.server.files import PropertiesFile
from plugin_bridge.server.plugin_jar import PluginJar
from regsvc.app.context import AppContext
from regsvc.config.sections import Config
from regsvc.core.game_address import GameAddress, find_game_address
from regsvc.runtime.game_status import PING_INTERVAL, GameStatus
from regsvc.runtime.jobs import Job
from regsvc.runtime.plugin_version import PluginVersionCache
from regsvc.runtime.updates import POLL_INTERVAL, Product, UpdateFeed, Updates


@dataclass(frozen=True)
class GameParts:
    """Watchers of the game server and of updates; requests read their last results without waiting."""

    updates: Updates
    plugin: PluginVersionCache
    game_status: GameStatus
    has_game: bool
    """Whether the config names the game server."""
    find_game_address: Callable[[], GameAddress | None]
    """Return the game server's address or None. Blocking; raises `ServerFileError`."""

    def list_jobs(self) -> list[Job]:
        """Return the periodic jobs of the features that are on."""
        jobs = []
        if self.updates.is_enabled:
            jobs.append(
                Job("updates", POLL_INTERVAL, self.updates.check_if_due, runs_at_start=True, cancel_on_stop=True)
            )
        if self.has_game:
            jobs.append(
                Job("game status", PING_INTERVAL, self.game_status.refresh, runs_at_start=True, cancel_on_stop=True)
            )
        return jobs


def wire_game(context: AppContext) -> GameParts:
    config, now = context.config, context.now
    game = config.game
    plugins = game.directory / "plugins" if game.directory else None
    find_address = partial(find_game_address, game.address, game.server_properties_path)
    return GameParts(
        updates=Updates(_feeds(config), max(config.updates.every, timedelta(minutes=1)), now),
        plugin=PluginVersionCache(PluginJar(plugins).find_version),
        game_status=GameStatus(find_address, now, is_hidden=partial(_is_status_hidden, context.server_properties)),
        has_game=bool(game.address) or game.directory is not None,
        find_game_address=find_address,
    )


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
