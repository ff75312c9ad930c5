"""Places in the line of those who wait for review."""

from datetime import timedelta

from peewee import Database

from regsvc.database.models import Review, User
from regsvc.registration.applications.status import UsualWait, find_places
from tests.support.database_fixtures import MakeUser
from tests.support.manual_clock import ManualClock


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


def test_the_place_is_counted_in_the_index(our_database: Database, make_user: MakeUser) -> None:
    make_user("Alice")
    plan = "EXPLAIN" if our_database.param == "%s" else "EXPLAIN QUERY PLAN"
    rows = our_database.execute_sql(
        f"{plan} SELECT COUNT(id) FROM regsvc_user WHERE status = 'pending' AND id > 0 AND id <= 9"
    ).fetchall()
    assert "regsvc_user_status" in str(rows)


def test_the_usual_wait_is_the_median_of_first_decisions(make_user: MakeUser, clock: ManualClock) -> None:
    users = [make_user(f"User_{number}") for number in range(8)]
    User.update(origin="registered").execute()
    for hours, user in enumerate(users[:5]):
        decide(user, clock, hours)
    assert UsualWait(clock).find_seconds() == 2 * 3600
    decide(users[5], clock, 900, operator="registration")
    decide(users[6], clock, 900, transition="ban")
    decide(users[4], clock, 900, status_before="rejected")
    wait = UsualWait(clock)
    assert wait.find_seconds() == 2 * 3600
    User.delete().where(User.id == users[0].id).execute()
    assert wait.find_seconds() == 2 * 3600, "for a minute"
    clock.advance(minutes=1)
    assert wait.find_seconds() is None, "of four"
