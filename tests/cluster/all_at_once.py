"""All nodes end at once while people register, as when their power fails: who got an answer is registered."""

from collections.abc import Sequence

from tests.support.cluster.companions import Companion, Place
from tests.support.cluster.galera import GaleraNode, restart_all
from tests.support.cluster.registrants import check_nothing_is_lost, registering
from tests.support.together import at_once

FEW = 3


def test_all_nodes_are_killed(place: Place, nodes: Sequence[GaleraNode], companions: Sequence[Companion]) -> None:
    for node in nodes:
        node.run_as_root("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
    with registering(companions) as registrants:
        registrants.wait_for_more(FEW, *companions)
        at_once([node.kill for node in nodes])
        restart_all(nodes)
        registrants.wait_for_more(1, *companions)
    check_nothing_is_lost(place, registrants)
