"""RCON client and console commands for the game server: one connection for a few commands, bounded in time and size.

The protocol is Valve's, as the game implements it: a packet is its length, an id, a type (32 bits each,
little-endian), text in UTF-8 and two NULs. The server splits a long reply into parts of 4096 characters and does not
mark the last one; and it reads one packet at a time, closing the connection when two arrive together. So another
packet, which it answers after everything before, is sent only once a full part has arrived.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import struct
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from plugin_bridge.text import decode_text

MAX_COMMAND_BYTES = 1446
"""The server closes the connection when it receives a longer one."""

_MAX_PACKET = 16 * 1024  # 4096 characters of four bytes, and the header
_MAX_REPLY = 256 * 1024
_PART_BYTES = 4096  # bytes; a part of at least this size may be followed by others
_MAX_SECONDS = 5.0  # for the whole connection
_CLOSE_SECONDS = 1.0

_HEAD = struct.Struct("<iii")
_LENGTH = struct.Struct("<i")
_LOGIN, _COMMAND, _REPLY, _END_MARKER = 3, 2, 0, 100
_REFUSED = -1  # in place of our packet id: the password is wrong


class RconError(Exception):
    """RCON failed; `str()` says why, without the password."""


@dataclass(frozen=True, slots=True)
class RconAddress:
    """Address and password of a remote console."""

    host: str
    port: int
    password: str = field(repr=False)


class RconConnection:
    """An authenticated RCON connection. Created by `open_rcon`, which bounds its time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._last_id = 0

    async def execute(self, command: str) -> str:
        """Run a command and return the whole reply. Raises ValueError if it is too long or has line breaks."""
        if not command.isprintable() or len(command.encode()) > MAX_COMMAND_BYTES:
            raise ValueError("a command is one short line of printable text")
        sent_id = await self._send(_COMMAND, command)
        reply = await self._receive_part(sent_id)
        if len(reply) >= _PART_BYTES:
            reply += await self._receive_rest(sent_id)
        return decode_text(reply)

    async def log_in(self, password: str) -> None:
        """Authenticate. Raises `RconError`."""
        sent_id = await self._send(_LOGIN, password)
        kind = _REPLY
        while kind == _REPLY:  # some servers send an empty reply first
            packet_id, kind, _text = await self._receive()
            if packet_id == _REFUSED:
                raise RconError("the server does not accept the password of its remote console")
            _require(packet_id == sent_id)

    async def _receive_rest(self, sent_id: int) -> bytes:
        last = await self._send(_END_MARKER, "")
        parts: list[bytes] = []
        size = 0
        while True:
            packet_id, _kind, text = await self._receive()
            if packet_id == last:
                return b"".join(parts)
            _require(packet_id == sent_id)
            size += len(text)
            if size > _MAX_REPLY:
                raise RconError("the reply is too long")
            parts.append(text)

    async def _receive_part(self, sent_id: int) -> bytes:
        packet_id, _kind, text = await self._receive()
        _require(packet_id == sent_id)
        return text

    async def _send(self, kind: int, text: str) -> int:
        self._last_id += 1
        content = text.encode() + b"\0\0"
        self._writer.write(_HEAD.pack(len(content) + 8, self._last_id, kind) + content)
        await self._writer.drain()
        return self._last_id

    async def _receive(self) -> tuple[int, int, bytes]:
        """Return id, type and text of the next packet."""
        length = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))[0]
        if not 10 <= length <= _MAX_PACKET:
            raise RconError("the peer is not the remote console of a game server")
        packet = await self._reader.readexactly(length)
        _require(packet.endswith(b"\0\0"))
        packet_id, kind = struct.unpack_from("<ii", packet)
        return packet_id, kind, packet[8:-2]


def _require(is_right: bool) -> None:
    if not is_right:
        raise RconError("the peer does not follow the protocol of remote consoles")


@contextlib.asynccontextmanager
async def open_rcon(address: RconAddress, max_seconds: float = _MAX_SECONDS) -> AsyncIterator[RconConnection]:
    """Connect and authenticate; the connection ends with the block, and after `max_seconds` in any case.

    Raises `RconError` for every failure of the network or the peer, also inside the block and at its end.
    """
    try:
        async with asyncio.timeout(max_seconds):
            reader, writer = await asyncio.open_connection(address.host, address.port, limit=_MAX_PACKET)
            try:
                connection = RconConnection(reader, writer)
                await connection.log_in(address.password)
                yield connection
            finally:
                writer.close()
                with contextlib.suppress(OSError, TimeoutError):
                    await asyncio.wait_for(writer.wait_closed(), _CLOSE_SECONDS)
    except TimeoutError:
        raise RconError("it did not answer in time") from None
    except asyncio.IncompleteReadError:
        raise RconError("the connection was closed before the answer") from None
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise RconError(f"it cannot be reached: {reason}") from None


