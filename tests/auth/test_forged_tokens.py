"""Access tokens that are not ours, or were altered: all are refused in the same way."""

import base64
import json
from typing import Any

import jwt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regsvc.auth.keys import SigningKeys
from regsvc.auth.sessions import Sessions
from regsvc.core.addresses import Caller
from regsvc.core.errors import Unauthorized
from regsvc.database.models import User
from tests.support.database_fixtures import KEY, MakeSessions

LONG_KEY = KEY * 2
FOREIGN_KEY = b"a foreign key, of more than thirty-two bytes"


def forged(token: str, **claims: object) -> str:
    """The token with other claims (None: without that one), signed by us."""
    changed = jwt.decode(token, options={"verify_signature": False}) | claims
    present = {name: value for name, value in changed.items() if value is not None}
    return jwt.encode(present, KEY, "HS256", {"kid": jwt.get_unverified_header(token)["kid"]})


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "root"},
        {"aud": "admin"},
        {"aud": ["user", "admin"]},
        {"sub": "999"},
        {"sub": 1},
        {"jti": "0" * 32},
        {"jti": ["0"]},
        {"exp": 0},
        {"exp": "soon"},
        {"sub": None},
        {"aud": None},
        {"jti": None},
        {"iat": None},
        {"exp": None},
    ],
    ids=str,
)
def test_it_refuses_other_claims_even_if_signed(
    sessions: Sessions, alice: User, caller: Caller, claims: dict[str, Any]
) -> None:
    token = sessions.issue(alice, "user", caller).token
    assert sessions.authenticate(forged(token)).username == "Alice"

    with pytest.raises(Unauthorized):
        sessions.authenticate(forged(token, **claims))


@pytest.mark.parametrize("algorithm", ["none", "HS384", "HS512"])
def test_it_refuses_other_algorithms(make_sessions: MakeSessions, alice: User, caller: Caller, algorithm: str) -> None:
    sessions = make_sessions(SigningKeys(LONG_KEY))
    token = sessions.issue(alice, "user", caller).token
    claims = jwt.decode(token, options={"verify_signature": False})
    key = "" if algorithm == "none" else LONG_KEY
    other = jwt.encode(claims, key, algorithm, {"kid": SigningKeys(LONG_KEY).current_kid})

    with pytest.raises(Unauthorized):
        sessions.authenticate(other)


def test_it_refuses_an_edited_payload(sessions: Sessions, alice: User, olivia: User, caller: Caller) -> None:
    header, payload, signature = sessions.issue(alice, "user", caller).token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    claims["sub"] = str(olivia.id)
    edited = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")

    with pytest.raises(Unauthorized):
        sessions.authenticate(f"{header}.{edited}.{signature}")


@pytest.mark.parametrize("kid", [None, "", "0123456789abcdef", SigningKeys(FOREIGN_KEY).current_kid])
def test_it_refuses_a_foreign_kid(sessions: Sessions, alice: User, caller: Caller, kid: str | None) -> None:
    token = sessions.issue(alice, "user", caller).token
    claims = jwt.decode(token, options={"verify_signature": False})
    headers = None if kid is None else {"kid": kid}

    for key in (KEY, FOREIGN_KEY):
        with pytest.raises(Unauthorized):
            sessions.authenticate(jwt.encode(claims, key, "HS256", headers))


def test_it_refuses_a_foreign_key_with_our_kid(sessions: Sessions, alice: User, caller: Caller) -> None:
    token = sessions.issue(alice, "user", caller).token
    claims = jwt.decode(token, options={"verify_signature": False})
    headers = {"kid": SigningKeys(KEY).current_kid}

    with pytest.raises(Unauthorized):
        sessions.authenticate(jwt.encode(claims, FOREIGN_KEY, "HS256", headers))


def with_header(header: bytes, payload: str = "e30") -> str:
    return f"{base64.urlsafe_b64encode(header).decode().rstrip('=')}.{payload}.AA"


JUNK = [
    None,
    "",
    ".",
    "..",
    "a.b.c",
    "Bearer",
    "é" * 40,
    "\ud800",
    "\x00",
    "x" * 1_000_000,
    with_header(b"[" * 300),
    with_header(b"[" * 100_000),
    with_header(b"{"),
    with_header(b"[]"),
    with_header(b'{"alg":"HS256","kid":["a"]}'),
    with_header(b'{"alg":"HS256","kid":null}'),
    with_header(b'{"alg":{},"kid":"a"}'),
    with_header(b'{"alg":"HS256","b64":false,"crit":["b64"]}', payload=""),
]


def test_it_refuses_junk(sessions: Sessions) -> None:
    for junk in JUNK:
        with pytest.raises(Unauthorized):
            sessions.authenticate(junk)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(junk=st.text(max_size=600), place=st.integers(0, 300))
def test_it_refuses_whatever_is_put_into_a_token(sessions: Sessions, junk: str, place: int) -> None:
    kid = SigningKeys(KEY).current_kid
    token = jwt.encode({"sub": "1", "aud": "user", "jti": "x", "iat": 1, "exp": 2}, KEY, "HS256", {"kid": kid})
    with pytest.raises(Unauthorized):
        sessions.authenticate(token[:place] + junk + token[place:])
