"""Checksums of AuthMe's table by buckets of rows: they find changed rows without transferring the table.

A bucket holds rows with neighbouring ids: a scan meets them together, and they are read together. In a table without
ids, it holds the rows whose names have the same CRC32 modulo `BUCKETS`. Its checksum is the sum, over its rows, of a
product of two CRC32s, one of which covers the name alone, so that equal edits of two rows, and swaps, change it.
"""

import hashlib
import os
import sqlite3
import threading
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

BUCKETS: Final = 1 << 16
COMPARED_FIELDS: Final = ("realname", "hash", "salt", "email", "regdate")
"""The fields of `PlayerRow`, beside the name, that the sync bases its decisions on."""
_SHIFT: Final = 12
_MASK: Final = (1 << 40) - 1  # thousands of rows add up exactly in a DOUBLE, the cheapest type for SUM
_RANGES_PER_STATEMENT: Final = 25
"""The server compares every row with every range: as many as cost less than another statement."""
MAX_SHIFT: Final = 13
"""Upper limit of `IdColumn.shift`. Ids that need more are sparse: a dense bucket could have too many rows for an exact
sum.
"""


class Bucket(NamedTuple):
    """Number of rows in a bucket, and their checksum."""

    row_count: int
    checksum: int


EMPTY: Final = Bucket(0, 0)


class NameIndex(NamedTuple):
    """Collation that AuthMe's names are compared by, and the index that starts with them (`key` None: none)."""

    collation: str
    key: str | None

    @property
    def hint(self) -> str:
        """The SQL hint to use this index; empty where there is none."""
        return f"FORCE INDEX (`{self.key}`)" if self.key is not None else ""


class IdColumn(NamedTuple):
    """The id column that AuthMe's rows are clustered by, and the greatest id."""

    column: str
    greatest: int

    @property
    def shift(self) -> int:
        """Number of low bits of an id that a bucket ignores: 16 ids to a bucket, or more to make about `BUCKETS`."""
        return max(4, self.greatest.bit_length() - BUCKETS.bit_length() + 1)


_OF_TABLE: Final = "WHERE table_schema = COALESCE(%s, DATABASE()) AND table_name = %s"
_WHOLE_NUMBERS: Final = {"tinyint", "smallint", "mediumint", "int", "bigint"}

# Not joined: for a join of the two, a server opens all tables of all its databases, which takes milliseconds.
LIST_COLUMNS: Final = (
    f"SELECT column_name, data_type, collation_name, is_nullable FROM information_schema.columns {_OF_TABLE}"  # noqa: S608
)
LIST_INDEXES: Final = (
    f"SELECT index_name, seq_in_index, column_name FROM information_schema.statistics {_OF_TABLE}"  # noqa: S608
    " AND column_name IS NOT NULL"
)
"""Parameters: schema (NULL: our own) and table."""

Columns = Iterable[tuple[str, str, str | None, str]]
"""Rows that `LIST_COLUMNS` selects."""
Indexes = Iterable[tuple[str, int, str]]
"""Rows that `LIST_INDEXES` selects."""


def find_name_index(columns: Columns, indexes: Indexes, column: str) -> NameIndex | None:
    """Return the collation of a column and the index that starts with it; None if there is no such column."""
    collations = [collation for name, _type, collation, _nullable in columns if name.lower() == column.lower()]
    if not collations:
        return None
    starting = [index for index, position, first in indexes if first.lower() == column.lower() and position == 1]
    return NameIndex(collations[0] or "binary", min(starting, key=str.lower, default=None))


def find_id_column(columns: Columns, indexes: Indexes) -> str | None:
    """Return the primary key; None unless it is one whole-number column.

    The columns alone would not tell: without a primary key a server reports the first unique key as one.
    """
    primary = [column.lower() for index, _position, column in indexes if index == "PRIMARY"]
    numbers = {name.lower() for name, data_type, _collation, _nullable in columns if data_type in _WHOLE_NUMBERS}
    return primary[0] if len(primary) == 1 and primary[0] in numbers else None  # it may be hidden from our login


