"""AuthMe's table as a peewee model, under its configured names, with the columns it really has.

The table belongs to AuthMe: rows are inserted, changed by compare-and-set, and deleted; the table itself, its columns
and its file are never created or altered. Lower-case names, times in milliseconds and AuthMe's "no e-mail" values are
handled here and in `players`.
"""

import sqlite3
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, Final

from peewee import (
    SQL,
    BigIntegerField,
    Database,
    DatabaseError,
    DataError,
    Expression,
    Field,
    IntegrityError,
    InternalError,
    Model,
    Node,
    NodeList,
    OperationalError,
    fn,
)

from plugin_bridge.authme.config import IDENTIFIER, ColumnNames
from plugin_bridge.authme.player_model import TEXTS, player_model
from plugin_bridge.authme.players import NewPlayer, PlayerExists, PlayerRefused, PlayerRow, Players, PlayersUnavailable
from plugin_bridge.authme.table_checksums import (
    EMPTY,
    FIND_ID,
    FIND_NAME_INDEX,
    MAX_SHIFT,
    Bucket,
    IdColumn,
    NameIndex,
    SharedTable,
    StoredChecksums,
)

_REQUIRED: Final = ("username", "realname", "hash")
_ROW_FIELDS: Final = tuple(field.name for field in fields(PlayerRow))
_NAMES_PER_STATEMENT: Final = 500
_NO_TABLE: Final = {1146, 1049}
_NO_COLUMN: Final = 1054
_NO_DEFAULT: Final = 1364
_NOT_IN_CHARSET: Final = {1267, 1271}
_ACCESS_DENIED: Final = {1044, 1142, 1143, 1227}
_NO_ID_LEFT: Final = {167, 1467}
_VALUE_REJECTED: Final = (
    "AuthMe's table does not accept one of the values: its charset lacks a character, or the value is too long."
)
_IDS_EXHAUSTED: Final = "The id column of AuthMe's table has no numbers left: not even AuthMe can add a player."
_ROW_REJECTED: Final = "AuthMe's table requires a column that we do not write, or rejects a value."


