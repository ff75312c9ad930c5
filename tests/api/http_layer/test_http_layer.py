"""Behaviour of every route: requests, bodies, message framing and access."""

import json
import re
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

import pytest

from regsvc.config.host_sections import HttpSection, ServerSection
from regsvc.config.sections import Config
from regsvc.http.call import NOTHING_ALLOWED, PREFLIGHT_HEADERS
from regsvc.web.assets import load_style
from regsvc.web.base import content_security_policy
from regsvc.web.pages import OWN_PAGES, PAGES
from tests.support.live_api import LiveApi, make_features
from tests.support.probe_routes import LOGIN, ROUTES, assert_common_headers, assert_refused, serve


@pytest.fixture(scope="module")
def api() -> Iterator[LiveApi]:
    with serve() as live:
        yield live


# --- Replies ---


def test_a_success_has_its_message_and_fields(api: LiveApi) -> None:
    reply = api.request("POST", "/api/open", LOGIN)
    assert reply.status == 201
    assert reply.json == {"success": True, "message": "Alice was approved.", "username": "Alice"}
    assert_common_headers(reply.headers)


def test_a_slash_at_the_end_of_a_path_is_no_other_path(api: LiveApi) -> None:
    assert api.request("POST", "/api/open/", LOGIN).json == api.request("POST", "/api/open", LOGIN).json


def test_head_answers_like_get_without_a_body(api: LiveApi) -> None:
    got, head = (api.request(method, "/api/open") for method in ("GET", "HEAD"))
    assert head.status == 200
    assert head.content == b""
    assert head.headers["Content-Length"] == str(len(got.content))


@pytest.mark.parametrize(
    "head",
    [
        pytest.param("GET /api/open HTTP/1.0", id="HTTP/1.0 without a host"),
        pytest.param("GET /api/open HTTP/1.1\r\nHost:\r\nConnection: close", id="no host"),
        pytest.param("GET /api/open HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nConnection: close", id="Expect"),
        *(
            pytest.param(f"GET /api/open HTTP/1.1\r\nHost: a\r\nConnection: close\r\nCookie: {cookie}", id=cookie)
            for cookie in ("", "=", ";;", "a", 'a="', "a=b=c; a=\xff", "companion_language=\x85", "x=" + "y" * 4000)
        ),
    ],
)
def test_old_and_odd_clients_are_answered(api: LiveApi, head: str) -> None:
    answer = api.raw(f"{head}\r\n\r\n".encode("latin-1"))
    assert re.search(rb"^HTTP/1.[01] 200 ", answer, re.MULTILINE), answer[:200]


def test_no_reply_turns_into_304(api: LiveApi) -> None:
    assert api.request("GET", "/api/open", headers={"If-None-Match": "*"}).status == 200


_SECURITY = [
    "X-Content-Type-Options: nosniff",
    "Cache-Control: no-store",
    "Referrer-Policy: no-referrer",
    "X-Frame-Options: DENY",
    "X-Request-Id: mine",
    "Strict-Transport-Security: max-age=31536000",
]
_JSON = [
    "Content-Type: application/json; charset=utf-8",
    "Date: now",
    *_SECURITY,
    "Content-Security-Policy: default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
]
_SHARED = [
    "Vary: Origin",
    "Access-Control-Allow-Origin: https://play.example.org",
    "Access-Control-Expose-Headers: X-Request-ID, Retry-After",
]
_ASSET = load_style("home")


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ("GET /api/open", ["200 OK", *_JSON, "Vary: Origin", "Content-Length: *"]),
        ("HEAD /api/open", ["200 OK", *_JSON, "Vary: Origin", "Content-Length: *"]),
        ("GET /api/open\r\nOrigin: https://play.example.org", ["200 OK", *_JSON, *_SHARED, "Content-Length: *"]),
        (
            "OPTIONS /api/open\r\nOrigin: https://play.example.org",
            [
                "204 No Content",
                *_JSON[1:],
                *_SHARED,
                *(f"{name}: {value}" for name, value in PREFLIGHT_HEADERS.items()),
                "Access-Control-Allow-Methods: GET, HEAD, POST",
            ],
        ),
        (
            "GET /api/mine",
            ["401 Unauthorized", *_JSON, "Vary: Origin", "Www-Authenticate: Bearer", "Content-Length: *"],
        ),
        (
            "PUT /api/open",
            ["405 Method Not Allowed", *_JSON, "Vary: Origin", "Allow: GET, HEAD, POST", "Content-Length: *"],
        ),
        ("GET /api/bug", ["500 Internal Server Error", *_JSON, "Vary: Origin", "Content-Length: *"]),
        (
            "GET /",
            [
                "200 OK",
                "Content-Type: text/html; charset=utf-8",
                "Date: now",
                *_SECURITY,
                f"Content-Security-Policy: {content_security_policy()}",
                "Content-Language: en",
                "Vary: Accept-Language, Accept-Encoding, Cookie",
                "Content-Encoding: gzip",
                "Content-Length: *",
            ],
        ),
        (
            f'GET /{_ASSET.path}\r\nIf-None-Match: "{_ASSET.digest}-gzip"',
            [
                "304 Not Modified",
                "Date: now",
                *_SECURITY[:1],
                "Cache-Control: public, max-age=31536000, immutable",
                *_SECURITY[2:],
                f"Content-Security-Policy: {NOTHING_ALLOWED}",
                "Vary: Accept-Encoding",
                f'Etag: "{_ASSET.digest}-gzip"',
            ],
        ),
    ],
)
def test_each_kind_of_reply_has_its_headers_and_no_others(sent: str, expected: list[str]) -> None:
    """In their order; the lengths are those of the bodies, the date is of the second."""
    config = Config(
        server=ServerSection(base_url="https://play.example.org"),
        http=HttpSection(allowed_origins=("https://play.example.org",)),
    )
    line, *more = sent.split("\r\n")
    common = ["Host: x", "X-Request-ID: mine", "Accept-Encoding: gzip", "Connection: close"]
    with LiveApi(make_features(config), ROUTES, pages=[*PAGES, *OWN_PAGES]) as api:
        before = int(time.time())
        reply = api.raw("\r\n".join([f"{line} HTTP/1.1", *common, *more, "\r\n"]).encode())
    head, _, body = reply.decode("latin-1").partition("\r\n\r\n")
    date, length = re.search("Date: (.*)", head), re.search(r"Content-Length: (\d+)", head)
    assert date is not None
    assert before <= parsedate_to_datetime(date[1]).timestamp() <= time.time()
    assert length is None or line.startswith("HEAD") or int(length[1]) == len(body)
    plain = head.replace(date[0], "Date: now\r").replace("\r", "")
    if length is not None:
        plain = plain.replace(length[0], "Content-Length: *")
    assert plain.splitlines() == [f"HTTP/1.1 {expected[0]}", *expected[1:], "Connection: close"]


