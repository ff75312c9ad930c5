"""Address of a game server's remote console (RCON): from the config, else from its server.properties."""

from collections.abc import Callable, Mapping
from functools import partial

from plugin_bridge.server.files import PropertiesFile, ServerProperties
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


def find_consoles(
    servers: Mapping[str, GameServer], files: Mapping[str, PropertiesFile], *, may_block: bool
) -> dict[str, FindAddress]:
    """Return for each server a function that returns its console's address, as it is now or as it was last read.

    `files`: the server.properties of each server; they are read again only by functions that `may_block`.
    """

    def find(server: str) -> RconAddress | None:
        file = files[server]
        return find_rcon_address(servers[server], file.refresh() if may_block else file.current)

    return {server: partial(find, server) for server in servers}