class SharedTable:
    """SQL fragments for statements that join AuthMe's table with ours, where one server has both.

    Texts are converted to utf8mb4, whatever their columns are: a join with a column of ours then uses our index, while
    one across collations would use none. Every fragment refers to AuthMe's table by the alias `a`.
    """

    def __init__(
        self,
        table: str,
        schema: str | None,
        columns: Mapping[str, str],
        nullable: Collection[str],
        names: NameIndex,
        ids: IdColumn | None,
    ) -> None:
        """`columns` maps fields of `PlayerRow` to real columns; fields without one are NULL, `nullable` ones may be.

        `ids` None: the table has none, and buckets are made of names.
        """
        self.name = f"`{schema}`.`{table}`" if schema else f"`{table}`"
        self._columns = columns
        self._nullable = nullable
        self._names = names
        self._ids = ids

    def is_id(self, column: str) -> bool:
        """Return whether this is the id column that the rows are clustered by."""
        return self._ids is not None and self._ids.column.lower() == column.lower()

    def raw(self, field: str) -> str:
        """Return the column as it is stored."""
        return f"a.`{self._columns[field]}`"

    def text(self, field: str) -> str:
        """Return the column as utf8mb4; NULL where there is none."""
        return f"CONVERT({self.raw(field)} USING utf8mb4)" if field in self._columns else "NULL"

    def as_username(self, ours: str) -> str:
        """Convert a name of ours so that AuthMe's name index finds it; a name its charset cannot write finds no row."""
        collation = self._names.collation
        return f"CONVERT({ours} USING {collation.partition('_')[0]}) COLLATE `{collation}`"

    @property
    def by_name(self) -> str:
        """The table as `a`, read by its name index. Forced, because statistics of a table that grew fast mislead."""
        return f"{self.name} a {self._names.hint}"

    def rows_of_buckets(self, numbers: Iterable[int]) -> Iterator[tuple[str, str]]:
        """Yield (FROM clause, condition) pairs that select the rows of these buckets as `a`.

        Of rows in other buckets at most the names are read.
        """
        if self._ids is not None:
            column, shift = f"a.`{self._ids.column}`", self._ids.shift
            ranges = [f"{column} BETWEEN {n << shift} AND {(n + 1 << shift) - 1}" for n in sorted(numbers)]
            for start in range(0, len(ranges), _RANGES_PER_STATEMENT):
                some = " OR ".join(ranges[start : start + _RANGES_PER_STATEMENT])
                yield f"{self.name} a FORCE INDEX (PRIMARY)", f"({some})"
            return
        username, is_in = self._columns["username"], self.bucket.replace("a.`", "n.`")
        found = (
            f"SELECT n.`{username}` AS name FROM {self.name} n {self._names.hint} "  # noqa: S608
            f"WHERE {is_in} IN ({', '.join(map(str, sorted(numbers)))})"
        )
        yield f"({found}) found STRAIGHT_JOIN {self.by_name} ON {self.raw('username')} = found.name", "1 = 1"

    def raw_or_null(self, field: str) -> str:
        """Return the column as it is stored; NULL where there is none."""
        return self.raw(field) if field in self._columns else "NULL"

    @property
    def bucket(self) -> str:
        """Expression for a row's bucket: by its id, or by the UTF-8 bytes of its name."""
        if self._ids is not None:
            return f"(a.`{self._ids.column}` >> {self._ids.shift})"
        return f"({self._name_crc} & {BUCKETS - 1})"

    @property
    def _name_crc(self) -> str:
        is_utf8 = self._names.collation.startswith("utf8")
        return f"CRC32({self.raw('username') if is_utf8 else self.text('username')})"

    @property
    def checksum(self) -> str:
        """Expression for a row's share of its bucket's checksum. Compares bytes; NULL is marked, as it has no text."""
        parts = ["CHAR(0)"]
        for field in COMPARED_FIELDS:
            if field in self._columns:
                column = self.raw(field)
                parts += [f"{column} IS NULL"] if field in self._nullable else []
                parts.append(f"CAST({column} AS BINARY)" if field != "regdate" else column)
        row = f"CRC32(CONCAT_WS({', '.join(parts)}))"
        return f"({row} * ({self._name_crc} | 1) >> {_SHIFT} & {_MASK})"

    def comparison(self, stored: str, counted: str) -> str:
        """Return a SELECT of one row: 1 if all buckets are the same as in `stored`, how many rows there are, and how
        many of them the condition `counted` is true for.

        It takes less time than `differences`, because the total is the sum of the buckets. A bucket stored with an
        impossible row count equals none.
        """
        return (
            "SELECT now.row_count = seen.row_count AND now.checksum = seen.checksum AND seen.least >= 0, "  # noqa: S608
            f"now.row_count, now.counted FROM (SELECT COUNT(*) AS row_count, COUNT({counted} OR NULL) AS counted, "
            f"COALESCE(SUM({self.checksum}), 0) AS checksum FROM {self.name} a) now, "
            "(SELECT COALESCE(SUM(row_count), 0) AS row_count, COALESCE(SUM(checksum), 0) AS checksum, "
            f"COALESCE(MIN(row_count), 0) AS least FROM {stored}) seen"
        )

    def differences(self, stored: str, counted: str) -> str:
        """Return a SELECT of the buckets that differ from `stored` or are not there, and of the others as one of NULL.

        Its columns: bucket, rows, checksum, rows that the condition `counted` is true for, buckets that are in
        `stored`, and all buckets in `stored`.
        """
        by_bucket = (
            f"SELECT {self.bucket} AS bucket, COUNT(*) AS row_count, COUNT({counted} OR NULL) AS counted, "  # noqa: S608
            f"CAST(SUM({self.checksum} + 0e0) AS SIGNED) AS checksum FROM {self.name} a GROUP BY 1"
        )
        is_same = "seen.row_count <=> now.row_count AND seen.checksum <=> now.checksum"
        return (
            f"SELECT IF({is_same}, NULL, now.bucket) AS changed, SUM(now.row_count), SUM(now.checksum), "  # noqa: S608
            f"SUM(now.counted), COUNT(seen.bucket), (SELECT COUNT(*) FROM {stored}) "
            f"FROM ({by_bucket}) now LEFT JOIN {stored} seen ON seen.bucket = now.bucket GROUP BY 1"
        )

    def missing(self, stored: str) -> str:
        """Return a SELECT of the buckets in `stored` that no longer have a row."""
        return (
            f"SELECT seen.bucket FROM {stored} seen LEFT JOIN (SELECT DISTINCT {self.bucket} AS bucket "  # noqa: S608
            f"FROM {self.name} a) now ON now.bucket = seen.bucket WHERE now.bucket IS NULL"
        )


# --- Change detection for AuthMe's SQLite file by hashes of its rows ---
# Change detection for AuthMe's SQLite file by hashes of its rows, so that an idle tick costs next to nothing.
# They are in memory, 1.7 MB for 100,000 players, with a digest of every page of rows, which SQLite returns as one text:
# only a page that differs is taken apart. Buckets took five times as long after one change, and named unchanged rows as
# well.


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
