"""Hosts as people and files write them: names and IP addresses, with or without brackets and a port."""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from typing import Final

_WITH_PORT: Final = re.compile(
    r"(?:\[(?P<v6>[0-9A-Za-z:.%]+)\]|(?P<name>[^\s:/@\[\]?#,;=<>'\"\\{}$%&()*!|^`]+))(?::(?P<port>[0-9]{1,5}))?"
)


def split_host(written: str) -> tuple[str, int | None]:
    """Split "play.example.org", "::1" or "[2001:db8::1]:25565" into the host and its port, None without one.

    The host is as look-ups and certificates have it: no brackets, no dot at its end, no capitals. Raises ValueError
    with a sentence.
    """
    text = written.strip()
    if _is_ipv6(text):
        return text.lower(), None
    match = _WITH_PORT.fullmatch(text)
    port = None if match is None or match["port"] is None else int(match["port"])
    host = "" if match is None else (match["v6"] or match["name"].removesuffix(".")).lower()
    is_address = match is not None and (match["v6"] is None or _is_ipv6(host))
    if not host or not is_address or port == 0 or (port or 0) > 65535:
        raise ValueError('this must be a host, with or without a port, such as "play.example.org:25565"')
    return host, port


def plain_host(written: str) -> str:
    """Return the host in a value of the plugin's or the game's, without brackets; any other text as it is."""
    try:
        host, port = split_host(written)
    except ValueError:
        return written
    return host if port is None else written


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True
