"""Keeps us from being sent into the house: names are looked up once, and only public addresses are connected to.

The check is made on the very addresses that the connection then uses. A name that is public when it is checked and
private when it is used (DNS rebinding) gains nothing.
"""

import ipaddress
import socket
from typing import Any, Final

from tornado.netutil import DefaultLoopResolver

_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


class PrivateAddress(OSError):
    """The name leads to no public address. `str()` says so, without the name."""

    def __init__(self) -> None:
        super().__init__("it leads to no public address")


class PublicResolver(DefaultLoopResolver):
    """Looks names up, and lets only public addresses through. Raises `PrivateAddress` when none is left."""

    async def resolve(
        self, host: str, port: int, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[tuple[int, Any]]:
        found = await super().resolve(host, port, family)
        public = [(kind, address) for kind, address in found if is_public(str(address[0]))]
        if not public:
            raise PrivateAddress
        return public


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
