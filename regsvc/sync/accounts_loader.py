"""Loading of accounts: the users, sync records and players of a page of names, in two queries."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from peewee import BooleanField, Database, Field, Model, SqliteDatabase

from plugin_bridge.authme.players import PlayerRow, Players
from regsvc.core.clock import Clock
from regsvc.database.models import Player, User, UtcDateTimeField
from regsvc.sync.records import RECORD_COLUMNS, USER_COLUMNS, Account, SyncRecord, UserRecord

PAGE: Final = 500
"""Names loaded and reconciled together. Reading as many rows locks AuthMe's SQLite file for a few milliseconds."""


class AccountsLoader:
    """Loader of accounts. Runs inside the caller's transaction, if there is one."""

    def __init__(
        self, database: Database, players: Players, operators: Callable[[], Collection[str]], now: Clock
    ) -> None:
        """`operators` returns the lower-case names of the operators at this moment."""
        self._database = database
        self._players = players
        self._operators = operators
        self._now = now
        self._lock = "" if isinstance(database, SqliteDatabase) else " FOR UPDATE"  # a transaction locks SQLite's file

    def load(self, keys: Collection[str], players: Mapping[str, PlayerRow] | None) -> list[Account]:
        """Return the accounts of these lower-case names without locking. `players`: AuthMe's rows; None: not known.

        Raises `PlayersUnavailable`, and ValueError for a date that cannot be read, which SQLite accepts.
        """
        return self._build(keys, *self._find(keys), players)

    def lock(self, keys: Collection[str], *, with_players: bool = True) -> list[Account]:
        """Return the accounts of these names; our rows stay locked until the transaction ends.

        AuthMe's rows are read after ours are locked, so that they are not older. Without them the accounts have none.
        """
        users, sync_records = self._find(keys, self._lock)
        return self._build(keys, users, sync_records, self._players.find_many(keys) if with_players else None)

    def lock_user(
        self, key: str, find_rows: Callable[[], Mapping[str, PlayerRow] | None]
    ) -> tuple[User, Account] | None:
        """Return the user of this name with the account, or None; our rows stay locked until the transaction ends.

        `find_rows` returns AuthMe's row by its name; it is called after ours are locked.
        """
        rows = self._select(_WHOLE_USERS_WITH_RECORDS, [key], self._lock)
        if not rows:
            return None
        row, split = rows[0], len(_WHOLE_USER)
        user = User(__no_default__=True)
        user.__data__.update((field.name, value) for (_alias, field), value in zip(_WHOLE_USER, row, strict=False))
        sync_records = {key: SyncRecord(*row[split:])} if row[split] is not None else {}
        return user, self._build([key], {key: UserRecord.from_row(user)}, sync_records, find_rows())[0]

    def find_changed(self, accounts: Sequence[Account]) -> set[str]:
        """Lock our rows of these accounts, and return the names whose rows are not as in the accounts."""
        users, sync_records = self._find([account.key for account in accounts], self._lock)
        return {
            account.key
            for account in accounts
            if (account.user, account.sync_record) != (users.get(account.key), sync_records.get(account.key))
        }

    def _find(self, keys: Collection[str], lock: str = "") -> tuple[dict[str, UserRecord], dict[str, SyncRecord]]:
        """Return users and sync records by name, with one query if all names have users."""
        users, sync_records = {}, {}
        split = len(USER_COLUMNS)
        for row in self._select(_USERS_WITH_RECORDS, keys, lock):
            users[row[2]] = UserRecord.from_values(row[:split])
            if row[split] is not None:
                sync_records[row[split]] = SyncRecord(*row[split:])
        sync_records |= self._find_sync_records([key for key in keys if key not in users], lock)
        return users, sync_records

    def _find_sync_records(self, keys: Collection[str], lock: str = "") -> dict[str, SyncRecord]:
        return {row[0]: SyncRecord(*row) for row in self._select(_RECORDS, keys, lock)}

    def _build(
        self,
        keys: Collection[str],
        users: Mapping[str, UserRecord],
        sync_records: Mapping[str, SyncRecord],
        players: Mapping[str, PlayerRow] | None,
    ) -> list[Account]:
        without_user = {
            known.user_id for key, known in sync_records.items() if key not in users and known.user_id is not None
        }
        without_record = {
            user.id for key, user in users.items() if key not in sync_records or sync_records[key].user_id != user.id
        }
        by_id = {row[0]: UserRecord.from_values(row) for row in self._select(_USERS_BY_ID, without_user)}
        names = {row[1]: row[0] for row in self._select(_RECORDS_BY_USER, without_record)}
        moment, operators, found = self._now(), self._operators(), []
        for key in keys:
            user, sync_record = users.get(key), sync_records.get(key)
            owner = sync_record.user_id if sync_record is not None and user is None else None
            found.append(
                Account(
                    key=key,
                    user=user,
                    sync_record=sync_record,
                    player=players.get(key) if players is not None else None,
                    is_player_known=players is not None,
                    is_operator=key in operators,
                    now=moment,
                    renamed=by_id.get(owner) if owner is not None else None,
                    known_as=names.get(user.id) if user is not None else None,
                )
            )
        return found

    def _select(self, query: "_Query", values: Collection[Any], lock: str = "") -> list[Any]:
        if not values:
            return []
        marks = ", ".join([str(self._database.param)] * len(values))
        rows = [list(row) for row in self._database.execute_sql(f"{query.sql} ({marks}){lock}", list(values))]
        for number, field in query.converted:
            for row in rows:
                row[number] = field.python_value(row[number])
        return rows


class _Query:
    """A SELECT with a list of keys. Written out, as the query builder would take longer than the database."""

    def __init__(self, tables: str, key: str, *columns: tuple[str, Field]) -> None:
        names = ", ".join(f"{alias}.{field.column_name}" for alias, field in columns)
        self.sql = f"SELECT {names} FROM {tables} WHERE {key} IN"  # noqa: S608
        self.converted = [
            (number, field)
            for number, (_alias, field) in enumerate(columns)
            if isinstance(field, UtcDateTimeField | BooleanField)
        ]


def _columns(alias: str, model: type[Model], names: Sequence[str]) -> list[tuple[str, Field]]:
    return [(alias, model._meta.fields[name]) for name in names]


_OF_USER: Final = _columns("u", User, USER_COLUMNS)
_OF_RECORD: Final = _columns("p", Player, RECORD_COLUMNS)
_WHOLE_USER: Final = _columns("u", User, tuple(User._meta.fields))
_BOTH: Final = "regsvc_user u LEFT JOIN regsvc_player p ON p.username_key = u.username_key"
_USERS_WITH_RECORDS: Final = _Query(_BOTH, "u.username_key", *_OF_USER, *_OF_RECORD)
_WHOLE_USERS_WITH_RECORDS: Final = _Query(_BOTH, "u.username_key", *_WHOLE_USER, *_OF_RECORD)
_USERS_BY_ID: Final = _Query("regsvc_user u", "u.id", *_OF_USER)
_RECORDS: Final = _Query("regsvc_player p", "p.username_key", *_OF_RECORD)
_RECORDS_BY_USER: Final = _Query("regsvc_player p", "p.user_id", *_columns("p", Player, ("username_key", "user_id")))
