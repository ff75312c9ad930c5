"""Metrics of the real process, and who may read them."""

import asyncio
import math
import operator
import secrets
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tornado.netutil import bind_unix_socket

from regsvc import __version__
from regsvc.app.routes import probe_rules
from regsvc.config.sections import Config
from regsvc.runtime.health import Health
from tests.support.daemon import Reply
from tests.support.live_api import LiveApi, make_features
from tests.support.stack import Stack
from tests.support.watching import Samples, ask_until, scrape

pytestmark = pytest.mark.one_database("mariadb")

TOKEN = "a-token-that-only-the-scraper-knows"
FORWARDED = [
    {"X-Forwarded-For": "203.0.113.7"},
    {"X-Forwarded-Host": "play.example.org"},
    {"Forwarded": "for=203.0.113.7"},
    {"X-Real-IP": "203.0.113.7"},
    {"Via": "1.1 proxy"},
    {"X-Forwarded-For": "127.0.0.1"},
    {"X-Forwarded-For": ""},
]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack whose scraper has a token."""
    with Stack("sqlite", tmp_path_factory.mktemp("guarded"), config={"metrics": {"token": TOKEN}}) as stack:
        yield stack


def assert_nothing_here(stack: Stack, reply: Reply) -> None:
    """Assert that the response is the same as for an unknown path."""
    unknown = stack.get("/nothing")
    assert (reply.status, reply.body) == (404, unknown.body)
    assert set(reply.headers) == set(unknown.headers)


# --- Who may read it ---


def test_a_scraper_on_this_machine_may(stack: Stack) -> None:
    reply = stack.get("/metrics")
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert scrape(stack.daemon).of("companion_build_info", version=__version__) == 1
    assert stack.daemon.request("HEAD", "/metrics").status == 200


@pytest.mark.parametrize("headers", FORWARDED)
def test_who_comes_through_a_proxy_may_not(stack: Stack, headers: dict[str, str]) -> None:
    assert_nothing_here(stack, stack.get("/metrics", headers=headers))


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "OPTIONS", "BREW"])
def test_no_method_reveals_the_route_to_other_hosts(stack: Stack, method: str) -> None:
    reply = stack.daemon.request(method, "/metrics", headers=FORWARDED[0])
    unknown = stack.daemon.request(method, "/nothing", headers=FORWARDED[0])
    assert (reply.status, reply.body) == (unknown.status, unknown.body)


def test_a_socket_that_is_not_loopback_gets_nothing(tmp_path: Path) -> None:
    with LiveOnUnixSocket(tmp_path / "http.sock") as live:
        answer = live.raw(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b"unknown_path" in answer


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_the_scrape_token_opens_it_from_everywhere(guarded: Stack, scheme: str) -> None:
    headers = {"X-Forwarded-For": "203.0.113.7", "Authorization": f"{scheme} {TOKEN}"}
    reply = guarded.get("/metrics", headers=headers)
    assert reply.status == 200
    assert TOKEN not in reply.text


@pytest.mark.parametrize(
    "credentials",
    [f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer ", "Bearer", f"Basic {TOKEN}", TOKEN, "Bearer ä"],
)
def test_a_wrong_token_opens_nothing(guarded: Stack, credentials: str) -> None:
    headers = {"X-Forwarded-For": "203.0.113.7", "Authorization": credentials}
    assert_nothing_here(guarded, guarded.get("/metrics", headers=headers))


def test_an_admins_token_is_no_scrape_token(guarded: Stack) -> None:
    assert_nothing_here(guarded, guarded.get("/metrics", headers=FORWARDED[0], token=guarded.olivia()))


def test_without_a_token_in_the_config_an_empty_one_opens_nothing(stack: Stack) -> None:
    for credentials in ("Bearer", "Bearer ", "Bearer  "):
        headers = {**FORWARDED[0], "Authorization": credentials}
        assert_nothing_here(stack, stack.get("/metrics", headers=headers))


def test_it_may_be_switched_off(tmp_path: Path) -> None:
    with Stack("sqlite", tmp_path, config={"metrics": {"enabled": False, "token": TOKEN}}) as stack:
        assert_nothing_here(stack, stack.get("/metrics"))
        assert_nothing_here(stack, stack.get("/metrics", token=TOKEN))


# --- Contents ---


def test_requests_are_counted_by_route(stack: Stack) -> None:
    def told(figures: Samples) -> tuple[float, float]:
        config = {"route": "/api/config", "method": "GET"}
        return (
            figures.of("companion_http_requests_total", status="200", **config),
            figures.of("companion_http_request_seconds_count", **config),
        )

    before = told(scrape(stack.daemon))
    for _time in range(3):
        stack.get("/api/config")
    after = told(scrape(stack.daemon))
    assert after == (before[0] + 3, before[1] + 3)


def test_made_up_names_are_no_labels(stack: Stack) -> None:
    made_up = secrets.token_hex(8)
    stack.get(f"/api/{made_up}")
    stack.get(f"/{made_up}")
    stack.get(f"/api/user/status?username={made_up}")
    stack.daemon.request(made_up.upper(), "/api/config")
    reply = stack.get("/metrics")
    assert made_up not in reply.text
    assert made_up.upper() not in reply.text
    figures = scrape(stack.daemon)
    assert figures.of("companion_http_requests_total", route="other", method="GET", status="404") >= 2
    assert figures.of("companion_http_requests_total", route="/api/config", method="other", status="405") >= 1


def test_refusals_are_counted_by_code(stack: Stack) -> None:
    alice = stack.newcomer()
    before = scrape(stack.daemon).of("companion_http_refusals_total", code="bad_credentials")
    assert stack.login(alice).code == "bad_credentials"
    assert scrape(stack.daemon).of("companion_http_refusals_total", code="bad_credentials") == before + 1


def test_the_sync_is_counted(stack: Stack) -> None:
    stack.sync()
    steve, before = stack.newcomer("steve"), scrape(stack.daemon)
    stack.authme.register(steve.name, steve.password)
    report = stack.sync()
    assert report["adopted"] == 1

    after = scrape(stack.daemon)

    assert after.of("companion_sync_seconds_count") == before.of("companion_sync_seconds_count") + 1
    adopted = [figures.of("companion_sync_changes_total", kind="adopted") for figures in (before, after)]
    assert adopted[1] == adopted[0] + 1
    assert after.of("companion_sync_scanned") == report["scanned"]
    assert abs(after.of("companion_sync_last_success_timestamp_seconds") - time.time()) < 60
    assert (after.of("companion_sync_braked"), after.of("companion_bridge_up")) == (0, 1)


def test_mails_are_counted_by_how_they_ended(stack: Stack) -> None:
    alice, bob = stack.newcomer(), stack.newcomer("bob")
    before = scrape(stack.daemon)
    stack.code_for(alice.email)
    stack.smtp.refuse(bob.email)
    stack.post("/api/verify/send", {"email": bob.email})

    def both_are_over(figures: Samples) -> bool:
        counts = [figures.of("companion_mails_total", outcome=outcome) for outcome in ("sent", "failed")]
        expected = [before.of("companion_mails_total", outcome=outcome) + 1 for outcome in ("sent", "failed")]
        return all(map(operator.ge, counts, expected))  # receipts of earlier tests may come in between

    ask_until(lambda: scrape(stack.daemon), both_are_over)


def test_queues_and_the_process_are_told(stack: Stack) -> None:
    figures = scrape(stack.daemon)
    assert figures.of("companion_database_up") == 1
    for name in (
        "companion_hash_running",
        "companion_hash_waiting",
        "companion_worker_waiting",
        "companion_list_waiting",
    ):
        assert (name, frozenset()) in figures
        assert figures.of(name) == 0
    assert ("companion_hash_refused_total", frozenset()) in figures
    assert 0 <= figures.of("companion_loop_lag_seconds") < 10
    assert 10e6 < figures.of("process_resident_memory_bytes") < 500e6
    assert figures.of("process_cpu_seconds_total") > 0
    assert figures.of("process_open_fds") > 3
    assert abs(figures.of("process_start_time_seconds") - time.time()) < 3600


def test_without_authme_nothing_is_known_of_the_bridge(tmp_path: Path) -> None:
    with Stack("sqlite", tmp_path, config={"authme": {"enabled": False}}) as stack:
        assert math.isnan(scrape(stack.daemon).of("companion_bridge_up"))


def test_nobody_is_named(stack: Stack) -> None:
    bob = stack.approved("bob")
    stack.login(bob)
    stack.login(bob, "a-wrong-password")
    token = stack.user_token(bob)
    stack.sync()
    text = stack.get("/metrics").text.lower()
    for private in (bob.name, bob.email, bob.password, token, stack.olivia(), "olivia", "127.0.0.1"):
        assert private.lower() not in text


class LiveOnUnixSocket(LiveApi):
    """Metrics behind a proxy that connects over a Unix socket."""

    def __init__(self, path: Path) -> None:
        features = make_features(Config())
        features[Health] = None  # not asked: nobody is told of the metrics
        super().__init__(features, pages=probe_rules(features))
        self._path = path

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(10)
        connection.connect(str(self._path))
        return connection

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        server = self._make_server()
        server.add_sockets([bind_unix_socket(str(self._path))])
        self._is_ready.set()
        await self._stop.wait()
        server.stop()
        await server.close_all_connections()
