"""Junk requests to every route that is not for admins: refused with the right code, and never a 5xx."""

import contextlib
import json
from http.client import RemoteDisconnected

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regsvc.app.routes import ROUTES
from regsvc.http.route import Access
from tests.support.contract import example_body, list_fields
from tests.support.daemon import Reply
from tests.support.each import assert_each
from tests.support.foreign_text import HOSTILE
from tests.support.refusals import assert_refused
from tests.support.stack import Stack

OPEN = [route for route in ROUTES if route.access is not Access.ADMIN and route.path != "/api/openapi.json"]
REQUIRED = {route.path: example_body(route.path) for route in OPEN if route.method == "POST"}
"""The required fields of each route, with values of the right type."""
QUERIES = sorted({route.path for route in OPEN if route.method == "GET"})
OF_ANY_TYPE: tuple[object, ...] = (7, 1.5, True, [], {}, ["alice"], None, "alice")

BROKEN_BODIES: dict[str, bytes] = {
    "not JSON": b"{",
    "two values": b"{}{}",
    "a list": b"[]",
    "a text": b'"alice"',
    "null": b"null",
    "duplicate key": b'{"username": "a", "username": "b"}',
    "NaN": b'{"username": NaN}',
    "infinity": b'{"username": 1e999}',
    "a huge number": b'{"username": ' + b"9" * 5000 + b"}",
    "a lone surrogate": b'{"username": "\\ud800"}',
    "a NUL": b'{"username": "a\\u0000b"}',
    "no UTF-8": b'{"username": "\xff"}',
    "UTF-16": '{"username": "alice"}'.encode("utf-16"),
    "two byte order marks": b'\xef\xbb\xbf\xef\xbb\xbf{"username": "alice"}',
    "too deep": b'{"a": ' * 21 + b"1" + b"}" * 21,
    "far too deep": b"[" * 6_000,
}
BROKEN_TYPES = {
    "none": {},
    "text": {"Content-Type": "text/plain"},
    "form": {"Content-Type": "application/x-www-form-urlencoded"},
    "broken form": {"Content-Type": "multipart/form-data; boundary="},
    "almost": {"Content-Type": "application/json-patch+json"},
    "compressed": {"Content-Type": "application/json", "Content-Encoding": "gzip"},
}
BROKEN_TOKENS = (
    "Bearer",
    "Bearer ",
    "Bearer a.b.c",
    "Bearer ..",
    "bearer null",
    "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.",
    "Bearer " + "x" * 5000,
    "Bearer \xff\xfe",
    "Bearer a b",
)

MANY = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TEXTS = st.text(max_size=300) | st.sampled_from(
    ["", " ", "\0", "\r\n", "İ" * 200, "😀" * 80, "%s%n", "{0}", "../..", "' --"]
)
PATHS = st.sampled_from(sorted(REQUIRED))
any_path = pytest.mark.parametrize("path", sorted(REQUIRED))


@pytest.fixture(scope="module")
def token(stack: Stack) -> str:
    """A valid token: routes that require one have to cope with junk, too."""
    return stack.user_token(stack.pending("alice"))


def send(stack: Stack, path: str, body: bytes, token: str) -> Reply:
    return stack.daemon.post(path, body=body, token=token, headers={"Content-Type": "application/json"})


def token_for(path: str, token: str) -> str | None:
    """Return no token for the logout, which would end the session that later tests use."""
    return None if path == "/api/logout" else token


def assert_no_fault_of_ours(reply: Reply) -> None:
    assert reply.status < 500, reply.text
    assert reply.json["success"] is (reply.status < 400) or reply.json.get("code")


@any_path
def test_a_broken_body_is_malformed(stack: Stack, token: str, path: str) -> None:
    def check(broken: str) -> None:
        assert_refused(send(stack, path, BROKEN_BODIES[broken], token), 400, "malformed_body")

    assert_each(BROKEN_BODIES, check)
    in_chinese = send(stack, f"{path}?language=zh", BROKEN_BODIES["not JSON"], token)
    assert_refused(in_chinese, 400, "malformed_body", language="zh")


@any_path
def test_a_body_of_another_type_is_not_supported(stack: Stack, token: str, path: str) -> None:
    def check(broken: str) -> None:
        reply = stack.daemon.post(path, body=b"{}", token=token, headers=BROKEN_TYPES[broken])
        assert_refused(reply, 415, "unsupported_media_type")

    assert_each(BROKEN_TYPES, check)


TAKE_LARGE_BODIES = (
    "/api/questionnaire/submit",
    "/api/application/answer",
    "/api/application/answers",
    "/api/team-chat/discord",
)


@any_path
def test_an_oversized_body_is_refused(stack: Stack, token: str, path: str) -> None:
    reply = send(stack, path, json.dumps({"username": "x" * 64 * 1024}).encode(), token)
    limit = 64 * 1024 if path in TAKE_LARGE_BODIES else 8 * 1024
    assert assert_refused(reply, 413, "body_too_large")["maxBytes"] == limit


