"""Server List Ping: the status of a Minecraft server (Java Edition, 1.7 or newer), as the game's server list gets it.

The protocol: a handshake that asks for the status, a status request, one reply in JSON, a ping that is echoed.
"""

import asyncio
import re
import secrets
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from plugin_bridge.text import INVISIBLE, decode_json, decode_text

MAX_REPLY_BYTES: Final = 256 * 1024
"""The game itself accepts 32767 characters; replies with mods and icons have been seen to need more."""
MAX_LISTED_PLAYERS: Final = 200

_HANDSHAKE, _STATUS, _PING = 0, 0, 1  # packet ids
_ANY_VERSION: Final = -1
_KNOWN_VERSION: Final = 340
"""Protocol number of 1.12.2, for servers that refuse a client that names none.

Glowstone, which stays at 1.12.2, closes the connection then (its source, and seen). It takes no other number either;
those that only look whether there is a version with the number know this one.
"""
_NEXT_IS_STATUS: Final = 1
_PARTS: Final = frozenset({"version", "players", "description"})
_MAX_TEXT_LENGTH: Final = 1000
_MAX_DEPTH: Final = 50
_UUID: Final = re.compile("[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_FORMATTING: Final = re.compile("§.?", re.DOTALL)


class ServerUnreachable(Exception):
    """The server sent no valid reply; `str()` is a short reason for the log."""


class _NoStatus(ValueError):
    """The server is there, and what it sent is no status."""


class ListedPlayer(NamedTuple):
    """A player online, as a server lists them. `id` is a UUID with dashes, empty if the server sent none."""

    name: str
    id: str


@dataclass(frozen=True)
class ServerStatus:
    """Status that a server reports. All texts are plain: no formatting codes, no control characters but newlines.

    `players`: some of the players online, as far as the server lists them. `latency`: round trip in seconds.
    """

    online: int
    max: int
    players: tuple[ListedPlayer, ...]
    version: str
    motd: str
    latency: float


async def fetch_status(host: str, port: int, max_seconds: float) -> ServerStatus:
    """Return the server's status, within `max_seconds` in all. Raises `ServerUnreachable` for every failure."""
    try:
        async with asyncio.timeout(max_seconds):
            return await _query(host, port)
    except TimeoutError:
        raise ServerUnreachable("it did not answer in time") from None
    except (OSError, EOFError, ValueError) as error:
        raise ServerUnreachable(f"{type(error).__name__}: {str(error)[:200]}") from error


async def _query(host: str, port: int) -> ServerStatus:
    """Ask once more, with a real protocol number, a server that was there and sent no status."""
    try:
        return await _query_as(_ANY_VERSION, *await asyncio.open_connection(host, port), host, port)
    except (EOFError, ConnectionResetError, _NoStatus):
        return await _query_as(_KNOWN_VERSION, *await asyncio.open_connection(host, port), host, port)


async def _query_as(
    version: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int
) -> ServerStatus:
    try:
        name = host.encode()
        place = _number(len(name)) + name + struct.pack(">H", port)
        handshake = _packet(_HANDSHAKE, _number(version) + place + _number(_NEXT_IS_STATUS))
        writer.write(handshake + _packet(_STATUS, b""))
        requested_at = time.perf_counter()
        reply = _parse(await _receive(reader, _STATUS))
        latency = time.perf_counter() - requested_at
        return read_status(reply, await _ping(reader, writer) or latency)
    finally:
        writer.transport.abort()  # an orderly close would wait for ever on a server that reads nothing


async def _ping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> float | None:
    """Return the seconds until the echo; None where the server hangs up instead, as some proxies do."""
    payload = secrets.token_bytes(8)
    sent_at = time.perf_counter()
    writer.write(_packet(_PING, payload))
    try:
        echo = await _receive(reader, _PING)
    except (OSError, EOFError):
        return None
    return time.perf_counter() - sent_at if echo == payload else None


# --- Packets: length, id, content; numbers are VarInts, seven bits to a byte ---


def _packet(packet_id: int, content: bytes) -> bytes:
    body = _number(packet_id) + content
    return _number(len(body)) + body


def _number(value: int) -> bytes:
    rest, written = value & 0xFFFFFFFF, bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    written.append(rest)
    return bytes(written)


async def _receive(reader: asyncio.StreamReader, packet_id: int) -> bytes:
    """Return the content of the next packet. Raises ValueError for another packet id, or one larger than any status."""
    length = await _read_number(reader)
    if not 0 < length <= MAX_REPLY_BYTES:
        raise ValueError(f"a packet of {length} bytes")
    received, content = _split_number(await reader.readexactly(length))
    if received != packet_id:
        raise _NoStatus(f"packet {received} instead of {packet_id}")
    return content


async def _read_number(reader: asyncio.StreamReader) -> int:
    written = b""
    while not written or written[-1] & 0x80:
        written += await reader.readexactly(1)
        if len(written) > 5:
            raise ValueError("a number without an end")
    return _split_number(written)[0]


def _split_number(content: bytes) -> tuple[int, bytes]:
    """Split off the number at the beginning; returns it and the rest."""
    value = 0
    for place, byte in enumerate(content[:5]):
        value |= (byte & 0x7F) << 7 * place
        if not byte & 0x80:
            return value, content[place + 1 :]
    raise ValueError("a number without an end")


# --- The reply ---


def _parse(content: bytes) -> object:
    length, text = _split_number(content)
    if length != len(text):
        raise ValueError("a text of another length than declared")
    return decode_json(text)


def read_status(reply: object, latency: float) -> ServerStatus:
    """Convert a server's JSON; missing or malformed parts become 0 or empty.

    Raises ValueError if it is no object, or none with a part of a status: some servers send who they refuse a text.
    """
    if not isinstance(reply, dict):
        raise _NoStatus("the reply is not a JSON object")
    if not reply.keys() & _PARTS:
        raise _NoStatus(f"the reply is no status: {_plain(''.join(_texts(reply, 0)))[:100]}")
    players, version = _as_object(reply.get("players")), _as_object(reply.get("version"))
    sample = players.get("sample")
    listed = map(_as_object, sample[:MAX_LISTED_PLAYERS] if isinstance(sample, list) else [])
    return ServerStatus(
        online=_count(players.get("online")),
        max=_count(players.get("max")),
        players=tuple(ListedPlayer(name, _uuid(player)) for player in listed if (name := _plain(player.get("name")))),
        version=_plain(version.get("name")),
        motd=_plain("".join(_texts(reply.get("description"), 0))),
        latency=latency,
    )


def _texts(component: object, depth: int) -> Iterator[str]:
    """Yield the texts of a chat component: a text, a list, or an object with more of them in `extra`."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(component, str):
        yield component
    elif isinstance(component, list):
        for part in component:
            yield from _texts(part, depth + 1)
    elif isinstance(component, dict):
        text = component.get("text", component.get("translate"))
        yield text if isinstance(text, str) else ""
        yield from _texts(component.get("extra"), depth + 1)


def _plain(text: object) -> str:
    if not isinstance(text, str):
        return ""
    return INVISIBLE.sub("", _FORMATTING.sub("", decode_text(text)))[:_MAX_TEXT_LENGTH].strip()


def _uuid(player: dict[str, Any]) -> str:
    written = player.get("id")
    return written.lower() if isinstance(written, str) and _UUID.fullmatch(written) else ""


def _as_object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: object) -> int:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
    return value if isinstance(value, int) and is_count else 0
