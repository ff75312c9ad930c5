"""Change detection for AuthMe's SQLite file by hashes of its rows, so that an idle tick costs next to nothing.

They are in memory, 1.7 MB for 100,000 players, with a digest of every page of rows, which SQLite returns as one text:
only a page that differs is taken apart. Buckets took five times as long after one change, and named unchanged rows as
well.
"""

import hashlib
import os
import sqlite3
import threading
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

_PAGE: Final = 2_000
"""Rows read at once; AuthMe's file is locked for a few milliseconds."""

_UNKNOWN: Final = 0  # in place of a row's hash
_FIRST: Final = -(1 << 63)  # before every row id
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


class _Page(NamedTuple):
    """A page of rows: the digest of all of them, and for each row the hash of its name and that of its text."""

    digest: bytearray
    hashes: "array[int]"


class TableScan(NamedTuple):
    """Hashes of all rows, and how they differ from those of an earlier scan."""

    pages: Mapping[tuple[int, int], _Page]
    """The pages by their ranges of row ids, 16 bytes a row."""
    changed: Sequence[str] = ()
    """Names of the rows that are new or differ; none where there was no earlier scan."""
    gone: Collection[int] = ()
    """`name_hash` of the rows that are no more."""
    open_locks: int = 0
    """Number of rows that `find_open_locks` would find."""

    @property
    def row_count(self) -> int:
        return sum(len(page.hashes) for page in self.pages.values()) // 2

    def without(self, names: Collection[str]) -> "TableScan":
        """Return what the next scan compares with: it finds the rows of these names changed."""
        wanted = {name_hash(name) for name in names}
        for page in self.pages.values() if wanted else ():
            for place in range(0, len(page.hashes), 2):
                if page.hashes[place] in wanted:
                    page.hashes[place + 1] = _UNKNOWN
                    page.digest.clear()
        return TableScan(self.pages)


def name_hash(name: str | None) -> int:
    """Return the hash of a username in this process."""
    return hash(name)


def scan_table(
    query: Query, table: str, columns: Sequence[str], is_open_lock: str, last: TableScan | None = None
) -> TableScan:
    """Scan the whole table. `columns` are quoted, that of the username first; `is_open_lock` is a condition.

    SQLite returns a page that is known as one text: only where that differs the rows are read one by one.
    """
    row = f"printf('{'%Q' * len(columns)}', {', '.join(columns)})"
    whole = f"SELECT CAST(group_concat({row}, char(10)) AS BLOB), COUNT({is_open_lock} OR NULL)"
    single = f"SELECT CAST({columns[0]} AS TEXT), CAST({row} AS BLOB), {is_open_lock}"
    of_page = f"FROM {table} WHERE rowid > ? AND rowid <= ?"
    before, open_locks = dict(last.pages) if last is not None else {}, 0
    # the ranges stay, so that a row that goes away moves no page, until one of them has grown too long
    known = list(before)[:-1] if all(len(page.hashes) <= 4 * _PAGE for page in before.values()) else []
    pages, now = dict[tuple[int, int], _Page](), dict[str | None, int]()
    for span in (*known, *row_ranges(query, table, known[-1][1] if known else _FIRST)):
        if span in before:
            [(text, count)] = query(f"{whole} {of_page}", span)
            if _digest(text or b"") == before[span].digest:
                pages[span] = before.pop(span)
                open_locks += count
                continue
        rows = query(f"{single} {of_page}", span)
        pages[span] = page = _Page(_digest(b"\n".join([text for _name, text, _is_open in rows])), array("q"))
        for name, text, is_open in rows:
            page.hashes.append(name_hash(name))
            page.hashes.append(hash(text))
            open_locks += is_open or 0
            if last is not None:
                now[name] = page.hashes[-1]
    seen: dict[int, int] = {}
    for page in before.values():
        hashes = iter(page.hashes)
        seen.update(zip(hashes, hashes, strict=True))
    changed = [name for name, text in now.items() if name is not None and seen.get(name_hash(name)) != text]
    return TableScan(pages, changed, seen.keys() - map(name_hash, now), open_locks)


def _digest(page: bytes) -> bytearray:
    return bytearray(hashlib.blake2b(page, digest_size=16).digest())


def row_ranges(query: Query, table: str, after: int = _FIRST) -> Iterator[tuple[int, int]]:
    """Yield ranges of row ids (after this one, up to that one) that hold a page of rows each, and cover the rest."""
    sql = f"SELECT rowid FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT 1 OFFSET {_PAGE - 1}"  # noqa: S608
    while end := query(sql, (after,)):
        yield after, end[0][0]
        after = end[0][0]
    yield after, (1 << 63) - 1
