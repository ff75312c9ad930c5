"""The PROXY protocol, versions 1 and 2: the header with which a TCP proxy or a tunnel names its client.

As in https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt; the values (TLV) behind the addresses are skipped.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tornado.iostream import IOStream

_LINE_START: Final = b"PROXY "
_LONGEST_LINE: Final = 107
_SHORTEST_LINE: Final = 15  # that of an unknown client
_SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
_FIXED_PART: Final = 16  # bytes, before the addresses
_PORT: Final = "(?:0|[1-9][0-9]{0,4})"
_LINE: Final = re.compile(f"PROXY TCP(?P<version>[46]) (?P<client>[^ %]+) (?P<server>[^ %]+) {_PORT} {_PORT}\r\n")
_UNKNOWN: Final = re.compile(rb"PROXY UNKNOWN(?: [^\r\n]*)?\r\n")
_LOCAL, _PROXIED = 0x20, 0x21
"""Version 2 and the command: the proxy itself has connected, or a client of it."""
_ADDRESSES: Final = {0x11: (IPv4Address, 4, 12), 0x21: (IPv6Address, 16, 36)}
"""By family and transport, TCP: the type of address, its bytes, and those of all addresses and ports."""
_OTHERS: Final = frozenset((0x00, 0x01, 0x02, 0x10, 0x12, 0x20, 0x22, 0x30, 0x31, 0x32))
"""Families and transports that are valid, and tell nothing about a client of HTTP."""


def begins_header(data: bytes) -> bool:
    """Return whether these first bytes of a connection are those of a header; no request of HTTP begins like this."""
    return data.startswith((_SIGNATURE, b"PROXY TCP4 ", b"PROXY TCP6 ", b"PROXY UNKNOWN"))


def count_missing(header: bytes | bytearray) -> int:
    """Return how many bytes of a header are missing, at least; 0: it is whole. Raises ValueError: it is none."""
    size = len(header)
    if _LINE_START.startswith(header[: len(_LINE_START)]):
        if header.endswith(b"\r\n"):
            return 0
        if size >= _LONGEST_LINE:
            raise ValueError("a line that is too long")
        return max(_SHORTEST_LINE - size, 1 if header.endswith(b"\r") or size == _LONGEST_LINE - 1 else 2)
    if not _SIGNATURE.startswith(header[: len(_SIGNATURE)]):
        raise ValueError("something else")
    if size < _FIXED_PART:
        return _FIXED_PART - size
    return _FIXED_PART + int.from_bytes(header[14:16], "big") - size


def find_client(header: bytes) -> str | None:
    """Return the address of the client that a whole header names; None: it names none, and the connection's counts.

    Raises ValueError for a header that breaks the rules.
    """
    if not header.startswith(_LINE_START):
        return _find_in_block(header)
    if _UNKNOWN.fullmatch(header):
        return None
    line = _LINE.fullmatch(header.decode("latin-1"))
    if line is None or any(int(port) > 0xFFFF for port in header.split()[4:]):
        raise ValueError("not a line of version 1")
    kind = IPv4Address if line["version"] == "4" else IPv6Address
    kind(line["server"])
    return str(kind(line["client"]))


def _find_in_block(header: bytes) -> str | None:
    command, family = header[12], header[13]
    if command == _LOCAL:
        return None
    if command != _PROXIED or not (family in _ADDRESSES or family in _OTHERS):
        raise ValueError("a version, command or family that does not exist")
    if family in _OTHERS:
        return None
    kind, size, size_of_all = _ADDRESSES[family]
    if len(header) - _FIXED_PART < size_of_all:
        raise ValueError("a block that is shorter than its addresses")
    return str(kind(header[_FIXED_PART : _FIXED_PART + size]))


async def read_header(stream: IOStream) -> bytes:
    """Read the header that a connection begins with, and not one byte more: TLS may follow.

    Raises ValueError as soon as it is none, and StreamClosedError.
    """
    header = bytearray()
    while missing := count_missing(header):
        stream.read_chunk_size = missing
        header += await stream.read_bytes(missing, partial=True)
    return bytes(header)
