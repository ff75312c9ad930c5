"""Bulk statements: values of every type, on both databases."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from peewee import Database, IntegrityError

from regsvc.database.bulk import insert_rows, select_rows, update_rows
from regsvc.database.models import AuditEntry, SyncRecord, User
from tests.support.manual_clock import ManualClock

MANY = 1203  # more than two statements' worth
ODD_TEXTS = [
    "it's",
    'a "quote"',
    "back\\slash",
    "100 % of %s",
    "zwölf ⛏ 😀",
    "",
    "a\nb\0c",
    "?",
    ", NULL) -- ",
    "x AS c0",
    "', '\x1f",  # what separates values while they are escaped: the last, so that few rows have none
]


def make_users(count: int, moment: datetime) -> list[dict[str, Any]]:
    return [
        {
            "username": f"Player{n:04}",
            "username_key": f"player{n:04}",
            "email": None if n % 3 else f"p{n}@example.org",
            "email_key": None if n % 3 else f"p{n}@example.org",
            "is_email_verified": n % 2 == 0,
            "status": "approved",
            "applied_status": "approved",
            "origin": "adopted",
            "reason": ODD_TEXTS[n % len(ODD_TEXTS)],
            "created_at": moment + timedelta(milliseconds=n),
            "totp_step": None if n % 5 else n << 32,
        }
        for n in range(count)
    ]


FIELDS: list[Any] = [
    User.username,
    User.username_key,
    User.email,
    User.email_key,
    User.is_email_verified,
    User.status,
    User.applied_status,
    User.origin,
    User.reason,
    User.created_at,
    User.totp_step,
]


@pytest.mark.parametrize("count", [0, 1, len(ODD_TEXTS) - 1, MANY])
def test_rows_come_back_as_they_were_inserted(our_database: Database, clock: ManualClock, count: int) -> None:
    users = make_users(count, clock())
    insert_rows(our_database, User, users)
    keys = [user["username_key"] for user in users]
    found = select_rows(our_database, User, FIELDS, User.username_key, [*keys, "nobody"])
    assert sorted(found) == [tuple(user.values()) for user in users]
    assert {type(row[4]) for row in found} <= {bool}
    assert all(row[9].tzinfo is UTC for row in found)
    assert User.select().count() == count


def test_fields_that_are_not_named_have_their_defaults(our_database: Database, clock: ManualClock) -> None:
    insert_rows(our_database, User, make_users(2, clock()))
    user = User.get(User.username_key == "player0001")
    assert (user.token_generation, user.platform, user.password_hash) == (0, "java", None)


def test_a_row_that_is_there_already_is_refused(our_database: Database, clock: ManualClock) -> None:
    users = make_users(3, clock())
    insert_rows(our_database, User, users[1:2])
    with pytest.raises(IntegrityError), our_database.atomic():
        insert_rows(our_database, User, users)
    assert User.select().count() == 1


@pytest.mark.parametrize("count", [1, 2, MANY])
def test_rows_are_updated_by_their_keys(our_database: Database, clock: ManualClock, count: int) -> None:
    insert_rows(our_database, User, make_users(MANY, clock()))
    ids = dict(select_rows(our_database, User, [User.username_key, User.id], User.status, ["approved"]))
    moment = clock() + timedelta(days=1)
    changed = [
        {
            "id": ids[f"player{n:04}"],
            "status": "banned",
            "reason": ODD_TEXTS[n % 7],
            "reviewed_at": moment if n else None,
        }
        for n in range(count)
    ]
    update_rows(our_database, User, changed)
    fields: list[Any] = [User.id, User.status, User.reason, User.reviewed_at]
    now = select_rows(our_database, User, fields, User.id, list(ids.values()))
    assert sorted(row for row in now if row[1] == "banned") == [tuple(row.values()) for row in changed]
    assert sum(row[1] == "approved" for row in now) == MANY - count


def test_rows_are_updated_by_keys_that_are_texts(our_database: Database, clock: ManualClock) -> None:
    keys = [f"player{n}" for n in range(20)] + ["ålice", "alice", "ALICE", "it's 100 %s", "x AS c0"]
    for key in keys:
        SyncRecord.insert(
            username_key=key, presence="present", plugin_state="off", plugin_since=clock(), base_hash="x"
        ).execute()
    update_rows(
        our_database,
        SyncRecord,
        [{"username_key": key, "base_hash": f"new {key}", "base_salt": None} for key in keys[1:]],
    )
    found = dict(
        select_rows(
            our_database, SyncRecord, [SyncRecord.username_key, SyncRecord.base_hash], SyncRecord.username_key, keys
        )
    )
    assert found == {"player0": "x"} | {key: f"new {key}" for key in keys[1:]}
    update_rows(our_database, SyncRecord, [])


def test_rows_can_be_locked_while_they_are_read(our_database: Database, clock: ManualClock) -> None:
    insert_rows(our_database, User, make_users(2, clock()))
    with our_database.atomic():
        found = select_rows(our_database, User, [User.username], User.username_key, ["player0001"], for_update=True)
    assert found == [("Player0001",)]
    assert select_rows(our_database, User, [User.username], User.username_key, []) == []


def test_large_texts_are_inserted(our_database: Database, clock: ManualClock) -> None:
    entries = [
        {"created_at": clock(), "action": "user.banned", "operator": "Olivia", "detail": "x" * 3000 + str(n)}
        for n in range(600)
    ]
    insert_rows(our_database, AuditEntry, entries)
    assert AuditEntry.select().count() == 600


@pytest.mark.parametrize("database_kind", ["mariadb"])
def test_backslashes_may_mean_nothing(our_database: Database, clock: ManualClock) -> None:
    """A proxy may drop the sql_mode that we set."""
    our_database.execute_sql("SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'")
    texts = [*ODD_TEXTS[:6], *ODD_TEXTS[7:], "x'), (SELECT 1) -- ", "\\', 1) -- "]
    users = [user | {"reason": text} for user, text in zip(make_users(len(texts), clock()), texts, strict=True)]
    insert_rows(our_database, User, users)
    assert [user.reason for user in User.select().order_by(User.id)] == texts
    update_rows(our_database, User, [{"id": user.id, "reason": f"{user.reason}'"} for user in User.select()])
    assert [user.reason for user in User.select().order_by(User.id)] == [f"{text}'" for text in texts]
