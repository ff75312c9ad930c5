"""Access tokens that were altered: other claims, headers, keys and algorithms."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import jwt

from regsvc.auth.keys import SIGNING_KEY_FILE, fingerprint
from tests.support.stack import Stack

FOREIGN_KEY = b"a foreign key, of more than thirty-two bytes, and long enough for any HMAC there is"
LONG_AGO = int(datetime(2020, 1, 1, tzinfo=UTC).timestamp())


def signing_key(stack: Stack) -> bytes:
    """The key the daemon signs with."""
    return (stack.daemon.state_dir / SIGNING_KEY_FILE).read_bytes().strip()


def with_claims(stack: Stack, token: str, **claims: object) -> str:
    """The token with other claims, signed by the daemon's own key."""
    return _signed(_claims(token) | claims, signing_key(stack))


def _claims(token: str) -> dict[str, Any]:
    return jwt.decode(token, options={"verify_signature": False})


def _signed(claims: dict[str, Any], key: bytes, algorithm: str = "HS256", kid: str | None = None) -> str:
    headers = {"kid": kid or fingerprint(key)}
    return jwt.encode(claims, "" if algorithm == "none" else key, algorithm, headers)


FORGERIES: dict[str, Callable[[Stack, str], str]] = {
    "garbage": lambda stack, token: "garbage",
    "expired": lambda stack, token: with_claims(stack, token, exp=LONG_AGO),
    "another user's": lambda stack, token: with_claims(stack, token, sub="1000000"),
    "unknown audience": lambda stack, token: with_claims(stack, token, aud="root"),
    "unknown session": lambda stack, token: with_claims(stack, token, jti="0" * 32),
    "foreign kid": lambda stack, token: _signed(_claims(token), FOREIGN_KEY),
    "foreign key": lambda stack, token: _signed(_claims(token), FOREIGN_KEY, kid=fingerprint(signing_key(stack))),
    "alg none": lambda stack, token: _signed(_claims(token), b"", "none", fingerprint(signing_key(stack))),
    "alg HS512": lambda stack, token: _signed(_claims(token), signing_key(stack), "HS512"),
    "cut": lambda stack, token: token[:-5],
    "two at once": lambda stack, token: f"{token} {token}",
}
"""By fault: a function from a good token to a bad one."""
