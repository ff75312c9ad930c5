"""Digests of AuthMe's table by buckets of rows: what changed is found without bringing the table over the wire.

On a server a bucket holds the rows whose ids are neighbours: a scan meets them together, and they are read together. On
SQLite, where AuthMe's ids are empty, and in a table without ids, it holds those whose names have the same CRC32 modulo
`BUCKETS`. Its checksum is the sum, over its rows, of a product of two CRC32s, of which one is the name's alone: equal
edits of two rows, and swaps, change it.
"""

import zlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

BUCKETS: Final = 1 << 16
COMPARED: Final = ("realname", "hash", "salt", "email", "regdate")
"""The fields of `PlayerRow` that the sync reasons from, beside the name."""
_SHIFT: Final = 12
_MASK: Final = (1 << 40) - 1  # so that thousands of rows add up exactly in a DOUBLE, whose sums cost SQL the least
_RANGES_AT_ONCE: Final = 200
MOST_SHIFTED: Final = 13
"""With more of an id's bits left out, a bucket could have more rows than add up exactly: such ids are far apart."""


class Bucket(NamedTuple):
    """How many rows, and their checksum."""

    row_count: int
    checksum: int


EMPTY: Final = Bucket(0, 0)


def bucket_of(name: str) -> int:
    """Which bucket of names a name, as it stands in the username column, falls into."""
    return zlib.crc32(name.encode("utf-8", "surrogatepass")) % BUCKETS


def checksum_of(name_crc: int, text_crc: int) -> int:
    """What one row adds to its bucket's checksum."""
    return (text_crc * (name_crc | 1)) >> _SHIFT & _MASK


class Totals(NamedTuple):
    """Of all buckets: the rows, and the sum of the lower halves of their checksums, which no database overflows on."""

    row_count: int
    checksum: int


LOWER_HALF: Final = (1 << 32) - 1


def totals_of(buckets: Iterable[Bucket]) -> Totals:
    """Of buckets that cover the whole table."""
    rows = checksums = 0
    for row_count, checksum in buckets:
        rows += row_count
        checksums += checksum & LOWER_HALF
    return Totals(rows, checksums)


class StoredChecksums(ABC):
    """The digest of an earlier time, kept in a table of ours with the columns bucket, row_count and checksum."""

    table: str
    """Its name on our database."""

    @abstractmethod
    def load(self) -> dict[int, Bucket]:
        """All buckets but those without rows."""

    @abstractmethod
    def totals(self) -> Totals | None:
        """Of all of them; None while one is stored as no table can have it."""


class NameIndex(NamedTuple):
    """How AuthMe's names are compared, and the index that has them first; None: there is none."""

    collation: str
    key: str | None

    @property
    def forced(self) -> str:
        """The hint that this index is to be used."""
        return f"FORCE INDEX (`{self.key}`)" if self.key is not None else ""


class IdColumn(NamedTuple):
    """The column of ids that AuthMe's rows lie in the order of, and the greatest id there is."""

    column: str
    greatest: int

    @property
    def shift(self) -> int:
        """How many of an id's last bits rows of one bucket differ in: 16 ids, or as many as make `BUCKETS` of them."""
        return max(4, self.greatest.bit_length() - BUCKETS.bit_length() + 1)


FIND_ID: Final = (
    "SELECT MIN(c.column_name),"
    " COUNT(*) = 1 AND MIN(c.data_type) IN ('tinyint', 'smallint', 'mediumint', 'int', 'bigint')"
    " FROM information_schema.statistics s JOIN information_schema.columns c ON c.table_schema = s.table_schema"
    " AND c.table_name = s.table_name AND c.column_name = s.column_name"
    " WHERE s.table_schema = COALESCE(%s, DATABASE()) AND s.table_name = %s AND s.index_name = 'PRIMARY'"
)
"""Of schema (NULL: our own) and table: the primary key, and whether it is one column of whole numbers.

The columns alone would not do: without a primary key they call the first unique key so.
"""

