"""A TCP tunnel, and proxies that speak the PROXY protocol, in front of the real daemon."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import companion
from tests.support.daemon import Reply
from tests.support.stack import OPERATOR, OPERATORS_PASSWORD, Stack
from tests.support.watching import ask_until

PUBLIC = "play.example.org"
LIMITS: dict[str, dict[str, Any]] = {
    "verification": {"limits_per_client": ["10 per minute", "20 per hour", "100 per day"]},
    "auth": {"login_limits": ["5 per minute"]},
    "server": {"base_url": f"https://{PUBLIC}"},
}


class Tunnel:
    """What frp's client does for `type = tcp`: it passes on bytes from a local port, and names nobody.

    With a PROXY header if there is one: as frp sends it with `transport.proxyProtocolVersion`.
    """

    def __init__(self, daemon_port: int, header: bytes = b"") -> None:
        self._target = ("127.0.0.1", daemon_port)
        self._header = header
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]

    def __enter__(self) -> "Tunnel":
        self._opened = [self._listening]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        for opened in self._opened:
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        for opened in self._opened:
            opened.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                outer, _address = self._listening.accept()
                inner = socket.create_connection(self._target)
                inner.sendall(self._header)
                self._opened += [outer, inner]
                for ends in ((outer, inner), (inner, outer)):
                    self._threads.append(threading.Thread(target=pump, args=ends))
                    self._threads[-1].start()


def pump(source: socket.socket, target: socket.socket) -> None:
    """Pass on what one end sends, and its end."""
    with suppress(OSError):
        while received := source.recv(65536):
            target.sendall(received)
        target.shutdown(socket.SHUT_WR)


@pytest.fixture
def tunnelled(tmp_path: Path) -> Iterator[Stack]:
    with Stack("sqlite", tmp_path / "stack", config=LIMITS) as stack:
        yield stack


def through(stack: Stack, port: int, method: str, path: str, body: object = None, host: str = PUBLIC) -> Reply:
    """Send a request to the port of a tunnel, on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    headers = {"Host": host, "Content-Type": "application/json"}
    try:
        connection.request(method, path, None if body is None else json.dumps(body).encode(), headers)
        answer = connection.getresponse()
        return Reply(answer.status, answer.headers, answer.read())
    finally:
        connection.close()


def findings(stack: Stack) -> list[dict[str, Any]]:
    """What the command finds about hidden clients; the daemon says the same."""
    told = json.loads(companion("doctor", "--json", config=stack.daemon.config_file).output)
    found = [each for each in told["findings"] if each["id"] == "server.clients_hidden"]
    shown = stack.daemon.get("/api/admin/doctor", {"fresh": "true"}, token=stack.olivia())
    assert [each for each in shown.json["findings"] if each["id"] == "server.clients_hidden"] == found
    return found


def test_a_tunnel_is_found_and_its_players_get_in(tunnelled: Stack) -> None:
    stack = tunnelled
    stack.olivia()
    assert findings(stack) == []
    assert stack.get("/metrics").status == 200
    with Tunnel(stack.daemon.port) as tunnel:
        players = [stack.newcomer("player") for _number in range(14)]
        codes = [
            through(stack, tunnel.port, "POST", "/api/verify/send", {"email": each.email, "purpose": "register"}).status
            for each in players
        ]
        assert codes == [200] * 14
        for _time in range(5):
            login = {"username": players[0].name, "password": "mistyped"}
            assert through(stack, tunnel.port, "POST", "/api/login", login).status == 401
        assert through(stack, tunnel.port, "POST", "/api/login", login).status == 429  # of this account
        right = {"username": OPERATOR, "password": OPERATORS_PASSWORD}
        assert through(stack, tunnel.port, "POST", "/api/admin/login", right).status == 200
        [found] = ask_until(lambda: findings(stack), bool)
        assert "come from 127.0.0.1 without X-Forwarded-For" in found["title"]
        assert "http.proxy_protocol" in found["do"]
        # whatever its clients say about the host, they are not here
        for host in (PUBLIC, "127.0.0.1", "localhost"):
            assert through(stack, tunnel.port, "GET", "/metrics", host=host).status == 404
        assert through(stack, tunnel.port, "GET", "/health/ready").status == 200


def test_nobody_behind_a_tunnel_has_guesses_without_end(tunnelled: Stack) -> None:
    with Tunnel(tunnelled.daemon.port) as tunnel:
        statuses = [
            through(tunnelled, tunnel.port, "POST", "/api/login", {"username": f"name{number}", "password": "x"}).status
            for number in range(30)
        ]
    assert statuses.count(401) == 20  # four times as many as one client has
    assert statuses[20:] == [429] * 10


