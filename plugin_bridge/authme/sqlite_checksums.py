"""Change detection for AuthMe's SQLite file, so that an idle tick costs next to nothing."""

import hashlib
import os
import sqlite3
import threading
import zlib
from collections.abc import Callable, Collection, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from plugin_bridge.authme.table_checksums import (
    BUCKETS,
    EMPTY,
    Bucket,
    StoredChecksums,
    Totals,
    bucket_of,
    row_checksum,
    totals_of,
)

_PAGE: Final = 2_000
"""Rows read at once; AuthMe's file is locked for a few milliseconds."""

Query = Callable[[str, tuple[object, ...]], list[tuple[Any, ...]]]


class FileVersion:
    """Detector of writes to a file by any process: `PRAGMA data_version`, on one connection kept for that."""

    def __init__(self, path: Path, busy_timeout: timedelta) -> None:
        self._path = path
        self._timeout = busy_timeout.total_seconds()
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._opened = 0

    def read(self) -> tuple[int, int]:
        """Return a value that changes when a process writes, or may have written. Raises OSError, sqlite3.Error."""
        with self._lock:
            status = os.stat(self._path)  # noqa: PTH116 - called at every tick
            file = (status.st_dev, status.st_ino)
            if self._connection is None or file != self._file:
                self._open(file)
            assert self._connection is not None
            [version] = self._connection.execute("PRAGMA data_version").fetchone()
            return self._opened, version

    def close(self) -> None:
        with self._lock:
            self._close()

    def _open(self, file: tuple[int, int]) -> None:
        self._close()
        uri = f"file:{quote(str(self._path.absolute()))}?mode=rw"
        self._connection = sqlite3.connect(
            uri, uri=True, timeout=self._timeout, isolation_level=None, check_same_thread=False
        )
        self._file = file
        self._opened += 1

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class TableScan:
    """Page-wise scan of the whole table that remembers enough of the last one to recognize an unchanged table."""

    def __init__(self) -> None:
        self._last_fingerprint: bytes | None = None
        self._last_totals: Totals | None = None

    def changed_buckets(
        self, query: Query, table: str, username: str, compared: list[str], stored: StoredChecksums
    ) -> dict[int, Bucket]:
        """Return the buckets that differ from `stored`. `username` and `compared` are quoted columns."""
        fingerprint = _fingerprint(query, table, [username, *compared])
        if (
            fingerprint == self._last_fingerprint
            and self._last_totals is not None
            and stored.totals() == self._last_totals
        ):
            return {}
        now, before = _buckets(query, table, username, compared), stored.load()
        is_same = _fingerprint(query, table, [username, *compared]) == fingerprint  # no write happened meanwhile
        self._last_fingerprint, self._last_totals = (fingerprint, totals_of(now.values())) if is_same else (None, None)
        current = {number: now.get(number, EMPTY) for number in sorted(now.keys() | before.keys())}
        return {number: bucket for number, bucket in current.items() if before.get(number, EMPTY) != bucket}


def _buckets(query: Query, table: str, username: str, compared: list[str]) -> dict[int, Bucket]:
    """Return the buckets that have rows: on most servers with a file, few of them."""
    counts, sums = [0] * BUCKETS, [0] * BUCKETS
    crc = zlib.crc32
    # as blobs, which come out as bytes: nothing has to be encoded for each row
    text = " || char(0) || ".join(f"quote({column})" for column in compared)
    for page in _pages(query, table, f"CAST({username} AS BLOB), CAST({text} AS BLOB)"):
        for _rowid, name, rest in page:
            name_crc = crc(name or b"")
            number = name_crc % BUCKETS
            counts[number] += 1
            sums[number] += row_checksum(name_crc, crc(rest))
    return {number: Bucket(count, sums[number]) for number, count in enumerate(counts) if count}


def _fingerprint(query: Query, table: str, columns: list[str]) -> bytes:
    """Hash all rows in their order: a third of the work of `_buckets`, as SQLite returns each page as one text."""
    whole = hashlib.blake2b()
    text = f"group_concat(printf('{'%Q' * len(columns)}', {', '.join(columns)}), char(10))"
    for after, upto in row_ranges(query, table):
        sql = f"SELECT CAST({text} AS BLOB) FROM {table} WHERE rowid > ? AND rowid <= ?"  # noqa: S608
        [(page,)] = query(sql, (after, upto))
        whole.update(page or b"")
    return whole.digest()


def row_ranges(query: Query, table: str) -> Iterator[tuple[int, int]]:
    """Yield ranges of row ids (after this one, up to that one) that hold a page of rows each, and cover the table."""
    after = -(1 << 63)
    sql = f"SELECT rowid FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT 1 OFFSET {_PAGE - 1}"  # noqa: S608
    while end := query(sql, (after,)):
        yield after, end[0][0]
        after = end[0][0]
    yield after, (1 << 63) - 1


def names_in(query: Query, table: str, username: str, buckets: Collection[int]) -> Iterator[list[str]]:
    """Yield the names in these buckets, one list per page of the table."""
    for page in _pages(query, table, f"CAST({username} AS TEXT)"):
        names = [name for _rowid, name in page if name is not None and bucket_of(name) in buckets]
        if names:
            yield names


def _pages(query: Query, table: str, columns: str) -> Iterator[list[tuple[Any, ...]]]:
    after = -(1 << 63)
    while True:
        sql = f"SELECT rowid, {columns} FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT {_PAGE}"  # noqa: S608
        page = query(sql, (after,))
        if page:
            yield page
            after = page[-1][0]
        if len(page) < _PAGE:
            return
