"""Contents of our tables as digests: databases with equal digests have equal contents."""

from collections.abc import Mapping
from datetime import timedelta

from regsvc.cli.transfer.tables import DatabaseRows, checksums_of, list_tables
from regsvc.database.engine import open_database


def contents_of(url: str) -> Mapping[str, tuple[int, str]]:
    """Return row count and digest of each table that is copied in a move."""
    database = open_database(url, timedelta(seconds=5))
    with database.connection_context():
        tallies = checksums_of(DatabaseRows(database))
    return {name: (tally.rows, tally.digest) for name, tally in tallies.items()}


def next_user_id(url: str) -> int:
    """Return the id that the next user would get."""
    database = open_database(url, timedelta(seconds=5))
    table = next(table for table in list_tables() if table.name == "regsvc_user")
    with database.connection_context():
        return DatabaseRows(database).next_number(table)
