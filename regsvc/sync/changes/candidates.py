"""Candidates of a run: the names that may need something, and on a full run all of them."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from peewee import JOIN, SQL, Database, Field, SqliteDatabase, fn

from plugin_bridge.authme.players import Players
from plugin_bridge.authme.table_checksums import bucket_of
from regsvc.database.dates import is_readable
from regsvc.database.models import BANNED, PRESENT, Player, User
from regsvc.sync.accounts_loader import PAGE, pages_of, rows_in_order
from regsvc.sync.changes.run_inputs import RunInputs, UserTally
from regsvc.sync.changes.shared_rows import SharedRows
from regsvc.sync.changes.table_digest import TableChanges

_NAMES: Final = 2_000
"""Names alone are read in longer pages."""

Pages = Iterator[Sequence[str]]


class Candidates:
    """Candidates in pages of at most `PAGE` names. Blocking."""

    def __init__(self, database: Database, players: Players) -> None:
        self._database = database
        self._players = players
        self._is_sqlite = isinstance(database, SqliteDatabase)
        self._has_ban_end = is_readable(database, User.ban_expires_at.column_name)

    def in_changed_buckets(self, changes: TableChanges) -> Pages:
        """Yield the names in changed buckets whose row changed, and of users whose row may have gone."""
        if not changes.changed:
            return
        table = self._players.shared_table()
        if table is None:
            found: Pages = self._players.names_in(changes.changed)
        else:
            found = iter([SharedRows(self._database, table).changed_in_buckets(changes.changed, changes.since)])
        new_rows: Counter[int] = Counter()
        for names in found:
            new_rows.update(self._players.buckets_of(self._new_names(names, changes.since)).values())
            yield from pages_of(names)
        before = changes.row_counts_before
        buckets_missing_rows = {
            n
            for n, now in changes.changed.items()
            if changes.since is None or n not in before or before[n] + new_rows[n] != now.row_count
        }
        if buckets_missing_rows and table is not None:
            for names in SharedRows(self._database, table).lost_rows():
                yield from pages_of(names)
        elif buckets_missing_rows:
            yield from self._without_player(self._users_in(buckets_missing_rows))

    def of_users_without_player(self, newest_id: int) -> Pages:
        """Yield the names of users up to this id that AuthMe has no row for."""
        table = self._players.shared_table()
        if table is None:
            users = User.select(User.username_key).where(User.id <= newest_id)
            yield from self._without_player(_names_by(users, User.username_key))
            return
        for names in SharedRows(self._database, table).users_without_row(newest_id):
            yield from pages_of(names)

    def expired_bans(self, moment: datetime) -> Pages:
        """Yield the names of users whose ban ended before `moment`."""
        # in the order of the index that finds them: by name, the server would go through all names instead
        # an unreadable date, which would end the pages, ends no ban
        is_expired = (User.status == BANNED) & (User.ban_expires_at <= moment) & self._has_ban_end
        yield from _users_by(is_expired, User.ban_expires_at)

    def edited(self) -> Pages:
        """Yield the names of users whose status was edited in SQL; they are marked as changed until that is applied."""
        is_edited = User.changed_at.is_null(False) & (User.is_edited == True)  # noqa: E712 - SQL
        yield from _users_by(is_edited, User.changed_at)

    def deleted_in_sql(self, last: RunInputs | None, now: RunInputs, *, is_full: bool) -> Pages:
        """Yield the names of players whose user was deleted in SQL, unless a trigger marks them, as on SQLite.

        The users are counted first, which is cheaper than comparing both tables; a full run compares them.
        """
        if self._is_sqlite:
            return
        is_same = last is not None and last.users == now.users
        if not is_full and (is_same or _tally(Player.user_id) == _tally(User.id)):
            return
        orphans = (
            Player.select(Player.username_key)
            .join(User, JOIN.LEFT_OUTER, on=(User.id == Player.user_id))
            .where(Player.user_id.is_null(False), User.id.is_null())
        )
        yield from _names_by(orphans, Player.username_key, PAGE)

    def _new_names(self, names: Sequence[str], since: datetime | None) -> set[str]:
        """Return the names whose rows may have appeared since `since`.

        Names with a sync record are among them: provisioning and adoption at a login create it before a run sees the
        row.
        """
        if since is None:
            return set()  # the count proves nothing
        new = set(names)
        for page in pages_of(names, _NAMES):
            known = Player.select(Player.username_key).where(Player.username_key.in_(page), Player.presence == PRESENT)
            rows: Any = known.where(Player.plugin_since < since).tuples()
            new -= {row[0] for row in rows}
        return new

    def _users_in(self, buckets: Collection[int]) -> Pages:
        for names in _names_by(User.select(User.username_key), User.username_key):
            yield [name for name in names if bucket_of(name) in buckets]

    def _without_player(self, names: Pages) -> Pages:
        for found in names:
            for page in pages_of(found, _NAMES):
                existing = self._players.find_names(page)
                yield from pages_of([name for name in page if name not in existing])


def count_users(database: Database) -> UserTally:
    """Return the tally that changes when a user is deleted in SQL."""
    if isinstance(database, SqliteDatabase):
        return UserTally(0, 0, 0)
    newest = Player.select(fn.MAX(Player.user_id)).scalar()
    return UserTally(*_tally(User.id), newest or 0)


def _tally(ids: Any) -> tuple[int, int]:
    """Return count and sum of the ids; the sum as a DOUBLE, which is faster than a DECIMAL and exact up to 2^53."""
    total = fn.COALESCE(fn.SUM(ids + SQL("0e0")), 0)
    found: Any = ids.model.select(fn.COUNT(ids), total).tuples().get()
    return int(found[0]), int(found[1])


def _users_by(condition: Any, first: Field) -> Pages:
    """Yield the names of these users in the order of the field."""
    users = User.select(first, User.id, User.username_key).where(condition)
    for rows in rows_in_order(users, first, User.id):
        yield [name for _value, _id, name in rows]


def _names_by(query: Any, name: Field, size: int = _NAMES) -> Pages:
    for rows in rows_in_order(query.where(name > ""), name, size=size):  # so that the index of names is read
        yield [row[0] for row in rows]
