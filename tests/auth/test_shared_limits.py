"""Limits that all clients share: no network uses them up alone, and hits are counted in several rows."""

import itertools
from collections.abc import Callable

import pytest
from peewee import Database

from regsvc.auth.rate_limits import DurableLimits, SharedLimits, WindowKey, in_total
from regsvc.core.errors import RateLimited
from regsvc.core.units import RateLimit
from regsvc.database.models import RateLimitWindow
from tests.support.database_fixtures import InParallel
from tests.support.manual_clock import ManualClock

TOTAL = (RateLimit.parse("12 per hour"), RateLimit.parse("40 per day"))
SCOPE = "mail.total"

Ask = Callable[..., None]


@pytest.fixture
def durable(our_database: Database, clock: ManualClock) -> DurableLimits:
    return DurableLimits(clock)


@pytest.fixture
def ask(our_database: Database, durable: DurableLimits) -> Ask:
    def ask(network: str, *, is_known: bool = False, is_counted: bool = True) -> None:
        total = in_total(SCOPE, TOTAL, network, lambda: is_known)
        with our_database.atomic(), durable.counting([], [total]) as windows:
            if wait := windows.wait(total):
                raise RateLimited(wait)
            if is_counted:
                windows.count(total)

    return ask


def accepted(ask: Ask, network: str, tries: int, **how: bool) -> int:
    """Return how many hits of this network are accepted."""
    count = 0
    for _try in range(tries):
        try:
            ask(network, **how)
        except RateLimited:
            continue
        count += 1
    return count


def used_up(clock: ManualClock) -> list[tuple[RateLimit, int]]:
    windows = {WindowKey(row.scope, row.subject, row.period_seconds): row for row in RateLimitWindow.select()}
    return in_total(SCOPE, TOTAL).find_used_up(windows, clock())


def test_a_network_gets_half(ask: Ask) -> None:
    assert accepted(ask, "mallory", 12) == 6
    assert accepted(ask, "alice", 1) == 1


def test_the_last_third_is_for_those_who_had_nothing_yet(ask: Ask) -> None:
    assert accepted(ask, "mallory", 12) + accepted(ask, "mallet", 12) == 8
    assert [accepted(ask, network, 5) for network in ("alice", "bob", "carol", "dave", "erin")] == [1, 1, 1, 1, 0]


def test_known_clients_may_use_the_reserve_too(ask: Ask) -> None:
    assert accepted(ask, "alice", 1) == 1
    assert accepted(ask, "mallory", 12) + accepted(ask, "mallet", 12) == 7
    assert accepted(ask, "alice", 1) == 0
    assert accepted(ask, "alice", 12, is_known=True) == 4, "all that is left"


def test_what_costs_nothing_is_refused_alike(ask: Ask, clock: ManualClock) -> None:
    assert accepted(ask, "mallory", 20, is_counted=False) == 6, "the limit of the network counts in any case"
    assert used_up(clock) == []
    for network in range(12):
        ask(str(network))
    assert accepted(ask, "alice", 1, is_counted=False) == 0


def test_it_tells_how_long_to_wait(ask: Ask, clock: ManualClock) -> None:
    for network in range(12):
        ask(str(network))
        clock.advance(minutes=1)
    with pytest.raises(RateLimited) as refused:
        ask("alice")
    assert refused.value.retry_after is not None
    clock.advance(seconds=refused.value.retry_after - 1)
    with pytest.raises(RateLimited):
        ask("alice")
    clock.advance(seconds=1)
    ask("alice")


def test_what_is_used_up_can_be_seen(ask: Ask, clock: ManualClock) -> None:
    for network in range(7):
        ask(str(network))
    assert used_up(clock) == []
    ask("the last but for the reserve")
    assert used_up(clock) == [(TOTAL[0], 3600)]


def test_the_day_survives_a_restart(our_database: Database, ask: Ask, clock: ManualClock) -> None:
    for network in range(40):
        ask(str(network))
        clock.advance(minutes=10)
    shared = in_total(SCOPE, TOTAL, "alice", lambda: True)
    with our_database.atomic(), pytest.raises(RateLimited) as refused:
        DurableLimits(clock).hit_all([], [shared])
    assert (refused.value.retry_after or 0) > 3600


def test_hits_are_spread_over_several_rows(ask: Ask) -> None:
    for network in range(12):
        ask(str(network))
    slots = RateLimitWindow.select().where((RateLimitWindow.scope == SCOPE) & (RateLimitWindow.period_seconds == 3600))
    assert sum(slot.hits for slot in slots) == 12
    assert len(slots) > 1


def test_many_at_once_exceed_it_by_seven_at_most(ask: Ask, in_parallel: InParallel) -> None:
    """A hit does not see those that are not committed yet, of which there is one in each row at most."""
    numbers = itertools.count()
    answers = in_parallel(lambda: ask(str(next(numbers))), 60)
    counted = answers.count(None)
    assert sum(isinstance(answer, RateLimited) for answer in answers) == 60 - counted
    assert 12 <= counted <= 12 + 7
    assert accepted(ask, "alice", 1) == 0


def test_limits_on_one_subject_are_exact_and_have_a_reserve_too(
    our_database: Database, durable: DurableLimits, in_parallel: InParallel
) -> None:
    def ask(network: str) -> None:
        limits = (RateLimit.parse("10 per day"),)
        with our_database.atomic():
            durable.hit_all([], [SharedLimits("mail.address", limits, network, subject="alice@example.org")])

    assert in_parallel(lambda: ask("mallory"), 20).count(None) == 7
    assert [accepted(ask, network, 2) for network in ("alice", "bob", "carol", "dave")] == [1, 1, 1, 0]
