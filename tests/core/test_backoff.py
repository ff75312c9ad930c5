"""Back-off: pauses double up to a limit, and end when the service works again."""

from datetime import timedelta

import pytest

from regsvc.core.backoff import MAX_FAILURES, OPEN_FOR, Backoff, CircuitBreaker, backoff_delay


class Seconds:
    """A clock in seconds, set by the test."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("failures", "seconds"), [(1, 5), (2, 10), (3, 20), (4, 40), (5, 60), (10_000, 60)])
def test_delays_double_up_to_the_longest(failures: int, seconds: int) -> None:
    assert backoff_delay(failures, timedelta(seconds=5), timedelta(minutes=1)) == timedelta(seconds=seconds)


def test_one_outage_met_by_many_is_one_pause() -> None:
    clock = Seconds()
    backoff = Backoff(timedelta(seconds=1), timedelta(minutes=1), clock)
    assert (backoff.is_active, backoff.remaining()) == (False, 0)
    for _attempt in range(4):
        backoff.extend()
    assert (backoff.is_active, backoff.remaining()) == (True, 1)
    clock.now += 1
    assert (backoff.is_active, backoff.remaining()) == (True, 0)
    backoff.extend()
    assert backoff.remaining() == 2


def test_a_service_may_ask_for_a_longer_pause() -> None:
    clock = Seconds()
    backoff = Backoff(timedelta(seconds=1), timedelta(minutes=1), clock)
    backoff.extend()
    backoff.extend(timedelta(minutes=10))
    assert backoff.remaining() == 600
    backoff.extend(timedelta(seconds=5))
    assert backoff.remaining() == 600


def test_a_success_starts_over() -> None:
    clock = Seconds()
    backoff = Backoff(timedelta(seconds=1), timedelta(minutes=1), clock)
    backoff.extend()
    clock.now += 1
    backoff.extend()
    backoff.reset()
    assert (backoff.is_active, backoff.remaining()) == (False, 0)
    backoff.extend()
    assert backoff.remaining() == 1


def test_a_circuit_stays_open_for_a_whole_pause_after_a_slow_failure() -> None:
    clock = Seconds()
    breaker = CircuitBreaker("the service", clock)
    for _attempt in range(MAX_FAILURES):
        breaker.fail()
    clock.now += OPEN_FOR.total_seconds()
    assert (breaker.allows(), breaker.allows()) == (True, False)
    clock.now += 30
    breaker.fail()
    clock.now += OPEN_FOR.total_seconds() - 1
    assert not breaker.allows(), "the pause starts when the request fails, not when it was sent"
    clock.now += 1
    assert breaker.allows()


def test_requests_under_way_when_the_circuit_opened_prolong_its_pause() -> None:
    clock = Seconds()
    breaker = CircuitBreaker("the service", clock)
    for _attempt in range(MAX_FAILURES):
        breaker.fail()
    clock.now += 20
    breaker.fail()
    clock.now += OPEN_FOR.total_seconds() - 20
    assert not breaker.allows()
    clock.now += 20
    assert breaker.allows()


def test_many_who_wait_for_one_service_do_not_come_back_at_once() -> None:
    clock = Seconds()
    pauses = set()
    for _daemon in range(20):
        backoff = Backoff(timedelta(seconds=10), timedelta(minutes=1), clock, spread=0.2)
        backoff.extend()
        pauses.add(backoff.remaining())
    assert len(pauses) > 1
    assert all(8 <= pause <= 12 for pause in pauses)
