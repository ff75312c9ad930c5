"""`companion updates` and `companion game-status`: what the daemon asks by the clock, asked now."""

import asyncio

from plugin_bridge.server.files import ServerFileError
from regsvc import __version__
from regsvc.app.game import GameParts
from regsvc.core.versions import is_newer
from regsvc.runtime.updates import Product

SERVER_COMMANDS = {
    "updates": "ask now whether there are newer versions, of us and of AuthMe",
    "game-status": "ask the game server now how it is",
}

_NAMES: dict[Product, str] = {"companion": "companion", "plugin": "AuthMe"}


def run_server_command(command: str, room: GameParts) -> int:
    """One of `SERVER_COMMANDS`; returns the exit status. Needs no database."""
    return _updates(room) if command == "updates" else _game_status(room)


def _updates(room: GameParts) -> int:
    if not room.updates.is_enabled:
        print("nobody is asked: updates.enabled is false")
        return 0
    failures = asyncio.run(room.updates.check())
    installed: dict[Product, str | None] = {"companion": __version__, "plugin": asyncio.run(room.plugin.get())}
    for product, current in installed.items():
        newest = _newest(room, product, current, failures.get(product))
        print(f"{_NAMES[product]}: {current or 'unknown'} here, {newest}")
    return 1 if failures else 0


def _newest(room: GameParts, product: Product, current: str | None, failure: str | None) -> str:
    if failure is not None:
        return f"the newest is not known: {failure}"
    published = room.updates.latest.published.get(product)
    if published is None:
        return "nobody tells of newer ones"
    page = f" ({published.page})" if published.page and is_newer(published.version, current) else ""
    return f"the newest is {published.version}{page}"


def _why_silent(room: GameParts) -> str:
    try:
        address = room.find_game_address()
    except ServerFileError as error:
        return str(error)
    return f"no answer from {address.host}:{address.port}" if address else "nothing tells where it listens"


def _game_status(room: GameParts) -> int:
    if not room.has_game:
        print("the config does not tell where the game server is: set game.directory or game.address")
        return 1
    status = asyncio.run(room.game_status.refresh()).status
    if status is None:
        print(f"silent: {_why_silent(room)}")
        return 1
    print(f"online: {status.online} of {status.max} players, {status.version}, {round(status.latency * 1000)} ms")
    return 0
