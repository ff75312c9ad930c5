"""Digests of AuthMe's table by buckets of names: what changed is found without bringing the table over the wire.

A bucket holds the rows whose names have the same CRC32 modulo `BUCKETS`. Its checksum is the sum, over its rows, of a
product of two CRC32s, of which one is the name's alone: equal edits of two rows, and swaps, change it.
"""

import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final, NamedTuple

BUCKETS: Final = 1 << 16
COMPARED: Final = ("realname", "hash", "salt", "email", "regdate")
"""The fields of `PlayerRow` that the sync reasons from, beside the name."""
_SHIFT: Final = 12
_MASK: Final = (1 << 40) - 1  # so that thousands of rows add up exactly in a DOUBLE, whose sums cost SQL the least


class Bucket(NamedTuple):
    """How many rows, their checksum, and the sum of their names' CRC32s: the same while no name came or went."""

    row_count: int
    checksum: int
    names: int


EMPTY: Final = Bucket(0, 0, 0)


def bucket_of(name: str) -> int:
    """Which bucket a name, as it stands in the username column, falls into."""
    return zlib.crc32(name.encode("utf-8", "surrogatepass")) % BUCKETS


def checksum_of(name_crc: int, text_crc: int) -> int:
    """What one row adds to its bucket's checksum."""
    return (text_crc * (name_crc | 1)) >> _SHIFT & _MASK


class StoredDigest(ABC):
    """The digest of an earlier time, kept in a table of ours with the columns bucket, row_count, checksum and names."""

    table: str
    """Its name on our database."""

    @abstractmethod
    def load(self) -> dict[int, tuple[int, int]]:
        """Row count and checksum of all buckets but those without rows."""


class NameIndex(NamedTuple):
    """How AuthMe's names are compared, and the index that has them first; None: there is none."""

    collation: str
    key: str | None


FIND_NAME_INDEX: Final = (
    "SELECT c.collation_name, MIN(s.index_name) FROM information_schema.columns c LEFT JOIN"
    " information_schema.statistics s ON s.table_schema = c.table_schema AND s.table_name = c.table_name"
    " AND s.column_name = c.column_name AND s.seq_in_index = 1"
    " WHERE c.table_schema = COALESCE(%s, DATABASE()) AND c.table_name = %s AND c.column_name = %s GROUP BY 1"
)
"""Of schema (NULL: our own), table and column of the names: the fields of a `NameIndex`."""


class SharedTable:
    """AuthMe's table on the server that has ours too, as pieces of SQL for statements that name both.

    Texts come as utf8mb4, whatever their columns are: a join with a column of ours then uses our index, while one
    across collations would use none. Every piece is about the alias `a`.
    """

    def __init__(self, table: str, schema: str | None, columns: Mapping[str, str], names: NameIndex) -> None:
        """`columns`: the real column by field of `PlayerRow`; fields without one are NULL."""
        self.name = f"`{schema}`.`{table}`" if schema else f"`{table}`"
        self._columns = columns
        self._names = names

    def raw(self, field: str) -> str:
        """The column as it is."""
        return f"a.`{self._columns[field]}`"

    def text(self, field: str) -> str:
        """The column as utf8mb4; NULL where there is none."""
        return f"CONVERT({self.raw(field)} USING utf8mb4)" if field in self._columns else "NULL"

    def as_username(self, ours: str) -> str:
        """A name of ours, of letters that every charset has, as AuthMe's index of names finds it."""
        collation = self._names.collation
        return f"CONVERT({ours} USING {collation.partition('_')[0]}) COLLATE {collation}"

    @property
    def by_name(self) -> str:
        """The table as `a`, to be gone through by its index of names: figures of a table that grew fast mislead."""
        return f"{self.name} a" if self._names.key is None else f"{self.name} a FORCE INDEX (`{self._names.key}`)"

    def number(self, field: str) -> str:
        """The column as it is; NULL where there is none."""
        return self.raw(field) if field in self._columns else "NULL"

    @property
    def bucket(self) -> str:
        return f"(CRC32({self.text('username')}) & {BUCKETS - 1})"

    @property
    def checksum(self) -> str:
        """What one row adds to its bucket's. Bytes are compared, and NULL is marked, since it is no text."""
        parts = ["CHAR(0)"]
        for field in COMPARED:
            if field in self._columns:
                column = self.raw(field)
                parts += [f"{column} IS NULL", f"CAST({column} AS BINARY)" if field != "regdate" else column]
        row = f"CRC32(CONCAT_WS({', '.join(parts)}))"
        return f"({row} * (CRC32({self.text('username')}) | 1) >> {_SHIFT} & {_MASK})"

    @property
    def digest(self) -> str:
        """A SELECT of bucket, row_count, checksum and names."""
        return (
            f"SELECT {self.bucket} AS bucket, COUNT(*) AS row_count, "  # noqa: S608
            f"CAST(SUM({self.checksum} + 0e0) AS SIGNED) AS checksum, "
            f"CAST(SUM(CRC32({self.text('username')}) + 0e0) AS SIGNED) AS names FROM {self.name} a GROUP BY 1"
        )

    def likeness(self, stored: str) -> str:
        """A SELECT of 1 where all buckets together are as in the table `stored`, else 0 or NULL: a third of the time.

        The whole is the sum of the buckets. A bucket stored as one that no table can have is like none.
        """
        return (
            "SELECT now.row_count = before_now.row_count AND now.checksum = before_now.checksum "  # noqa: S608
            f"AND before_now.least >= 0 FROM (SELECT COUNT(*) AS row_count, "
            f"COALESCE(SUM({self.checksum}), 0) AS checksum FROM {self.name} a) now, "
            "(SELECT COALESCE(SUM(row_count), 0) AS row_count, "
            f"COALESCE(SUM(checksum), 0) AS checksum, COALESCE(MIN(row_count), 0) AS least FROM {stored}) before_now"
        )

    def differences(self, stored: str) -> str:
        """A SELECT of bucket, row_count, checksum and names where the first two are others than in `stored`."""
        return (
            "SELECT bucket, SUM(IF(is_now, row_count, 0)), SUM(IF(is_now, checksum, 0)), "  # noqa: S608
            f"SUM(IF(is_now, names, 0)) FROM (SELECT 1 AS is_now, now.* FROM ({self.digest}) now "
            f"UNION ALL SELECT 0, bucket, row_count, checksum, 0 FROM {stored}) both_times GROUP BY bucket "
            "HAVING SUM(IF(is_now, row_count, -row_count)) <> 0 OR SUM(IF(is_now, checksum, -checksum)) <> 0"
        )