@pytest.mark.parametrize("given", ["a", "A-b_c.9", "x" * 64])
def test_the_callers_request_id_comes_back(api: LiveApi, given: str) -> None:
    assert api.request("GET", "/api/open", headers={"X-Request-ID": given}).headers["X-Request-ID"] == given


@pytest.mark.parametrize("given", ["", "x" * 65, "a b", "ä", "a,b", "<script>"])
def test_an_odd_request_id_is_replaced(api: LiveApi, given: str) -> None:
    headers = {"X-Request-ID": given}
    assert api.request("GET", "/api/open", headers=headers).headers["X-Request-ID"] not in ("", given)


# --- Path and method ---


@pytest.mark.parametrize("path", ["/api", "/api/", "/api/nothing", "/api/open//", "/", "/x.php", "/api/%00"])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "BREW"])
def test_an_unknown_path_is_404(api: LiveApi, method: str, path: str) -> None:
    assert_refused(api.request(method, path), 404, "unknown_path")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "BREW"])
def test_another_method_is_405_and_tells_which_are_right(api: LiveApi, method: str) -> None:
    reply = api.request(method, "/api/open")
    assert_refused(reply, 405, "method_not_allowed")
    assert reply.headers["Allow"] == "GET, HEAD, POST"


def test_head_needs_get(api: LiveApi) -> None:
    reply = api.request("HEAD", "/api/refuse")
    assert reply.status == 405
    assert reply.headers["Allow"] == "POST"


# --- Bodies ---


def test_no_body_counts_as_an_empty_object(api: LiveApi) -> None:
    reply = api.request("POST", "/api/open")
    assert_refused(reply, 422, "invalid_field")
    assert reply.json["field"] == "username"


def test_unknown_fields_are_ignored(api: LiveApi) -> None:
    assert api.request("POST", "/api/open", {**LOGIN, "extra": {"a": 1}}).status == 201


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'{"a": 1, "a": 2}', b'{"a": NaN}', b'{"a": "\\ud800"}', b'{"a": "\\u0000"}', b"\xff"]
)
def test_a_body_that_is_no_proper_json_object_is_400(api: LiveApi, body: bytes) -> None:
    assert_refused(api.request("POST", "/api/open", body), 400, "malformed_body")


def test_parameters_of_the_content_type_are_ignored(api: LiveApi) -> None:
    content_type = "Application/JSON; charset=latin-1"
    assert api.request("POST", "/api/open", LOGIN, {"Content-Type": content_type}).status == 201


def test_the_largest_body_is_read(api: LiveApi) -> None:
    body = json.dumps(LOGIN).encode().ljust(64 * 1024)
    assert api.request("POST", "/api/open", body).status == 201


