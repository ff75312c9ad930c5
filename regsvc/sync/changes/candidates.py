"""Which names a run has to look at: those that may have something to do, and on a full look all of them."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from peewee import JOIN, SQL, Database, Field, SqliteDatabase, fn

from plugin_bridge.authme.players import Players
from plugin_bridge.authme.table_checksums import bucket_of
from regsvc.database.models import BANNED, PRESENT, Player, User
from regsvc.sync.bulk.in_sync_rows import SettledRows
from regsvc.sync.changes.table_digest import RunInputs, TableChanges, UserTally

PAGE: Final = 500
"""Names looked at together."""
_NAMES: Final = 2_000
"""Names alone are read in longer pages."""

Pages = Iterator[Sequence[str]]


class Candidates:
    """Lists names in pages of at most `PAGE`. Blocking."""

    def __init__(self, database: Database, players: Players) -> None:
        self._database = database
        self._players = players
        self._is_sqlite = isinstance(database, SqliteDatabase)

    def in_changed_buckets(self, seen: TableChanges) -> Pages:
        """Of AuthMe's rows in the changed buckets that are not plainly settled, and of our users who have no row."""
        if not seen.changed:
            return
        table = self._players.shared_table()
        if table is None:
            found: Pages = self._players.names_in(seen.changed)
        else:
            found = iter([SettledRows(self._database, table).unsettled_in(seen.changed, seen.since)])
        came: Counter[int] = Counter()
        for names in found:
            came.update(self._players.buckets_of(self._newcomers(names, seen.since)).values())
            yield from pages_of(names)
        before = seen.before
        left = {
            n
            for n, now in seen.changed.items()
            if seen.since is None or n not in before or before[n] + came[n] != now.row_count
        }
        if left and table is not None:
            for names in SettledRows(self._database, table).lost():
                yield from pages_of(names)
        elif left:
            yield from self._without_player(self._users_in(left))

    def of_users_without_player(self, newest_id: int) -> Pages:
        """Of all users up to this id whose name AuthMe does not have."""
        table = self._players.shared_table()
        if table is None:
            users = User.select(User.username_key).where(User.id <= newest_id)
            yield from self._without_player(_by_name(users, User.username_key))
            return
        for names in SettledRows(self._database, table).users_without_row(newest_id):
            yield from pages_of(names)

    def bans_over(self, moment: datetime) -> Pages:
        """Of users whose ban ended before it."""
        # in the order of the index that finds them: by name, the server would go through all names instead
        is_over = (User.status == BANNED) & (User.ban_expires_at <= moment)
        yield from _by_order(is_over, User.ban_expires_at, User.id)

    def edited(self) -> Pages:
        """Of users whose status was typed: each of them is marked as changed, as long as that is not carried out."""
        is_edited = User.changed_at.is_null(False) & (User.is_edited == True)  # noqa: E712 - SQL
        yield from _by_order(is_edited, User.changed_at, User.id)

    def deleted_in_sql(self, before: RunInputs | None, now: RunInputs) -> Pages:
        """Of players whose user is gone. On SQLite a trigger marks them, else the users are counted first."""
        if self._is_sqlite or (before is not None and before.users == now.users):
            return
        if _tally(Player.user_id) == _tally(User.id):
            return
        orphans = (
            Player.select(Player.username_key)
            .join(User, JOIN.LEFT_OUTER, on=(User.id == Player.user_id))
            .where(Player.user_id.is_null(False), User.id.is_null())
        )
        yield from _by_name(orphans, Player.username_key, PAGE)

    def _newcomers(self, names: Sequence[str], since: datetime | None) -> set[str]:
        """Those of AuthMe's names that may have come `since`.

        Not only who has no agreement: whoever is provisioned or adopted at a login has one before a run sees the row.
        """
        if since is None:
            return set()  # counting them tells nothing
        came = set(names)
        for page in pages_of(names, _NAMES):
            known = Player.select(Player.username_key).where(Player.username_key.in_(page), Player.presence == PRESENT)
            rows: Any = known.where(Player.plugin_since < since).tuples()
            came -= {row[0] for row in rows}
        return came

    def _users_in(self, buckets: Collection[int]) -> Pages:
        for names in _by_name(User.select(User.username_key), User.username_key):
            yield [name for name in names if bucket_of(name) in buckets]

    def _without_player(self, names: Pages) -> Pages:
        for found in names:
            for page in pages_of(found, _NAMES):
                there = self._players.find_names(page)
                yield from pages_of([name for name in page if name not in there])


def count_users(database: Database) -> UserTally:
    """What tells whether somebody was deleted in SQL."""
    if isinstance(database, SqliteDatabase):
        return UserTally(0, 0, 0)
    newest = Player.select(fn.MAX(Player.user_id)).scalar()
    return UserTally(*_tally(User.id), newest or 0)


def _tally(ids: Any) -> tuple[int, int]:
    """How many there are, and their sum; as a DOUBLE, which costs SQL less than a DECIMAL and is exact up to 2^53."""
    total = fn.COALESCE(fn.SUM(ids + SQL("0e0")), 0)
    found: Any = ids.model.select(fn.COUNT(ids), total).tuples().get()
    return int(found[0]), int(found[1])


def pages_of(names: Sequence[str], size: int = PAGE) -> Pages:
    """The same names, so many at a time; no page is empty."""
    for start in range(0, len(names), size):
        yield names[start : start + size]


def _by_order(condition: Any, first: Field, then: Field) -> Pages:
    """The names of these users, ordered by two fields that are the same together for nobody else."""
    beyond: Any = condition
    while True:
        query: Any = User.select(User.username_key, first, then).where(beyond)
        page = list(query.order_by(first, then).limit(PAGE).tuples())
        if page:
            yield [row[0] for row in page]
            _name, value, other = page[-1]
            beyond = condition & ((first > value) | ((first == value) & (then > other)))
        if len(page) < PAGE:
            return


def _by_name(query: Any, name: Field, size: int = _NAMES) -> Pages:
    after = ""
    while True:
        rows = [row[0] for row in query.where(name > after).order_by(name).limit(size).tuples()]
        if rows:
            yield rows
            after = rows[-1]
        if len(rows) < size:
            return
