"""Events, read from the audit log."""

from typing import Any

import pytest
from peewee import Database

from regsvc.core.clock import epoch_ms
from regsvc.database.audit import ACTIONS, Actor, Audit
from regsvc.runtime.event_streams import EVENT_NAMES, list_newest, newest_id, read_tail
from tests.support.database_fixtures import MakeUser
from tests.support.event_harness import add_many
from tests.support.manual_clock import ManualClock


@pytest.fixture
def audit(our_database: Database, clock: ManualClock) -> Audit:
    return Audit(clock)


def told_of() -> list[tuple[str, Any]]:
    return [(event.name, dict(event.data)) for event in read_tail(0)[1]]


def test_what_happens_to_a_user_is_an_event(audit: Audit, make_user: MakeUser, clock: ManualClock) -> None:
    make_user("Alice", status="approved")
    audit.record("user.registered", Actor("Alice", "192.0.2.1"), "Alice")
    audit.record("user.approved", Actor("Olivia", "192.0.2.2"), "Alice", {"statusBefore": "pending"})
    audit.record("user.deleted", Actor("cli:root"), "Bob")
    at = epoch_ms(clock())
    assert told_of() == [
        ("user_registered", {"username": "Alice", "status": "approved", "at": at, "by": "Alice"}),
        ("user_approved", {"username": "Alice", "status": "approved", "at": at, "by": "Olivia"}),
        ("user_deleted", {"username": "Bob", "status": "deleted", "at": at, "by": "cli:root"}),
    ]


def test_a_run_of_the_sync_tells_its_numbers(audit: Audit, clock: ManualClock) -> None:
    audit.record("sync.run", Actor("sync"), None, {"scanned": 7, "adopted": 2})
    numbers = {"scanned": 7, "adopted": 2, "provisioned": 0, "updated": 0, "locked": 0, "restored": 0, "removed": 0}
    assert told_of() == [("sync_finished", {**numbers, "at": epoch_ms(clock()), "by": "sync"})]


def test_every_other_entry_is_none(audit: Audit) -> None:
    for action in ACTIONS:
        audit.record(action, Actor("Olivia"), "Alice")
    assert [name for name, _data in told_of()] == [EVENT_NAMES[action] for action in ACTIONS if action in EVENT_NAMES]
    assert newest_id() == len(ACTIONS)


def test_nothing_happened_yet(our_database: Database) -> None:
    assert newest_id() == 0
    assert read_tail(0) == (0, [])


def test_a_long_tail_is_read_whole_and_a_long_absence_is_not(our_database: Database, clock: ManualClock) -> None:
    add_many(1203, clock)
    assert [event.id for event in read_tail(0)[1]] == list(range(1, 1204))
    assert [event.id for event in list_newest(0, 500)] == list(range(704, 1204))
    assert [event.id for event in list_newest(1200, 500)] == [1201, 1202, 1203]


def test_an_event_is_written_as_browsers_read_it(audit: Audit) -> None:
    audit.record("user.banned", Actor("Olivia"), "Evil\nName")
    [event] = read_tail(0)[1]
    assert event.encode().startswith(b'id: 1\nevent: user_banned\ndata: {"username":"Evil\\nName"')
    assert event.encode().count(b"\n") == 4
