"""All nodes end at once while people register, as when their power fails: who got an answer is registered."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.cluster.companions import Companion, Place
from tests.support.cluster.galera import GaleraNode, open_cluster, restart_all
from tests.support.cluster.registrants import check_nothing_is_lost, registering
from tests.support.together import at_once

FEW = 3


@pytest.fixture(scope="module")
def running_nodes() -> Iterator[Sequence[GaleraNode]]:
    """Start them on a disk: where their files are in memory MariaDB maps its log, and a kill loses nothing of it."""
    on_disk = tempfile.TemporaryDirectory(prefix="companion-tests-", dir="/var/tmp")
    with on_disk as folder, open_cluster(Path(folder)) as nodes:
        yield nodes


def test_all_nodes_are_killed(place: Place, nodes: Sequence[GaleraNode], companions: Sequence[Companion]) -> None:
    for node in nodes:
        node.run_as_root("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
    with registering(companions) as registrants:
        registrants.wait_for_more(FEW, *companions)
        at_once([node.kill for node in nodes])
        restart_all(nodes)
        registrants.wait_for_more(1, *companions)
    check_nothing_is_lost(place, registrants)
