"""The sample of HAProxy: of the nodes one is the writer and two wait, of the companions each client has one."""

import http.client
import re
import ssl
from collections.abc import Iterator, Sequence

import pytest

from tests.support.certificate import Certificate, make_certificate
from tests.support.cluster.companions import Companion, Place, open_place, running
from tests.support.cluster.galera import GaleraNode
from tests.support.cluster.haproxy import HAProxy
from tests.support.cluster.registrants import check_nothing_is_lost, registering
from tests.support.ports import free_port
from tests.support.watching import ask_until

FEW = 3


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def place(running_nodes: Sequence[GaleraNode], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    # as the sample says; a node without a quorum lets it log in, too
    running_nodes[0].run_as_root("CREATE USER IF NOT EXISTS 'haproxy'@'127.0.0.1'")
    with open_place(tmp_path_factory.mktemp("place"), running_nodes) as place:
        yield place


@pytest.fixture(scope="module")
def ports() -> list[int]:
    return [free_port() for _number in range(3)]


@pytest.fixture(scope="module")
def haproxy(place: Place, ports: list[int], certificate: Certificate) -> Iterator[HAProxy]:
    with HAProxy(place.directory / "haproxy", place.nodes, ports, certificate) as haproxy:
        yield haproxy


@pytest.fixture(scope="module")
def companions(place: Place, haproxy: HAProxy, ports: list[int]) -> Iterator[Sequence[Companion]]:
    """Three companions whose database is HAProxy's port, and who trust it as a proxy."""
    all_at_one = [
        Companion(
            place, name, haproxy.database_port, {"server": {"port": port}, "http": {"trusted_proxies": ["127.0.0.1"]}}
        )
        for name, port in zip("abc", ports, strict=True)
    ]
    with running(all_at_one) as companions:
        yield companions


def list_writers(nodes: Sequence[GaleraNode]) -> list[str]:
    """Return the names of the running nodes to which companions have connections."""
    query = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'authme'"
    return [node.name for node in nodes if node.is_running and node.ask_as_root(query) != [(0,)]]


def test_the_writer_is_killed_and_comes_back(
    place: Place, nodes: Sequence[GaleraNode], companions: Sequence[Companion]
) -> None:
    """When it is back all write to it again: of two writers each would read what the other had not replicated yet."""
    first, second, _third = nodes
    with registering(companions) as registrants:
        registrants.wait_for_more(FEW, *companions)
        assert list_writers(nodes) == [first.name]
        first.kill()
        registrants.wait_for_more(FEW, *companions)
        assert list_writers(nodes) == [second.name]
        first.start()
        ask_until(lambda: list_writers(nodes), lambda writers: writers == [first.name])
        registrants.wait_for_more(FEW, *companions)
    check_nothing_is_lost(place, registrants)


def test_a_writer_without_a_quorum_is_left(
    place: Place, nodes: Sequence[GaleraNode], companions: Sequence[Companion]
) -> None:
    """It still accepts connections, which a check of the port alone would not notice."""
    with registering(companions) as registrants:
        registrants.wait_for_more(FEW, *companions)
        nodes[0].cut_off()
        try:
            registrants.wait_for_more(FEW, *companions)
        finally:
            nodes[0].reconnect()
    check_nothing_is_lost(place, registrants)


def test_each_client_stays_at_one_companion(
    companions: Sequence[Companion], haproxy: HAProxy, certificate: Certificate
) -> None:
    """R15: what HAProxy says of a client's address counts, and not what the client says."""
    clients = [f"127.0.3.{number}" for number in range(1, 13)]

    def find_places() -> dict[str, str | None]:
        return {client: request_at(client, haproxy, certificate, companions) for client in clients}

    def walk_thrice() -> list[dict[str, str | None]]:
        return [find_places() for _time in range(3)]

    def is_stable(walks: list[dict[str, str | None]]) -> bool:
        return set(walks[0].values()) == {"a", "b", "c"} and walks == walks[:1] * 3

    # HAProxy takes a companion out while its writer has no quorum, and moves the clients of it alone. By chance, twelve
    # clients would never be three times in a row where they were.
    ask_until(walk_thrice, is_stable)


def request_at(client: str, haproxy: HAProxy, certificate: Certificate, companions: Sequence[Companion]) -> str | None:
    """Send a request from this address; return who logged it, with this address; None: HAProxy had no companion."""
    context = ssl.create_default_context(cafile=str(certificate.certificate_file))
    connection = http.client.HTTPSConnection(
        "localhost", haproxy.https_port, timeout=30, context=context, source_address=(client, 0)
    )
    connection.request("GET", "/api/user/status?username=nobody", headers={"X-Forwarded-For": "203.0.113.9"})
    response = connection.getresponse()
    response.read()
    connection.close()
    request_id = response.headers["X-Request-ID"]
    if request_id is None:
        assert response.status in (502, 503)
        return None
    logged = re.compile(rf"{re.escape(client)} GET .*{request_id}")

    def list_names() -> list[str]:
        return [each.name for each in companions if any(map(logged.search, each.daemon.log))]

    [name] = ask_until(list_names, bool)
    return name
