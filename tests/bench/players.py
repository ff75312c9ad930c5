"""Players inserted with SQL, and what the databases alone need for them."""

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from tests.support.authme.authme_database import SqliteFile
from tests.support.stack import Stack

COLUMNS = "username, realname, password, email, regdate"


def insert_players(stack: Stack, count: int, password: str | None = None) -> list[str]:
    """Insert players who registered long ago, in an order that no index has; return their names.

    `password` is the hash of all of them; None gives each one its own.
    """
    digits = list(range(count))
    random.Random(1).shuffle(digits)
    names = [f"Player_{n:07}" for n in digits]
    rows = (
        (f"player_{n:07}", f"Player_{n:07}", password or own_hash(n), f"player{n}@example.org", 1500000000000 + n)
        for n in digits
    )
    insert_rows(stack, rows)
    return names


def own_hash(number: int) -> str:
    return f"$SHA${number:016x}${number:064x}"


def insert_rows(stack: Stack, rows: Iterator[tuple[object, ...]]) -> None:
    place = stack.table.database
    statement = f"INSERT INTO authme ({COLUMNS}) VALUES "
    if isinstance(place, SqliteFile):
        with closing(place.connect()) as connection:
            connection.execute("BEGIN")
            connection.executemany(f"{statement} (?, ?, ?, ?, ?)", rows)
            connection.execute("COMMIT")
        return
    for page in paged(rows, 2_000):
        place.execute(statement + ", ".join(map(str, page)))


def paged(rows: Iterator[Any] | Sequence[Any], size: int) -> Iterator[list[Any]]:
    page: list[Any] = []
    for row in rows:
        page.append(row)
        if len(page) == size:
            yield page
            page = []
    if page:
        yield page
