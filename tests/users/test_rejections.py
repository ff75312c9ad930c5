"""The review queue tells who was rejected before, by name and by e-mail address."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from regsvc.users.user_list import Rejections, UserList, UserQuery
from tests.support.authme_tables import AuthMeTable
from tests.support.game_server import GameServer
from tests.support.manual_clock import StandingClock
from tests.support.services import House, open_house

QUEUE = UserQuery(status="pending")


@pytest.fixture
def house(game_server: GameServer, authme_table: AuthMeTable, clock: StandingClock, tmp_path: Path) -> Iterator[House]:
    opened = open_house(game_server, authme_table, clock, tmp_path / "state")
    yield opened
    opened.close()


@pytest.fixture
def users(house: House) -> UserList:
    return house.app.services.users


def queue(users: UserList) -> dict[str, Rejections | None]:
    return {entry.username: entry.rejections for entry in users.list_users(QUEUE).entries}


def reject(house: House, name: str, reason: str | None = None, email: str | None = None) -> None:
    """An application that is turned down; a day later the name is free again."""
    house.register(name, email=email)
    house.decide("reject", name, reason=reason)
    house.clock.advance(days=1)


def test_who_comes_for_the_first_time_has_none(house: House, users: UserList) -> None:
    house.register("Alice")
    assert queue(users) == {"Alice": Rejections(0, None, None)}


def test_by_name(house: House, users: UserList, clock: StandingClock) -> None:
    reject(house, "Alice", "too young")
    house.register("alice", email="other@example.org")
    house.decide("reject", "Alice", reason="still too young")
    last_at = clock()
    clock.advance(days=1)
    house.register("ALICE", email="third@example.org")
    assert queue(users) == {"ALICE": Rejections(2, last_at, "still too young")}


def test_by_address_under_whatever_name(house: House, users: UserList, clock: StandingClock) -> None:
    house.register("Mallory", email="mallory@example.org")
    house.decide("reject", "Mallory", reason="no")
    last_at = clock()
    house.register("Innocent", email="Mallory@Example.org")
    house.register("Alice")
    assert queue(users) == {"Innocent": Rejections(1, last_at, "no"), "Alice": Rejections()}


def test_a_rejection_by_both_counts_once(house: House, users: UserList) -> None:
    reject(house, "Alice")
    house.register("Alice")
    [rejections] = queue(users).values()
    assert rejections is not None
    assert (rejections.count, rejections.last_reason) == (1, None)


def test_it_outlives_the_user(house: House, users: UserList) -> None:
    reject(house, "Alice", "too young")
    house.decide("delete", "Alice")
    house.register("Bob", email="alice@example.org")
    assert [(told.count, told.last_reason) for told in queue(users).values() if told] == [(1, "too young")]


def test_other_decisions_are_no_rejections(house: House, users: UserList) -> None:
    house.approved("Alice")
    house.decide("ban", "Alice")
    house.decide("delete", "Alice")
    house.register("Alice")
    assert queue(users) == {"Alice": Rejections()}


def test_only_who_waits_is_told_of(house: House, users: UserList) -> None:
    reject(house, "Alice")
    [entry] = users.list_users(UserQuery()).entries
    assert entry.rejections is None


def test_it_costs_one_query_for_a_whole_page(house: House, users: UserList, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(12):
        reject(house, f"Player{number}")
        house.register(f"Player{number}")
    with caplog.at_level(logging.DEBUG, "peewee"):
        assert {told.count for told in queue(users).values() if told} == {1}
    assert sum("regsvc_review" in record.getMessage() for record in caplog.records) == 1