_NAME: Final = re.compile(r"(?=.*[A-Za-z0-9_])[A-Za-z0-9_.*+-]{1,32}")
_MAX_REASON_LENGTH: Final = 240  # characters; at most 960 bytes of the 1446 a command may have
MAX_VALUE_LENGTH: Final = 36
_VALUE: Final = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_VALUE_LENGTH}}}")
_PLACEHOLDER: Final = re.compile(r"\{([a-z]+)\}")
_FORMAT: Final = re.compile(r"§.?|\x1b\[[0-9;]*[A-Za-z]?", re.DOTALL)
# From 1.13 on `@e` in a reason expands to the names of all entities; a character that looks the same does not.
_SELECTOR: Final = str.maketrans({"@": "＠"})

LIST: Final = "list"
_LIST_REPLY: Final = re.compile(r"There are \d+(?: of a max(?: of)? |/)\d+ players online:\s*(?P<names>.*)", re.DOTALL)


class UnsafeName(ValueError):
    """The name contains characters that are never allowed in a command."""


def kick(name: str, reason: str) -> str:
    """Return a command that kicks the player of this name. Raises `UnsafeName`."""
    _check(name)
    # The game parses this argument as a quotable word, in which an asterisk needs quotes.
    quoted = f'"{name}"' if "*" in name else name
    return f"kick {quoted} {plain(reason)}".rstrip()


def ban(name: str, reason: str) -> str:
    """Return a command that puts the name on the game's own ban list, which also kicks. Raises `UnsafeName`."""
    _check(name)
    return f"ban {name} {plain(reason)}".rstrip()


def pardon(name: str) -> str:
    """Return a command that takes the name off the game's own ban list. Raises `UnsafeName`."""
    _check(name)
    return f"pardon {name}"


LIST_ALLOWED: Final = "whitelist list"
RELOAD_ALLOWED: Final = "whitelist reload"
_LISTABLE: Final = re.compile(r"[A-Za-z0-9_.]{1,16}")


def is_listable(name: str) -> bool:
    """Return whether the name may be sent to the console for its allowlist: others might be selectors of players."""
    return _LISTABLE.fullmatch(name) is not None


def change_allowed(verb: Literal["add", "remove"], name: str) -> str:
    """Return a command that changes the game's allowlist. Raises `UnsafeName`."""
    if not is_listable(name):
        raise UnsafeName("the name has characters that are never sent to the game's console")
    return f"whitelist {verb} {name}"


def find_allowed(reply: str) -> list[str] | None:
    """Return the names in a reply to `LIST_ALLOWED`; None if it is not surely a whole list.

    They follow the last colon, whatever the language, and one of the numbers before it says how many they are. Without
    a colon the list is empty, or the reply is none; up to 1.12, "and" is before the last name.
    """
    head, colon, names = _FORMAT.sub("", reply).rpartition(":")
    found = [name for name in re.split(r",\s*|\sand\s", names.strip()) if name] if colon else []
    is_whole = not colon or str(len(found)) in re.findall(r"\d+", head)
    return found if is_whole and not any(re.search(r"\s", name) for name in found) else None


def fill(command: str, values: Mapping[str, str | None]) -> str:
    """Replace the placeholders that have a value, such as `{uuid}`. Raises `UnsafeName` for a value that is not plain.

    None: the placeholder stays, as do all other braces.
    """

    def find(placeholder: re.Match[str]) -> str:
        value = values.get(placeholder[1])
        if value is not None and _VALUE.fullmatch(value) is None:
            raise UnsafeName(f"the {placeholder[1]} has characters that are never sent to the game's console")
        return placeholder[0] if value is None else value

    return _PLACEHOLDER.sub(find, command)


def plain(text: str) -> str:
    """Reduce a text to one short line without format codes, control characters or selectors."""
    return one_line(text, _MAX_REASON_LENGTH).translate(_SELECTOR)


def one_line(text: str, max_length: int) -> str:
    """Reduce a text to one line without format codes and control characters."""
    text = _FORMAT.sub("", text)
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return text[:max_length].rstrip()


def is_surely_offline(name: str, reply: str) -> bool:
    """Return whether the reply to `list` proves that the player is offline.

    Plugins change the reply in many ways; only the game's own sentence, without the name anywhere in it, is proof.
    """
    found = _LIST_REPLY.fullmatch(_FORMAT.sub("", reply).strip())
    return found is not None and name.lower() not in found["names"].lower()


def _check(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise UnsafeName("the name has characters that are never sent to the game's console")
