"""Requests with JSON bodies on connections that are kept alive, for the loads that post."""

import asyncio
import json
from typing import Any, Self

HOST = "127.0.0.1"


class Client:
    """One connection. `await Client.connect(port)` makes it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, port: int) -> Self:
        return cls(*await asyncio.open_connection(HOST, port))

    async def post(self, path: str, body: object) -> Any:
        """Return the JSON of a reply with a status of 2xx; AssertionError for any other."""
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
        self._writer.write(head.encode() + b"\r\n\r\n" + data)
        status, *headers = (await self._reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        [length] = [int(line.split(b":")[1]) for line in headers if line.startswith(b"content-length:")]
        reply = await self._reader.readexactly(length)
        assert status.startswith(b"http/1.1 2"), (status, reply)
        return json.loads(reply)

    def close(self) -> None:
        self._writer.close()
