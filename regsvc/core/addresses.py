"""IP addresses and hosts: which are loopback or public, which one a request came from, and where the game server is.

`Caller` is what the HTTP layer passes on to services.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Final, Literal, NamedTuple

from plugin_bridge.hosts import split_host
from plugin_bridge.server.files import read_server_properties
from regsvc.core.rights import NO_RIGHTS, Rights

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

LOOPBACK: tuple[Network, ...] = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))

NETWORK_FACTOR: Final = 4
"""Limits of an IPv6 network (`network_key`), as a multiple of those of a client (`limit_key`)."""

_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_NAT64: Final = IPv6Network("64:ff9b::/96")

_LONGEST: Final = 45  # characters: an IPv6 address whose end is written as IPv4
_KEPT: Final = 1024  # parsed addresses; the same clients and proxies send request after request

_BRACKETED = re.compile(r"\[(?P<address>[^\]]*)\](?::\d{1,5})?")
_IPV4_WITH_PORT = re.compile(r"(?P<address>[\d.]+):\d{1,5}")


@lru_cache(maxsize=8)  # asked at every request, and always the same
def trusted_networks(trusted_proxies: Literal["auto"] | tuple[Network, ...], server_host: str) -> tuple[Network, ...]:
    """Return the networks of the proxies whose `X-Forwarded-For` is trusted.

    "auto" is loopback while the server listens on loopback, where only a proxy on this machine reaches it; else none.
    """
    if trusted_proxies != "auto":
        return trusted_proxies
    return LOOPBACK if is_loopback(server_host) else ()


def client_address(peer: str, forwarded_for: Sequence[str], trusted: Sequence[Network]) -> str:
    """Return the address of the client, as text: the one used for limits, logs, audit entries and metrics.

    `peer` is the socket's address, `forwarded_for` the lines of the X-Forwarded-For header in their order,
    `trusted` the networks of trusted proxies. Every proxy appends the address that connected to it, so the
    list is read from the right: the first hop that is not trusted is the client, and everything to the left
    of it may be forged. A hop that is not an address ends the search at the proxy that reported it.
    """
    client = _parse(peer)
    if client is None:
        return peer
    if not forwarded_for:
        return str(client)
    hops = [hop for line in forwarded_for for hop in line.split(",")]
    while hops and any(client in network for network in trusted):
        previous = _parse_hop(hops.pop())
        if previous is None:
            break
        client = previous
    return str(client)


def is_in_networks(address: str, networks: Sequence[Network]) -> bool:
    """Return whether an address, as text, is in one of the networks."""
    parsed = _parse(address)
    return parsed is not None and any(parsed in network for network in networks)


def is_loopback(host: str) -> bool:
    """Return whether a host, an IP address or "localhost", is this machine's loopback interface."""
    parsed = _parse(host)
    return host.lower().removesuffix(".") == "localhost" or (parsed is not None and parsed.is_loopback)


def is_private(host: str) -> bool:
    """Return whether a host is an IP address that is not reachable from the internet; False for names."""
    return _parse(host) is not None and not is_public(host)


def is_unspecified(host: str) -> bool:
    """Return whether a host to listen on means all interfaces: "0.0.0.0" or "::"."""
    parsed = _parse(host)
    return parsed is not None and parsed.is_unspecified


def connect_host(listen_host: str) -> str:
    """Return the host to connect to for a server on this machine that listens on `listen_host` ("": everywhere)."""
    if not listen_host:
        return "127.0.0.1"
    if is_unspecified(listen_host):
        return "::1" if ":" in listen_host else "127.0.0.1"
    return listen_host


@lru_cache(maxsize=_KEPT)
def limit_key(address: str) -> str:
    """Return the key under which rate limits count an address: IPv4 itself, IPv6 its /64 (one subscriber's)."""
    parsed = _parse(address)
    if isinstance(parsed, IPv6Address):
        return str(IPv6Network((int(parsed), 64), strict=False))
    return address if parsed is None else str(parsed)


