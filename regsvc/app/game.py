"""What is known of the game server and of newer versions, wired."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from plugin_bridge.server.plugin_jar import PluginJar
from regsvc.app.context import AppContext
from regsvc.config.sections import Config
from regsvc.core.game_address import GameAddress, find_game_address
from regsvc.runtime.game_status import ASK_EVERY, GameStatus
from regsvc.runtime.jobs import Job
from regsvc.runtime.plugin_version import InstalledPlugin
from regsvc.runtime.updates import LOOK_EVERY, Product, UpdateFeed, Updates


@dataclass(frozen=True)
class GameParts:
    """Nobody here makes a request wait."""

    updates: Updates
    plugin: InstalledPlugin
    game_status: GameStatus
    has_game: bool
    """Whether the config tells where the game server is."""
    find_game_address: Callable[[], GameAddress | None]
    """Blocking; raises `ServerFileError`."""

    def list_jobs(self) -> list[Job]:
        """What is to be done by the clock; what is switched off is not in it."""
        jobs = []
        if self.updates.is_enabled:
            jobs.append(Job("updates", LOOK_EVERY, self.updates.look_if_due, is_due_at_start=True, is_cut_at_stop=True))
        if self.has_game:
            jobs.append(Job("game status", ASK_EVERY, self.game_status.ask, is_due_at_start=True, is_cut_at_stop=True))
        return jobs


def wire_game(context: AppContext) -> GameParts:
    config, now = context.config, context.now
    game = config.game
    plugins = game.directory / "plugins" if game.directory else None
    find_address = partial(find_game_address, game.address, game.server_properties_path)
    return GameParts(
        updates=Updates(_feeds(config), max(config.updates.every, timedelta(minutes=1)), now),
        plugin=InstalledPlugin(PluginJar(plugins).find_version),
        game_status=GameStatus(find_address, now),
        has_game=bool(game.address) or game.directory is not None,
        find_game_address=find_address,
    )


def _feeds(config: Config) -> dict[Product, UpdateFeed]:
    """None where it is switched off."""
    if not config.updates.enabled:
        return {}
    addresses: dict[Product, str] = {"plugin": config.updates.plugin_url, "companion": config.updates.own_url}
    return {product: UpdateFeed(address) for product, address in addresses.items() if address}