def wrong_values(path: str) -> list[tuple[str, object]]:
    """Return (field, value) for every value that has the wrong type for a field of the body."""
    return [
        (field, value)
        for field, validator in list_fields(path).items()
        for value in OF_ANY_TYPE
        if not validator.is_valid(value)
    ]


@any_path
def test_a_field_of_the_wrong_type_is_named(stack: Stack, token: str, path: str) -> None:
    def check(wrong: tuple[str, object]) -> None:
        field, value = wrong
        reply = stack.post(path, {**REQUIRED[path], field: value}, token=token)
        named = reply.json["field"]
        assert_refused(reply, 422, "invalid_field", field=named)
        assert named.partition(".")[0] == field

    assert_each(wrong_values(path), check)


@any_path
def test_a_missing_field_is_named(stack: Stack, token: str, path: str) -> None:
    def check(missing: str) -> None:
        body = {field: value for field, value in REQUIRED[path].items() if field != missing}
        assert_refused(stack.post(path, body, token=token), 422, "invalid_field", field=missing)

    assert_each(REQUIRED[path], check)


@any_path
def test_an_odd_language_is_no_fault_of_ours(stack: Stack, token: str, path: str) -> None:
    def check(language: object) -> None:
        reply = stack.post(path, {**REQUIRED[path], "language": language}, token=token_for(path, token))
        assert_no_fault_of_ours(reply)
        assert "X-Evil" not in reply.headers

    assert_each([7, [], "tlh", "x" * 5000, "../../etc/passwd", "zh\r\nX-Evil: 1", "😀"], check)


@MANY
@given(
    path=PATHS,
    fields=st.dictionaries(st.sampled_from(sorted({name for fields in REQUIRED.values() for name in fields})), TEXTS),
)
def test_any_text_in_any_field_is_no_fault_of_ours(stack: Stack, token: str, path: str, fields: dict[str, str]) -> None:
    assert_no_fault_of_ours(stack.post(path, {**REQUIRED[path], **fields}, token=token_for(path, token)))


@MANY
@given(path=st.sampled_from(QUERIES), username=TEXTS, language=TEXTS)
def test_any_query_is_no_fault_of_ours(stack: Stack, path: str, username: str, language: str) -> None:
    query = {
        "username": username.encode("utf-8", "surrogatepass"),
        "language": language.encode("utf-8", "surrogatepass"),
    }
    assert_no_fault_of_ours(stack.daemon.get(path, query))


HEADERS = [
    *("User-Agent", "Accept", "Accept-Language", "Accept-Encoding", "Cookie", "Referer", "Origin", "Host"),
    *("X-Forwarded-For", "X-Forwarded-Proto", "X-Real-IP", "Forwarded", "CF-Connecting-IP", "Via"),
    *("Authorization", "X-Request-ID", "X-Application-Token", "Last-Event-ID", "X-Self-ID", "X-Client-Role"),
    *("Content-Type", "Content-Encoding", "Content-Length", "Transfer-Encoding", "Expect", "Range", "If-None-Match"),
    *("If-Modified-Since", "Upgrade", "Connection", "X-Signature-Ed25519", "X-Signature-Timestamp", "X-Odd"),
]
REQUESTED = [
    "/",
    "/login",
    "/static/app.css",
    "/api/config",
    "/api/events",
    "/api/user/status",
    "/api/team-chat/onebot",
]
REQUESTED += ["/api/login", "/api/admin/users", "/metrics", "/health/ready", "/ws"]


def test_any_header_is_no_fault_of_ours(stack: Stack, token: str) -> None:
    def check(header: str) -> None:
        for name, raw in HOSTILE.items():
            for path in REQUESTED if name == "every byte" else REQUESTED[3:4]:
                with contextlib.suppress(RemoteDisconnected, ConnectionError):  # as Tornado refuses what is no HTTP
                    sent = {"Authorization": f"Bearer {token}", header: raw.decode("latin-1")}
                    reply = stack.daemon.request("GET", path, headers=sent)
                    assert reply.status < 500 or path == "/health/ready", (path, name, reply.text)

    assert_each(HEADERS, check)
    assert stack.get("/api/config").status == 200


def test_what_is_no_token_is_refused(stack: Stack) -> None:
    def check(credentials: str) -> None:
        reply = stack.get("/api/config", headers={"Authorization": credentials})
        assert_refused(reply, 401, "unauthorized")

    assert_each(BROKEN_TOKENS, check)


@pytest.mark.parametrize("path", [*sorted(REQUIRED), *QUERIES])
def test_the_wrong_method_is_told_the_right_one(stack: Stack, path: str) -> None:
    reply = stack.daemon.request("DELETE", path)
    assert_refused(reply, 405, "method_not_allowed")
    assert ("GET" if path in QUERIES else "POST") in reply.headers["Allow"].split(", ")


def test_nothing_of_it_left_a_trace_of_a_bug(stack: Stack) -> None:
    assert not [line for line in stack.daemon.log if "bug in" in line]