@lru_cache(maxsize=_KEPT)
def network_key(address: str) -> str:
    """Return the key of the network an address belongs to: IPv4 itself, IPv6 its /48, of which one subscriber may have
    all 65,536 keys of `limit_key`.
    """
    parsed = _parse(address)
    if isinstance(parsed, IPv6Address):
        return str(IPv6Network((int(parsed), 48), strict=False))
    return limit_key(address)


def _parse_hop(hop: str) -> Address | None:
    """Parse one entry of X-Forwarded-For; some proxies add the port, which needs brackets around IPv6."""
    text = hop.strip()
    with_port = None if _parse(text) else _BRACKETED.fullmatch(text) or _IPV4_WITH_PORT.fullmatch(text)
    return _parse(with_port["address"] if with_port else text)


def _parse(text: str) -> Address | None:
    """Parse an IP address; None for other text. An IPv4 client of an IPv6 socket (`::ffff:192.0.2.1`) stays IPv4."""
    plain = text.partition("%")[0]
    return _parse_plain(plain) if len(plain) <= _LONGEST else None


@lru_cache(maxsize=_KEPT)
def _parse_plain(text: str) -> Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def is_public(address: str) -> bool:
    """Return whether an IP address, as text, is that of a host on the public Internet; False for any other text.

    IPv4 addresses embedded in an IPv6 address (mapped, 6to4, Teredo, NAT64) must be public too.
    """
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, IPv4Address):
        return _is_public_ipv4(ip)
    embedded = _embedded_ipv4(ip)
    if embedded:
        return all(_is_public_ipv4(inner) for inner in embedded)
    return ip.is_global and ip in _GLOBAL_UNICAST


def _is_public_ipv4(ip: IPv4Address) -> bool:
    return ip.is_global and not ip.is_multicast


def _embedded_ipv4(ip: IPv6Address) -> list[IPv4Address]:
    """Return the IPv4 addresses that a packet to this one ends up at, or passes; empty for most."""
    found = [ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())]
    if ip in _NAT64:
        found.append(IPv4Address(int(ip) & 0xFFFFFFFF))
    return [address for address in found if address is not None]


DEFAULT_PORT: Final = 25565
BEDROCK_PORT: Final = 19132


class GameAddress(NamedTuple):
    """The host and port that the game server listens on."""

    host: str
    port: int


def parse_game_address(written: str, default_port: int = DEFAULT_PORT) -> GameAddress:
    """Parse "play.example.org", "192.0.2.1:25566" or "[2001:db8::1]:25565"; raises ValueError for anything else."""
    host, port = split_host(written)
    return GameAddress(host, default_port if port is None else port)


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


Audience = Literal["user", "admin", "token"]


@dataclass(frozen=True, slots=True)
class Caller:
    """The client of a request, as far as the connection and its headers say.

    `address` is the client's address as text (see `client_address`), `limit_key` the key under which rate limits
    count it, `language` one that has translations, `request_id` the id in the reply and in the log. `is_hop`: the
    address is that of a tunnel or CDN that hides its clients. `user_agent` is what it calls itself, which may be a lie.
    """

    address: str
    limit_key: str
    language: str
    request_id: str
    is_hop: bool = False
    user_agent: str = ""

    @property
    def network_key(self) -> str:
        """The key of the client's network, where a limit must hold for all its addresses together."""
        return network_key(self.address)


@dataclass(frozen=True, slots=True)
class VerifiedSession:
    """An access token that was verified for this request.

    `audience` is what the token was issued for, `rights` what its owner may do with it on admin routes right now,
    `started_at` and `expires_at` are UTC, `language` the user's stored language (None: none stored),
    `token_generation` the user's when the session was verified. Of an API token, `username` is its name with that of
    its maker, as the audit log shows it, and `maker` the maker's; else `maker` is empty.
    """

    jti: str
    user_id: int
    username: str
    audience: Audience
    expires_at: datetime
    language: str | None
    started_at: datetime
    token_generation: int
    rights: Rights = NO_RIGHTS
    maker: str = ""
    token_id: int | None = None
    """Of an API token."""
    has_second_factor: bool = False
    """Whether its login showed one; of an API token, whether its maker had."""

    @property
    def is_admin(self) -> bool:
        """Whether its owner may use any admin route with it right now."""
        return bool(self.rights.permissions)
