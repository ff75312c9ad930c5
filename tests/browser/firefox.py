"""Debian's Firefox as Playwright can drive it: a program that stands between the two and passes on what both know.

Playwright sends `emulation.setMediaFeaturesOverride` to every new window, which Firefox 153 refuses as unknown. Here it
succeeds and changes nothing; all else goes through.
"""

import asyncio
import json
import re
import signal
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application
from tornado.websocket import WebSocketHandler, websocket_connect

UNKNOWN_TO_FIREFOX = {"emulation.setMediaFeaturesOverride"}
LISTENS = re.compile(rb"WebDriver BiDi listening on (ws://\S+)")
LARGEST = 1 << 30  # bytes; a page's script is one message


def write_program(firefox: str, folder: Path) -> Path:
    """Write the program that Playwright starts in place of `firefox`."""
    program = folder / "firefox"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" "{firefox}" "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return program


class BetweenPlaywrightAndFirefox(WebSocketHandler):
    """One connection of Playwright's, and one to Firefox for it."""

    def initialize(self, address: str) -> None:
        self._address = address

    async def open(self, *_args: str, **_kwargs: str) -> None:
        self._firefox = await websocket_connect(
            self._address + self.request.path, max_message_size=LARGEST, on_message_callback=self._pass_back
        )

    async def on_message(self, message: str | bytes) -> None:
        request: dict[str, Any] = json.loads(message)
        if request["method"] in UNKNOWN_TO_FIREFOX:
            await self.write_message({"type": "success", "id": request["id"], "result": {}})
        else:
            await self._firefox.write_message(message)

    def _pass_back(self, message: str | bytes | None) -> None:
        if message is None:
            self.close()
        elif self.ws_connection is not None:
            self.write_message(message)

    def on_close(self) -> None:
        self._firefox.close()


async def run(*command: str) -> int:
    """Run Firefox until it ends, and name our own address in place of its own."""
    firefox = await asyncio.create_subprocess_exec(*command, stderr=PIPE)
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, firefox.terminate)
    assert firefox.stderr is not None
    async for line in firefox.stderr:
        told = line
        if listens := LISTENS.search(line):
            [socket] = bind_sockets(0, "127.0.0.1")
            between = Application([(".*", BetweenPlaywrightAndFirefox, {"address": listens[1].decode()})])
            HTTPServer(between).add_socket(socket)
            told = b"WebDriver BiDi listening on ws://127.0.0.1:%d\n" % socket.getsockname()[1]
        sys.stderr.buffer.write(told)
        sys.stderr.buffer.flush()
    return await firefox.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(run(*sys.argv[1:])))
