"""What requests tell about the proxies, tunnels and CDNs in front."""

from collections.abc import Callable
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
from tornado.httputil import HTTPHeaders

from regsvc.config.host_sections import HttpSection, ServerSection
from regsvc.config.live import LiveConfig
from regsvc.config.sections import Config
from regsvc.core.addresses import client_address, trusted_networks
from regsvc.http.hops import Hint, HintKind, HopWatch, is_for_this_machine

PUBLIC = "play.example.org"
NGINX, DOCKER, EDGE, INNER = "127.0.0.1", "172.17.0.1", "172.68.10.20", "10.0.0.5"
PLAYERS = [f"203.0.113.{number}" for number in range(1, 15)]


class Front:
    """What is in front of a daemon on loopback, or on all addresses; sends its requests."""

    def __init__(self, host: str = "127.0.0.1", base_url: str = f"https://{PUBLIC}", **http: Any) -> None:
        self.config = Config(server=ServerSection(host=host, base_url=base_url), http=HttpSection(**http))
        self.seconds = 0.0
        self.watch = HopWatch(LiveConfig(self.config), lambda: self.seconds)

    def send(self, peer: str, times: int = 1, path: str = "/api/config", **headers: Any) -> None:
        sent = HTTPHeaders({"Host": PUBLIC} | {name.replace("_", "-"): value for name, value in headers.items()})
        trusted = trusted_networks(self.config.http.trusted_proxies, self.config.server.host)
        client = client_address(peer, sent.get_list("X-Forwarded-For"), trusted)
        for _time in range(times):
            self.watch.observe(path, sent, peer, client, trusted)

    @property
    def hints(self) -> list[Hint]:
        return [*self.watch.hints]


# --- What is in front ---


def frp(front: Front) -> None:
    front.send(NGINX, 5)


def nginx_without_headers(front: Front) -> None:
    """Its `proxy_pass` alone: HTTP says only from which page a browser asks."""
    front.send(NGINX, 3, Host="127.0.0.1:8080", Origin=f"https://{PUBLIC}")
    front.send(NGINX, 3, Host="127.0.0.1:8080", Referer=f"https://{PUBLIC}/register")


def nginx_with_x_real_ip(front: Front) -> None:
    for player in PLAYERS:
        front.send(NGINX, X_Real_IP=player, X_Forwarded_Proto="https")


def proxy_with_forwarded(front: Front) -> None:
    for player in PLAYERS:
        front.send(NGINX, Forwarded=f"for={player};proto=https")


def proxy_that_names_nobody(front: Front) -> None:
    front.send(NGINX, 5, X_Forwarded_Proto="https")


def cloudflared_without_x_forwarded_for(front: Front) -> None:
    for player in PLAYERS:
        front.send(NGINX, CF_Connecting_IP=player, CF_Ray="1")


def cloudflare_before_nginx(front: Front) -> None:
    """As the sample of nginx appends the address that connected to it."""
    for player in PLAYERS:
        front.send(NGINX, X_Forwarded_For=f"{player}, {EDGE}", CF_Connecting_IP=player)


def cloudflare_before_caddy(front: Front) -> None:
    """Caddy replaces what the client sent."""
    for player in PLAYERS:
        front.send(NGINX, X_Forwarded_For="2606:4700::6810:1", CF_Connecting_IP=player)


def other_cdn_before_nginx(front: Front) -> None:
    for number, player in enumerate(PLAYERS * 2):
        front.send(NGINX, X_Forwarded_For=f"{player}, 198.51.100.{number % 5}", True_Client_IP=player)


def fly(front: Front) -> None:
    for player in PLAYERS:
        front.send("172.16.1.2", X_Forwarded_For=f"{player}, 66.241.1.1", Fly_Client_IP=player)


def traefik_in_docker(front: Front) -> None:
    for player in PLAYERS:
        front.send(DOCKER, X_Forwarded_For=player, X_Real_Ip=player, X_Forwarded_Server="traefik")


def published_port(front: Front) -> None:
    front.send(DOCKER, 30)


def proxy_on_another_machine(front: Front) -> None:
    for player in PLAYERS * 2:
        front.send("198.51.100.80", X_Forwarded_For=player)


def two_proxies(front: Front) -> None:
    for player in PLAYERS:
        front.send(NGINX, X_Forwarded_For=f"{player}, {INNER}")