class AuthMePlayers(Players):
    """Common part of all backends; each adds how to connect, compare exactly, and recognize an unavailable table."""

    def __init__(self, database: Database, table: str, columns: ColumnNames, schema: str | None = None) -> None:
        self._database = database
        self._table = table
        self._columns = columns
        self._schema = schema
        self._model: type[Model] | None = None

    def find(self, key: str) -> PlayerRow | None:
        return self.find_many([key]).get(key)

    def find_colliding(self, key: str) -> PlayerRow | None:
        with self._open_table() as model:
            for row in model.select().where(self._collides(model, key)).dicts().limit(1):
                return player_row(row)
        return None

    def find_many(self, keys: Iterable[str]) -> dict[str, PlayerRow]:
        wanted = set(keys)
        if not wanted:
            return {}
        with self._open_table() as model:
            rows = [player_row(row) for row in model.select().where(field_of(model, "username").in_(wanted)).dicts()]
        # a collation may have matched names that are merely similar
        return {row.username: row for row in rows if row.username in wanted}

    def find_names(self, keys: Iterable[str]) -> set[str]:
        wanted = set(keys)
        with self._open_table() as model:
            username = field_of(model, "username")
            rows: Any = model.select(username).where(username.in_(wanted)).tuples()
            return {row[0] for row in rows} & wanted

    def pages(self, size: int) -> Iterator[list[PlayerRow]]:
        after: str | None = None
        while True:
            with self._open_table() as model:
                username = field_of(model, "username")
                query = model.select().order_by(username).limit(size)
                if after is not None:
                    query = query.where(username > after)
                rows = [player_row(row) for row in query.dicts()]
            if rows:
                yield rows
                after = rows[-1].username
            if len(rows) < size:
                return

    def count(self) -> int:
        with self._open_table() as model:
            return int(model.select().count())

    def is_marked_online(self, key: str) -> bool:
        with self._open_table() as model:
            if not hasattr(model, "is_logged"):
                return False
            is_online = (field_of(model, "username") == key) & (field_of(model, "is_logged") == 1)
            return bool(list(model.select(field_of(model, "username")).where(is_online).tuples()))

    def is_empty(self) -> bool:
        with self._open_table() as model:
            return not list(model.select(field_of(model, "username")).limit(1).tuples())

    def insert(self, player: NewPlayer) -> None:
        with self._open_table() as model:
            values: dict[str, str | int | None] = {
                "username": player.username,
                "realname": player.realname,
                "hash": player.hash,
                "salt": player.salt,
                "regdate": player.regdate,
                "regip": player.regip,
            }
            if player.email is not None:
                values["email"] = player.email
            if player.uuid is not None:
                values["uuid"] = player.uuid
            self._require_salt_column(model, player.salt)
            known = {name: value for name, value in values.items() if hasattr(model, name)}
            if self._write(self._insertion(model, player.username, known)) == 0:
                raise PlayerExists

    def update(self, seen: PlayerRow, changes: Mapping[str, str | int | None]) -> bool:
        with self._open_table() as model:
            changed = {
                name: value for name, value in changes.items() if hasattr(model, name) and getattr(seen, name) != value
            }
            if not changed:
                return True
            self._require_salt_column(model, changes.get("salt"))
            query = model.update(changed).where(self._is_row(model, seen, set(changed)))
            return self._write(query) > 0

    def delete(self, seen: PlayerRow) -> bool:
        with self._open_table() as model:
            return self._write(model.delete().where(self._is_row(model, seen, {"hash"}))) > 0

    def refresh(self) -> None:
        """Read the columns again at the next use: AuthMe adds some when it is updated."""
        self._model = None

    def _require_salt_column(self, model: type[Model], salt: str | int | None) -> None:
        """Raise `PlayerRefused` for a salt that would be lost: no password verifies against the hash alone."""
        if salt is not None and not hasattr(model, "salt"):
            raise PlayerRefused(
                f"AuthMe's table {self._table} has no column for the salt yet. Start the game server once; "
                "AuthMe creates the column that DataSource.mySQLColumnSalt names."
            )

    def _write(self, query: Any) -> int:
        """Execute the statement and return how many rows it found or inserted."""
        try:
            return int(query.execute())
        except IntegrityError as error:
            if error.args[0] == 1062 or "UNIQUE" in str(error.args[0]):
                raise PlayerExists from None
            raise PlayerRefused(_ROW_REJECTED) from None
        except DataError:
            raise PlayerRefused(_VALUE_REJECTED) from None
        except (OperationalError, InternalError) as error:
            if error.args[0] == _NO_DEFAULT:
                raise PlayerRefused(_ROW_REJECTED) from None
            if error.args[0] in _NO_ID_LEFT:
                raise PlayerRefused(_IDS_EXHAUSTED) from None
            raise

    def _insertion(self, model: type[Model], username: str, values: Mapping[str, str | int | None]) -> Any:
        """Return the statement that inserts these fields; it inserts no row where the name is taken."""
        return model.insert(dict(values)).as_rowcount()

    def _is_row(self, model: type[Model], seen: PlayerRow, compared: set[str]) -> Expression:
        condition = field_of(model, "username") == seen.username
        # SQLite allows any value as regdate; one that is not a number identifies nothing
        identity = {"username"} if seen.regdate is None else {"username", "regdate"}
        for name in sorted(compared | identity):
            if hasattr(model, name):
                condition = condition & self._is_exactly(field_of(model, name), getattr(seen, name))
        return condition

    @contextmanager
    def _open_table(self) -> Iterator[type[Model]]:
        """Yield the model, connected; database errors that mean so are raised as `PlayersUnavailable`."""
        try:
            self._connect()
            yield self._model or self._inspect_table()
        except (DatabaseError, sqlite3.Error) as error:
            sentence = self._explain(error)
            if sentence is None:
                raise
            self.refresh()
            raise PlayersUnavailable(sentence) from error

    def _inspect_table(self) -> type[Model]:
        found = self._database.get_columns(self._table, schema=self._schema)
        present = {column.name: bool(column.null) for column in found}
        if not present:
            raise PlayersUnavailable(self._no_table())
        model = player_model(self._database, self._table, self._columns, present, self._schema)
        for name in _REQUIRED:
            if not hasattr(model, name):
                column = getattr(self._columns, TEXTS[name])
                raise PlayersUnavailable(
                    f"AuthMe's table {self._table} has no column {column}; its config.yml names one."
                )
        self._model = model
        return model

    def _no_table(self) -> str:
        return f"There is no table {self._table} yet. Start the game server with AuthMe once; AuthMe creates the table."

    def _no_column(self) -> str:
        return f"AuthMe's table {self._table} lacks a column that it had. If its config.yml is right, try again."

    @abstractmethod
    def _connect(self) -> None:
        """Make sure that the calling thread has a connection."""

    @abstractmethod
    def _is_exactly(self, field: Field, value: str | int | None) -> Node:
        """Return a byte-for-byte comparison, NULL included."""

    @abstractmethod
    def _collides(self, model: type[Model], key: str) -> Expression:
        """Return the condition for rows that would prevent a new one of this name."""

    @abstractmethod
    def _explain(self, error: Exception) -> str | None:
        """Return a sentence if the error means that the table is unavailable; None for all other errors."""


