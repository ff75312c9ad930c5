"""The audit log: an entry for every action, none that can be removed, and fast pages."""

import random
from datetime import datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from peewee import Database, DatabaseError

from regsvc.database import bulk
from regsvc.database.audit import ACTIONS, Actor, Audit, AuditRecord, PastEntry
from regsvc.database.models import Review, User
from tests.support.database_fixtures import InParallel, MakeUser
from tests.support.each import assert_each
from tests.support.manual_clock import ManualClock

HOUR = timedelta(hours=1)


@pytest.fixture
def audit(our_database: Database, clock: ManualClock) -> Audit:
    return Audit(clock)


def targets(entries: tuple[AuditRecord, ...]) -> list[str | None]:
    return [entry.target for entry in entries]


def test_it_records_who_did_what_to_whom(audit: Audit, clock: ManualClock) -> None:
    audit.record("user.banned", Actor("Olivia", "203.0.113.7"), "Bob", {"reason": "griefing ⛏", "expiresAt": None})

    page = audit.list_entries(1, 20)

    assert page.total == 1
    assert not page.has_next
    entry = page.entries[0]
    assert (entry.action, entry.operator, entry.target, entry.ip) == (
        "user.banned",
        "Olivia",
        "Bob",
        "203.0.113.7",
    )
    assert entry.detail == {"reason": "griefing ⛏", "expiresAt": None}
    assert entry.created_at == clock()
    assert entry.occurrences == 1


def test_an_entry_goes_with_its_deed(our_database: Database, audit: Audit) -> None:
    with our_database.atomic() as transaction:
        audit.record("user.approved", Actor("Olivia"), "Alice")
        transaction.rollback()
    assert audit.list_entries(1, 20).total == 0


@pytest.mark.parametrize(
    "detail",
    [
        {"password": "x"},
        {"newPassword": "x"},
        {"password_hash": "x"},
        {"users": [{"accessToken": "x"}]},
        {"verification": {"code": "x"}},
    ],
)
def test_it_refuses_to_keep_a_secret(audit: Audit, detail: dict[str, object]) -> None:
    with pytest.raises(AssertionError, match="looks like a secret"):
        audit.record("user.password_changed", Actor("Olivia"), "Alice", detail)


def test_it_refuses_an_action_that_is_not_on_the_list(audit: Audit) -> None:
    with pytest.raises(AssertionError, match="not an audit action"):
        audit.record("user.hugged", Actor("Olivia"))
    with pytest.raises(AssertionError, match="not an audit action"):
        audit.tally("user.hugged", Actor("Olivia"), per=HOUR)


def test_failed_logins_are_counted_in_one_entry_an_hour(audit: Audit, clock: ManualClock) -> None:
    for _attempt in range(3):
        audit.tally("user.login_failed", Actor("", "203.0.113.7"), "Alice", per=HOUR)
    audit.tally("user.login_failed", Actor("", "203.0.113.8"), "Alice", per=HOUR)
    clock.advance(hours=1)
    audit.tally("user.login_failed", Actor("", "203.0.113.7"), "Alice", per=HOUR)

    entries = audit.list_entries(1, 20).entries

    assert [(entry.ip, entry.occurrences) for entry in entries] == [
        ("203.0.113.7", 1),
        ("203.0.113.8", 1),
        ("203.0.113.7", 3),
    ]


def test_addresses_of_one_client_are_counted_together(audit: Audit) -> None:
    audit.tally("user.login_failed", Actor("", "2001:db8::1"), "Alice", client="2001:db8::/64", per=HOUR)
    audit.tally("user.login_failed", Actor("", "2001:db8::2"), "ALICE", client="2001:db8::/64", per=HOUR)

    entries = audit.list_entries(1, 20).entries
    assert [(entry.ip, entry.occurrences) for entry in entries] == [("2001:db8::1", 2)]


def test_a_tally_loses_none_of_fifty_at_once(our_database: Database, audit: Audit, in_parallel: InParallel) -> None:
    def fail() -> None:
        with our_database.atomic():
            audit.tally("user.login_failed", Actor("", "203.0.113.7"), "Alice", per=HOUR)

    assert in_parallel(fail, 50) == [None] * 50
    assert [entry.occurrences for entry in audit.list_entries(1, 20).entries] == [50]


