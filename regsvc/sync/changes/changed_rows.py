"""Our own rows that changed since the sync last looked at them, as the database marks them in `changed_at`."""

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from peewee import Database, SqliteDatabase

from regsvc.database.bulk import select_rows
from regsvc.database.models import Player, User
from regsvc.sync.accounts_loader import pages_of, rows_in_order


class ChangeMark(NamedTuple):
    """A changed row of users or players: its table, its name and when it changed."""

    table: type[User] | type[Player]
    username_key: str
    changed_at: datetime


class NewestMarks(NamedTuple):
    """The newest change marks at one moment."""

    user: datetime | None
    player: datetime | None


class ChangedRows:
    """Change marks of our rows: read and cleared here. Blocking.

    A mark is cleared only as it was read: a row that changed again in the meantime keeps its new mark.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._param = "?" if isinstance(database, SqliteDatabase) else "%s"

    def newest(self) -> NewestMarks:
        """Return the newest mark of users and of players, None where there is none."""
        found = []
        for table in (User, Player):
            marked = table.select(table.changed_at).where(table.changed_at.is_null(False))
            found.append(marked.order_by(table.changed_at.desc()).limit(1).scalar())
        return NewestMarks(*found)

    def pages(self, newest: NewestMarks) -> Iterator[list[ChangeMark]]:
        """Yield the marks up to these, oldest first in each table, without those that a run makes meanwhile."""
        for table, key, until in ((User, User.id, newest.user), (Player, Player.username_key, newest.player)):
            if until is None:
                continue
            marked: Any = table.select(table.changed_at, key, table.username_key).where(table.changed_at <= until)
            for rows in rows_in_order(marked, table.changed_at, key):
                marks = [ChangeMark(table, name, changed_at) for changed_at, _key, name in rows]
                yield marks if table is Player else marks + self._marks_of_players(marks)

    def _marks_of_players(self, marks: Collection[ChangeMark]) -> list[ChangeMark]:
        """Return the marks of the players of these users, so that a name is looked at once."""
        fields, keys = [Player.username_key, Player.changed_at], [mark.username_key for mark in marks]
        found = select_rows(self._database, Player, fields, Player.username_key, keys)
        return [ChangeMark(Player, key, changed_at) for key, changed_at in found if changed_at is not None]

    def mark(self, names: Collection[str], moment: datetime) -> None:
        """Mark these names for the next run, unless they are marked already."""
        for keys in pages_of(sorted(names)):
            for table in (User, Player):
                is_unmarked = table.username_key.in_(keys) & table.changed_at.is_null()
                table.update(changed_at=moment).where(is_unmarked).execute()

    def clear(self, marks: Collection[ChangeMark]) -> None:
        """Clear the marks of rows that were looked at and need nothing."""
        for table in (User, Player):
            for page in pages_of([mark for mark in marks if mark.table is table]):
                self._clear(table, page)

    def _clear(self, table: type[User] | type[Player], marks: Collection[ChangeMark]) -> None:
        names = [mark.username_key for mark in marks]
        pairs = [value for mark in marks for value in (mark.username_key, User.changed_at.db_value(mark.changed_at))]
        pair_list = ", ".join([f"({self._param}, {self._param})"] * len(names))
        seen = f"(VALUES {pair_list})" if self._param == "?" else f"({pair_list})"
        # the names alone first: MariaDB finds no index for a list of pairs
        self._database.execute_sql(
            f"UPDATE {table._meta.table_name} SET changed_at = NULL "  # noqa: S608
            f"WHERE username_key IN ({', '.join([self._param] * len(names))}) AND (username_key, changed_at) IN {seen}",
            (*names, *pairs),
        )
