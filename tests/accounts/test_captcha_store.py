from datetime import timedelta

import pytest

from regsvc.accounts.captcha import Challenge, ChallengeStore
from tests.support.manual_clock import ManualClock

MANY, FEW = 100, 10


@pytest.fixture
def outstanding(clock: ManualClock) -> ChallengeStore:
    return ChallengeStore(clock, MANY, FEW)


def challenge(clock: ManualClock, client: str = "alice") -> Challenge:
    return Challenge(b"42", client, clock() + timedelta(minutes=5))


def test_a_challenge_is_found_until_it_is_removed(outstanding: ChallengeStore, clock: ManualClock) -> None:
    put = challenge(clock)
    outstanding.put("token", put)
    assert outstanding.find("token") is put
    assert outstanding.find("tokem") is None
    outstanding.remove("token")
    assert outstanding.find("token") is None
    assert len(outstanding) == 0
    with pytest.raises(KeyError):
        outstanding.remove("token")


def test_what_has_expired_leaves_the_memory(outstanding: ChallengeStore, clock: ManualClock) -> None:
    for number in range(FEW):
        outstanding.put(str(number), challenge(clock))
    clock.advance(minutes=5)
    outstanding.put("late", challenge(clock))
    assert len(outstanding) == 1


def test_a_client_with_too_many_loses_the_oldest(outstanding: ChallengeStore, clock: ManualClock) -> None:
    outstanding.put("bobs", challenge(clock, "bob"))
    for number in range(FEW + 3):
        outstanding.put(str(number), challenge(clock, "mallory"))
    assert [number for number in range(FEW + 3) if outstanding.find(str(number))] == list(range(3, FEW + 3))
    assert outstanding.find("bobs") is not None


def test_who_has_many_makes_room_for_who_has_few(outstanding: ChallengeStore, clock: ManualClock) -> None:
    """However often it happens: who has one challenge keeps it while anybody has two."""
    for number in range(FEW):
        outstanding.put(f"player {number}", challenge(clock, f"player {number}"))
    for number in range(1000):
        outstanding.put(f"flood {number}", challenge(clock, f"mallory {number % 20}"))
    outstanding.put("late", challenge(clock, "latecomer"))
    assert len(outstanding) == MANY
    assert all(outstanding.find(f"player {number}") for number in range(FEW))
    assert outstanding.find("late") is not None


def test_where_everybody_has_one_the_oldest_goes(outstanding: ChallengeStore, clock: ManualClock) -> None:
    for number in range(MANY + 1):
        outstanding.put(str(number), challenge(clock, f"client {number}"))
    assert outstanding.find("0") is None
    assert all(outstanding.find(str(number)) for number in range(1, MANY + 1))


def test_a_hundred_thousand_clients_fill_no_memory(clock: ManualClock) -> None:
    outstanding = ChallengeStore(clock, 1000, FEW)
    waiting = Challenge(b"42", "", clock() + timedelta(minutes=5))
    for number in range(100_000):
        outstanding.put(str(number), Challenge(b"42", f"client {number}", waiting.expires_at))
    assert len(outstanding) == len(outstanding._keys_of) == 1000
    assert {count: len(clients) for count, clients in outstanding._clients_with.items()} == {1: 1000}


def test_the_answer_is_not_printed(clock: ManualClock) -> None:
    assert "42" not in repr(challenge(clock))