def test_nobody_takes_an_entry_back(our_database: Any, audit: Audit) -> None:
    audit.record("user.banned", Actor("Olivia"), "Bob")
    audit.tally("admin.denied", Actor("Mallory"), per=HOUR)
    audit.tally("admin.denied", Actor("Mallory"), per=HOUR)

    def check(statement: str) -> None:
        with pytest.raises(DatabaseError, match="append-only"):
            our_database.execute_sql(statement)

    assert_each(
        [
            "DELETE FROM regsvc_audit",
            "UPDATE regsvc_audit SET id = id + 100",
            "UPDATE regsvc_audit SET action = 'user.unbanned'",
            "UPDATE regsvc_audit SET operator = 'nobody'",
            "UPDATE regsvc_audit SET target = 'Alice'",
            "UPDATE regsvc_audit SET detail = '{}' WHERE tally IS NOT NULL",
            "UPDATE regsvc_audit SET ip = '198.51.100.1'",
            "UPDATE regsvc_audit SET created_at = '2031-01-01 00:00:00.000'",
            "UPDATE regsvc_audit SET tally = 'x'",
            "UPDATE regsvc_audit SET occurrences = 1 WHERE tally IS NOT NULL",
            "UPDATE regsvc_audit SET occurrences = 9 WHERE tally IS NULL",
        ],
        check,
    )
    assert [entry.occurrences for entry in audit.list_entries(1, 20).entries] == [2, 1]


def test_pages_begin_with_the_newest_entry(audit: Audit) -> None:
    for name in ("Alice", "Bob", "Carol", "Dave", "Eve"):
        audit.record("user.approved", Actor("Olivia"), name)

    first, last, beyond = (audit.list_entries(page, 2) for page in (1, 3, 4))

    assert targets(first.entries) == ["Eve", "Dave"]
    assert first.has_next
    assert targets(last.entries) == ["Alice"]
    assert not last.has_next
    assert (beyond.entries, beyond.total, beyond.has_next) == ((), 5, False)
    assert audit.list_entries(10**30, 100).entries == ()


def test_it_filters_by_action_people_and_time(audit: Audit, clock: ManualClock) -> None:
    start = clock()
    audit.record("user.approved", Actor("Olivia"), "Alice")
    clock.advance(minutes=1)
    audit.record("user.banned", Actor("Olivia"), "Alice")
    clock.advance(minutes=1)
    audit.record("user.banned", Actor("Oscar"), "Bob")

    def found(**filters: str | datetime) -> list[tuple[str, str | None]]:
        page = audit.list_entries(1, 20, **filters)  # type: ignore[arg-type]
        assert page.total == len(page.entries)
        return [(entry.action, entry.target) for entry in page.entries]

    assert found(action="user.banned") == [("user.banned", "Bob"), ("user.banned", "Alice")]
    assert found(operator="Olivia", action="user.banned") == [("user.banned", "Alice")]
    assert found(target="Alice", until=start) == [("user.approved", "Alice")]
    assert found(since=start + timedelta(minutes=2)) == [("user.banned", "Bob")]
    assert found(target="Mallory") == []


def test_names_match_however_they_were_written(audit: Audit, make_user: MakeUser, clock: ManualClock) -> None:
    make_user("Olivia")
    Review.create(
        user_id=99,
        username="ALiCE",
        username_key="alice",
        transition="delete",
        status_before="approved",
        operator="Olivia",
        reviewed_at=clock(),
    )
    audit.record("user.deleted", Actor("Olivia"), "ALiCE")

    assert audit.list_entries(1, 20, target="alice", operator="OLIVIA").total == 1
    assert User.select().count() == 1


