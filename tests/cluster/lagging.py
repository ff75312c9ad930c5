"""A node that has not applied yet what was committed on another: its companion waits for it before it says no."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import pytest

from tests.support.cluster.companions import Companion, Place, at_their_nodes, running
from tests.support.cluster.galera import GaleraNode
from tests.support.daemon import Reply
from tests.support.watching import ask_until


@pytest.fixture(scope="module")
def companions(place: Place) -> Iterator[Sequence[Companion]]:
    """Companions that run no sync: it would wait as well."""
    with running(at_their_nodes(place, {"sync": {"every": "1 hour"}})) as companions:
        yield companions


@pytest.fixture(scope="module")
def careful(place: Place) -> Iterator[Companion]:
    """A companion at the second node whose reads always wait."""
    config = {"sync": {"every": "1 hour"}, "database": {"causal_reads": "always"}}
    with running([Companion(place, "careful", place.nodes[1].port, config)]) as [companion]:
        yield companion


def wait_for_query(node: GaleraNode, reply: "Future[Reply]") -> None:
    """Return once a companion's query waits at this node, or its request has been answered without."""
    query = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'authme' AND COMMAND = 'Query'"
    ask_until(lambda: reply.done() or node.ask_as_root(query) != [(0,)], bool)


def test_a_login_is_good_at_every_companion_at_once(
    place: Place, nodes: Sequence[GaleraNode], companions: Sequence[Companion]
) -> None:
    here, there, _elsewhere = companions
    alice = here.approved()
    place.wait_for_replication()
    with ThreadPoolExecutor(1) as pool:
        with nodes[1].lagging():
            token = here.user_token(alice)
            reply = pool.submit(partial(there.get, "/api/user/export", token=token))
            wait_for_query(nodes[1], reply)
        assert reply.result().status == 200


def test_a_logout_counts_at_once_where_reads_always_wait(
    place: Place, nodes: Sequence[GaleraNode], companions: Sequence[Companion], careful: Companion
) -> None:
    """R67"""
    here, *_others = companions
    bob = here.approved("bob")
    token = here.user_token(bob)
    place.wait_for_replication()
    assert careful.get("/api/user/export", token=token).status == 200
    with ThreadPoolExecutor(1) as pool:
        with nodes[1].lagging():
            assert here.post("/api/logout", {}, token=token).status == 200
            reply = pool.submit(partial(careful.get, "/api/user/export", token=token))
            wait_for_query(nodes[1], reply)
        assert reply.result().status == 401


def test_a_second_code_is_good_at_every_companion_at_once(
    place: Place, nodes: Sequence[GaleraNode], companions: Sequence[Companion]
) -> None:
    """Where only the first one is known, whose attempts Alice has used up."""
    here, there, _elsewhere = companions
    alice = here.newcomer()
    first = here.code_for(alice.email)
    for number in range(5):
        wrong = f"{(int(first) + 1 + number) % 10 ** len(first):0{len(first)}}"
        assert here.register(alice, code=wrong).json["code"] == "invalid_code"
    place.wait_for_replication()
    with ThreadPoolExecutor(1) as pool:
        with nodes[1].lagging():
            code = here.code_for(alice.email)
            assert code != first
            reply = pool.submit(partial(there.register, alice, code=code))
            wait_for_query(nodes[1], reply)
        assert reply.result().status == 201, reply.result().text
