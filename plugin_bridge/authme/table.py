"""AuthMe's table as a peewee Model, under its configured names, with the columns it really has.

A guest room: rows are inserted, changed by compare-and-set, and deleted; the table itself, its columns and its file are
never created or altered. Lower-case names, ms dates and "no e-mail" values are handled here and in `players`.
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
    MOST_SHIFTED,
    Bucket,
    IdColumn,
    NameIndex,
    SharedTable,
    StoredChecksums,
)

_REQUIRED: Final = ("username", "realname", "hash")
_ROW_FIELDS: Final = tuple(field.name for field in fields(PlayerRow))
_ASKED_AT_ONCE: Final = 500
_NO_TABLE: Final = {1146, 1049}
_NO_COLUMN: Final = 1054
_NEEDS_COLUMN: Final = 1364
_NOT_IN_CHARSET: Final = {1267, 1271}
_NO_RIGHT: Final = {1044, 1142, 1143, 1227}
_NO_NUMBER: Final = {167, 1467}
_TAKES_NOT: Final = "AuthMe's table does not take one of the values: its charset lacks it, or it is too long."
_USED_UP: Final = "AuthMe's table has used up the numbers of its id column: no player can be added, by AuthMe either."
_REFUSES: Final = "AuthMe's table needs a column that is not written, or refuses a value."


class AuthMePlayers(Players):
    """What both kinds of database share; a kind says how it connects, compares exactly, and reports being away."""

    def __init__(self, database: Database, table: str, columns: ColumnNames, schema: str | None = None) -> None:
        self._database = database
        self._table = table
        self._columns = columns
        self._schema = schema
        self._model: type[Model] | None = None

    def find(self, key: str) -> PlayerRow | None:
        return self.find_many([key]).get(key)

    def find_colliding(self, key: str) -> PlayerRow | None:
        with self._table_open() as model:
            for row in model.select().where(self._collides(model, key)).dicts().limit(1):
                return player_row(row)
        return None

    def find_many(self, keys: Iterable[str]) -> dict[str, PlayerRow]:
        wanted = set(keys)
        if not wanted:
            return {}
        with self._table_open() as model:
            rows = [player_row(row) for row in model.select().where(field_of(model, "username").in_(wanted)).dicts()]
        # a collation may have brought in names that are only alike
        return {row.username: row for row in rows if row.username in wanted}

    def find_names(self, keys: Iterable[str]) -> set[str]:
        wanted = set(keys)
        with self._table_open() as model:
            username = field_of(model, "username")
            rows: Any = model.select(username).where(username.in_(wanted)).tuples()
            return {row[0] for row in rows} & wanted

    def pages(self, size: int) -> Iterator[list[PlayerRow]]:
        after: str | None = None
        while True:
            with self._table_open() as model:
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
        with self._table_open() as model:
            return int(model.select().count())

    def is_marked_online(self, key: str) -> bool:
        with self._table_open() as model:
            if not hasattr(model, "is_logged"):
                return False
            is_online = (field_of(model, "username") == key) & (field_of(model, "is_logged") == 1)
            return bool(list(model.select(field_of(model, "username")).where(is_online).tuples()))

    def is_empty(self) -> bool:
        with self._table_open() as model:
            return not list(model.select(field_of(model, "username")).limit(1).tuples())

    def insert(self, player: NewPlayer) -> None:
        with self._table_open() as model:
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
        with self._table_open() as model:
            changed = {
                name: value for name, value in changes.items() if hasattr(model, name) and getattr(seen, name) != value
            }
            if not changed:
                return True
            self._require_salt_column(model, changes.get("salt"))
            query = model.update(changed).where(self._is_row(model, seen, set(changed)))
            return self._write(query) > 0

    def delete(self, seen: PlayerRow) -> bool:
        with self._table_open() as model:
            return self._write(model.delete().where(self._is_row(model, seen, {"hash"}))) > 0

    def refresh(self) -> None:
        """Look at the columns again: AuthMe adds some of its own when it is updated."""
        self._model = None

    def _require_salt_column(self, model: type[Model], salt: str | int | None) -> None:
        """Raises `PlayerRefused` for a salt that would be thrown away: with its hash alone nobody could log in."""
        if salt is not None and not hasattr(model, "salt"):
            raise PlayerRefused(
                f"AuthMe's table {self._table} has no column for the salt yet. Start the game server once; "
                "AuthMe makes the column that DataSource.mySQLColumnSalt names."
            )

    def _write(self, query: Any) -> int:
        """How many rows the statement found, or made."""
        try:
            return int(query.execute())
        except IntegrityError as error:
            if error.args[0] == 1062 or "UNIQUE" in str(error.args[0]):
                raise PlayerExists from None
            raise PlayerRefused(_REFUSES) from None
        except DataError:
            raise PlayerRefused(_TAKES_NOT) from None
        except (OperationalError, InternalError) as error:
            if error.args[0] == _NEEDS_COLUMN:
                raise PlayerRefused(_REFUSES) from None
            if error.args[0] in _NO_NUMBER:
                raise PlayerRefused(_USED_UP) from None
            raise

    def _insertion(self, model: type[Model], username: str, values: Mapping[str, str | int | None]) -> Any:
        """The statement that inserts these fields; it makes no row where the name is taken."""
        return model.insert(dict(values)).as_rowcount()

    def _is_row(self, model: type[Model], seen: PlayerRow, compared: set[str]) -> Expression:
        condition = field_of(model, "username") == seen.username
        # SQLite lets a regdate be anything; one that is no number says nothing
        identity = {"username"} if seen.regdate is None else {"username", "regdate"}
        for name in sorted(compared | identity):
            if hasattr(model, name):
                condition = condition & self._is_exactly(field_of(model, name), getattr(seen, name))
        return condition

    @contextmanager
    def _table_open(self) -> Iterator[type[Model]]:
        """The Model, connected; the database's errors turned into `PlayersUnavailable` where they mean that."""
        try:
            self._connect()
            yield self._model or self._look_at_table()
        except (DatabaseError, sqlite3.Error) as error:
            sentence = self._explain(error)
            if sentence is None:
                raise
            self.refresh()
            raise PlayersUnavailable(sentence) from error

    def _look_at_table(self) -> type[Model]:
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
        return f"There is no table {self._table} yet. Start the game server with AuthMe once; it makes the table."

    def _no_column(self) -> str:
        return f"AuthMe's table {self._table} lacks a column that it had. If its config.yml is right, try again."

    @abstractmethod
    def _connect(self) -> None:
        """Make sure the calling thread has a connection."""

    @abstractmethod
    def _is_exactly(self, field: Field, value: str | int | None) -> Node:
        """Byte for byte the same, NULL included."""

    @abstractmethod
    def _collides(self, model: type[Model], key: str) -> Expression:
        """Whether a row would keep a new one of this name out."""

    @abstractmethod
    def _explain(self, error: Exception) -> str | None:
        """A sentence when the error means "away"; None when it is somebody else's business."""


