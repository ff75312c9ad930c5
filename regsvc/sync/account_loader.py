"""Loading of accounts: the users, sync records and players of a page of names, in two queries; and pages."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from peewee import Database, Field

from plugin_bridge.authme.players import PlayerRow, Players
from regsvc.core.clock import Clock
from regsvc.database.bulk import select_rows
from regsvc.database.models import SyncRecord, User
from regsvc.sync.records import RECORD_COLUMNS, USER_COLUMNS, Account, SyncValues, UserRecord

FindRows = Callable[[], Mapping[str, PlayerRow] | None]


class AccountLoader:
    """Loader of accounts. Runs inside the caller's transaction, if there is one."""

    def __init__(
        self, database: Database, players: Players, operators: Callable[[], Collection[str]], now: Clock
    ) -> None:
        """`operators` returns the lower-case names of the operators at this moment."""
        self._database = database
        self._players = players
        self._operators = operators
        self._now = now

    def load(self, keys: Collection[str], players: Mapping[str, PlayerRow] | None) -> list[Account]:
        """Return the accounts of these lower-case names without locking. `players`: AuthMe's rows; None: not known.

        Raises `PlayersUnavailable`.
        """
        return self._build(keys, *self._find(keys), players)

    def load_for_update(self, keys: Collection[str], *, with_players: bool = True) -> list[Account]:
        """Return the accounts of these names; our rows stay locked until the transaction ends.

        AuthMe's rows are read after ours are locked, so that they are not older. Without them the accounts have none.
        """
        users, sync_records = self._find(keys, is_locking=True)
        return self._build(keys, users, sync_records, self._players.find_many(keys) if with_players else None)

    def load_user_for_update(self, key: str, find_rows: FindRows) -> tuple[User, Account] | None:
        """Return the user of this name with the account, or None; our rows stay locked until the transaction ends.

        `find_rows` returns AuthMe's row by its name; it is called after ours are locked.
        """
        rows = self._select_users(_WHOLE_USER, [key], is_locking=True)
        if not rows:
            return None
        row, split = rows[0], len(_WHOLE_USER)
        user = User(__no_default__=True)
        user.__data__.update(zip(User._meta.fields, row, strict=False))
        if user.username_key != key:
            return None  # a collation may have matched a name that is merely similar
        sync_records = {key: SyncValues(*row[split:])} if row[split] is not None else {}
        return user, self._build([key], {key: UserRecord.from_row(user)}, sync_records, find_rows())[0]

    def find_changed(self, accounts: Sequence[Account]) -> set[str]:
        """Lock our rows of these accounts, and return the names whose rows are not as in the accounts."""
        users, sync_records = self._find([account.key for account in accounts], is_locking=True)
        changed = set()
        for account in accounts:
            if (account.user, account.sync_record) != (users.get(account.key), sync_records.get(account.key)):
                changed.add(account.key)
        return changed

    def _find(
        self, keys: Collection[str], *, is_locking: bool = False
    ) -> tuple[dict[str, UserRecord], dict[str, SyncValues]]:
        """Return users and sync records by name, with one query if all names have users."""
        users, sync_records = {}, {}
        split = len(USER_COLUMNS)
        for row in self._select_users(_OF_USER, keys, is_locking):
            users[row[2]] = UserRecord(*row[:split])
            if row[split] is not None:
                sync_records[row[split]] = SyncValues(*row[split:])
        others = [key for key in keys if key not in users]
        records = select_rows(
            self._database, SyncRecord, _OF_RECORD, SyncRecord.username_key, others, for_update=is_locking
        )
        for row in records:
            sync_records[row[0]] = SyncValues(*row)
        return users, sync_records

    def _build(
        self,
        keys: Collection[str],
        users: Mapping[str, UserRecord],
        sync_records: Mapping[str, SyncValues],
        players: Mapping[str, PlayerRow] | None,
    ) -> list[Account]:
        owner_ids: dict[str, int] = {}
        without_record = []
        for key in keys:
            user, known = users.get(key), sync_records.get(key)
            if user is not None and (known is None or known.user_id != user.id):
                without_record.append(user.id)
            elif user is None and known is not None and known.user_id:
                owner_ids[key] = known.user_id
        owners = select_rows(self._database, User, _OF_USER, User.id, set(owner_ids.values()))
        by_id = {row[0]: UserRecord(*row) for row in owners}
        ids_and_names: list[Any] = [SyncRecord.user_id, SyncRecord.username_key]
        names: dict[int, str] = dict(
            select_rows(self._database, SyncRecord, ids_and_names, SyncRecord.user_id, without_record)
        )
        moment, operators = self._now(), self._operators()
        return [
            Account(
                key=key,
                user=users.get(key),
                sync_record=sync_records.get(key),
                player=players.get(key) if players is not None else None,
                is_player_known=players is not None,
                is_operator=key in operators,
                now=moment,
                renamed=by_id.get(owner_ids.get(key, 0)),
                known_as=names.get(users[key].id) if key in users else None,
            )
            for key in keys
        ]

    def _select_users(self, fields: Sequence[Field], keys: Collection[str], is_locking: bool) -> list[tuple[Any, ...]]:
        """Return these fields of the users with these names, and those of `_OF_RECORD`, None without a record."""
        fields = [*fields, *_OF_RECORD]
        return select_rows(
            self._database, User, fields, User.username_key, keys, join=_WITH_RECORD, for_update=is_locking
        )


_OF_USER: Final = [User._meta.fields[name] for name in USER_COLUMNS]
_WHOLE_USER: Final = list(User._meta.fields.values())
_OF_RECORD: Final = [SyncRecord._meta.fields[name] for name in RECORD_COLUMNS]
_WITH_RECORD: Final = "LEFT JOIN regsvc_sync_record ON regsvc_sync_record.username_key = regsvc_user.username_key"


PAGE: Final = 500
"""Names loaded and reconciled together. Reading as many rows locks AuthMe's SQLite file for a few milliseconds."""

T = TypeVar("T")


def pages_of(values: Sequence[T], size: int = PAGE) -> Iterator[Sequence[T]]:
    """Yield the values in pages of at most `size`, none of them empty."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


def rows_in_order(query: Any, *order: Field, size: int = PAGE) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of a query, by pages, in the order of the fields that it selects first; together they are unique.

    Each page is a statement of its own that begins after the last row of the page before.
    """
    rest = query
    while True:
        rows = list(rest.order_by(*order).limit(size).tuples())
        if rows:
            yield rows
        if len(rows) < size:
            return
        rest = query.where(_is_after(order, rows[-1]))


def _is_after(order: Sequence[Field], row: Sequence[Any]) -> Any:
    first: Any = order[0]
    if len(order) == 1:
        return first > row[0]
    return (first > row[0]) | ((first == row[0]) & _is_after(order[1:], row[1:]))
