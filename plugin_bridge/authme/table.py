"""AuthMe's table as a peewee model, under its configured names, with the columns it really has.

The table belongs to AuthMe: rows are inserted, changed by compare-and-set, and deleted; the table itself, its columns
and its file are never created or altered. Lower-case names, times in milliseconds and AuthMe's "no e-mail" values are
handled here and in `players`.
"""

import sqlite3
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any, Final

from peewee import (
    Database,
    DatabaseError,
    DataError,
    Expression,
    Field,
    IntegrityError,
    InternalError,
    Model,
    Node,
    OperationalError,
)

from plugin_bridge.authme.config import ColumnNames
from plugin_bridge.authme.player_model import TEXTS, player_model
from plugin_bridge.authme.players import (
    NewPlayer,
    PlayerExists,
    PlayerRefused,
    PlayerRow,
    Players,
    PlayersUnavailable,
    RowInsert,
    RowUpdate,
    RowWrite,
    WriteResult,
)

_REQUIRED: Final = ("username", "realname", "hash")
_ROW_FIELDS: Final = tuple(field.name for field in fields(PlayerRow))
_NO_DEFAULT: Final = 1364
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

    def write_many(self, writes: Sequence[RowWrite]) -> list[WriteResult]:
        results = [self._write_alone(write) for write in writes]
        emails = {}
        for write, result in zip(writes, results, strict=True):
            if isinstance(write, RowUpdate) and result.is_written and not result.is_email_refused:
                emails[write.seen.username] = write.changes.get("email")
            elif isinstance(write, RowInsert) and result.is_written:
                emails[write.new.username] = write.new.email
        stored = self.find_many([name for name, email in emails.items() if email is not None])
        changed = {name for name, row in stored.items() if row.email != emails[name]}
        return [
            replace(result, is_email_refused=result.is_email_refused or name_of(write) in changed)
            for write, result in zip(writes, results, strict=True)
        ]

    def _write_alone(self, write: RowWrite) -> WriteResult:
        try:
            return WriteResult(self._do(write))
        except PlayerRefused as refused:
            without = without_email(write)
            if without is None:
                return WriteResult(is_written=False, refused=refused)
        try:
            is_written = self._do(without)
        except PlayerRefused as refused:
            return WriteResult(is_written=False, refused=refused)
        return WriteResult(is_written, is_email_refused=is_written)

    def _do(self, write: RowWrite) -> bool:
        if isinstance(write, RowUpdate):
            return self.update(write.seen, write.changes)
        if isinstance(write, RowInsert):
            try:
                self.insert(write.new)
            except PlayerExists:
                return False
            return True
        return self.delete(write.seen)

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


def field_of(model: type[Model], name: str) -> Field:
    """Return the column of a field of `PlayerRow` or `NewPlayer`."""
    field: Field = getattr(model, name)
    return field


def name_of(write: RowWrite) -> str:
    """Return the username of the row."""
    return write.new.username if isinstance(write, RowInsert) else write.seen.username


def without_email(write: RowWrite) -> RowWrite | None:
    """Return the write without its e-mail; None if it writes none."""
    if isinstance(write, RowUpdate) and write.changes.get("email") is not None:
        return replace(write, changes={name: value for name, value in write.changes.items() if name != "email"})
    if isinstance(write, RowInsert) and write.new.email is not None:
        return replace(write, new=replace(write.new, email=None))
    return None


def player_row(row: Any) -> PlayerRow:
    """Return the record of a row given as a dict by field name."""
    values: dict[str, Any] = {name: row[name] for name in _ROW_FIELDS if row.get(name) is not None}
    return PlayerRow(**dict.fromkeys(_REQUIRED, "") | values)
