"""Answers that are sent piece by piece: no faster than the client takes them, and not for ever."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import cast

from tornado.http1connection import HTTP1Connection
from tornado.httputil import HTTPServerRequest
from tornado.iostream import StreamClosedError
from tornado.web import RequestHandler


async def write_chunk(handler: RequestHandler, piece: bytes, patience: timedelta) -> bool:
    """Send it, headers first. False when the client has left, or did not take it in time: then it is cut off."""
    handler.write(piece)
    try:
        await asyncio.wait_for(handler.flush(), patience.total_seconds())
    except StreamClosedError:
        return False
    except TimeoutError:
        cut_off(handler.request)
        return False
    return True


def cut_off(request: HTTPServerRequest) -> None:
    """Close the connection in the middle of its answer, so that nobody takes the answer for a whole one."""
    # not the connection: that would forget whoever waits for it to take a piece
    cast(HTTP1Connection, request.connection).stream.close()