@pytest.mark.parametrize("size", [64 * 1024 + 1, 1024 * 1024])
def test_a_larger_body_is_413(api: LiveApi, size: int) -> None:
    reply = api.request("POST", "/api/open", b"x" * size)
    assert_refused(reply, 413, "body_too_large")
    assert reply.json["maxBytes"] == 64 * 1024


def test_a_body_that_is_too_large_is_refused_before_it_arrives(api: LiveApi) -> None:
    with api.connect() as connection:
        connection.sendall(b"POST /api/open HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_a_client_that_asks_first_is_told_not_to_send(api: LiveApi) -> None:
    head = b"POST /api/open HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n"
    answer = api.raw(head)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"100" not in answer.split(b"\r\n\r\n")[0].split(b"\r\n")[0]


def test_a_flood_is_cut_off(api: LiveApi) -> None:
    with api.connect() as connection:
        connection.sendall(b"POST /api/open HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")
        with pytest.raises(OSError, match=r"reset|pipe"):
            connection.sendall(b"x" * 100_000_000)


def test_the_bytes_of_a_chunked_body_are_counted(api: LiveApi) -> None:
    head = b"POST /api/open HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n"
    chunk = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
    answer = api.raw(head + b"Content-Type: application/json\r\n\r\n" + chunk * 3 + b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert answer.count(b"HTTP/1.1") == 1


def test_a_chunked_body_is_read(api: LiveApi) -> None:
    body = json.dumps(LOGIN).encode()
    head = b"POST /api/open HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n"
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    assert b"201" in api.raw(head + b"Content-Type: application/json\r\n\r\n" + chunked).splitlines()[0]


def test_the_connection_outlives_a_refusal(api: LiveApi) -> None:
    refused = b"POST /api/open HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n" + b"x" * 70000
    asked_next = b"GET /api/open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answer = api.raw(refused + asked_next)
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"413", b"200"]


# --- Frames ---


@pytest.mark.parametrize(
    "head",
    [
        b"GET /api/open HTTP/1.1\r\n\r\n",
        b"GET /api/open HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /api/open HTTP/1.1\r\nHost: <x>\r\n\r\n",
        b"POST /api/open HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/open HTTP/1.1\r\nHost: x\r\nContent-Length: two\r\n\r\n",
        b"POST /api/open HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /api/open HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /api/open HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"GET /api/open?" + b"a&" * 1500 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_a_frame_that_cannot_be_trusted_is_400(api: LiveApi, head: bytes) -> None:
    answer = api.raw(head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "malformed_request"


@pytest.mark.parametrize("query", ["username=%00", "username=%ff", "username=%ed%a0%80", "language=%c3"])
def test_a_query_that_is_no_text_is_400(api: LiveApi, query: str) -> None:
    assert_refused(api.request("GET", f"/api/open?{query}"), 400, "malformed_request")


@pytest.mark.parametrize(("query", "field"), [("page=x", "page"), ("page=0", "page"), ("size=101", "size"),
                                              ("status=gone", "status"), ("search=a&search=b", "search")])  # fmt: skip
def test_a_bad_parameter_is_422(api: LiveApi, query: str, field: str) -> None:
    reply = api.request("GET", f"/api/admin?{query}", headers={"Authorization": "Bearer olivia"})
    assert_refused(reply, 422, "invalid_field")
    assert reply.json["field"] == field


def test_an_empty_parameter_counts_as_not_given(api: LiveApi) -> None:
    query = "page=&search=&status=&plugin=&sort="
    reply = api.request("GET", f"/api/admin?{query}", headers={"Authorization": "Bearer olivia"})
    assert reply.json == {"success": True, "page": None, "search": "", "admin": "Olivia"}


# --- Who asks ---


def test_of_two_tokens_none_counts(api: LiveApi) -> None:
    """A proxy that checks one of them may have checked the other one."""
    head = b"GET /api/mine HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    token = b"Authorization: Bearer alice\r\n"
    assert api.raw(head + token + b"\r\n").startswith(b"HTTP/1.1 200 ")
    assert api.raw(head + 2 * token + b"\r\n").startswith(b"HTTP/1.1 401 ")


def test_the_password_of_a_proxy_is_none_of_our_business(api: LiveApi) -> None:
    assert api.request("GET", "/api/open", headers={"Authorization": "Basic YTpi"}).json["username"] is None


def test_the_client_behind_our_proxy_is_told_apart(api: LiveApi) -> None:
    reply = api.request("GET", "/api/open", headers={"X-Forwarded-For": "10.0.0.1, 2001:db8:1:2::7"})
    assert reply.json["address"] == "2001:db8:1:2::7"
    assert reply.json["key"] == "2001:db8:1:2::/64"


def test_without_proxies_the_header_is_hearsay() -> None:
    with serve(trusted_proxies=()) as api:
        seen = {
            api.request("GET", "/api/open", headers={"X-Forwarded-For": f"192.0.2.{n}"}).json["key"] for n in range(20)
        }
    assert seen == {"127.0.0.1"}