def test_a_long_log_is_not_counted_to_its_end(audit: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "MAX_COUNT", 3)
    for number in range(9):
        audit.record("user.approved", Actor("Olivia"), f"Player{number}")

    page = audit.list_entries(1, 2)

    assert page.total is None
    assert page.has_next
    assert audit.list_entries(1, 2, target="Player1").total == 1
    pages = [audit.list_entries(number, 2) for number in range(1, 7)]
    assert [name for page in pages for name in targets(page.entries)] == [f"Player{n}" for n in range(8, -1, -1)]
    assert [page.has_next for page in pages] == [True, True, True, True, False, False]
    assert {page.total for page in pages} == {None}


def test_every_action_fits_its_column() -> None:
    assert max(map(len, ACTIONS)) <= 40
    assert len(set(ACTIONS)) == len(ACTIONS) == 58


def test_a_period_has_all_its_entries_however_clocks_were_set(audit: Audit, clock: ManualClock) -> None:
    chance, start, times = random.Random(25), clock(), dict[str, datetime]()

    def check(_round: int) -> None:
        names = [f"Player{len(times) + number}" for number in range(chance.randint(1, 9))]
        if chance.random() < 0.3:
            past = [start - timedelta(minutes=chance.randint(0, 99)) for _name in names]
            entries = list(zip(names, past, strict=True))
            audit.record_past([PastEntry("user.banned", "Oscar", name, {}, moment) for name, moment in entries])
            times.update(entries)
        else:
            clock.advance(minutes=chance.randint(-9, 30))
            audit.record_each("user.banned", Actor("Oscar"), names)
            times.update(dict.fromkeys(names, clock()))
        since, until = (start + timedelta(minutes=chance.randint(-120, 200)) for _end in range(2))
        for first, last in ((since, until), (since, None), (None, until)):
            every: list[dict[str, Any]] = [{}, {"operator": "Oscar"}, {"action": "user.banned"}]
            for filters in every:
                page = audit.list_entries(1, 500, since=first, until=last, **filters)
                expected = {n for n, at in times.items() if (first or at) <= at <= (last or at)}
                assert {entry.target for entry in page.entries} == expected
                assert page.total == len(expected)
                places = [(entry.created_at, entry.id) for entry in page.entries]
                assert places == sorted(places, reverse=True)

    assert_each(range(40), check)


def test_no_filter_reads_the_whole_log(our_database: Any, audit: Audit, clock: ManualClock) -> None:
    start = clock()
    for number in range(60):
        clock.advance(hours=1)
        kinds = [(ACTIONS[other % 9], f"Player{number % 7}_{other}", None) for other in range(100)]
        audit.record_all(Actor(("Olivia", "Oscar", "sync")[number % 3]), kinds)
    is_sqlite = our_database.param == "?"
    kind = "QUERY PLAN" if is_sqlite else "FORMAT=TRADITIONAL"  # which MySQL 9 no longer has as its default
    if not is_sqlite:
        our_database.execute_sql("ANALYZE TABLE regsvc_audit").fetchall()
    people: list[dict[str, Any]] = [{}, {"operator": "Oscar"}, {"target": "Player1_1"}]
    actions: list[dict[str, Any]] = [{}, {"action": "user.banned"}, {"action": "data.purged"}]
    hours = [{}, {"since": 57}, {"until": 2}, {"since": 30, "until": 31}]

    def check(filters: dict[str, Any]) -> None:
        execute = our_database.execute_sql
        with mock.patch.object(our_database, "execute_sql", side_effect=execute) as executed:
            audit.list_entries(1, 20, **filters)
        for sql, values in [call.args[:2] for call in executed.call_args_list if "LIMIT" in call.args[0]]:
            plan = execute(f"EXPLAIN {kind} {sql}", values).fetchall()
            [step] = [str(step) for step in plan if "t1" in str(step)]
            is_part = "SEARCH t1" in step if is_sqlite else "'range'" in step or "'ref'" in step
            assert is_part or not filters, f"{sql} {values}: {plan}"
            is_index_alone = "COVERING" in step if is_sqlite else "Using index" in step
            assert is_index_alone or "target" in filters, f"{sql} {values}: {plan}"

    assert_each(
        [
            {**person, **action, **{name: start + timedelta(hours=hour) for name, hour in period.items()}}
            for person in people
            for action in actions
            for period in hours
        ],
        check,
    )
