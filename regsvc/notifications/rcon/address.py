"""Address of the game's remote console (RCON): from the config, else from server.properties as it is now."""

import logging

from plugin_bridge.server.files import ServerFileError, ServerProperties, read_server_properties
from plugin_bridge.server.rcon import RconAddress
from regsvc.config.sections import GameSection
from regsvc.core.addresses import connect_host

log = logging.getLogger(__name__)


def find_rcon_address(game: GameSection) -> RconAddress | None:
    """Return the console's address; None where `game.rcon` is off, or "auto" and server.properties does not enable it.

    Blocking: reads server.properties each time. A server that listens on all addresses is reached on loopback, since
    the companion runs on the same machine.
    """
    if game.rcon is False:
        return None
    properties = _read(game)
    listens_at = properties.rcon_ip or properties.server_ip
    if game.rcon is not True and not properties.rcon_enabled:
        return None
    return RconAddress(
        game.rcon_host or connect_host(listens_at),
        game.rcon_port or properties.rcon_port,
        game.rcon_password or properties.rcon_password,
    )


def _read(game: GameSection) -> ServerProperties:
    """Return server.properties; the game's defaults, in which RCON is disabled, where it cannot be read."""
    path = game.server_properties_path
    if path is None:
        return ServerProperties()
    try:
        return read_server_properties(path)
    except ServerFileError as error:
        log.debug("RCON counts as disabled: %s", error)
        return ServerProperties()
