"""Thousands of AuthMe's players at once, as on a server that has been in use for years."""

from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta

from regsvc.core.clock import Clock, epoch_ms
from tests.support.authme.authme_database import MariaDBSchema, SqliteFile
from tests.support.authme.authme_like import sha256
from tests.support.authme.authme_tables import AuthMeTable

COLUMNS = ("username", "realname", "password", "email", "regdate", "lastlogin", "regip")
PlayerRows = Sequence[tuple[object, ...]]


def make_player_rows(number: int, clock: Clock, prefix: str = "Player") -> PlayerRows:
    """Return rows for `insert_player_rows`, all registered in the past: `Player0000`, `Player0001`, …

    Of each ten, one has not joined since its row was created by hand (realname `Player`), one has an invalid e-mail
    address, one the placeholder, one none, one the address of another row; the others have their own.
    """
    registered = epoch_ms(clock() - timedelta(days=400))
    rows = []
    for index in range(number):
        name = f"{prefix}{index:04}"
        digit = index % 10
        emails = {5: "not an e-mail", 6: "your@email.com", 7: None, 8: f"{prefix.lower()}{index - 4}@example.org"}
        email = emails.get(digit, f"{prefix}{index}@Example.org")
        realname = "Player" if digit == 9 else name
        rows.append((name.lower(), realname, sha256(name, "salt").hash, email, registered + index, None, "203.0.113.7"))
    return rows


def insert_player_rows(table: AuthMeTable, rows: PlayerRows) -> None:
    """Insert all rows in one transaction."""
    columns = ", ".join(table.column(column) for column in COLUMNS)
    statement = f"INSERT INTO {table.name} ({columns}) VALUES ({', '.join('?' * len(COLUMNS))})"
    place = table.database
    if isinstance(place, SqliteFile):
        with closing(place.connect()) as connection:
            connection.execute("BEGIN")
            connection.executemany(statement, rows)
            connection.execute("COMMIT")
    else:
        assert isinstance(place, MariaDBSchema)
        with closing(place.database.connect()) as shared, shared.cursor() as cursor:
            cursor.executemany(statement.replace("?", "%s"), rows)
