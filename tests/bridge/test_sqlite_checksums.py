"""Hashes of the rows in AuthMe's file: small, exact, and made again only where something changed."""

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from plugin_bridge.authme.table_checksums import TableScan, scan_table

PLAYERS = 20_000
ROWS_OF_PAGE = 2_000


class Table:
    """A table with many players, and how many rows were read one by one."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.rows_read = 0
        connection.execute("CREATE TABLE authme (username TEXT UNIQUE, password TEXT, email TEXT)")
        self.insert(range(PLAYERS))

    def insert(self, numbers: range) -> None:
        rows = [(f"player{number}", f"hash {number}", None) for number in numbers]
        self.connection.executemany("INSERT INTO authme VALUES (?, ?, ?)", rows)

    def scan(self, last: TableScan | None = None) -> TableScan:
        self.rows_read = 0
        columns, is_open_lock = ["`username`", "`password`", "`email`"], "(`email` = 'open')"
        return scan_table(self.query, "`authme`", columns, is_open_lock, last)

    def query(self, sql: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        rows = self.connection.execute(sql, values).fetchall()
        self.rows_read += len(rows) if len(rows) > 1 else 0
        return rows


@pytest.fixture
def table() -> Iterator[Table]:
    with closing(sqlite3.connect(":memory:")) as connection:
        yield Table(connection)


def test_what_is_kept_of_a_hundred_thousand_players_takes_three_megabytes(table: Table) -> None:
    kept = table.scan().without([])
    size = sum(sys.getsizeof(page.hashes) + sys.getsizeof(page.digest) + 200 for page in kept.pages.values())
    assert kept.row_count == PLAYERS
    assert size * 100_000 / PLAYERS <= 3_000_000


def test_who_changed_came_and_went_is_told_and_no_other_page_is_read(table: Table) -> None:
    first = table.scan().without([])
    table.connection.execute("UPDATE authme SET password = 'new' WHERE username = 'player7'")
    table.connection.execute("DELETE FROM authme WHERE username = 'player8'")
    table.insert(range(PLAYERS, PLAYERS + 1))
    second = table.scan(first)
    assert (second.changed, len(second.gone)) == (["player7", f"player{PLAYERS}"], 1)
    assert second.row_count == PLAYERS
    assert table.rows_read == ROWS_OF_PAGE - 1, "those left on the first page; the last one has one row"
    third = table.scan(second.without([]))
    assert (third.changed, len(third.gone), table.rows_read) == ([], 0, 0)


def test_a_name_left_unfinished_is_found_again(table: Table) -> None:
    first = table.scan().without(["player9999"])
    assert table.scan(first).changed == ["player9999"]


def test_no_page_becomes_much_longer_than_others(table: Table) -> None:
    scan = table.scan().without([])
    table.insert(range(PLAYERS, PLAYERS + 3 * ROWS_OF_PAGE))
    grown = table.scan(scan)
    assert len(grown.changed) == 3 * ROWS_OF_PAGE
    assert longest_page(grown) == ROWS_OF_PAGE
    table.connection.execute("UPDATE authme SET rowid = -rowid WHERE rowid > 10000")
    moved = table.scan(grown.without([]))
    divided = table.scan(moved.without([]))
    assert (moved.changed, moved.gone, divided.changed, divided.gone) == ([], set(), [], set())
    assert longest_page(moved) > longest_page(divided) == ROWS_OF_PAGE


def longest_page(scan: TableScan) -> int:
    return max(len(page.hashes) for page in scan.pages.values()) // 2


def test_open_locks_are_counted_on_pages_that_are_known_and_that_are_not(table: Table) -> None:
    first = table.scan()
    table.connection.execute("UPDATE authme SET email = 'open' WHERE username IN ('player3', 'player9000')")
    second = table.scan(first)
    assert (first.open_locks, second.open_locks, table.scan(second).open_locks) == (0, 2, 2)
