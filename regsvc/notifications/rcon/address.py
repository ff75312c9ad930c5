"""Address of a game server's remote console (RCON): from the config, else from its server.properties."""

from collections.abc import Callable

from plugin_bridge.server.files import ServerProperties
from plugin_bridge.server.rcon import RconAddress
from regsvc.config.sections import GameServer
from regsvc.core.addresses import connect_host

FindAddress = Callable[[], RconAddress | None]
"""Function that returns the address of one console, or None while it is off."""


def find_rcon_address(game: GameServer, properties: ServerProperties | None) -> RconAddress | None:
    """Return the console's address; None where `rcon` is off, or "auto" and the server does not enable RCON.

    `properties` None: the file is missing or unreadable, and the server's own defaults count, with RCON off. A
    server that listens on all interfaces is contacted on loopback: it runs on this machine.
    """
    known = properties or ServerProperties()
    is_given = game.directory is None and bool(game.rcon_host and game.rcon_password)
    if game.rcon is False or (game.rcon == "auto" and not (known.rcon_enabled or is_given)):
        return None
    return RconAddress(
        game.rcon_host or connect_host(known.rcon_ip or known.server_ip),
        game.rcon_port or known.rcon_port,
        game.rcon_password or known.rcon_password,
    )
