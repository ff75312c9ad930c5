"""Responses sent in chunks, no faster than the client reads them."""

from __future__ import annotations

from typing import cast

from tornado.http1connection import HTTP1Connection
from tornado.httputil import HTTPServerRequest
from tornado.iostream import StreamClosedError
from tornado.web import RequestHandler


async def write_chunk(handler: RequestHandler, chunk: bytes) -> bool:
    """Send a chunk (and the headers before the first one); return whether the client has taken it.

    A client that does not read is disconnected after `http.write_timeout` (`regsvc.api.connections`).
    """
    handler.write(chunk)
    try:
        await handler.flush()
    except StreamClosedError:
        return False
    return not cast(HTTP1Connection, handler.request.connection).stream.closed()


def disconnect(request: HTTPServerRequest) -> None:
    """Close the connection in the middle of a response, so that the client cannot take it for a complete one."""
    # The stream, not the connection: closing the connection would drop the future that a pending flush waits on.
    cast(HTTP1Connection, request.connection).stream.close()