class MySqlPlayers(AuthMePlayers):
    """AuthMe's table on MySQL or MariaDB, over our own connection: one transaction covers both sides."""

    @property
    def shares_transactions(self) -> bool:  # type: ignore[override]
        """Return whether AuthMe's table can be rolled back together with ours (its engine is InnoDB)."""
        if self._is_transactional is None:
            with self._open_table():
                cursor = self._database.execute_sql(
                    "SELECT engine FROM information_schema.tables WHERE table_schema = COALESCE(%s, DATABASE())"
                    " AND table_name = %s",
                    (self._schema, self._table),
                )
                self._is_transactional = str(cursor.fetchone()[0]).lower() == "innodb"
        return self._is_transactional

    _is_transactional: bool | None = None
    _shared: SharedTable | None = None

    def find_many(self, keys: Iterable[str]) -> dict[str, PlayerRow]:
        wanted = sorted(set(keys))
        try:
            return super().find_many(wanted)
        except OperationalError as error:
            if error.args[0] not in _NOT_IN_CHARSET:
                raise
        if len(wanted) == 1:
            return {}  # a name that the column's charset cannot write is not in it
        middle = len(wanted) // 2
        return self.find_many(wanted[:middle]) | self.find_many(wanted[middle:])

    def find_names(self, keys: Iterable[str]) -> set[str]:
        try:
            return super().find_names(keys)
        except OperationalError as error:
            if error.args[0] not in _NOT_IN_CHARSET:
                raise
        return set(self.find_many(keys))

    def names_in(self, buckets: Collection[int]) -> Iterator[list[str]]:
        table = self._shared_sql()
        for rows, condition in table.rows_of_buckets(buckets):
            with self._open_table():
                cursor = self._database.execute_sql(f"SELECT {table.text('username')} FROM {rows} WHERE {condition}")  # noqa: S608
                names = [name for (name,) in cursor.fetchall()]
            yield names

    def buckets_of(self, keys: Collection[str]) -> dict[str, int]:
        if not keys:
            return {}
        table, found, wanted = self._shared_sql(), dict[str, int](), sorted(keys)
        with self._open_table():
            for start in range(0, len(wanted), _NAMES_PER_STATEMENT):
                page = sorted(self.find_names(wanted[start : start + _NAMES_PER_STATEMENT]))
                if not page:
                    continue
                cursor = self._database.execute_sql(
                    f"SELECT {table.text('username')}, {table.bucket} FROM {table.name} a "  # noqa: S608
                    f"WHERE {table.raw('username')} IN ({', '.join(['%s'] * len(page))})",
                    page,
                )
                found |= {name: int(number) for name, number in cursor.fetchall()}
        return {key: found[key] for key in wanted if key in found}

    def changed_buckets(self, stored: StoredChecksums) -> dict[int, Bucket]:
        table = self._shared_sql()
        with self._open_table():
            added, is_same, is_counted = self._database.execute_sql(table.comparison(stored.table)).fetchone()
            if is_same:
                return {}
            found = self._database.execute_sql(table.differences(stored.table)).fetchall()
            changed = {int(number): Bucket(*map(int, now)) for number, *now, _added in found}
            # the counts may also differ because of a write in between, which does no harm
            if not is_counted or added != sum(added_here for *_bucket, added_here in found):
                gone = self._database.execute_sql(table.missing(stored.table)).fetchall()
                changed |= dict.fromkeys((int(number) for (number,) in gone), EMPTY)
        return changed

    def shared_table(self) -> SharedTable:
        return self._shared_sql()

    def refresh(self) -> None:
        super().refresh()
        self._shared = None

    def _shared_sql(self) -> SharedTable:
        if self._shared is None:
            with self._open_table() as model:
                columns = {name: field.column_name for name, field in model._meta.fields.items()}
                nullable = {name for name, field in model._meta.fields.items() if field.null}
                place = (self._schema, self._table, columns["username"])
                index = NameIndex(*self._database.execute_sql(FIND_NAME_INDEX, place).fetchone())
                self._shared = SharedTable(self._table, self._schema, columns, nullable, index, self._find_ids())
        return self._shared

    def _find_ids(self) -> IdColumn | None:
        column, is_number = self._database.execute_sql(FIND_ID, (self._schema, self._table)).fetchone()
        if not is_number or not IDENTIFIER.fullmatch(column):
            return None
        table = f"`{self._schema}`.`{self._table}`" if self._schema else f"`{self._table}`"
        bounds = f"SELECT COALESCE(MIN(`{column}`), 0), COALESCE(MAX(`{column}`), 0) FROM {table}"  # noqa: S608
        least, greatest = self._database.execute_sql(bounds).fetchone()
        ids = IdColumn(column, int(greatest))
        return ids if least >= 0 and ids.shift <= MAX_SHIFT else None

    def execute_shared(self, sql: str) -> None:
        with self._open_table():
            self._database.execute_sql(sql)

    def find_colliding(self, key: str) -> PlayerRow | None:
        try:
            return super().find_colliding(key)
        except OperationalError as error:
            if error.args[0] not in _NOT_IN_CHARSET:
                raise
        return None

    def _connect(self) -> None:
        self._database.connect(reuse_if_open=True)

    def _is_exactly(self, field: Field, value: str | int | None) -> Node:
        if isinstance(field, BigIntegerField):
            return NodeList((field, SQL("<=>"), value))
        # works for every charset and collation of the column
        stored = fn.BINARY(fn.CONVERT(NodeList((field, SQL("USING utf8mb4")))))
        return NodeList((stored, SQL("<=>"), fn.BINARY(value)))

    def _collides(self, model: type[Model], key: str) -> Expression:
        return field_of(model, "username") == key

    def _explain(self, error: Exception) -> str | None:
        code = error.args[0] if error.args else None
        if code in _NO_TABLE:
            return self._no_table()
        if code == _NO_COLUMN:
            return self._no_column()
        if code in _ACCESS_DENIED:
            return f"The database login is not allowed to do this on AuthMe's table {self._table}: grant it the right."
        return None


def field_of(model: type[Model], name: str) -> Field:
    """Return the column of a field of `PlayerRow` or `NewPlayer`."""
    field: Field = getattr(model, name)
    return field


def player_row(row: Any) -> PlayerRow:
    """Return the record of a row given as a dict by field name."""
    values: dict[str, Any] = {name: row[name] for name in _ROW_FIELDS if row.get(name) is not None}
    return PlayerRow(**dict.fromkeys(_REQUIRED, "") | values)