EVERYWHERE = {"host": "0.0.0.0"}
HIDDEN: dict[Callable[[Front], None], tuple[dict[str, Any], Hint]] = {
    frp: ({}, Hint(HintKind.TUNNEL, NGINX)),
    nginx_without_headers: ({}, Hint(HintKind.TUNNEL, NGINX)),
    nginx_with_x_real_ip: ({}, Hint(HintKind.OTHER_HEADER, NGINX, "X-Real-Ip")),
    proxy_with_forwarded: ({}, Hint(HintKind.OTHER_HEADER, NGINX, "Forwarded")),
    proxy_that_names_nobody: ({}, Hint(HintKind.OTHER_HEADER, NGINX, "X-Forwarded-Proto")),
    cloudflared_without_x_forwarded_for: ({}, Hint(HintKind.OTHER_HEADER, NGINX, "Cf-Connecting-Ip")),
    cloudflare_before_nginx: ({}, Hint(HintKind.CLOUDFLARE)),
    cloudflare_before_caddy: ({}, Hint(HintKind.CLOUDFLARE)),
    other_cdn_before_nginx: ({}, Hint(HintKind.CDN, "", "True-Client-Ip")),
    fly: (EVERYWHERE, Hint(HintKind.UNTRUSTED, "172.16.1.2", "X-Forwarded-For")),
    traefik_in_docker: (EVERYWHERE, Hint(HintKind.UNTRUSTED, DOCKER, "X-Forwarded-For")),
    published_port: (EVERYWHERE, Hint(HintKind.TUNNEL, DOCKER)),
    proxy_on_another_machine: (EVERYWHERE, Hint(HintKind.UNTRUSTED, "", "X-Forwarded-For")),
    two_proxies: ({}, Hint(HintKind.INNER, INNER)),
}


@pytest.mark.parametrize("story", HIDDEN, ids=lambda story: story.__name__)
def test_what_hides_the_players_is_named(story: Callable[[Front], None]) -> None:
    settings, hint = HIDDEN[story]
    front = Front(**settings)
    story(front)
    assert front.hints == [hint]


@pytest.mark.parametrize("story", HIDDEN, ids=lambda story: story.__name__)
def test_what_is_mended_is_forgotten(story: Callable[[Front], None]) -> None:
    settings, hint = HIDDEN[story]
    front = Front(**settings)
    story(front)
    front.seconds = 3601
    for number in range(400):
        peer = NGINX if front.config.server.host == NGINX else PLAYERS[number % 14]
        headers: dict[str, Any] = {"X_Forwarded_For": PLAYERS[number % 14]} if peer == NGINX else {}
        front.send(peer, **headers)
        if hint.address not in ("", NGINX, INNER):  # that proxy is used no more
            front.watch._hops.pop(hint.address, None)
    assert front.hints == []


def test_a_changed_config_is_looked_at_anew() -> None:
    front = Front()
    frp(front)
    front.config = Config(http=HttpSection(trusted_proxies=(IPv4Network(INNER),)))
    front.send(NGINX)
    assert front.hints == []


# --- All is well ---


def stranger_through_nginx(front: Front) -> None:
    """All that they send is in the request, but nginx names them."""
    forged: dict[str, Any] = dict.fromkeys(
        ("CF_Connecting_IP", "True_Client_IP", "X_Real_IP", "Forwarded", "Fly_Client_IP"), "192.0.2.1"
    )
    for number, player in enumerate(PLAYERS * 3):
        front.send(NGINX, X_Forwarded_For=player)
        if number % 8 == 0:
            front.send(NGINX, X_Forwarded_For="198.51.100.66", **forged)


def stranger_directly(front: Front) -> None:
    for number, player in enumerate(PLAYERS * 3):
        front.send(player)
        if number % 8 == 0:
            front.send("198.51.100.66", CF_Connecting_IP="192.0.2.1", X_Forwarded_For="127.0.0.1")


def strangers_at_a_published_port(front: Front) -> None:
    """Docker's gateway is the address of all; some send what a proxy would."""
    front.send(DOCKER, 4, X_Forwarded_For="192.0.2.1")
    front.send(DOCKER, 4)
    front.send(DOCKER, 4, X_Forwarded_For="192.0.2.1")
    front.send(DOCKER, 4)


def host_on_this_machine(front: Front) -> None:
    front.send(NGINX, 50, Host="127.0.0.1:8080")
    front.send(NGINX, 50, Host="localhost")
    front.send("::1", 50, Host="[::1]:8080")
    front.send(NGINX, 4)  # curl -H Host


def probes_of_this_machine(front: Front) -> None:
    front.send(NGINX, 50, path="/metrics")
    front.send(NGINX, 50, path="/health/ready")


