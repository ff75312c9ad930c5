"""Signals: who else came from an applicant's address or network."""

from collections.abc import Callable

import pytest
from peewee import Database

from regsvc.database.models import User
from regsvc.users.signals import Signal, find_signals
from tests.support.database_fixtures import MakeUser
from tests.support.statements import recorded_statements


@pytest.fixture
def arrive(make_user: MakeUser) -> Callable[..., User]:
    def arrive(name: str, address: str | None, status: str = "pending") -> User:
        make_user(name, status=status)
        User.update(registration_ip=address).where(User.username == name).execute()
        found: User = User.get(User.username == name)
        return found

    return arrive


def told(users: list[User]) -> dict[str, list[tuple[str, int, list[str]]]]:
    found: dict[int, tuple[Signal, ...]] = find_signals(users)
    return {
        user.username: [(it.kind, it.count, [other.username for other in it.users]) for it in found.get(user.id, ())]
        for user in users
    }


def test_a_wave_is_seen(arrive: Callable[..., User]) -> None:
    alice, bob = arrive("Alice", "203.0.113.7"), arrive("Bob", "203.0.113.7")
    arrive("Carla", "203.0.113.200", "banned")
    arrive("Dora", "203.0.113.9", "approved")
    arrive("Far", "203.0.114.7")
    arrive("Nearly", "203.0.11.7")
    assert told([alice, bob]) == {
        "Alice": [("same_address", 1, ["Bob"]), ("same_network", 2, ["Carla", "Dora"])],
        "Bob": [("same_address", 1, ["Alice"]), ("same_network", 2, ["Carla", "Dora"])],
    }


@pytest.mark.parametrize(
    ("own", "near", "far"),
    [
        ("2001:db8:1:2::5", "2001:db8:1:2:a:b:c:d", "2001:db8:1:3::5"),
        ("2001:db8::5", "2001:db8::a:b:c:d", "2001:db8:0:1::5"),
        ("2001::5:1:2:3:4", "2001:0:0:5::1", "2001:0:5::1"),
        ("2001:db8:1::7", "2001:db8:1:0:a:b:c:d", "2001:db8:1:1::7"),
        ("2001:db8:0:0:1::", "2001:db8::7", "2001:db8::1:0:0:1:1"),
    ],
)
def test_an_ipv6_network_is_a_64(arrive: Callable[..., User], own: str, near: str, far: str) -> None:
    alice = arrive("Alice", own)
    arrive("Near", near)
    arrive("Far", far)
    assert told([alice]) == {"Alice": [("same_network", 1, ["Near"])]}


@pytest.mark.parametrize("address", [None, "127.0.0.1", "::1", "no address"])
def test_what_tells_nothing(arrive: Callable[..., User], address: str | None) -> None:
    assert told([arrive("Alice", address), arrive("Bob", address)]) == {"Alice": [], "Bob": []}


@pytest.mark.one_database("mariadb")
def test_a_page_costs_one_statement(arrive: Callable[..., User]) -> None:
    page = [arrive(f"Player_{number}", f"203.0.{number}.7") for number in range(100)]
    with recorded_statements() as statements:
        find_signals(page)
    assert len(statements) == 1


def test_an_index_finds_them(arrive: Callable[..., User], our_database: Database, database_kind: str) -> None:
    if database_kind == "sqlite":
        rows = our_database.execute_sql(
            "EXPLAIN QUERY PLAN SELECT id FROM regsvc_user WHERE (registration_ip >= '1.2.3.' AND registration_ip <"
            " '1.2.3/') OR (registration_ip >= '2.2.3.' AND registration_ip < '2.2.3/')"
        ).fetchall()
        assert "regsvc_user_registration_ip" in str(rows)
        assert "SCAN" not in str(rows)
    else:
        [row] = our_database.execute_sql(
            "EXPLAIN SELECT id FROM regsvc_user WHERE registration_ip >= '1.2.3.' AND registration_ip < '1.2.3/'"
        ).fetchall()
        assert "regsvc_user_registration_ip" in str(row)
