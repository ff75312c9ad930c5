"""Changes made by the game and by operators who type SQL, each of many names at once."""

import random
from collections.abc import Callable
from contextlib import closing

from tests.bench.players import own_hash, paged
from tests.support.authme.authme_database import SqliteFile
from tests.support.our_tables import our_database
from tests.support.stack import Stack

PAGE = 500  # names in a statement
Change = Callable[["Crowd", int], None]
"""Change so many of the crowd."""


class Crowd:
    """Players of a stack who are still approved and in the game. Each change takes names that none took before."""

    def __init__(self, stack: Stack, count: int) -> None:
        self._stack = stack
        self._names = [f"player_{number:07}" for number in range(count)]
        random.Random(2).shuffle(self._names)
        self._values = 0

    def change_passwords(self, count: int) -> None:
        self._change(self._take(count), "password")

    def change_emails(self, count: int) -> None:
        self._change(self._take(count), "email")

    def change_both(self, count: int) -> None:
        self._change(self._take(count), "password", "email")

    def remove(self, count: int) -> None:
        """Remove players in the game."""
        self._each_page(self._take(count), lambda marks: f"DELETE FROM authme WHERE username IN ({marks})")

    def ban(self, count: int) -> None:
        """Ban users with SQL."""
        update = "UPDATE regsvc_user SET status = 'banned' WHERE status = 'approved' AND username_key IN"
        self._each_page(self._take(count), lambda marks: f"{update} ({marks})", is_ours=True)

    def change_all_sorts(self, count: int) -> None:
        """Make an equal part of each kind of change."""
        for change in (self.change_passwords, self.change_emails, self.remove, self.ban):
            change(count // 4)

    def log_in(self, _count: int) -> None:
        """Log one player in to the game, which does not concern us."""
        log_in = "UPDATE authme SET lastlogin = COALESCE(lastlogin, 0) + 1 WHERE username = ?"
        self._stack.table.database.execute(log_in, (self._names[0],))

    def drop_mails(self) -> None:
        """Give up the mails that a change has caused, which would be sent during the next measurement."""
        our_database(self._stack).execute(
            "UPDATE regsvc_outbox SET outcome = 'dropped', next_attempt_at = NULL, done_at = created_at "
            "WHERE outcome IS NULL"
        )

    def require_full(self) -> None:
        """Let the next run compare every row, as one a day does."""
        our_database(self._stack).execute("UPDATE regsvc_sync_state SET compared_at = '2020-01-01 00:00:00.000'")

    def _take(self, count: int) -> list[str]:
        assert count < len(self._names), "too few players for so many changes"
        taken, self._names = self._names[:count], self._names[count:]
        return taken

    def _change(self, names: list[str], *columns: str) -> None:
        """Give each name values of its own: one statement a page, or one transaction, whatever is faster."""
        rows = []
        for name in names:
            self._values += 1
            new = {"password": own_hash(10**9 + self._values), "email": f"new{self._values}@example.net"}
            rows.append((*(new[column] for column in columns), name))
        changes = ", ".join(f"{column} = ?" for column in columns)
        statement = f"UPDATE authme SET {changes} WHERE username = ?"
        place = self._stack.table.database
        if isinstance(place, SqliteFile):
            with closing(place.connect()) as connection:
                connection.execute("BEGIN")
                connection.executemany(statement, rows)
                connection.execute("COMMIT")
            return
        with closing(place.database.connect()) as connection, connection.cursor() as cursor:  # type: ignore[attr-defined]
            connection.begin()
            cursor.executemany(statement.replace("?", "%s"), rows)
            connection.commit()

    def _each_page(self, names: list[str], statement: Callable[[str], str], *, is_ours: bool = False) -> None:
        place = our_database(self._stack) if is_ours else self._stack.table.database
        for page in paged(names, PAGE):
            place.execute(statement(", ".join("?" * len(page))), page)