FIND_NAME_INDEX: Final = (
    "SELECT COALESCE(c.collation_name, 'binary'), MIN(s.index_name) FROM information_schema.columns c LEFT JOIN"
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

    def __init__(
        self,
        table: str,
        schema: str | None,
        columns: Mapping[str, str],
        nullable: Collection[str],
        names: NameIndex,
        ids: IdColumn | None,
    ) -> None:
        """`columns`: the real column by field of `PlayerRow`; fields without one are NULL, `nullable` ones may be.

        `ids` None: there are none, and buckets are of names.
        """
        self.name = f"`{schema}`.`{table}`" if schema else f"`{table}`"
        self._columns = columns
        self._nullable = nullable
        self._names = names
        self._ids = ids

    def raw(self, field: str) -> str:
        """The column as it is."""
        return f"a.`{self._columns[field]}`"

    def text(self, field: str) -> str:
        """The column as utf8mb4; NULL where there is none."""
        return f"CONVERT({self.raw(field)} USING utf8mb4)" if field in self._columns else "NULL"

    def as_username(self, ours: str) -> str:
        """A name of ours as AuthMe's index of names finds it; one of letters that its charset lacks finds none."""
        collation = self._names.collation
        return f"CONVERT({ours} USING {collation.partition('_')[0]}) COLLATE `{collation}`"

    @property
    def by_name(self) -> str:
        """The table as `a`, to be gone through by its index of names: figures of a table that grew fast mislead."""
        return f"{self.name} a {self._names.forced}"

    def rows_of_buckets(self, numbers: Iterable[int]) -> Iterator[tuple[str, str]]:
        """The rows of these buckets as `a`, and the condition on them. Of the others at most the names are read.

        So many at a time that it does not matter that the server holds each row against each of their ranges.
        """
        if self._ids is not None:
            column, shift = f"a.`{self._ids.column}`", self._ids.shift
            ranges = [f"{column} BETWEEN {n << shift} AND {(n + 1 << shift) - 1}" for n in sorted(numbers)]
            for start in range(0, len(ranges), _RANGES_AT_ONCE):
                some = " OR ".join(ranges[start : start + _RANGES_AT_ONCE])
                yield f"{self.name} a FORCE INDEX (PRIMARY)", f"({some})"
            return
        username, is_in = self._columns["username"], self.bucket.replace("a.`", "n.`")
        found = (
            f"SELECT n.`{username}` AS name FROM {self.name} n {self._names.forced} "  # noqa: S608
            f"WHERE {is_in} IN ({', '.join(map(str, sorted(numbers)))})"
        )
        yield f"({found}) found STRAIGHT_JOIN {self.by_name} ON {self.raw('username')} = found.name", "1 = 1"

    def raw_or_null(self, field: str) -> str:
        """The column as it is; NULL where there is none."""
        return self.raw(field) if field in self._columns else "NULL"

    @property
    def bucket(self) -> str:
        """Into which one a row falls: by its id, or by the bytes that its name has in UTF-8."""
        if self._ids is not None:
            return f"(a.`{self._ids.column}` >> {self._ids.shift})"
        return f"({self._name_crc} & {BUCKETS - 1})"

    @property
    def _name_crc(self) -> str:
        is_utf8 = self._names.collation.startswith("utf8")
        return f"CRC32({self.raw('username') if is_utf8 else self.text('username')})"

    @property
    def checksum(self) -> str:
        """What one row adds to its bucket's. Bytes are compared, and NULL is marked, since it is no text."""
        parts = ["CHAR(0)"]
        for field in COMPARED:
            if field in self._columns:
                column = self.raw(field)
                parts += [f"{column} IS NULL"] if field in self._nullable else []
                parts.append(f"CAST({column} AS BINARY)" if field != "regdate" else column)
        row = f"CRC32(CONCAT_WS({', '.join(parts)}))"
        return f"({row} * ({self._name_crc} | 1) >> {_SHIFT} & {_MASK})"

    @property
    def digest(self) -> str:
        """A SELECT of bucket, row_count and checksum."""
        return (
            f"SELECT {self.bucket} AS bucket, COUNT(*) AS row_count, "  # noqa: S608
            f"CAST(SUM({self.checksum} + 0e0) AS SIGNED) AS checksum FROM {self.name} a GROUP BY 1"
        )

    def likeness(self, stored: str) -> str:
        """A SELECT of how many rows more there are than in `stored`, of 1 where all buckets are the same, and
        of 1 where each one is stored as a table can have it.

        It takes a third of the time of `differences`: the whole is the sum of the buckets. A bucket stored as one that
        no table can have is like none.
        """
        return (
            "SELECT now.row_count - seen.row_count, now.row_count = seen.row_count "  # noqa: S608
            "AND now.checksum = seen.checksum AND seen.least >= 0, seen.least >= 0 "
            "FROM (SELECT COUNT(*) AS row_count, "
            f"COALESCE(SUM({self.checksum}), 0) AS checksum FROM {self.name} a) now, "
            "(SELECT COALESCE(SUM(row_count), 0) AS row_count, COALESCE(SUM(checksum), 0) AS checksum, "
            f"COALESCE(MIN(row_count), 0) AS least FROM {stored}) seen"
        )

    def differences(self, stored: str) -> str:
        """A SELECT of bucket, row_count and checksum of the buckets that are others in `stored`, or not there.

        The last column is how many rows more there are than in `stored`.
        """
        return (
            "SELECT now.bucket, now.row_count, now.checksum, "  # noqa: S608
            f"now.row_count - COALESCE(seen.row_count, 0) FROM ({self.digest}) now "
            f"LEFT JOIN {stored} seen ON seen.bucket = now.bucket "
            "WHERE NOT (seen.row_count <=> now.row_count AND seen.checksum <=> now.checksum)"
        )

    def gone(self, stored: str) -> str:
        """A SELECT of the buckets in `stored` that have no row any more."""
        return (
            f"SELECT seen.bucket FROM {stored} seen LEFT JOIN (SELECT DISTINCT {self.bucket} AS bucket "  # noqa: S608
            f"FROM {self.name} a) now ON now.bucket = seen.bucket WHERE now.bucket IS NULL"
        )