class MySqlPlayers(AuthMePlayers):
    """On MySQL or MariaDB, over our own database's connection: one transaction holds both sides."""

    @property
    def shares_transactions(self) -> bool:  # type: ignore[override]
        """Whether AuthMe's table can be rolled back together with ours."""
        if self._is_transactional is None:
            with self._table_open():
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
        table = self._as_sql()
        for rows, condition in table.rows_of_buckets(buckets):
            with self._table_open():
                cursor = self._database.execute_sql(f"SELECT {table.text('username')} FROM {rows} WHERE {condition}")  # noqa: S608
                names = [name for (name,) in cursor.fetchall()]
            yield names

    def buckets_of(self, keys: Collection[str]) -> dict[str, int]:
        if not keys:
            return {}
        table, found, wanted = self._as_sql(), dict[str, int](), sorted(keys)
        with self._table_open():
            for start in range(0, len(wanted), _ASKED_AT_ONCE):
                page = sorted(self.find_names(wanted[start : start + _ASKED_AT_ONCE]))
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
        table = self._as_sql()
        with self._table_open():
            more, is_same, is_counted = self._database.execute_sql(table.likeness(stored.table)).fetchone()
            if is_same:
                return {}
            found = self._database.execute_sql(table.differences(stored.table)).fetchall()
            changed = {int(number): Bucket(*map(int, now)) for number, *now, _more in found}
            # or somebody wrote meanwhile, and it is no harm
            if not is_counted or more != sum(more_in for *_bucket, more_in in found):
                gone = self._database.execute_sql(table.gone(stored.table)).fetchall()
                changed |= dict.fromkeys((int(number) for (number,) in gone), EMPTY)
        return changed

    def shared_table(self) -> SharedTable:
        return self._as_sql()

    def refresh(self) -> None:
        super().refresh()
        self._shared = None

    def _as_sql(self) -> SharedTable:
        if self._shared is None:
            with self._table_open() as model:
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
        return ids if least >= 0 and ids.shift <= MOST_SHIFTED else None

    def execute_shared(self, sql: str) -> None:
        with self._table_open():
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
        # whatever the column's charset and collation are
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
        if code in _NO_RIGHT:
            return f"The database login may not do this on AuthMe's table {self._table}: grant it the right."
        return None


def field_of(model: type[Model], name: str) -> Field:
    """The column, by its field of `PlayerRow` or `NewPlayer`."""
    field: Field = getattr(model, name)
    return field


def player_row(row: Any) -> PlayerRow:
    """The record of a row, which is a dict by field name."""
    values: dict[str, Any] = {name: row[name] for name in _ROW_FIELDS if row.get(name) is not None}
    return PlayerRow(**dict.fromkeys(_REQUIRED, "") | values)
