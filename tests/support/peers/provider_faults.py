"""Faulty replies of a chat platform."""

from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Final

from tests.support.peers.oauth_server import Fault, OAuthServer, send

TOO_MUCH: Final = 80 * 1024  # bytes, more than is accepted
A_TOKEN: Final = {"access_token": "stolen\r\nX-Evil: 1", "token_type": "Bearer"}


def say(status: int, told: object, **headers: str) -> Fault:
    """Return a fault that sends a complete HTTP response. `headers`: with underscores for hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return partial(send, status=status, told=told, headers=named)


def write(*pieces: bytes) -> Fault:
    """Return a fault that sends these bytes instead of HTTP and closes the connection."""

    def fault(handler: BaseHTTPRequestHandler) -> None:
        for piece in pieces:
            handler.wfile.write(piece)
        handler.close_connection = True

    return fault


def hang_after(server: OAuthServer, *pieces: bytes) -> Fault:
    """Return a fault that sends these bytes and keeps the connection open."""

    def fault(handler: BaseHTTPRequestHandler) -> None:
        write(*pieces)(handler)
        handler.wfile.flush()
        server.is_over.wait(30)

    return fault


_OK: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

ANYWHERE: Final[dict[str, Fault]] = {
    "bad request": say(400, {"error": "invalid_grant"}),
    "unauthorized": say(401, {"error": "invalid_client"}),
    "too many": say(429, {"retry_after": 3.5}),
    "internal error": say(500, {"error": "server_error"}),
    "error page": say(502, b"<html>Bad Gateway</html>"),
    "no content": say(204, b""),
    "a redirection": say(302, b"", Location="http://127.0.0.1:1/"),
    "garbage": say(200, b"\x00\xff\xfe garbage"),
    "html": say(200, b"<html>ok</html>"),
    "a list": say(200, [1, 2, 3]),
    "null": say(200, None),
    "an empty object": say(200, {}),
    "not a number": say(200, b'{"access_token": NaN, "id": NaN}'),
    "deep nesting": say(200, b"[" * 60_000),
    "a large body": say(200, b"{" + b" " * TOO_MUCH + b"}"),
    "a large body of unknown length": write(_OK, b"\r\n", b"{" + b" " * TOO_MUCH),
    "many headers": write(b"HTTP/1.1 200 OK\r\n", *[b"X-%d: 1\r\n" % number for number in range(5000)], b"\r\n{}"),
    "half a body": write(_OK, b"Content-Length: 100\r\n\r\n", b'{"access'),
    "no HTTP": write(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "nothing": write(),
    "packed": say(200, b"\x1f\x8b\x08\x00", Content_Encoding="gzip"),
}
"""Faults by name, unusable on every path."""

TOKENS: Final[dict[str, Fault]] = {
    "a token with a line break": say(200, A_TOKEN),
    "a token that is none": say(200, {"access_token": {"a": 1}, "token_type": "Bearer"}),
    "an empty token": say(200, {"access_token": "", "token_type": "Bearer"}),
    "another kind of token": say(200, {"access_token": "abc", "token_type": "mac"}),
    "a kind that is none": say(200, {"access_token": "abc", "token_type": 7}),
    "an error with 200": say(200, {"error": "bad_verification_code"}),
}

PROFILES: Final[dict[str, Fault]] = {
    "no id": say(200, {"username": "alice"}),
    "an empty id": say(200, {"id": "", "username": "alice"}),
    "a blank id": say(200, {"id": "   ", "username": "alice"}),
    "an id that is none": say(200, {"id": True, "username": "alice"}),
    "an id with a line break": say(200, {"id": "1\r\n2", "username": "alice"}),
    "a huge number": say(200, b'{"id": 1' + b"0" * 5000 + b', "username": "alice"}'),
    "a long id": say(200, {"id": "1" * 256, "username": "alice"}),
    "an id within": say(200, {"id": {"id": "1"}, "username": "alice"}),
}

MEMBERSHIPS: Final[dict[str, Fault]] = {
    "no roles": say(200, {"nick": None}),
    "roles that are none": say(200, {"roles": "700"}),
    "forbidden": say(403, {"message": "Missing Access", "code": 50001}),
}

SILENCES: Final[dict[str, Callable[[OAuthServer], Fault]]] = {
    "never a byte": lambda server: hang_after(server),
    "half a head": lambda server: hang_after(server, b"HTTP/1.1 200 OK\r\nContent-"),
    "half a body that hangs": lambda server: hang_after(server, _OK, b"Content-Length: 100\r\n\r\n", b'{"a'),
}
