"""Fixtures of the cluster's stories.

nodes        three Galera nodes (session), all synced when a story begins and again at its end
place        a schema on them for a file of stories, with a game server, AuthMe and a mail server
companions   three companions there, each with a node of its own
"""

from collections.abc import Iterator, Sequence

import pytest

from tests.support.cluster.companions import Companion, Place, at_their_nodes, open_place, running
from tests.support.cluster.galera import GaleraNode, open_cluster


@pytest.fixture(scope="session")
def running_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[GaleraNode]]:
    with open_cluster(tmp_path_factory.mktemp("cluster")) as nodes:
        yield nodes


@pytest.fixture(autouse=True)
def nodes(running_nodes: Sequence[GaleraNode]) -> Iterator[Sequence[GaleraNode]]:
    """Restart what a story has stopped, before the next one or another place begins."""
    yield running_nodes
    for node in running_nodes:
        if not node.is_running:
            node.start()
    for node in running_nodes:
        node.wait_until_synced(len(running_nodes))


@pytest.fixture(scope="module")
def place(running_nodes: Sequence[GaleraNode], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with open_place(tmp_path_factory.mktemp("place"), running_nodes) as place:
        yield place


@pytest.fixture(scope="module")
def companions(place: Place) -> Iterator[Sequence[Companion]]:
    with running(at_their_nodes(place)) as companions:
        yield companions
