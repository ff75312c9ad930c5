"""Behaviour of every reply: languages, refusals, bugs, CORS; and consistency of the route table."""

import logging
import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from regsvc.accounts.decisions import Decisions
from regsvc.app.routes import TABLES
from regsvc.config.host_sections import ServerSection
from regsvc.config.sections import Config
from regsvc.http.route import Access, MissingFeature
from regsvc.http.server import ApiApplication
from tests.support.certificate import Certificate
from tests.support.live_api import LiveApi, make_features
from tests.support.probe_routes import (
    EXAMPLES,
    LOGIN,
    ROUTES,
    assert_common_headers,
    assert_refused,
    begun,
    left,
    serve,
)


@pytest.fixture(scope="module")
def api() -> Iterator[LiveApi]:
    with serve() as live:
        yield live


# --- Languages ---

ENGLISH, CHINESE = "Please log in.", "请先登录。"


@pytest.mark.parametrize(
    ("query", "body", "headers", "message"),
    [
        ("", {}, {}, ENGLISH),
        ("", {"language": "zh"}, {}, CHINESE),
        ("?language=zh", {}, {}, CHINESE),
        ("?language=zh-CN", {}, {}, CHINESE),
        ("?language=tlh", {}, {"Accept-Language": "zh"}, ENGLISH),
        ("", {"language": 7}, {"Accept-Language": "zh"}, CHINESE),
        ("", {}, {"Accept-Language": "tlh, zh-TW;q=0.8, en;q=0.5"}, CHINESE),
        ("", {}, {"Accept-Language": "tlh"}, ENGLISH),
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
    begun.clear()
    left.clear()
    with caplog.at_level(logging.INFO):
        with api.connect() as connection:
            connection.sendall(b"GET /api/slow HTTP/1.1\r\nHost: x\r\n\r\n")
            assert begun.wait(10)  # who leaves before that is never met
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
        LiveApi(make_features(Config(server=server)), ROUTES) as api,
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


def test_a_missing_feature_ends_the_start() -> None:
    """A feature that a route takes, but that nobody has made, would be found by a request otherwise."""
    features = make_features(Config())
    del features[Decisions]
    with pytest.raises(MissingFeature, match="POST /api/admin/user/approve: the application has no Decisions"):
        ApiApplication(features, TABLES)


def test_two_routes_for_one_path_are_noticed_at_start() -> None:
    routes = [*ROUTES, replace(ROUTES[0], access=Access.USER)]
    with pytest.raises(ValueError, match="two routes for GET /api/open"):
        ApiApplication(make_features(Config()), {False: tuple(routes), True: ()})
