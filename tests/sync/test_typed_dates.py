"""Dates typed in SQL: the database refuses what is none, and one that is there already concerns its own row alone."""

import itertools
import logging
import sqlite3

import pymysql
import pytest

from regsvc.database.models import User
from tests.support.authme.authme_database import MariaDBSchema, SqliteFile
from tests.support.services import PASSWORD, ServiceHarness
from tests.support.typed_dates import BAD_DATES, type_date

DATES = ("created_at", "password_set_at", "reviewed_at", "ban_expires_at", "last_login_at")


def test_what_is_no_date_is_refused_by_the_database(services: ServiceHarness) -> None:
    services.approved("Alice")
    before = services.ours.query("SELECT * FROM regsvc_user")
    values = set(BAD_DATES.values())
    if isinstance(services.ours, MariaDBSchema):
        values -= {20310601, "2031-06-01 12:00:00+02:00"}  # dates for MariaDB
    for value, column in itertools.product(values, DATES):
        with pytest.raises((sqlite3.IntegrityError, pymysql.err.MySQLError)) as refused:
            services.ours.execute(f"UPDATE regsvc_user SET {column} = ?", (value,))
        assert column in str(refused.value)
    assert services.ours.query("SELECT * FROM regsvc_user") == before


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_a_new_row_has_dates_too(services: ServiceHarness) -> None:
    services.approved("Alice")
    with pytest.raises(sqlite3.IntegrityError, match=r"created_at takes a date such as 2031-06-01 or"):
        services.ours.execute(
            "INSERT INTO regsvc_user (username, username_key, status, applied_status, origin, created_at) "
            "VALUES ('Bob', 'bob', 'approved', 'approved', 'created', 'today')"
        )


def test_a_date_is_taken_with_or_without_a_time(services: ServiceHarness) -> None:
    services.approved("Alice")
    for value in ("2031-06-01", "2031-06-01 18:30", "2031-06-01 18:30:00", "2031-06-01 18:30:00.123"):
        services.ours.execute("UPDATE regsvc_user SET status = 'banned', ban_expires_at = ?", (value,))
        assert services.sync().errors == []
        ends_at = services.user("Alice").ban_expires_at
        assert ends_at is not None
        assert ends_at.isoformat(" ").startswith(value)


@pytest.mark.parametrize("value", [BAD_DATES[name] for name in ("dotted", "no such month", "words", "blob", "number")])
def test_a_ban_until_no_date_is_a_permanent_one_and_told_once(
    services: ServiceHarness, value: object, caplog: pytest.LogCaptureFixture
) -> None:
    """Alice was banned so under an older version, together with Bob, whose ban has an end, and Carol, whose is over."""
    for name in ("Alice", "Bob", "Carol"):
        services.approved(name)
    services.sync()
    type_date(services.ours, "ban_expires_at", value, "alice")
    if services.user("Alice").ban_expires_at is not None:
        return  # MariaDB takes it for a date
    services.ours.execute("UPDATE regsvc_user SET status = 'banned'")
    for name, end in (("bob", "2090-01-01"), ("carol", "2020-01-01")):
        services.ours.execute("UPDATE regsvc_user SET ban_expires_at = ? WHERE username_key = ?", (end, name))
    with caplog.at_level(logging.WARNING, "regsvc.sync.run"):
        first = services.sync()
        services.sync()
    assert [error.username for error in first.errors] == ["alice"]
    assert [line for line in caplog.messages if "ban_expires_at of Alice is '" in line] == caplog.messages
    assert len(caplog.messages) == 1
    assert [entry.operator for entry in services.audits("sync.edit_refused", "Alice")] == ["sql"]
    assert {name: services.user(name).status for name in ("Alice", "Bob", "Carol")} == {
        "Alice": "banned",
        "Bob": "banned",
        "Carol": "approved",
    }
    assert services.is_locked("alice")
    assert services.login("Carol", PASSWORD).token
    assert services.sync().errors == []

    services.ours.execute("UPDATE regsvc_user SET ban_expires_at = '2020-01-01' WHERE username_key = 'alice'")
    assert services.sync().errors == []
    assert services.user("Alice").status == "approved"
    assert services.authme.login("Alice", PASSWORD)


def test_each_date_concerns_its_own_row_alone(services: ServiceHarness) -> None:
    for name in ("Alice", "Bob"):
        services.approved(name)
    services.sync()
    for column in DATES:
        type_date(services.ours, column, "1 June", "alice")
    services.ours.execute("UPDATE regsvc_user SET status = 'banned' WHERE username_key = 'bob'")
    report = services.sync()
    assert [error.username for error in report.errors] == ["alice"] * len(DATES)
    assert report.locked == 1
    services.decide("ban", "Alice")
    assert services.is_locked("alice")
    services.decide("unban", "Alice")
    assert services.login("Alice", PASSWORD).token


def test_hundreds_of_such_bans_hide_no_ban_that_is_over(services: ServiceHarness) -> None:
    """More than a page of them, and all of them before it in the index."""
    services.approved("Alice")
    rows = [
        {
            "username": f"User{number}",
            "username_key": f"user{number}",
            "status": "banned",
            "applied_status": "banned",
            "banned_from": "approved",
            "origin": "created",
            "created_at": services.clock(),
        }
        for number in range(600)
    ]
    User.insert_many(rows).execute()
    if isinstance(services.ours, SqliteFile):
        services.ours.execute("DROP TRIGGER regsvc_user_gets_dates")
        services.ours.execute("UPDATE regsvc_user SET ban_expires_at = '01.06.2031' WHERE status = 'banned'")
    else:
        services.ours.execute("UPDATE IGNORE regsvc_user SET ban_expires_at = '01.06.2031' WHERE status = 'banned'")
    services.ours.execute(
        "UPDATE regsvc_user SET status = 'banned', ban_expires_at = '2020-01-01' WHERE username_key = 'alice'"
    )
    report = services.sync()
    assert len(report.errors) == 600
    assert services.user("Alice").status == "approved"
    assert len(services.audits("sync.edit_refused")) == 21, "twenty by name, and one for all others"
