"""`companion updates` and `companion game-status`: the daemon's periodic checks, run once now."""

import asyncio

from plugin_bridge.server.files import ServerFileError
from plugin_bridge.server.versions import is_newer
from regsvc import __version__
from regsvc.app.game import GameParts
from regsvc.runtime.game_status import GameStatus
from regsvc.runtime.updates import Product

_NAMES: dict[Product, str] = {"companion": "companion", "plugin": "AuthMe"}


def run_game_command(command: str, game_parts: GameParts) -> int:
    """Run one of these commands; return the exit status. Needs no database."""
    return _updates(game_parts) if command == "updates" else _game_status(game_parts)


def _updates(game_parts: GameParts) -> int:
    if not game_parts.updates.is_enabled:
        print("update checks are off: updates.enabled is false")
        return 0
    failures = asyncio.run(game_parts.updates.check())
    installed: dict[Product, str | None] = {"companion": __version__, "plugin": asyncio.run(game_parts.plugin.get())}
    for product, current in installed.items():
        newest = _newest(game_parts, product, current, failures.get(product))
        print(f"{_NAMES[product]}: {current or 'unknown version'} installed, {newest}")
    return 1 if failures else 0


def _newest(game_parts: GameParts, product: Product, current: str | None, failure: str | None) -> str:
    if failure is not None:
        return f"the newest version is unknown: {failure}"
    published = game_parts.updates.latest.published.get(product)
    if published is None:
        return "no update feed is configured"
    page = f" ({published.page})" if published.page and is_newer(published.version, current) else ""
    return f"the newest version is {published.version}{page}"


def _game_status(game_parts: GameParts) -> int:
    if not game_parts.has_game and not game_parts.network:
        print("the config does not say where the game server is: set game.directory or game.address")
        return 1
    network = game_parts.network or {"": game_parts.game_status}
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
