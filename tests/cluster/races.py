"""The same thing wanted at once at three companions, each with a node of its own: it happens once."""

import time
from collections import Counter
from collections.abc import Sequence
from functools import partial

from tests.support.cluster.companions import PERIOD, Companion, Place
from tests.support.daemon import Reply
from tests.support.stack import Person
from tests.support.together import at_once
from tests.support.watching import ask_until, scrape

ROUNDS = 20


def outcomes(replies: Sequence[Reply]) -> Counter[tuple[int, str | None]]:
    return Counter((reply.status, reply.code) for reply in replies)


def test_one_name_goes_to_one(place: Place, companions: Sequence[Companion]) -> None:
    for _round in range(ROUNDS):
        people = [companion.newcomer("rival") for companion in companions]
        pairs = list(zip(companions, people, strict=True))
        codes = at_once([partial(companion.code_for, person.email) for companion, person in pairs])
        name = people[0].name
        replies = at_once(
            [
                partial(companion.register, person, code=code, username=name)
                for (companion, person), code in zip(pairs, codes, strict=True)
            ]
        )
        assert outcomes(replies) == {(201, None): 1, (409, "username_taken"): 2}
        check_once(place, "user.registered", name)


def test_one_address_and_its_code_make_one_user(place: Place, companions: Sequence[Companion]) -> None:
    for _round in range(ROUNDS):
        alice = companions[0].newcomer()
        code = companions[0].code_for(alice.email)
        place.wait_for_replication()
        rivals = [Person(f"{alice.name}{companion.name}", alice.email, alice.password) for companion in companions]
        pairs = zip(companions, rivals, strict=True)
        replies = at_once([partial(companion.register, rival, code=code) for companion, rival in pairs])
        assert outcomes(replies) == {(201, None): 1, (422, "invalid_code"): 2}


def test_three_admins_decide_once(place: Place, companions: Sequence[Companion]) -> None:
    for number in range(ROUNDS):
        bob = companions[number % 3].pending("bob")
        place.wait_for_replication()
        replies = at_once([partial(companion.decide, "approve", bob) for companion in companions])
        assert outcomes(replies) == {(200, None): 1, (409, "wrong_status"): 2}
        check_once(place, "user.approved", bob.name)
        place.smtp.wait_for(bob.email, 2)  # the code and the welcome
        place.wait_for_replication()
        for node in place.nodes:
            queued = "SELECT COUNT(*) AS n FROM regsvc_outbox WHERE recipient = ? AND template = 'approved'"
            assert place.query(node, queued, (bob.email,)) == [{"n": 1}]
        assert place.smtp.letters_to(bob.email)[2:] == []


def test_a_login_during_a_deletion_succeeds_or_is_refused(place: Place, companions: Sequence[Companion]) -> None:
    for _round in range(ROUNDS):
        carol = companions[0].approved("carol")
        place.wait_for_replication()
        deletion = partial(companions[0].decide, "delete", carol)
        replies = at_once([deletion, *(partial(companion.login, carol) for companion in companions)])
        assert replies[0].status == 200
        assert {reply.status for reply in replies[1:]} <= {200, 401}
        place.wait_for_replication()
        assert {companion.login(carol).status for companion in companions} == {401}


def test_a_period_costs_one_run(companions: Sequence[Companion]) -> None:
    """R67: three daemons with a run each would need three times as many."""

    def runs() -> float:
        return sum(scrape(companion.daemon).of("companion_sync_seconds_count") for companion in companions)

    first, began = runs(), time.monotonic()
    last = ask_until(runs, lambda number: number >= first + 3)
    periods = (time.monotonic() - began) / PERIOD.total_seconds()
    assert last - first <= 2 * periods + 1


def check_once(place: Place, action: str, target: str) -> None:
    """Require one audit entry of this action, as all nodes have it."""
    place.wait_for_replication()
    for node in place.nodes:
        query = "SELECT COUNT(*) AS n FROM regsvc_audit WHERE action = ? AND target = ?"
        assert place.query(node, query, (action, target)) == [{"n": 1}]
