"""E-mails that more than one row may have, found in SQL for a plan of adoptions and kept in a Bloom filter.

Only where AuthMe's table is on the server that has ours. Its e-mails have no index: each statement reads all of them.
"""

import zlib
from typing import Final

from peewee import Database

from plugin_bridge.authme.players import NO_EMAIL, known_email
from plugin_bridge.authme.table_checksums import SharedTable
from regsvc.sync.emails import find_real_email

_BYTES: Final = 1 << 17
"""A bit for each of a million checksums: among as many players, each shared e-mail costs one false positive."""
_ODD: Final = "[^!#-~]"
"""Characters with which an address changes when it is parsed: spaces, quotes and everything outside ASCII."""


class EmailBloomFilter:
    """Set of e-mails by one checksum each; it may also claim to contain a few others."""

    def __init__(self) -> None:
        self._bits = bytearray(_BYTES)

    def add(self, checksum: int) -> None:
        """Add an e-mail by the CRC32 of its key."""
        self._bits[checksum >> 3 & _BYTES - 1] |= 1 << (checksum & 7)

    def add_email(self, key: str) -> None:
        """Add an e-mail by its key."""
        self.add(zlib.crc32(key.encode()))

    def may_contain_sql(self, email: str) -> str:
        """Return SQL for whether `email`, SQL for a utf8mb4 text, may be in the set; NULL for NULL."""
        checksum = f"CRC32({email})"
        byte = f"ASCII(SUBSTRING(X'{self._bits.hex()}', 1 + ({checksum} >> 3 & {_BYTES - 1}), 1))"
        return f"({byte} >> ({checksum} & 7) & 1)"


def add_shared_emails(database: Database, table: SharedTable, found: EmailBloomFilter) -> None:
    """Add the e-mails of more than one row, and those that are written differently from their key."""
    email = f"CONVERT({table.raw_or_null('email')} USING utf8mb4) COLLATE utf8mb4_bin"  # tells all characters apart
    # sorted instead of grouped in a table with an index, which would take ten seconds for a million
    shared = (
        f"SELECT SQL_BIG_RESULT CRC32(LOWER({email})) FROM {table.name} a "  # noqa: S608
        f"WHERE {email} LIKE '%%@%%' AND LOWER({email}) <> '{NO_EMAIL}' GROUP BY 1 HAVING COUNT(*) > 1"
    )
    for row in database.execute_sql(shared):
        found.add(row[0])
    odd = f"SELECT {email} FROM {table.name} a WHERE {email} LIKE '%%@%%' AND {email} REGEXP '{_ODD}'"  # noqa: S608
    for row in database.execute_sql(odd):
        address = find_real_email(known_email(row[0]))
        if address is not None:
            found.add_email(address.key)
