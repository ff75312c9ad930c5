"""Responses sent in chunks, no faster than the client reads them and with a timeout per chunk."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import cast

from tornado.http1connection import HTTP1Connection
from tornado.httputil import HTTPServerRequest
from tornado.iostream import StreamClosedError
from tornado.web import RequestHandler


async def write_chunk(handler: RequestHandler, chunk: bytes, write_timeout: timedelta) -> bool:
    """Send a chunk (and the headers before the first one); return whether the client has taken it.

    A client that does not read it within `write_timeout` is disconnected.
    """
    handler.write(chunk)
    try:
        await asyncio.wait_for(handler.flush(), write_timeout.total_seconds())
    except StreamClosedError:
        return False
    except TimeoutError:
        disconnect(handler.request)
        return False
    return True


def disconnect(request: HTTPServerRequest) -> None:
    """Close the connection in the middle of a response, so that the client cannot take it for a complete one."""
    # The stream, not the connection: closing the connection would drop the future that a pending flush waits on.
    cast(HTTP1Connection, request.connection).stream.close()
