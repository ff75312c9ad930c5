"""What AuthMe's SQLite file can be asked so that an idle tick costs next to nothing."""

import os
import sqlite3
import threading
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from plugin_bridge.digests import BUCKETS, EMPTY, Bucket, bucket_of, checksum_of

_PAGE: Final = 2_000
"""Rows read at once; AuthMe's file is held for a few milliseconds."""

Query = Callable[[str, tuple[object, ...]], list[tuple[Any, ...]]]


class FileVersion:
    """Tells whether anybody wrote into a file since: `PRAGMA data_version`, on one connection kept for that."""

    def __init__(self, path: Path, busy_timeout: timedelta) -> None:
        self._path = path
        self._timeout = busy_timeout.total_seconds()
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._opened = 0

    def read(self) -> tuple[int, int]:
        """Another value than before means that somebody wrote, or that nobody knows. Raises OSError, sqlite3.Error."""
        with self._lock:
            status = os.stat(self._path)  # noqa: PTH116 - asked at every tick
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


def changed_buckets(
    query: Query, table: str, username: str, compared: list[str], stored: Mapping[int, tuple[int, int]]
) -> dict[int, Bucket]:
    """The buckets that are others than stored, from a look at the whole table, a page at a time.

    `username` and `compared` are quoted columns.
    """
    counts, sums, names = [0] * BUCKETS, [0] * BUCKETS, [0] * BUCKETS
    crc = zlib.crc32
    # as blobs, which come out as bytes: nothing has to be encoded for each row
    text = " || char(0) || ".join(f"quote({column})" for column in compared)
    for page in _pages(query, table, f"CAST({username} AS BLOB), CAST({text} AS BLOB)"):
        for _rowid, name, rest in page:
            name_crc = crc(name or b"")
            number = name_crc % BUCKETS
            counts[number] += 1
            names[number] += name_crc
            sums[number] += checksum_of(name_crc, crc(rest))
    found = map(Bucket, counts, sums, names)
    return {number: now for number, now in enumerate(found) if stored.get(number, EMPTY[:2]) != now[:2]}


def names_in(query: Query, table: str, username: str, buckets: Collection[int]) -> Iterator[list[str]]:
    """The names that fall into these buckets, by the page they stand in."""
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
