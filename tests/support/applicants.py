"""Pending users inserted with SQL, without registering them one by one."""

import itertools
from contextlib import closing
from datetime import UTC, datetime, timedelta

from tests.support.authme.authme_database import SqliteFile
from tests.support.our_tables import our_database
from tests.support.stack import Stack

_numbers = itertools.count(1)


def insert_applicants(stack: Stack, count: int, apart: timedelta = timedelta(minutes=50)) -> list[str]:
    """Insert pending users `<name>@example.org` and return their names, oldest first. SQLite only.

    They registered so long after each other, the last one a while ago.
    """
    ours = our_database(stack)
    assert isinstance(ours, SqliteFile)
    first = datetime.now(UTC) - apart * count * 1.2
    rows = []
    for place in range(count):
        name = f"Waiter_{next(_numbers):04}"
        registered_at = (first + apart * place).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        rows.append((name, name.lower(), f"{name}@example.org", f"{name.lower()}@example.org", registered_at))
    with closing(ours.connect()) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "INSERT INTO regsvc_user (username, username_key, email, email_key, created_at, is_email_verified, status,"
            " applied_status, platform, origin, token_generation)"
            " VALUES (?, ?, ?, ?, ?, 1, 'pending', 'pending', 'java', 'registered', 0)",
            rows,
        )
        connection.execute("COMMIT")
    return [row[0] for row in rows]
