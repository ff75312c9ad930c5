"""Address of the game's remote console (RCON): from the config, else from server.properties."""

from plugin_bridge.server.files import ServerProperties
from plugin_bridge.server.rcon import RconAddress
from regsvc.config.sections import GameSection
from regsvc.core.addresses import connect_host


def find_rcon_address(game: GameSection, properties: ServerProperties | None) -> RconAddress | None:
    """Return the console's address; None where `game.rcon` is off, or "auto" and the server does not enable RCON.

    `properties` None: the file is missing or unreadable, and the server's own defaults count, with RCON off. A
    server that listens on all interfaces is contacted on loopback: it runs on this machine.
    """
    if game.rcon is False:
        return None
    known = properties or ServerProperties()
    if game.rcon is not True and not known.rcon_enabled:
        return None
    return RconAddress(
        game.rcon_host or connect_host(known.rcon_ip or known.server_ip),
        game.rcon_port or known.rcon_port,
        game.rcon_password or known.rcon_password,
    )
