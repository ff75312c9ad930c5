"""Delays after failed logins: attackers are slowed down, the owner of the account gets in."""

from datetime import timedelta

import pytest

from regsvc.auth.rate_limits import LoginDelays
from regsvc.auth.sessions import KnownClients
from regsvc.core.errors import RateLimited
from regsvc.database.models import KnownClient, User
from tests.support.database_fixtures import InParallel
from tests.support.manual_clock import ManualClock


@pytest.fixture
def delays(clock: ManualClock) -> LoginDelays:
    return LoginDelays(clock)


def wait_of(delays: LoginDelays, account: str, known_client: str | None = None) -> int:
    """Seconds until the next login is allowed; 0: now."""
    try:
        delays.check(account, known_client)
    except RateLimited as refused:
        return refused.retry_after or 0
    return 0


def test_the_sixth_failure_in_a_row_delays_and_each_further_one_doubles(delays: LoginDelays) -> None:
    waits = []
    for _attempt in range(14):
        delays.record_failure("alice")
        waits.append(wait_of(delays, "alice"))
    assert waits == [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_delay_ends(delays: LoginDelays, clock: ManualClock) -> None:
    for _attempt in range(100):
        delays.record_failure("alice")
    clock.advance(seconds=59)
    assert wait_of(delays, "alice") == 1
    clock.advance(seconds=1)
    assert wait_of(delays, "alice") == 0


def test_a_right_login_clears_it(delays: LoginDelays) -> None:
    for _attempt in range(20):
        delays.record_failure("alice")
    delays.reset("alice", None)
    assert wait_of(delays, "alice") == 0
    delays.record_failure("alice")
    assert wait_of(delays, "alice") == 0
    delays.reset("never heard of", None)


def test_each_counter_has_a_delay_of_its_own(delays: LoginDelays) -> None:
    for _attempt in range(6):
        delays.record_failure("olivia", "198.51.100.7")

    assert wait_of(delays, "olivia", "198.51.100.7") == 1
    assert wait_of(delays, "olivia", "198.51.100.8") == 0
    assert wait_of(delays, "olivia") == 0

    delays.reset("olivia", "198.51.100.7")
    assert wait_of(delays, "olivia", "198.51.100.7") == 0


def test_a_clock_set_back_delays_no_longer_than_ever(delays: LoginDelays, clock: ManualClock) -> None:
    for _attempt in range(50):
        delays.record_failure("alice")
    clock.advance(days=-1000)
    assert wait_of(delays, "alice") == 60
    clock.advance(minutes=1)
    assert wait_of(delays, "alice") == 0


def test_failures_are_forgotten_after_a_quiet_hour(delays: LoginDelays, clock: ManualClock) -> None:
    for _attempt in range(50):
        delays.record_failure("alice")
        delays.record_failure("bob")
    clock.advance(minutes=59)
    delays.record_failure("bob")
    assert wait_of(delays, "bob") == 60
    clock.advance(minutes=1)
    delays.record_failure("alice")
    assert (wait_of(delays, "alice"), len(delays)) == (0, 2)
    clock.advance(hours=1)
    delays.record_failure("carol")
    assert len(delays) == 1


def test_waiting_for_that_gives_no_more_guesses_than_guessing_on(delays: LoginDelays, clock: ManualClock) -> None:
    """Mallory guesses until the delay is at its longest and waits until all is forgotten, or goes on."""

    def guesses_in_a_day(*, waits: bool) -> int:
        count, ends_at = 0, clock() + timedelta(days=1)
        while clock() < ends_at:
            delays.record_failure("alice", str(waits))
            count += 1
            delay = wait_of(delays, "alice", str(waits))
            clock.advance(seconds=3600 if waits and delay == 60 else delay)
        return count

    assert guesses_in_a_day(waits=True) < guesses_in_a_day(waits=False) <= 1440 + 12


def test_a_hundred_thousand_names_fill_no_memory(clock: ManualClock) -> None:
    delays = LoginDelays(clock, max_keys=1000)
    for number in range(100_000):
        delays.record_failure(str(number))
    assert len(delays) == 1000


def test_who_logged_in_from_there_is_known_for_thirty_days(alice: User, clock: ManualClock) -> None:
    clients = KnownClients(clock)
    assert not clients.find_past_logins(alice.id, "198.51.100.7").is_known_client

    clients.record(alice.id, "198.51.100.7")
    clock.advance(days=29)
    assert clients.find_past_logins(alice.id, "198.51.100.7").is_known_client
    assert not clients.find_past_logins(alice.id, "198.51.100.8").is_known_client

    clients.record(alice.id, "198.51.100.7")
    clock.advance(days=29)
    assert clients.find_past_logins(alice.id, "198.51.100.7").is_known_client
    assert clients.purge() == 0

    clock.advance(days=1)
    assert not clients.find_past_logins(alice.id, "198.51.100.7").is_known_client
    assert clients.purge() == 1


def test_a_login_is_recorded_to_the_minute(alice: User, clock: ManualClock) -> None:
    clients = KnownClients(clock)
    clients.record(alice.id, "198.51.100.7")
    clock.advance(seconds=59)
    assert clients.find_past_logins(alice.id, "198.51.100.7").is_recorded
    assert not clients.find_past_logins(alice.id, "198.51.100.8").is_recorded
    clock.advance(seconds=1)
    assert not clients.find_past_logins(alice.id, "198.51.100.7").is_recorded


def test_two_logins_at_once_are_remembered_once(alice: User, clock: ManualClock, in_parallel: InParallel) -> None:
    clients = KnownClients(clock)
    assert in_parallel(lambda: clients.record(alice.id, "::1"), 10) == [None] * 10
    assert KnownClient.get().last_login_at == clock()


def test_a_try_that_was_no_failure_is_taken_back_and_the_others_stay(delays: LoginDelays, clock: ManualClock) -> None:
    for _attempt in range(20):
        delays.record_failure("alice")
        delays.refund("alice")
    assert wait_of(delays, "alice") == 0

    for _attempt in range(7):
        delays.record_failure("alice")
    clock.advance(seconds=2)
    delays.record_failure("alice")
    assert wait_of(delays, "alice") == 4
    delays.refund("alice")
    assert wait_of(delays, "alice") == 0, "its two seconds were over"
    delays.record_failure("alice")
    assert wait_of(delays, "alice") == 4
    delays.refund("never heard of")
