"""Which e-mails somebody else may have, for a plan of adoptions in SQL: told by checksums, in a few bytes for all.

Only where AuthMe's table is on the server that has ours. Its e-mails have no index: each statement reads all of it.
"""

import zlib
from typing import Final

from peewee import Database

from plugin_bridge.authme.players import NO_EMAIL, known_email
from plugin_bridge.authme.table_checksums import SharedTable
from regsvc.sync.emails import find_real_email

_BYTES: Final = 1 << 17
"""A bit for each of a million checksums: among as many players, each shared e-mail makes one more look at a name."""
_ODD: Final = "[^!#-~]"
"""What an address may be written with that is another one when it is read: spaces, quotes, what is not ASCII."""


class Checksums:
    """A set of e-mails that says of a few others, too, that they are in it."""

    def __init__(self) -> None:
        self._bits = bytearray(_BYTES)

    def add(self, checksum: int) -> None:
        """The CRC32 of an e-mail as it is compared."""
        self._bits[checksum >> 3 & _BYTES - 1] |= 1 << (checksum & 7)

    def add_email(self, key: str) -> None:
        """An e-mail as it is compared."""
        self.add(zlib.crc32(key.encode()))

    def may_hold(self, email: str) -> str:
        """A piece of SQL: whether `email`, a piece that is a text of utf8mb4, is in it. NULL for NULL."""
        checksum = f"CRC32({email})"
        byte = f"ASCII(SUBSTRING(X'{self._bits.hex()}', 1 + ({checksum} >> 3 & {_BYTES - 1}), 1))"
        return f"({byte} >> ({checksum} & 7) & 1)"


def find_shared_emails(database: Database, table: SharedTable, found: Checksums) -> None:
    """Add the e-mails that more than one row has, and those that are written in another way than they are compared."""
    email = f"CONVERT({table.raw_or_null('email')} USING utf8mb4) COLLATE utf8mb4_bin"  # no sign for another
    # sorted instead of kept in a table with an index, which would take ten seconds for a million
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
