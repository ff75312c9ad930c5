"""Login rate limits, and what a correct password resets."""

from contextlib import suppress

import pytest

from regsvc.auth.rate_limits import LoginDelays, LoginLimits, MemoryLimits
from regsvc.config.live import LiveConfig
from regsvc.config.sections import AuthSection, Config
from regsvc.core.addresses import Caller
from regsvc.core.errors import RateLimited
from regsvc.core.units import RateLimit
from tests.support.manual_clock import ManualClock

MALLORY = Caller("198.51.100.7", "198.51.100.7", "en", "request-1")


@pytest.fixture
def limits(clock: ManualClock) -> LoginLimits:
    config = Config(auth=AuthSection(login_limits=(RateLimit.parse("5 per minute"),)))
    return LoginLimits(MemoryLimits(clock), MemoryLimits(clock), LoginDelays(clock), LiveConfig(config))


def fail(limits: LoginLimits, name: str) -> None:
    limits.hit(name, MALLORY)


def succeed(limits: LoginLimits, name: str) -> None:
    limits.hit(name, MALLORY)
    limits.succeed(name, name, None, MALLORY)


def test_a_right_password_clears_what_its_owner_got_wrong(limits: LoginLimits) -> None:
    for _time in range(3):
        for _try in range(4):
            fail(limits, "alice")
        succeed(limits, "alice")


def test_an_account_of_ones_own_pays_for_no_guesses_at_others(limits: LoginLimits) -> None:
    for name in ("alice", "bob"):
        fail(limits, name)
        fail(limits, name)
        succeed(limits, "mallory")
    fail(limits, "carol")
    with pytest.raises(RateLimited):
        fail(limits, "dave")


def test_right_passwords_are_counted_for_the_hour_and_for_the_day(limits: LoginLimits, clock: ManualClock) -> None:
    counts = []
    for _hour in range(24):
        count = 0
        with suppress(RateLimited):
            while True:
                limits.count_right("alice")
                count += 1
        counts.append(count)
        clock.advance(hours=1)
    assert counts == [60] * 10 + [0] * 14
    limits.count_right("alice")


def test_logging_in_often_is_no_failure(limits: LoginLimits) -> None:
    for _time in range(20):
        succeed(limits, "alice")