def test_cloudflare_before_nginx_is_found_and_its_players_get_in(tunnelled: Stack) -> None:
    """nginx as in our sample; the address that it appends is that of Cloudflare's machine."""
    players, edge = [tunnelled.newcomer("player") for _number in range(14)], "172.68.10.20"
    for number, each in enumerate(players):
        player = f"203.0.113.{number}"
        headers = {"Host": PUBLIC, "X-Forwarded-For": f"{player}, {edge}", "CF-Connecting-IP": player}
        body = {"email": each.email, "purpose": "register"}
        assert tunnelled.post("/api/verify/send", body, headers=headers).status == 200
    [found] = ask_until(lambda: findings(tunnelled), bool)
    assert found["title"] == "Players come from addresses of Cloudflare, not from their own."
    assert "real_ip_header CF-Connecting-IP" in found["do"]
    assert tunnelled.get("/metrics").status == 200


def test_a_trusted_client_on_this_machine_exempts_no_tunnel(tunnelled: Stack) -> None:
    tunnelled.restart_with({"http": {"trusted_clients": ["127.0.0.1"], "status_limit": ["5 per minute"]}})
    path = "/api/user/status?username=nobody"
    assert {tunnelled.get(path).status for _time in range(40)} == {200}
    with Tunnel(tunnelled.daemon.port) as tunnel:
        statuses = [through(tunnelled, tunnel.port, "GET", path).status for _time in range(30)]
    assert statuses == [*[200] * 24, *[429] * 6]  # the first four are not known to come through a tunnel


def test_metrics_are_closed_to_the_public_name_from_the_first_request_on(tunnelled: Stack) -> None:
    for host in (PUBLIC, f"{PUBLIC}:443", PUBLIC.upper(), "other.example", "192.0.2.1"):
        assert tunnelled.get("/metrics", headers={"Host": host}).status == 404
    for host in ("127.0.0.1", "localhost:8080", "[::1]:1"):
        assert tunnelled.get("/metrics", headers={"Host": host}).status == 200


def test_with_the_proxy_protocol_each_player_has_an_address(tunnelled: Stack) -> None:
    stack = tunnelled
    stack.restart_with({"http": {"proxy_protocol": True}})
    header = b"PROXY TCP4 203.0.113.7 192.0.2.1 4711 443\r\n"
    with (
        Tunnel(stack.daemon.port, header) as tunnel,
        Tunnel(stack.daemon.port, header.replace(b"113.7", b"113.8")) as other,
    ):
        login = {"username": stack.newcomer().name, "password": "mistyped"}
        statuses = [through(stack, tunnel.port, "POST", "/api/login", login).status for _time in range(6)]
        assert statuses == [*[401] * 5, 429]
        assert through(stack, other.port, "POST", "/api/login", login).status == 401
        assert through(stack, tunnel.port, "GET", "/metrics", host="127.0.0.1").status == 404
        right = {"username": OPERATOR, "password": OPERATORS_PASSWORD}
        token = through(stack, other.port, "POST", "/api/admin/login", right).json["token"]
        assert token
    told = json.loads(companion("doctor", "--json", config=stack.daemon.config_file).output)
    assert not {each["id"] for each in told["findings"]} & {"server.clients_hidden", "server.port_taken"}
    status = json.loads(companion("status", "--json", config=stack.daemon.config_file).output)
    assert (status["state"], bool(status["runningVersion"])) == ("running", True)


def test_a_tunnel_that_sends_headers_in_vain_is_told(tunnelled: Stack) -> None:
    with Tunnel(tunnelled.daemon.port, b"PROXY TCP4 203.0.113.7 192.0.2.1 4711 443\r\n") as tunnel:
        for _time in range(6):
            assert through(tunnelled, tunnel.port, "GET", "/api/config").status == 400
    assert tunnelled.daemon.wait_for_log("set http.proxy_protocol = true")
    [found] = ask_until(lambda: findings(tunnelled), bool)
    assert found["title"] == "Connections from 127.0.0.1 begin with a PROXY protocol header."
    assert found["where"].endswith('[http] trusted_proxies = ["127.0.0.1"], proxy_protocol = true')
    assert sum("PROXY protocol header" in line for line in tunnelled.daemon.log) == 1
