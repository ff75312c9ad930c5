"""The game server's address: as the config or the server's own file says."""

import ipaddress
import re
from pathlib import Path
from typing import Final, NamedTuple

from plugin_bridge.server.files import read_server_properties
from regsvc.core.addresses import connect_host, is_loopback, is_unspecified

DEFAULT_PORT: Final = 25565
BEDROCK_PORT: Final = 19132

_ADDRESS: Final = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:/@\[\]]+))(?::(?P<port>[0-9]{1,5}))?")


class GameAddress(NamedTuple):
    """The host and port that the game server listens on."""

    host: str
    port: int


def parse_game_address(written: str, default_port: int = DEFAULT_PORT) -> GameAddress:
    """Parse "play.example.org", "192.0.2.1:25566" or "[2001:db8::1]:25565"; raises ValueError for anything else."""
    match = _ADDRESS.fullmatch(written.strip())
    port = default_port if match is None or match["port"] is None else int(match["port"])
    if match is None or not 0 < port <= 65535 or not _is_ipv6(match["v6"] or "::"):
        raise ValueError('this must be a host, with or without a port, such as "play.example.org:25565"')
    return GameAddress(match["v6"] or match["host"], port)


def _is_ipv6(written: str) -> bool:
    try:
        ipaddress.IPv6Address(written)
    except ValueError:
        return False
    return True


def public_game_address(written: str) -> str | None:
    """Return `game.address` as players type it, without the default port; None if it is empty or loopback."""
    if not written:
        return None
    host, port = parse_game_address(written)
    if is_loopback(host) or is_unspecified(host):
        return None
    shown = f"[{host}]" if ":" in host and port != DEFAULT_PORT else host
    return shown if port == DEFAULT_PORT else f"{shown}:{port}"


def public_bedrock_address(written: str, java: str) -> GameAddress | None:
    """Return `bedrock.address`, else Geyser's usual port on the host of `game.address`; None if that is not public."""
    if written:
        return parse_game_address(written, BEDROCK_PORT)
    return None if public_game_address(java) is None else GameAddress(parse_game_address(java).host, BEDROCK_PORT)


def find_game_address(written: str, properties: Path | None) -> GameAddress | None:
    """Return `game.address`, else the address in `server.properties`; None without either. Blocking.

    A server that listens on all interfaces is contacted on loopback: it runs on this machine. Raises
    `ServerFileError`.
    """
    if written:
        return parse_game_address(written)
    if properties is None:
        return None
    found = read_server_properties(properties)
    return GameAddress(connect_host(found.server_ip), found.server_port)
