"""The review queue tells who was rejected before, by name and by e-mail address."""

import logging

import pytest

from regsvc.core.errors import UsernameTaken
from regsvc.users.signals import RejectionFields
from regsvc.users.user_list import UserList
from regsvc.users.user_query import UsersQuery
from tests.support.manual_clock import ManualClock
from tests.support.services import ServiceHarness

QUEUE = UsersQuery(status="pending")


@pytest.fixture
def users(services: ServiceHarness) -> UserList:
    return services.app.users


def queue(users: UserList) -> dict[str, RejectionFields | None]:
    return {entry.username: entry.rejections for entry in users.list_users(QUEUE).entries}


def reject(services: ServiceHarness, name: str, reason: str | None = None, email: str | None = None) -> None:
    """An application that is turned down; a day later the name is free again."""
    services.register(name, email=email)
    services.decide("reject", name, reason=reason)
    services.clock.advance(days=1)


def test_a_rejection_typed_in_sql_frees_the_name_once_it_is_carried_out(services: ServiceHarness) -> None:
    """Of Alice, who waits, it will be a decision; of Bob, who was approved, it is a mistake that will be undone."""
    services.register("Alice")
    services.approved("Bob", password=None)  # no row in AuthMe's table holds the name
    services.ours.execute("UPDATE regsvc_user SET status = 'rejected'", ())
    services.clock.advance(days=2)
    for name in ("Alice", "Bob"):
        with pytest.raises(UsernameTaken):
            services.register(name, email="mallory@example.org")
    services.sync()
    services.clock.advance(days=2)
    assert services.register("Alice", email="mallory@example.org") == "pending"
    assert services.user("Bob").status == "approved"


def test_who_comes_for_the_first_time_has_none(services: ServiceHarness, users: UserList) -> None:
    services.register("Alice")
    assert queue(users) == {"Alice": RejectionFields(0, None, None)}


def test_by_name(services: ServiceHarness, users: UserList, clock: ManualClock) -> None:
    reject(services, "Alice", "too young")
    services.register("alice", email="other@example.org")
    services.decide("reject", "Alice", reason="still too young")
    last_at = clock()
    clock.advance(days=1)
    services.register("ALICE", email="third@example.org")
    assert queue(users) == {"ALICE": RejectionFields(2, last_at, "still too young")}


def test_by_address_under_whatever_name(services: ServiceHarness, users: UserList, clock: ManualClock) -> None:
    services.register("Mallory", email="mallory@example.org")
    services.decide("reject", "Mallory", reason="no")
    last_at = clock()
    services.register("Innocent", email="Mallory@Example.org")
    services.register("Alice")
    assert queue(users) == {"Innocent": RejectionFields(1, last_at, "no"), "Alice": RejectionFields()}


def test_a_rejection_by_both_counts_once(services: ServiceHarness, users: UserList) -> None:
    reject(services, "Alice")
    services.register("Alice")
    [rejections] = queue(users).values()
    assert rejections is not None
    assert (rejections.count, rejections.last_reason) == (1, None)


def test_it_outlives_the_user(services: ServiceHarness, users: UserList) -> None:
    reject(services, "Alice", "too young")
    services.decide("delete", "Alice")
    services.register("Bob", email="alice@example.org")
    assert [(told.count, told.last_reason) for told in queue(users).values() if told] == [(1, "too young")]


def test_other_decisions_are_no_rejections(services: ServiceHarness, users: UserList) -> None:
    services.approved("Alice")
    services.decide("ban", "Alice")
    services.decide("delete", "Alice")
    services.register("Alice")
    assert queue(users) == {"Alice": RejectionFields()}


def test_only_who_waits_is_told_of(services: ServiceHarness, users: UserList) -> None:
    reject(services, "Alice")
    [entry] = users.list_users(UsersQuery()).entries
    assert entry.rejections is None


def test_it_costs_one_query_for_a_whole_page(
    services: ServiceHarness, users: UserList, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(12):
        reject(services, f"Player{number}")
        services.register(f"Player{number}")
    with caplog.at_level(logging.DEBUG, "peewee"):
        assert {told.count for told in queue(users).values() if told} == {1}
    assert sum("regsvc_review" in record.getMessage() for record in caplog.records) == 1
