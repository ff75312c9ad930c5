"""The game server's remote console: one conversation for some commands, bounded in time and in size.

The protocol is Valve's, as the game speaks it: a packet is its length, a number, a type (32 bits each, little-endian),
text in UTF-8 and two NULs. The server cuts a long answer into pieces of 4096 characters and does not say which one is
the last; and it reads one packet at a time, closing the connection on two that arrive together. So a further packet,
which it answers after everything before, is sent only once a full piece has come.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

MAX_COMMAND_BYTES = 1446
"""The server closes the connection on a longer one."""

_MAX_PACKET = 16 * 1024  # 4096 characters of four bytes, and its head
_MAX_ANSWER = 256 * 1024
_PIECE = 4096  # bytes at least, of a piece that others may follow
_MAX_SECONDS = 5.0  # seconds for the whole conversation
_GOODBYE = 1.0

_HEAD = struct.Struct("<iii")
_LENGTH = struct.Struct("<i")
_LOGIN, _COMMAND, _ANSWER, _NOTHING = 3, 2, 0, 100
_REFUSED = -1  # in place of our number: the password is wrong


class RconError(Exception):
    """The conversation failed; `str()` says why, without the password."""


class RconUnreachable(RconError):
    """Nobody listens, or nobody answers in time."""


class RconPasswordWrong(RconError):
    """The server does not let us in."""


class RconProtocolError(RconError):
    """What answers does not speak the protocol, or too much of it."""


@dataclass(frozen=True, slots=True)
class RconAddress:
    """Where the console listens, and what opens it."""

    host: str
    port: int
    password: str = field(repr=False)


class RconConnection:
    """Logged in; `ask` as often as needed. Made by `open_rcon`, which bounds the time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._number = 0

    async def execute(self, command: str) -> str:
        """The whole answer to one command. Raises ValueError for a command that is too long or has line breaks."""
        if not command.isprintable() or len(command.encode()) > MAX_COMMAND_BYTES:
            raise ValueError("a command is one short line of printable text")
        number = await self._send(_COMMAND, command)
        answer = await self._receive_piece(number)
        if len(answer) >= _PIECE:
            answer += await self._receive_rest(number)
        return answer.decode("utf-8", "replace")

    async def log_in(self, password: str) -> None:
        """Raises `RconPasswordWrong`."""
        number = await self._send(_LOGIN, password)
        kind = _ANSWER
        while kind == _ANSWER:  # some servers send an empty answer first
            told, kind, _text = await self._receive()
            if told == _REFUSED:
                raise RconPasswordWrong("the server does not take the password of its remote console")
            _require(told == number)

    async def _receive_rest(self, number: int) -> bytes:
        last = await self._send(_NOTHING, "")
        pieces: list[bytes] = []
        size = 0
        while True:
            told, _kind, text = await self._receive()
            if told == last:
                return b"".join(pieces)
            _require(told == number)
            size += len(text)
            if size > _MAX_ANSWER:
                raise RconProtocolError("the answer is too long")
            pieces.append(text)

    async def _receive_piece(self, number: int) -> bytes:
        told, _kind, text = await self._receive()
        _require(told == number)
        return text

    async def _send(self, kind: int, text: str) -> int:
        self._number += 1
        content = text.encode() + b"\0\0"
        self._writer.write(_HEAD.pack(len(content) + 8, self._number, kind) + content)
        await self._writer.drain()
        return self._number

    async def _receive(self) -> tuple[int, int, bytes]:
        """Number, type and text of the next packet."""
        length = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))[0]
        if not 10 <= length <= _MAX_PACKET:
            raise RconProtocolError("what answers there is no remote console of a game server")
        packet = await self._reader.readexactly(length)
        _require(packet.endswith(b"\0\0"))
        number, kind = struct.unpack_from("<ii", packet)
        return number, kind, packet[8:-2]


def _require(is_right: bool) -> None:
    if not is_right:
        raise RconProtocolError("what answers there does not keep to the protocol of remote consoles")


@contextlib.asynccontextmanager
async def open_rcon(address: RconAddress, max_seconds: float = _MAX_SECONDS) -> AsyncIterator[RconConnection]:
    """A conversation, logged in, that ends with the block, and after `max_seconds` seconds in any case.

    Entering, asking and leaving raise `RconError` for whatever goes wrong out there.
    """
    try:
        async with asyncio.timeout(max_seconds):
            reader, writer = await asyncio.open_connection(address.host, address.port, limit=_MAX_PACKET)
            try:
                conversation = RconConnection(reader, writer)
                await conversation.log_in(address.password)
                yield conversation
            finally:
                writer.close()
                with contextlib.suppress(OSError, TimeoutError):
                    await asyncio.wait_for(writer.wait_closed(), _GOODBYE)
    except TimeoutError:
        raise RconUnreachable("it did not answer in time") from None
    except asyncio.IncompleteReadError:
        raise RconUnreachable("the connection was closed before the answer") from None
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise RconUnreachable(f"it cannot be reached: {reason}") from None