def players_at_home(front: Front) -> None:
    for number in range(60):
        front.send(f"192.168.1.{number % 20}")
        front.send(PLAYERS[number % 14])


def player_at_home_through_nginx(front: Front) -> None:
    front.send(NGINX, 50, X_Forwarded_For="192.168.1.7")
    front.send(NGINX, 50, X_Forwarded_For="127.0.0.1")


def browser_from_another_page(front: Front) -> None:
    front.send(NGINX, 20, Host="localhost:8080", Referer="https://other.example/", Origin="https://other.example")


WELL: dict[Callable[[Front], None], dict[str, Any]] = {
    stranger_through_nginx: {},
    stranger_directly: EVERYWHERE,
    strangers_at_a_published_port: EVERYWHERE,
    host_on_this_machine: {},
    probes_of_this_machine: {},
    players_at_home: EVERYWHERE,
    player_at_home_through_nginx: {},
    browser_from_another_page: {},
}


@pytest.mark.parametrize("story", WELL, ids=lambda story: story.__name__)
def test_what_strangers_send_and_what_is_right_is_no_hint(story: Callable[[Front], None]) -> None:
    front = Front(**WELL[story])
    story(front)
    assert front.hints == []


def test_no_flood_of_inventions_takes_memory_or_names_an_address_of_the_internet() -> None:
    front = Front(**EVERYWHERE)
    for number in range(5000):
        address = f"{11 + number % 100}.{number % 7}.{number % 251}.9"
        front.send(
            address, CF_Connecting_IP="192.0.2.1", X_Forwarded_For=f"10.0.{number % 256}.1", Host=f"h{number}.example"
        )
        front.send(f"10.9.{number % 256}.{number // 256}", X_Real_IP=address)
    assert len(front.watch._hops) <= 16
    assert all(len(hop.counts) <= 16 for hop in front.watch._hops.values())
    assert {hint.address for hint in front.hints if not hint.address.startswith("10.9.")} <= {""}


def test_a_tunnels_clients_cannot_make_it_look_like_a_proxy() -> None:
    front = Front()
    frp(front)
    front.send(NGINX, 1000, X_Forwarded_For="192.0.2.1")
    assert front.watch.has_tunnel()
    front.seconds = 3601
    assert not front.watch.has_tunnel()


def test_a_tunnel_is_known_before_the_first_request_after_a_restart(tmp_path: Path) -> None:
    front, restarted = Front(), Front()
    restarted.watch.recall(tmp_path)
    assert not restarted.watch.has_tunnel()  # nothing is known yet
    frp(front)
    front.watch.store(tmp_path)
    restarted.watch.recall(tmp_path)
    assert restarted.watch.has_tunnel()
    assert restarted.hints == front.hints
    restarted.seconds = 3601
    assert not restarted.watch.has_tunnel()


def test_a_tunnel_on_this_machine_is_seen_among_many_neighbours() -> None:
    front = Front(**EVERYWHERE)
    for number in range(40):
        front.send(f"10.9.0.{number}", 5)
    frp(front)
    assert front.watch.has_tunnel()
    assert len(front.watch._hops) <= 16


def test_headers_are_no_way_around_the_limits() -> None:
    for story, (settings, hint) in HIDDEN.items():
        front = Front(**settings)
        story(front)
        assert front.watch.hides_clients(hint.address) == (hint.kind is HintKind.TUNNEL)
        assert front.watch.hides_clients(EDGE) == (hint.kind is HintKind.CLOUDFLARE)
        assert not any(map(front.watch.hides_clients, PLAYERS))


# --- Names ---

OURS = [
    "127.0.0.1",
    "127.0.0.1:8080",
    "127.8.9.1",
    "localhost",
    "LOCALHOST:8080",
    "localhost.",
    "a.localhost",
    "[::1]:8080",
]
OTHERS = [
    "",
    PUBLIC,
    f"{PUBLIC}:8080",
    "PLAY.example.org.",
    "evil.example",
    "192.0.2.1",
    "127.0.0.1.evil.example",
    "[::1",
    "a b",
]


def test_names_of_this_machine_for_itself() -> None:
    config = Front().config
    assert [host for host in OURS if not is_for_this_machine(host, config)] == []
    assert [host for host in OTHERS if is_for_this_machine(host, config)] == []


def test_a_machine_that_is_called_like_its_public_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: PUBLIC)
    assert not is_for_this_machine(PUBLIC, Front().config)
    assert is_for_this_machine(PUBLIC, Front(base_url="http://localhost:8080").config)
