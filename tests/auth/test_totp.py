"""The second factor: RFC 6238 with AuthMe's parameters, and each code works once."""

from datetime import UTC, datetime

import pytest

from regsvc.auth.second_factor import find_time_step, use_time_step
from regsvc.database.models import User
from tests.support.authenticator import PERIOD, Authenticator, code_at, new_secret
from tests.support.database_fixtures import InParallel
from tests.support.manual_clock import ManualClock

RFC_SECRET = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
"""The secret of the RFC's test vectors: "12345678901234567890"."""


@pytest.fixture
def app(clock: ManualClock) -> Authenticator:
    return Authenticator(now=clock)


@pytest.mark.parametrize(
    ("seconds", "code"),  # RFC 6238, appendix B, the last six of its eight digits
    [
        (59, "287082"),
        (1111111109, "081804"),
        (1111111111, "050471"),
        (1234567890, "005924"),
        (2000000000, "279037"),
        (20000000000, "353130"),
    ],
)
def test_the_rfcs_own_codes(seconds: int, code: str) -> None:
    moment = datetime.fromtimestamp(seconds, UTC)
    assert find_time_step(RFC_SECRET, code, moment, after=None) == seconds // PERIOD
    assert code_at(RFC_SECRET, seconds // PERIOD) == code, "and the tests' own app agrees"


@pytest.mark.parametrize(("later", "is_taken"), [(-2, False), (-1, True), (0, True), (1, True), (2, False)])
def test_one_half_minute_either_side(app: Authenticator, clock: ManualClock, later: int, is_taken: bool) -> None:
    step = find_time_step(app.secret, app.code(later), clock(), after=None)
    assert step == (int(clock().timestamp()) // PERIOD + later if is_taken else None)


def test_a_code_is_good_until_its_half_minute_and_the_next_are_over(app: Authenticator, clock: ManualClock) -> None:
    code = app.code()
    into = int(clock().timestamp()) % PERIOD
    clock.advance(seconds=2 * PERIOD - into - 1)
    assert find_time_step(app.secret, code, clock(), after=None) is not None
    clock.advance(seconds=1)
    assert find_time_step(app.secret, code, clock(), after=None) is None


def test_a_code_that_was_used_and_every_earlier_one_is_wrong(app: Authenticator, clock: ManualClock) -> None:
    step = find_time_step(app.secret, app.code(), clock(), after=None)
    assert step is not None
    assert find_time_step(app.secret, app.code(), clock(), after=step) is None
    assert find_time_step(app.secret, app.code(-1), clock(), after=step) is None
    assert find_time_step(app.secret, app.code(1), clock(), after=step) == step + 1
    assert find_time_step(app.secret, app.code(), clock(), after=step - 1) == step


@pytest.mark.parametrize("length", [16, 32])
def test_old_and_new_secrets(clock: ManualClock, length: int) -> None:
    app = Authenticator(new_secret(length), clock)
    assert len(app.secret) == length
    assert find_time_step(app.secret, app.code(), clock(), after=None) is not None
    assert find_time_step(app.secret.lower(), app.code(), clock(), after=None) is not None


@pytest.mark.parametrize("written", ["{0} {1}", "{0}-{1}", " {0}{1} "])
def test_codes_may_be_written_in_groups(app: Authenticator, clock: ManualClock, written: str) -> None:
    code = app.code()
    assert find_time_step(app.secret, written.format(code[:3], code[3:]), clock(), after=None) is not None


@pytest.mark.parametrize(
    "code", ["", "12345", "1234567", "12345x", "٢٨٧٠٨٢", "²87082", "9" * 60_000, "-28708", "\ud800"]
)
def test_what_is_no_code_is_wrong(code: str) -> None:
    assert find_time_step(RFC_SECRET, code, datetime.fromtimestamp(59, UTC), after=None) is None


@pytest.mark.parametrize("secret", ["", "   ", "!!!!", "A", "ÄÖÜ", "GEZDGNBV1", "GEZD" * 3])
def test_with_a_secret_that_is_none_every_code_is_wrong(secret: str) -> None:
    assert find_time_step(secret, "287082", datetime.fromtimestamp(59, UTC), after=None) is None


def test_a_short_secret_is_the_hosts_own_choice(clock: ManualClock) -> None:
    app = Authenticator("GEZDGNBV", clock)
    assert find_time_step(app.secret, app.code(), clock(), after=None) is not None


def test_a_step_is_spent_once_and_never_backwards(alice: User) -> None:
    assert use_time_step(alice.id, 100)
    assert not use_time_step(alice.id, 100)
    assert not use_time_step(alice.id, 99)
    assert use_time_step(alice.id, 101)
    assert User.get_by_id(alice.id).totp_step == 101


def test_of_many_at_once_one_spends_it(alice: User, in_parallel: InParallel) -> None:
    spent = in_parallel(lambda: use_time_step(alice.id, 7), 20)
    assert sorted(spent) == [False] * 19 + [True]


def test_what_one_spends_is_not_anothers(alice: User, olivia: User) -> None:
    assert use_time_step(alice.id, 7)
    assert use_time_step(olivia.id, 7)


def test_any_moment_has_a_code(clock: ManualClock) -> None:
    app = Authenticator(now=clock)
    for _step in range(50):
        clock.advance(seconds=17)
        assert find_time_step(app.secret, app.code(), clock(), after=None) is not None
