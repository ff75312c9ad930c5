"""The sample configs of nginx and Caddy, run by the real programs in front of the real daemon."""

import http.client
import re
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import pytest

from regsvc.config.sections import Config
from tests.support.certificate import make_certificate
from tests.support.event_listener import EventListener
from tests.support.peers.proxies import HOST, SAMPLES, Caddy, Nginx, Proxy
from tests.support.stack import GENEROUS, Stack

PLAYERS_ADDRESS = "127.0.0.7"
FORGED_ADDRESS = "203.0.113.9"

PROXIES = {"nginx": Nginx, "caddy": Caddy}
CLIENTS = {Nginx: ("127.0.1.1", "127.0.1.2"), Caddy: ("127.0.2.1", "127.0.2.2")}


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A daemon that trusts a proxy at 127.0.0.1 only: all addresses of this machine are loopback, the players', too."""
    http_section = GENEROUS["http"] | {"trusted_proxies": ["127.0.0.1"]}
    limits = {"login_limits": ["6 per minute"]}
    config = GENEROUS | {"http": http_section, "auth": limits}
    with Stack("sqlite", tmp_path_factory.mktemp("stack"), config=config) as stack:
        yield stack


@pytest.fixture(scope="module", params=PROXIES)
def proxy(request: pytest.FixtureRequest, play: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    directory = tmp_path_factory.mktemp(request.param)
    kind = PROXIES[request.param]
    with kind(directory / "run", play.daemon.port, make_certificate(directory)) as proxy:
        yield proxy


def test_alice_logs_in_over_tls_and_plain_http_is_redirected(play: Stack, proxy: Proxy) -> None:
    alice = play.approved("alice")
    reply = proxy.request("POST", "/api/login", {"username": alice.name, "password": alice.password})
    assert reply.status == 200, reply.text
    plain = http.client.HTTPConnection("127.0.0.1", proxy.plain_port, timeout=10)
    plain.request("GET", "/register?language=en", headers={"Host": HOST})
    answer = plain.getresponse()
    assert answer.status in (301, 308)
    assert answer.headers["Location"].removeprefix(f"https://{HOST}") == "/register?language=en"
    plain.close()


def test_browsers_may_use_http_2(proxy: Proxy) -> None:
    context = ssl.create_default_context(cafile=str(proxy.certificate_file))
    context.set_alpn_protocols(["h2", "http/1.1"])
    with (
        socket.create_connection(("127.0.0.1", proxy.port), 10) as plain,
        context.wrap_socket(plain, server_hostname=HOST) as secure,
    ):
        assert secure.selected_alpn_protocol() == "h2"


def test_the_audit_log_has_the_address_of_the_client_and_not_what_the_client_claims(play: Stack, proxy: Proxy) -> None:
    bob = play.pending("bob")
    reply = proxy.request(
        "POST",
        "/api/admin/user/approve",
        {"username": bob.name},
        token=play.olivia(),
        headers={"X-Forwarded-For": FORGED_ADDRESS},
        client=PLAYERS_ADDRESS,
    )
    assert reply.status == 200, reply.text
    query = {"action": "user.approved", "target": bob.name}
    entries = play.daemon.get("/api/admin/audits", query, token=play.olivia()).json["audits"]
    assert [entry["ip"] for entry in entries] == [PLAYERS_ADDRESS]


def test_limits_count_each_client_and_no_forged_address(play: Stack, proxy: Proxy) -> None:
    def guess(forged: int, client: str) -> int:
        headers = {"X-Forwarded-For": f"203.0.113.{forged}"}
        login = {"username": play.newcomer("nobody").name, "password": "a-guess"}
        return proxy.request("POST", "/api/login", login, headers=headers, client=client).status

    guesser, other = CLIENTS[type(proxy)]
    assert [guess(number, guesser) for number in range(7)] == [*[401] * 6, 429]
    assert guess(9, other) == 401


def test_events_arrive_at_once(play: Stack, proxy: Proxy) -> None:
    carol = play.pending("carol")
    with EventListener(play.daemon, play.olivia(), connection=proxy.connect()) as listener:
        play.decides("approve", carol)
        listener.expect_events("user_approved")


@pytest.mark.parametrize("path", ["/metrics", "/metrics?x=1", "//metrics", "/%6detrics", "/./metrics", "/x/../metrics"])
def test_metrics_are_closed(play: Stack, proxy: Proxy, path: str) -> None:
    assert play.daemon.get("/metrics").status == 200
    reply = proxy.request("GET", path)
    assert reply.status == 404
    if path.startswith("/metrics"):
        assert "X-Request-ID" not in reply.headers  # the companion was not asked


def test_a_large_body_is_refused_in_words_and_a_huge_one_at_all(proxy: Proxy) -> None:
    large = proxy.request("POST", "/api/login", {"username": "x" * 100_000})
    assert (large.status, large.code) == (413, "body_too_large")
    assert proxy.request("POST", "/api/login", {"username": "x" * 500_000}).status == 413


def test_scripts_arrive_compressed_and_cached(play: Stack, proxy: Proxy) -> None:
    page = proxy.request("GET", "/register").text
    script = re.search(r'src="(web/[^"]+\.js)"', page)
    assert script is not None
    reply = proxy.request("GET", f"/{script[1]}", headers={"Accept-Encoding": "gzip"})
    assert (reply.status, reply.headers["Content-Encoding"]) == (200, "gzip")
    assert "immutable" in reply.headers["Cache-Control"]


@pytest.mark.parametrize("kind", PROXIES.values(), ids=PROXIES)
def test_the_companion_may_be_below_a_path(play: Stack, kind: type[Proxy], tmp_path: Path) -> None:
    """As `server.base_url = "https://play.example.org/mc"` says: the proxy takes the path off."""
    alice = play.approved("alice")
    with kind(tmp_path / "run", play.daemon.port, make_certificate(tmp_path), "/mc") as proxy:
        away = proxy.request("GET", "/mc")
        assert (away.status, urljoin(f"https://{HOST}/mc", away.headers["Location"])[-4:]) == (302, "/mc/")
        for page in ("/mc/", "/mc/register", "/mc/account", "/mc/admin", "/mc/docs", "/mc/a/lost/page"):
            text = proxy.request("GET", page, headers={"Accept": "text/html"}).text
            linked = {urljoin(page, address) for address in re.findall(r'(?:href|src)="([^":#]+)"', text)}
            assert linked
            assert {path for path in linked if not path.startswith("/mc/")} == set()
            files = [path for path in linked if "." in path]
            assert {path: proxy.request("GET", path).status for path in files} == dict.fromkeys(files, 200)
        login = {"username": alice.name, "password": alice.password}
        assert proxy.request("POST", "/mc/api/login", login).status == 200
        assert proxy.request("GET", "/mc/metrics").status == 404


def test_nginx_shows_the_proof_for_a_certificate_over_plain_http(play: Stack, tmp_path: Path) -> None:
    """certbot writes it into the folder; Caddy gets its certificates by itself."""
    with Nginx(tmp_path / "run", play.daemon.port, make_certificate(tmp_path)) as nginx:
        proof = tmp_path / "run/.well-known/acme-challenge/token"
        proof.parent.mkdir(parents=True)
        proof.write_text("proof", encoding="ascii")
        plain = http.client.HTTPConnection("127.0.0.1", nginx.plain_port, timeout=10)
        plain.request("GET", "/.well-known/acme-challenge/token", headers={"Host": HOST})
        answer = plain.getresponse()
        assert (answer.status, answer.read()) == (200, b"proof")
        plain.close()


@pytest.mark.parametrize("sample", ["nginx.conf", "Caddyfile"])
def test_proxies_drop_idle_connections_before_the_companion_does(sample: str) -> None:
    text = (SAMPLES / sample).read_text(encoding="utf-8")
    kept = re.findall(r"^\s*(?:keepalive_timeout|keepalive) (\d+)s", text, re.MULTILINE)
    assert len(kept) == 1
    assert int(kept[0]) < Config().http.header_timeout.total_seconds()
