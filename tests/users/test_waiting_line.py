"""Places in the line of those who wait for review, and what was decided."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from peewee import Database

from regsvc.database.models import Review, User
from regsvc.registration.applications import status
from regsvc.registration.applications.status import DecidedFields, UsualWait, count_decided, find_oldest, find_places
from tests.support.database_fixtures import MakeUser
from tests.support.manual_clock import ManualClock


def explain(database: Database) -> str:
    return "EXPLAIN FORMAT=TRADITIONAL" if database.param == "%s" else "EXPLAIN QUERY PLAN"


def recorded(database: Database, patch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Return a list of the statements sent from now on."""
    statements: list[tuple[str, Any]] = []
    execute: Any = database.execute_sql

    def record(sql: str, parameters: Any = None, *rest: Any) -> Any:
        statements.append((sql, parameters))
        return execute(sql, parameters, *rest)

    patch.setattr(database, "execute_sql", record)
    return statements


def decide(user: User, clock: ManualClock, hours: int, **columns: object) -> None:
    """Record an approval so many hours after the registration."""
    row = {
        "user_id": user.id,
        "username": user.username,
        "username_key": user.username_key,
        "transition": "approve",
        "status_before": "pending",
        "operator": "Olivia",
        "reviewed_at": user.created_at + timedelta(hours=hours),
    }
    Review.insert(**row | columns).execute()


def test_places_count_those_who_wait(make_user: MakeUser) -> None:
    users = [make_user(name) for name in ("Alice", "Bob", "Carol", "Dora", "Eve")]
    alice, bob, carol, dora, eve = (user.id for user in users)
    User.update(status="pending").execute()
    User.update(status="approved").where(User.id.in_([alice, dora])).execute()
    assert find_places([eve, bob]) == ({bob: 1, eve: 3}, 3)
    assert find_places([]) == ({}, 3)
    assert find_places([carol]) == ({carol: 2}, 3)


@pytest.mark.every_database
def test_the_place_is_counted_in_the_index(
    our_database: Database, make_user: MakeUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = make_user("Alice")
    statements = recorded(our_database, monkeypatch)
    find_places([alice.id])
    for sql, parameters in [*statements]:
        plan = str(our_database.execute_sql(f"{explain(our_database)} {sql}", parameters).fetchall())
        assert "regsvc_user_queue" in plan
        assert not re.search("filesort|TEMP B-TREE", plan), plan


@pytest.mark.every_database
def test_who_waits_longest_is_the_first_in_the_index(
    our_database: Database, make_user: MakeUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever came before them."""
    assert find_oldest() is None
    for number in range(300):
        make_user(f"Old_{number}", status="approved")
    make_user("Asked", asked_at=datetime(2031, 5, 4, tzinfo=UTC))
    make_user("Bob")
    make_user("Carol")
    statements = recorded(our_database, monkeypatch)
    oldest = find_oldest()
    assert oldest is not None
    assert oldest.username == "Bob"
    [(sql, parameters)] = statements
    plan = str(our_database.execute_sql(f"{explain(our_database)} {sql}", parameters).fetchall())
    assert re.search("regsvc_user_queue|optimized away", plan), plan
    assert "SCAN" not in plan
    assert "'index'" not in plan


def test_the_usual_wait_is_the_median_of_first_decisions(make_user: MakeUser, clock: ManualClock) -> None:
    users = [make_user(f"User_{number}") for number in range(8)]
    User.update(origin="registered").execute()
    for hours, user in enumerate(users[:5]):
        decide(user, clock, hours)
    assert UsualWait(clock).find_seconds() == 2 * 3600
    decide(users[5], clock, 900, operator="registration")
    decide(users[7], clock, 900, operator="sync", transition="reject")
    decide(users[6], clock, 900, transition="ban")
    decide(users[4], clock, 900, status_before="rejected")
    wait = UsualWait(clock)
    assert wait.find_seconds() == 2 * 3600
    User.delete().where(User.id == users[0].id).execute()
    assert wait.find_seconds() == 2 * 3600, "for a minute"
    clock.advance(minutes=1)
    assert wait.find_seconds() is None, "of four"


@pytest.mark.every_database
def test_decisions_are_counted_by_the_days_of_the_host(
    our_database: Database, make_user: MakeUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Paris the clocks are put back in the night to 26 October 2031."""
    alice, paris = make_user("Alice"), ZoneInfo("Europe/Paris")
    now = datetime(2031, 10, 27, 9, tzinfo=paris)

    def decide_at(*at: int, **columns: object) -> None:
        moment = datetime(*at, tzinfo=paris)  # type: ignore[arg-type,misc]
        columns = {"operator": "Olivia", "transition": "approve", "reviewed_at": moment.astimezone(UTC)} | columns
        names = {"user_id": alice.id, "username": "Alice", "username_key": "alice", "status_before": "pending"}
        Review.insert(**names | columns).execute()

    decide_at(2031, 10, 20, 23, 59)
    decide_at(2031, 10, 21, 0, 0)
    decide_at(2031, 10, 26, 0, 0, transition="reject")
    decide_at(2031, 10, 26, 23, 59)
    decide_at(2031, 10, 27, 0, 0, operator="discord-bot (Olivia)")
    decide_at(2031, 10, 27, 8, transition="ban")
    decide_at(2031, 10, 27, 8, operator="registration")
    decide_at(2031, 10, 27, 8, operator="sync", transition="reject")
    counts = {21: (1, 0), 26: (1, 1), 27: (1, 0)}
    expected = tuple(DecidedFields(str(date(2031, 10, day)), *counts.get(day, (0, 0))) for day in range(21, 28))

    statements = recorded(our_database, monkeypatch)
    assert count_decided(now, paris) == expected
    [(sql, parameters)] = statements
    plan = str(our_database.execute_sql(f"{explain(our_database)} {sql}", parameters).fetchall())
    assert "regsvc_review_reviewed_at" in plan
    assert re.search("Using index|COVERING INDEX", plan), plan

    monkeypatch.setattr(status, "_MOST_DECISIONS", 7)
    assert count_decided(now, paris) == expected
    decide_at(2031, 10, 27, 8, operator="registration")
    assert count_decided(now, paris) is None, "very many"
