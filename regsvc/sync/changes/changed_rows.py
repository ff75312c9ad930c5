"""Which of our own rows changed since the sync last looked at them: the database marks them in `changed_at`."""

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

from peewee import Database, SqliteDatabase

from regsvc.database.models import Player, User

PAGE: Final = 500


class Mark(NamedTuple):
    """The row of this name in the table of users or of players, and when it changed."""

    table: type[User] | type[Player]
    username_key: str
    changed_at: datetime


class ChangedRows:
    """Blocking. A mark is taken away only as it was seen: a row that changed once more meanwhile keeps its new one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._param = "?" if isinstance(database, SqliteDatabase) else "%s"

    def pages(self) -> Iterator[list[Mark]]:
        """All that are there now, of each table the oldest first; not those that looking at them makes."""
        for table, key in ((User, User.id), (Player, Player.username_key)):
            last: Any = None
            newest = table.select(table.changed_at).where(table.changed_at.is_null(False))
            until = newest.order_by(table.changed_at.desc()).limit(1).scalar()
            if until is None:
                continue
            while True:
                query: Any = table.select(key, table.changed_at, table.username_key)
                query = query.where(table.changed_at <= until)
                if last is not None:
                    later, same = table.changed_at > last[1], table.changed_at == last[1]
                    query = query.where(later | (same & (key > last[0])))
                page = list(query.order_by(table.changed_at, key).limit(PAGE).tuples())
                if page:
                    yield [Mark(table, row[2], row[1]) for row in page]
                    last = page[-1]
                if len(page) < PAGE:
                    break

    def make(self, names: Collection[str], moment: datetime) -> None:
        """The next run is to look at these names, whose players have no row by which it would find them."""
        keys = sorted(names)
        for start in range(0, len(keys), PAGE):
            for table in (User, Player):
                table.update(changed_at=moment).where(table.username_key.in_(keys[start : start + PAGE])).execute()

    def clear(self, marks: Collection[Mark]) -> None:
        """What these rows said has been looked at, and nothing is to be done."""
        for table in (User, Player):
            mine = [mark for mark in marks if mark.table is table]
            for start in range(0, len(mine), PAGE):
                self._clear(table, mine[start : start + PAGE])

    def _clear(self, table: type[User] | type[Player], marks: Collection[Mark]) -> None:
        names = [mark.username_key for mark in marks]
        pairs = [value for mark in marks for value in (mark.username_key, User.changed_at.db_value(mark.changed_at))]
        pair_list = ", ".join([f"({self._param}, {self._param})"] * len(names))
        seen = f"(VALUES {pair_list})" if self._param == "?" else f"({pair_list})"
        # the names alone first: MariaDB finds no index in a list of pairs
        self._database.execute_sql(
            f"UPDATE {table._meta.table_name} SET changed_at = NULL "  # noqa: S608
            f"WHERE username_key IN ({', '.join([self._param] * len(names))}) AND (username_key, changed_at) IN {seen}",
            (*names, *pairs),
        )
