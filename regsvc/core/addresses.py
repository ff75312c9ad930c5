"""Who the client is: the one place that decides it, for limits, logs, audit entries and metrics."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, Literal

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

LOOPBACK: tuple[Network, ...] = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))

_BRACKETED = re.compile(r"\[(?P<address>[^\]]*)\](?::\d{1,5})?")
_IPV4_WITH_PORT = re.compile(r"(?P<address>[\d.]+):\d{1,5}")


@lru_cache(maxsize=8)  # asked at every request, and always the same
def trusted_networks(trusted_proxies: Literal["auto"] | tuple[Network, ...], server_host: str) -> tuple[Network, ...]:
    """The networks of the proxies whose `X-Forwarded-For` is believed.

    "auto" is loopback while we listen on loopback, where only a proxy on this machine reaches us; else none.
    """
    if trusted_proxies != "auto":
        return trusted_proxies
    return LOOPBACK if server_host == "localhost" or is_loopback(server_host) else ()


def client_address(peer: str, forwarded_for: Sequence[str], trusted: Sequence[Network]) -> str:
    """The address of the client, as text.

    `peer` is the socket's address, `forwarded_for` the lines of the X-Forwarded-For header in their order,
    `trusted` the networks of proxies whose word is taken. Every proxy appends the address it was called
    from, so the list is read from the right: the first hop that is not trusted is the client, and what
    stands left of it is hearsay. A hop that is no address ends the walk at the proxy that reported it.
    """
    nearest = _parse(peer)
    if nearest is None:
        return peer
    hops = [hop for line in forwarded_for for hop in line.split(",")]
    while hops and any(nearest in network for network in trusted):
        farther = _parse_hop(hops.pop())
        if farther is None:
            break
        nearest = farther
    return str(nearest)


def is_any_of(networks: Sequence[Network]) -> Callable[[str], bool]:
    """A function that tells whether an address, as text, lies in one of the networks."""

    def is_inside(address: str) -> bool:
        parsed = _parse(address)
        return parsed is not None and any(parsed in network for network in networks)

    return is_inside


def is_loopback(address: str) -> bool:
    """Whether the address, as text, is one of this machine itself."""
    parsed = _parse(address)
    return parsed is not None and parsed.is_loopback


def limit_key(address: str) -> str:
    """What rate limits count an address by: IPv4 as it is, IPv6 by its /64 (one subscriber has that many)."""
    parsed = _parse(address)
    if isinstance(parsed, IPv6Address):
        return str(IPv6Network((int(parsed), 64), strict=False))
    return address if parsed is None else str(parsed)


def _parse_hop(hop: str) -> Address | None:
    """One entry of X-Forwarded-For; some proxies add the port, which needs brackets around IPv6."""
    text = hop.strip()
    with_port = _BRACKETED.fullmatch(text) or _IPV4_WITH_PORT.fullmatch(text)
    return _parse(with_port["address"] if with_port else text)


def _parse(text: str) -> Address | None:
    """None for what is no address. An IPv4 client of an IPv6 socket (`::ffff:192.0.2.1`) stays one."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Whether an IP address, as text, is that of a host on the open Internet.

    What is wrapped inside an IPv6 address (mapped, 6to4, Teredo, NAT64) is looked at as well.
    """
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv4Address):
        return _is_open(ip)
    inside = _inside(ip)
    if inside:
        return all(_is_open(wrapped) for wrapped in inside)
    return ip.is_global and ip in _GLOBAL_UNICAST


def _is_open(ip: ipaddress.IPv4Address) -> bool:
    return ip.is_global and not ip.is_multicast


def _inside(ip: ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    """The IPv4 addresses that a packet to this one ends up at, or passes; empty for most."""
    found = [ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())]
    if ip in _NAT64:
        found.append(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF))
    return [address for address in found if address is not None]
