"""A node fails while people register: each acknowledged registration is on every node once, and no answer is a 500."""

from collections.abc import Sequence

from tests.support.cluster.companions import Companion, Place
from tests.support.cluster.galera import GaleraNode
from tests.support.cluster.registrants import check_nothing_is_lost, registering
from tests.support.together import at_once
from tests.support.watching import ask_until

FEW = 3


def test_a_node_is_killed(place: Place, nodes: Sequence[GaleraNode], companions: Sequence[Companion]) -> None:
    *others, there = companions
    with registering(companions) as registrants:
        registrants.wait_for_more(FEW, *companions)
        nodes[2].kill()
        registrants.wait_for_more(FEW, *others)
        nodes[2].start()
        registrants.wait_for_more(FEW, there)
    check_nothing_is_lost(place, registrants)


def test_a_node_hangs(place: Place, nodes: Sequence[GaleraNode], companions: Sequence[Companion]) -> None:
    _here, there, _elsewhere = companions
    with registering(companions) as registrants:
        registrants.wait_for_more(FEW, *companions)
        nodes[1].pause()
        try:
            registrants.wait_for_more(FEW, *(companion for companion in companions if companion is not there))
        finally:
            nodes[1].resume()
        registrants.wait_for_more(FEW, there)
    check_nothing_is_lost(place, registrants)


def test_a_node_is_cut_off(place: Place, nodes: Sequence[GaleraNode], companions: Sequence[Companion]) -> None:
    there, *others = companions
    with registering(companions) as registrants:
        registrants.wait_for_more(FEW, *companions)
        nodes[0].cut_off()
        try:
            registrants.wait_for_more(FEW, *others)
            ask_until(lambda: there.get("/health/ready").status, lambda status: status == 503)
        finally:
            nodes[0].reconnect()
        registrants.wait_for_more(FEW, there)
    check_nothing_is_lost(place, registrants)


def test_the_quorum_is_lost(place: Place, nodes: Sequence[GaleraNode], companions: Sequence[Companion]) -> None:
    survivor, *_others = companions
    with registering(companions) as registrants:
        registrants.wait_for_more(FEW, *companions)
        nodes[1].kill()
        nodes[2].kill()
        ask_until(lambda: survivor.get("/health/ready").status, lambda status: status == 503)
        at_once([nodes[1].start, nodes[2].start])  # neither comes back alone
        registrants.wait_for_more(FEW, *companions)
    check_nothing_is_lost(place, registrants)
