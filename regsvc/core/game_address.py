"""Where the game server listens: as the host wrote it, or as the server's own file says."""

import ipaddress
import re
from pathlib import Path
from typing import Final, NamedTuple

from plugin_bridge.server.files import read_server_properties

DEFAULT_PORT: Final = 25565

_ADDRESS: Final = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:/@\[\]]+))(?::(?P<port>[0-9]{1,5}))?")


class GameAddress(NamedTuple):
    """Where the game server listens."""

    host: str
    port: int


def parse_game_address(written: str) -> GameAddress:
    """ "play.example.org", "192.0.2.1:25566", "[2001:db8::1]:25565"; ValueError for anything else."""
    match = _ADDRESS.fullmatch(written.strip())
    port = DEFAULT_PORT if match is None or match["port"] is None else int(match["port"])
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
    """`game.address` as players type it, without the usual port; None where it means this machine alone, or nothing."""
    if not written:
        return None
    host, port = parse_game_address(written)
    if host == "localhost" or _is_for_us_alone(host):
        return None
    shown = f"[{host}]" if ":" in host and port != DEFAULT_PORT else host
    return shown if port == DEFAULT_PORT else f"{shown}:{port}"


def _is_for_us_alone(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def find_game_address(written: str, properties: Path | None) -> GameAddress | None:
    """`game.address`, else what `server.properties` says; None where neither tells. Blocking.

    Raises `ServerFileError`. A server that listens on all addresses is asked on loopback: we run beside it.
    """
    if written:
        return parse_game_address(written)
    if properties is None:
        return None
    told = read_server_properties(properties)
    everywhere = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound
    return GameAddress(everywhere.get(told.server_ip, told.server_ip), told.server_port)
