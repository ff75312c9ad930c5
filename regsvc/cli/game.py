"""`companion updates` and `companion game-status`: the daemon's periodic checks, run once now."""

import asyncio

from plugin_bridge.server.files import ServerFileError
from plugin_bridge.server.versions import is_newer
from regsvc import __version__
from regsvc.app.app import App
from regsvc.runtime.game_status import GameStatus
from regsvc.runtime.updates import Product

_NAMES: dict[Product, str] = {"companion": "companion", "plugin": "AuthMe"}


def run_game_command(command: str, app: App) -> int:
    """Run one of these commands; return the exit status. Needs no database."""
    return _updates(app) if command == "updates" else _game_status(app)


def _updates(app: App) -> int:
    if not app.services.updates.is_enabled:
        print("update checks are off: updates.enabled is false")
        return 0
    failures = asyncio.run(app.services.updates.check())
    installed: dict[Product, str | None] = {"companion": __version__, "plugin": asyncio.run(app.services.plugin.get())}
    for product, current in installed.items():
        newest = _newest(app, product, current, failures.get(product))
        print(f"{_NAMES[product]}: {current or 'unknown version'} installed, {newest}")
    return 1 if failures else 0


def _newest(app: App, product: Product, current: str | None, failure: str | None) -> str:
    if failure is not None:
        return f"the newest version is unknown: {failure}"
    published = app.services.updates.latest.published.get(product)
    if published is None:
        return "no update feed is configured"
    page = f" ({published.page})" if published.page and is_newer(published.version, current) else ""
    return f"the newest version is {published.version}{page}"


def _game_status(app: App) -> int:
    if not app.context.config.game.is_known and not app.services.network:
        print("the config does not say where the game server is: set game.directory or game.address")
        return 1
    network = app.services.network or {"": app.services.game_status}
    return max([_server_status(name, status) for name, status in network.items()])


def _server_status(name: str, game_status: GameStatus) -> int:
    prefix = f"{name}: " if name else ""
    status = asyncio.run(game_status.refresh()).status
    if status is None:
        print(f"{prefix}offline: {_no_answer_reason(game_status)}")
        return 1
    latency = round(status.latency * 1000)
    print(f"{prefix}online: {status.online} of {status.max} players, {status.version}, {latency} ms")
    return 0


def _no_answer_reason(game_status: GameStatus) -> str:
    try:
        address = game_status.find_address()
    except ServerFileError as error:
        return str(error)
    return f"no answer from {address.host}:{address.port}" if address else "its address is unknown"
