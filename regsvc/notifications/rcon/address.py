"""Where the game's remote console listens: as the host wrote it, else as the server's own file says at this moment."""

import logging

from plugin_bridge.server.files import ServerFileError, ServerProperties, read_server_properties
from plugin_bridge.server.rcon import RconAddress
from regsvc.config.sections import GameSection
from regsvc.core.addresses import connect_host

log = logging.getLogger(__name__)


def find_rcon_address(game: GameSection) -> RconAddress | None:
    """None where `game.rcon` is off, or "auto" and nothing enables it. Blocking: reads server.properties each time.

    A server that listens on all addresses is reached on loopback: we run beside it.
    """
    if game.rcon is False:
        return None
    told = _read(game)
    listens_at = told.rcon_ip or told.server_ip
    if game.rcon is not True and not told.rcon_enabled:
        return None
    return RconAddress(
        game.rcon_host or connect_host(listens_at),
        game.rcon_port or told.rcon_port,
        game.rcon_password or told.rcon_password,
    )


def _read(game: GameSection) -> ServerProperties:
    """The game's own defaults where its file cannot be read: its console is off in them."""
    path = game.server_properties_path
    if path is None:
        return ServerProperties()
    try:
        return read_server_properties(path)
    except ServerFileError as error:
        log.debug("the remote console counts as off: %s", error)
        return ServerProperties()
