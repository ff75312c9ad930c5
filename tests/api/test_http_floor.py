"""What holds for every route: one test for each way a request can go wrong, and for what every reply carries."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import ssl
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from regsvc import errors
from regsvc.api.application import make_application
from regsvc.api.base import Access, ApiHandler
from regsvc.api.requests import LoginRequest, ReviewRequest, UsersQuery
from regsvc.api.routes import Route
from regsvc.config import Config, HttpSection, ServerSection
from tests.support.certificate import Certificate
from tests.support.live_api import LiveApi, Reply, make_services

EXAMPLES: dict[str, errors.Refusal] = {
    "user_not_found": errors.UserNotFound(),
    "unauthorized": errors.Unauthorized(),
    "forbidden": errors.Forbidden(),
    "bad_credentials": errors.BadCredentials(),
    "banned": errors.Banned("griefing", 4_102_444_800_000),
    "not_operator": errors.NotOperator(),
    "username_taken": errors.UsernameTaken(),
    "invalid_password": errors.InvalidPassword("too_short", min_length=5, max_length=30),
    "wrong_status": errors.WrongStatus("approved"),
    "rate_limited": errors.RateLimited(remaining_seconds=42),
    "database_away": errors.DatabaseAway(retry_after=7),
}

left = threading.Event()


class OpenHandler(ApiHandler):
    """GET tells who asks; POST is a login of sorts."""

    async def get(self) -> None:
        caller = self.caller
        username = self.session.username if self.session else None
        self.reply(address=caller.address, key=caller.limit_key, language=caller.language, username=username)

    async def post(self) -> None:
        request = self.body(LoginRequest)
        self.reply(http_status=201, message="approved", username=request.username)


class RefusingHandler(ApiHandler):
    async def post(self) -> None:
        raise EXAMPLES[str(self._fields["code"])]


class BuggyHandler(ApiHandler):
    async def get(self) -> None:
        try:
            raise ValueError("INSERT ... hunter2")
        except ValueError as error:
            raise KeyError("hunter2") from error


class SlowHandler(ApiHandler):
    """Answers when the client has left."""

    def initialize(self, access: Mapping[str, Access]) -> None:
        super().initialize(access)
        self._gone = asyncio.Event()

    async def get(self) -> None:
        await self._gone.wait()
        self.reply()
        left.set()

    def on_connection_close(self) -> None:
        self._gone.set()


class MineHandler(ApiHandler):
    async def get(self) -> None:
        self.reply(username=self.require_session().username)


class AdminHandler(ApiHandler):
    async def get(self) -> None:
        query = self.query(UsersQuery)
        self.reply(page=query.page, search=query.search, admin=self.require_admin().username)

    async def post(self) -> None:
        self.reply(targets=self.body(ReviewRequest).targets)


ROUTES = (
    Route("GET", "/api/open", OpenHandler, Access.PUBLIC),
    Route("POST", "/api/open", OpenHandler, Access.PUBLIC),
    Route("POST", "/api/refuse", RefusingHandler, Access.PUBLIC),
    Route("GET", "/api/bug", BuggyHandler, Access.PUBLIC),
    Route("GET", "/api/slow", SlowHandler, Access.PUBLIC),
    Route("GET", "/api/mine", MineHandler, Access.USER),
    Route("GET", "/api/admin", AdminHandler, Access.ADMIN),
    Route("POST", "/api/admin", AdminHandler, Access.ADMIN),
)
LOGIN = {"username": "Alice", "password": "hunter2"}


def serve(**http: Any) -> LiveApi:
    return LiveApi(make_services(Config(http=HttpSection(**http))), ROUTES)


@pytest.fixture(scope="module")
def api() -> Iterator[LiveApi]:
    with serve() as live:
        yield live


def assert_refused(reply: Reply, status: int, code: str) -> None:
    assert reply.status == status
    assert reply.headers["Content-Type"] == "application/json; charset=utf-8"
    assert reply.json["success"] is False
    assert reply.json["code"] == code
    assert reply.json["message"]
    assert_common_headers(reply.headers)


def assert_common_headers(headers: Any) -> None:
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Frame-Options"] == "DENY"
    assert re.fullmatch("[A-Za-z0-9._-]{1,64}", headers["X-Request-ID"])
    assert "Server" not in headers
    assert "Etag" not in headers


# --- Replies ---


def test_a_success_has_its_message_and_fields(api: LiveApi) -> None:
    reply = api.request("POST", "/api/open", LOGIN)
    assert reply.status == 201
    assert reply.json == {"success": True, "message": "Alice was approved.", "username": "Alice"}
    assert_common_headers(reply.headers)


def test_head_answers_like_get_without_a_body(api: LiveApi) -> None:
    got, head = (api.request(method, "/api/open") for method in ("GET", "HEAD"))
    assert head.status == 200
    assert head.content == b""
    assert head.headers["Content-Length"] == str(len(got.content))


def test_no_reply_turns_into_304(api: LiveApi) -> None:
    assert api.request("GET", "/api/open", headers={"If-None-Match": "*"}).status == 200


@pytest.mark.parametrize("given", ["a", "A-b_c.9", "x" * 64])
def test_the_callers_request_id_comes_back(api: LiveApi, given: str) -> None:
    assert api.request("GET", "/api/open", headers={"X-Request-ID": given}).headers["X-Request-ID"] == given


@pytest.mark.parametrize("given", ["", "x" * 65, "a b", "ä", "a,b", "<script>"])
def test_an_odd_request_id_is_replaced(api: LiveApi, given: str) -> None:
    headers = {"X-Request-ID": given}
    assert api.request("GET", "/api/open", headers=headers).headers["X-Request-ID"] not in ("", given)


# --- Path and method ---


@pytest.mark.parametrize("path", ["/api", "/api/", "/api/nothing", "/api/open/", "/", "/x.php", "/api/%00"])
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


@pytest.mark.parametrize("value", [None, 7, ["Alice"], {"a": "b"}, True])
def test_a_field_of_the_wrong_type_is_named(api: LiveApi, value: object) -> None:
    reply = api.request("POST", "/api/open", {**LOGIN, "username": value})
    assert_refused(reply, 422, "invalid_field")
    assert reply.json["field"] == "username"


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'{"a": 1, "a": 2}', b'{"a": NaN}', b'{"a": "\\ud800"}', b'{"a": "\\u0000"}', b"\xff"]
)
def test_a_body_that_is_no_proper_json_object_is_400(api: LiveApi, body: bytes) -> None:
    assert_refused(api.request("POST", "/api/open", body), 400, "malformed_body")


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "", "application/jsonp", "application/x-www-form-urlencoded", "multipart/form-data"],
)
def test_another_content_type_is_415(api: LiveApi, content_type: str) -> None:
    reply = api.request("POST", "/api/open", b'{"username": "Alice"}', {"Content-Type": content_type})
    assert_refused(reply, 415, "unsupported_media_type")


def test_parameters_of_the_content_type_are_ignored(api: LiveApi) -> None:
    content_type = "Application/JSON; charset=latin-1"
    assert api.request("POST", "/api/open", LOGIN, {"Content-Type": content_type}).status == 201


def test_a_compressed_body_is_415(api: LiveApi) -> None:
    reply = api.request("POST", "/api/open", LOGIN, {"Content-Encoding": "gzip"})
    assert_refused(reply, 415, "unsupported_media_type")


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


@pytest.mark.parametrize(
    ("path", "token", "status", "code"),
    [
        ("/api/mine", None, 401, "unauthorized"),
        ("/api/mine", "Bearer garbage", 401, "unauthorized"),
        ("/api/mine", "Bearer", 401, "unauthorized"),
        ("/api/mine", "alice", 401, "unauthorized"),
        ("/api/open", "Bearer garbage", 401, "unauthorized"),
        ("/api/admin", None, 401, "unauthorized"),
        ("/api/admin", "Bearer garbage", 401, "unauthorized"),
        ("/api/admin", "Bearer alice", 403, "forbidden"),
    ],
)
def test_access_is_what_the_route_table_says(
    api: LiveApi, path: str, token: str | None, status: int, code: str
) -> None:
    reply = api.request("GET", path, headers={"Authorization": token} if token else {})
    assert_refused(reply, status, code)
    assert ("WWW-Authenticate" in reply.headers) == (status == 401)


@pytest.mark.parametrize(("path", "token"), [("/api/mine", "alice"), ("/api/mine", "olivia"), ("/api/admin", "olivia")])
def test_the_right_token_opens_the_route(api: LiveApi, path: str, token: str) -> None:
    assert api.request("GET", path, headers={"Authorization": f"bearer {token}"}).status == 200


def test_the_password_of_a_proxy_is_none_of_our_business(api: LiveApi) -> None:
    assert api.request("GET", "/api/open", headers={"Authorization": "Basic YTpi"}).json["username"] is None


def test_a_token_in_the_query_is_no_token(api: LiveApi) -> None:
    assert_refused(api.request("GET", "/api/mine?token=alice&access_token=alice"), 401, "unauthorized")


def test_a_missing_right_comes_before_a_malformed_body(api: LiveApi) -> None:
    assert_refused(api.request("POST", "/api/admin", b"{"), 401, "unauthorized")
    reply = api.request("POST", "/api/admin", b"{", {"Authorization": "Bearer olivia"})
    assert_refused(reply, 400, "malformed_body")


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


# --- Languages ---

ENGLISH, CHINESE = "Please log in.", "请先登录。"


@pytest.mark.parametrize(
    ("query", "body", "headers", "message"),
    [
        ("", {}, {}, ENGLISH),
        ("", {"language": "zh"}, {}, CHINESE),
        ("?language=zh", {}, {}, CHINESE),
        ("?language=zh-CN", {}, {}, CHINESE),
        ("?language=fr", {}, {"Accept-Language": "zh"}, ENGLISH),
        ("", {"language": 7}, {"Accept-Language": "zh"}, CHINESE),
        ("", {}, {"Accept-Language": "fr, zh-TW;q=0.8, en;q=0.5"}, CHINESE),
        ("", {}, {"Accept-Language": "fr"}, ENGLISH),
    ],
)
def test_refusals_speak_the_callers_language(
    api: LiveApi, query: str, body: object, headers: Mapping[str, str], message: str
) -> None:
    assert api.request("POST", f"/api/admin{query}", body, headers).json["message"] == message


def test_the_users_stored_language_counts_before_the_browsers(api: LiveApi) -> None:
    headers = {"Authorization": "Bearer alice", "Accept-Language": "en"}
    assert api.request("GET", "/api/open", headers=headers).json["language"] == "zh"
    assert api.request("GET", "/api/open?language=en", headers=headers).json["language"] == "en"


# --- Refusals by rules ---


def test_a_refusal_tells_code_field_and_facts(api: LiveApi) -> None:
    reply = api.request("POST", "/api/refuse", {"code": "invalid_password"})
    assert reply.status == 422
    assert reply.json == {
        "success": False,
        "code": "invalid_password",
        "message": "The password is too short; it needs at least 5 characters.",
        "field": "password",
        "fault": "too_short",
        "minLength": 5,
        "maxLength": 30,
    }


def test_a_limit_tells_when_to_come_back(api: LiveApi) -> None:
    reply = api.request("POST", "/api/refuse", {"code": "rate_limited"})
    assert_refused(reply, 429, "rate_limited")
    assert reply.headers["Retry-After"] == "42"
    assert reply.json["remainingSeconds"] == 42


def test_an_absent_database_tells_when_to_come_back(api: LiveApi) -> None:
    reply = api.request("POST", "/api/refuse", {"code": "database_away"})
    assert_refused(reply, 503, "database_away")
    assert reply.headers["Retry-After"] == "7"


@pytest.mark.parametrize("code", EXAMPLES)
def test_every_category_has_its_status(api: LiveApi, code: str) -> None:
    assert_refused(api.request("POST", "/api/refuse", {"code": code}), EXAMPLES[code].category, code)


@pytest.fixture(scope="module")
def legacy_api() -> Iterator[LiveApi]:
    with serve(legacy_status=True) as live:
        yield live


@pytest.mark.parametrize("code", EXAMPLES)
def test_legacy_front_ends_get_200_for_what_the_rules_refuse(legacy_api: LiveApi, code: str) -> None:
    reply = legacy_api.request("POST", "/api/refuse", {"code": code})
    is_softened = code not in ("unauthorized", "forbidden", "database_away")
    assert_refused(reply, 200 if is_softened else EXAMPLES[code].category, code)
    assert reply.json["msg"] == reply.json["message"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/api/open", b"{", 400),
        ("GET", "/api/mine", None, 401),
        ("GET", "/api/nothing", None, 404),
        ("PUT", "/api/open", None, 405),
        ("POST", "/api/open", b"x" * 70_000, 413),
        ("GET", "/api/bug", None, 500),
        ("POST", "/api/open", {}, 200),
    ],
)
def test_legacy_front_ends_still_see_what_is_broken(
    legacy_api: LiveApi, method: str, path: str, body: object, status: int
) -> None:
    assert legacy_api.request(method, path, body).status == status


def test_legacy_front_ends_read_msg_of_successes_too(legacy_api: LiveApi) -> None:
    reply = legacy_api.request("POST", "/api/open", LOGIN)
    assert (reply.status, reply.json["msg"]) == (201, "Alice was approved.")


# --- Bugs and clients that leave ---


def test_a_bug_is_500_and_one_line_without_secrets(api: LiveApi, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        reply = api.request("GET", "/api/bug?password=hunter2", headers={"X-Request-ID": "r-1"})
    assert_refused(reply, 500, "internal")
    assert reply.json["requestId"] == "r-1"
    (bug,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "bug in GET /api/bug, request=r-1: KeyError at " in bug.getMessage()
    assert "caused by ValueError at" in bug.getMessage()
    assert "\n" not in bug.getMessage()
    assert "hunter2" not in reply.content.decode() + caplog.text


def test_a_request_leaves_one_line_without_its_query(api: LiveApi, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        api.request("GET", "/api/open?search=Bob", headers={"X-Request-ID": "r-2"})
        api.raw(b"GET /api/nothing\x85ERROR HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    lines = [record.getMessage() for record in caplog.records]
    assert re.fullmatch(r"127\.0\.0\.1 GET /api/open 200 [\d.]+ms request=r-2", lines[0])
    assert r" /api/nothing\x85ERROR 404 " in lines[1]
    assert len(lines) == 2


def test_a_client_that_leaves_is_no_error(api: LiveApi, caplog: pytest.LogCaptureFixture) -> None:
    left.clear()
    with caplog.at_level(logging.INFO):
        with api.connect() as connection:
            connection.sendall(b"GET /api/slow HTTP/1.1\r\nHost: x\r\n\r\n")
        assert left.wait(10)
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


def test_what_malformed_requests_carry_is_not_logged(api: LiveApi, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        api.raw(b"GET /api/open HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer s3cret\x01\r\n\r\n")
        assert api.request("GET", "/api/open").status == 200
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(
    "sent", [b"", b"GET /api/open HTTP/1.1\r\n", b"POST /api/open HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"]
)
def test_slow_headers_and_bodies_are_cut(sent: bytes) -> None:
    quick = timedelta(milliseconds=100)
    with serve(header_timeout=quick, body_timeout=quick) as api:
        assert api.raw(sent) == b""


def test_with_a_certificate_it_speaks_https(certificate: Certificate) -> None:
    server = ServerSection(tls_cert_file=certificate.certificate_file, tls_key_file=certificate.key_file)
    context = ssl.create_default_context(cafile=str(certificate.certificate_file))
    with (
        LiveApi(make_services(Config(server=server)), ROUTES) as api,
        context.wrap_socket(api.connect(), server_hostname="127.0.0.1") as connection,
    ):
        connection.sendall(b"GET /api/open HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


# --- Other origins ---

FRONT_END = "https://play.example.org"


@pytest.fixture(scope="module")
def shared_api() -> Iterator[LiveApi]:
    with serve(allowed_origins=(FRONT_END,)) as live:
        yield live


def test_no_other_origin_is_allowed_by_default(api: LiveApi) -> None:
    headers = api.request("GET", "/api/open", headers={"Origin": FRONT_END}).headers
    assert not [name for name in headers if name.startswith("Access-Control")]


def test_an_allowed_origin_may_read(shared_api: LiveApi) -> None:
    for path, status in (("/api/open", 200), ("/api/mine", 401), ("/api/nothing", 404)):
        reply = shared_api.request("GET", path, headers={"Origin": FRONT_END})
        assert reply.status == status
        assert reply.headers["Access-Control-Allow-Origin"] == FRONT_END
        assert reply.headers["Vary"] == "Origin"
        assert "Access-Control-Allow-Credentials" not in reply.headers


@pytest.mark.parametrize("origin", ["https://evil.example.org", "null", FRONT_END + ".evil.example", FRONT_END.upper()])
def test_the_list_of_origins_is_exact(shared_api: LiveApi, origin: str) -> None:
    reply = shared_api.request("GET", "/api/open", headers={"Origin": origin})
    assert "Access-Control-Allow-Origin" not in reply.headers
    assert reply.headers["Vary"] == "Origin"
    assert_refused(shared_api.request("OPTIONS", "/api/open", headers={"Origin": origin}), 405, "method_not_allowed")


def test_a_preflight_of_an_allowed_origin_is_answered(shared_api: LiveApi) -> None:
    headers = {"Origin": FRONT_END, "Access-Control-Request-Method": "POST"}
    reply = shared_api.request("OPTIONS", "/api/admin", headers=headers)
    assert (reply.status, reply.content) == (204, b"")
    assert reply.headers["Access-Control-Allow-Methods"] == "GET, HEAD, POST"
    assert "Authorization" in reply.headers["Access-Control-Allow-Headers"]
    assert_common_headers(reply.headers)


# --- The route table ---


def test_a_route_nobody_answers_is_noticed_at_start() -> None:
    with pytest.raises(ValueError, match="does not answer POST /api/mine"):
        make_application(make_services(Config()), [Route("POST", "/api/mine", MineHandler, Access.USER)])


def test_two_handlers_for_one_path_are_noticed_at_start() -> None:
    routes = [*ROUTES, replace(ROUTES[0], handler=MineHandler)]
    with pytest.raises(ValueError, match="two routes for GET /api/open"):
        make_application(make_services(Config()), routes)
