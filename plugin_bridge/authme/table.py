"""AuthMe's table under its configured names, with the columns it really has.

The table belongs to AuthMe: rows are inserted, changed by compare-and-set, and deleted; the table itself, its columns
and its file are never created or altered. Lower-case names, times in milliseconds and AuthMe's "no e-mail" values are
handled here and in `players`. Statements are written out: the query builder takes longer than the database.
"""

import sqlite3
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import repeat
from operator import methodcaller
from typing import Any, Final

from peewee import Database, DatabaseError, DataError, IntegrityError, InternalError, OperationalError

from plugin_bridge.authme.config import ColumnNames
from plugin_bridge.authme.players import (
    LOCK_PREFIX,
    Addresses,
    NewPlayer,
    PlayerExists,
    PlayerRefused,
    PlayerRow,
    Players,
    PlayersUnavailable,
    RowUpdate,
    RowWrite,
    WriteResult,
    turkish_spellings,
)

Value = str | int | None

_NO_DEFAULT: Final = 1364

_NO_ID_LEFT: Final = {167, 1467}

_VALUE_REJECTED: Final = (
    "AuthMe's table does not accept one of the values: its charset lacks a character, or the value is too long."
)

_IDS_EXHAUSTED: Final = "The id column of AuthMe's table has no numbers left: not even AuthMe can add a player."

_ROW_REJECTED: Final = "AuthMe's table requires a column that we do not write, or rejects a value."

_NO_SALT_COLUMN: Final = (
    "AuthMe's table {} has no column for the salt yet. Start the game server once; "
    "AuthMe creates the column that DataSource.mySQLColumnSalt names."
)


@dataclass(frozen=True, slots=True)
class PlannedWrite:
    """A write whose fields all have a column."""

    username: str
    new: Mapping[str, Value]
    """Fields to write; none: delete the row."""
    seen: Mapping[str, Value]
    """Fields that must be as they were seen, the username among them; none: insert a row."""

    @property
    def is_insert(self) -> bool:
        """Return whether this inserts a row."""
        return not self.seen

    @property
    def shape(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The fields: writes of one shape can share a statement."""
        return tuple(self.new), tuple(self.seen)

    def without_email(self) -> "PlannedWrite | None":
        """Return the same write without its e-mail; None if it writes none."""
        if self.new.get("email") is None:
            return None
        seen = {name: value for name, value in self.seen.items() if name != "email"}
        return replace(self, new={name: value for name, value in self.new.items() if name != "email"}, seen=seen)


def plan_write(write: RowWrite, table: str, columns: Mapping[str, str]) -> PlannedWrite | None:
    """Reduce a write to the fields in `columns`; None for an update that changes nothing.

    Raises `PlayerRefused` for a salt that would be lost: no password verifies against the hash alone.
    """
    if isinstance(write, NewPlayer):
        _require_salt_column(write.salt, table, columns)
        new: dict[str, Value] = {"username": write.username, **vars(write)}
        for name in new.keys() - columns.keys():
            del new[name]
        for name in ("email", "uuid"):
            if new.get(name, "") is None:
                del new[name]
        return PlannedWrite(write.username, new, {})
    row = write.seen
    if not isinstance(write, RowUpdate):
        return PlannedWrite(row.username, {}, _compared(row, ("hash",), columns))
    named = {name: value for name, value in write.changes.items() if name in columns}
    changes = {name: value for name, value in named.items() if getattr(row, name) != value}
    if not changes:
        return None
    _require_salt_column(write.changes.get("salt"), table, columns)
    # all that is named is compared, so that a session granted meanwhile is not left beside a new password
    return PlannedWrite(row.username, changes, _compared(row, named, columns))


def _compared(row: PlayerRow, written: Iterable[str], columns: Mapping[str, str]) -> dict[str, Value]:
    seen: dict[str, Value] = {"username": row.username}
    # SQLite allows any value as regdate; one that is not a number identifies nothing
    if row.regdate is not None and "regdate" in columns:
        seen["regdate"] = row.regdate
    if row.id is not None and "id" in columns:
        seen["id"] = row.id
    return seen | {name: getattr(row, name) for name in written}


def _require_salt_column(salt: Value, table: str, columns: Mapping[str, str]) -> None:
    if salt is not None and "salt" not in columns:
        raise PlayerRefused(_NO_SALT_COLUMN.format(table))


def write_alone(execute: Callable[[PlannedWrite], bool], write: PlannedWrite) -> WriteResult:
    """Execute one write; if the table refuses the e-mail, write the other fields without it."""
    try:
        return WriteResult(execute(write))
    except PlayerExists:
        if write.is_insert:
            return WriteResult(is_written=False)
        refused = PlayerRefused(_ROW_REJECTED)
    except PlayerRefused as error:
        refused = error
    without = write.without_email()
    if without is None:
        return WriteResult(is_written=False, refused=refused)
    if not without.new:  # the e-mail was all
        return WriteResult(is_written=True, is_email_refused=True)
    result = write_alone(execute, without)
    return replace(result, is_email_refused=result.is_written)


def refusal(error: DatabaseError) -> PlayerRefused | PlayerExists | None:
    """Return what it means for a write that the database raised this error; None: it says nothing of the values."""
    code = error.args[0] if error.args else None
    if isinstance(error, IntegrityError):
        return PlayerExists() if code == 1062 or "UNIQUE" in str(code) else PlayerRefused(_ROW_REJECTED)
    if isinstance(error, DataError):
        return PlayerRefused(_VALUE_REJECTED)
    if isinstance(error, OperationalError | InternalError):
        if code == _NO_DEFAULT:
            return PlayerRefused(_ROW_REJECTED)
        if code in _NO_ID_LEFT:
            return PlayerRefused(_IDS_EXHAUSTED)
    return None


# Field of PlayerRow or NewPlayer → field of `ColumnNames` that holds the column's name.
_TEXTS: Final = {
    "username": "username",
    "realname": "realname",
    "hash": "password",
    "salt": "salt",
    "email": "email",
    "premium_uuid": "premium_uuid",
    "totp": "totp",
    "ip": "ip",
    "regip": "register_ip",
    "uuid": "uuid",
}

_NUMBERS: Final = {
    "regdate": "register_date",
    "last_login": "last_login",
    "has_session": "has_session",
    "is_logged": "is_logged",
    "group": "group",
    "id": "id",
}

NUMBERS: Final = frozenset(_NUMBERS)
"""Fields that are numbers; all others are texts."""

_ROW_FIELDS: Final = tuple(field.name for field in fields(PlayerRow) if field.name != "lock_group")


@dataclass(frozen=True)
class TableLayout:
    """A table as SQL names it. A field of `PlayerRow` or `NewPlayer` whose column the table lacks is not in `names`."""

    table: str
    """The table, quoted, with its schema."""
    names: Mapping[str, str]
    """The real column of each field."""
    nullable: Collection[str]
    """Fields whose column may be NULL."""
    columns: Mapping[str, str]
    """The real column of each field, quoted."""
    select: str
    """SELECT of all rows, for `player_rows`; conditions can be appended."""
    lock_group: int | None = None
    """`PlayerRow.lock_group` of all rows."""

    @property
    def is_open_lock(self) -> str:
        """The condition for locked rows that still admit their players, or whose players are marked as online.

        The cheapest comparisons come first, since most rows fail all of them.
        """
        signs = {"is_logged": "0", "has_session": "0", "premium_uuid": "''"}
        is_open = [f"{self.columns[field]} <> {nothing}" for field, nothing in signs.items() if field in self.columns]
        if self.lock_group is not None:
            is_open.append(f"NOT ({self.columns['group']} <=> {self.lock_group:d})")
        is_locked = f"SUBSTR({self.columns['hash']}, 1, {len(LOCK_PREFIX)}) = '{LOCK_PREFIX}'"
        return f"(({' OR '.join(is_open) or '0 = 1'}) AND {is_locked})"


def find_layout(
    table: str, columns: ColumnNames, present: Mapping[str, bool], lock_group: int | None = None
) -> TableLayout:
    """Return the layout of a table; `present` maps the columns it really has to whether they may be NULL."""
    # SQLite takes a name in double quotes for a text where there is no such column, one in backticks never
    # none of the databases distinguishes column names by case
    has = {name.lower(): may_be_null for name, may_be_null in present.items()}
    configured = {field: getattr(columns, key) for field, key in (_TEXTS | _NUMBERS).items()}
    names = {field: column for field, column in configured.items() if column and column.lower() in has}
    quoted = {field: f"`{column}`" for field, column in names.items()}
    selected = ", ".join(quoted.get(field, "NULL") for field in _ROW_FIELDS)
    return TableLayout(
        table,
        names,
        {field for field, column in names.items() if has[column.lower()]},
        quoted,
        f"SELECT {selected} FROM {table}",  # noqa: S608 - names are checked when AuthMe's config is read
        lock_group if "group" in names else None,
    )


def column_of(columns: ColumnNames, field: str) -> str:
    """Return the configured column of a field."""
    name: str = getattr(columns, (_TEXTS | _NUMBERS)[field])
    return name


def player_rows(rows: Iterable[Sequence[Any]], lock_group: int | None = None) -> list[PlayerRow]:
    """Return the records of rows as `TableLayout.select` yields them. Columns may hold values of any type."""
    columns = [
        column if plain.issuperset(map(type, column)) else [v if type(v) in plain else read(v) for v in column]
        for (plain, read), column in zip(_READERS, zip(*rows, strict=True), strict=False)  # no rows: no columns
    ]
    return list(map(PlayerRow, *columns, repeat(lock_group))) if columns else []


as_text: Final[Callable[[bytes], str]] = methodcaller("decode", "utf-8", "replace")
"""Decodes UTF-8, with U+FFFD for invalid bytes."""

_LARGEST: Final = (1 << 63) - 1  # of a BIGINT


def as_number(raw: object) -> int | None:
    """Return a column's value as a number; None if it is not one, or too large to be stored."""
    if raw is None:
        return None
    try:
        number = int(as_text(raw) if isinstance(raw, bytes) else raw)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if -_LARGEST <= number <= _LARGEST else None


def text_of(value: Any) -> str | None:
    """Return the value of a text column, which may also hold bytes or numbers."""
    if value is None:
        return None
    return as_text(value) if isinstance(value, bytes) else str(value)


_READERS: Final = tuple(
    (frozenset({type(None)}), as_number)
    if name in NUMBERS
    else (frozenset({str}), lambda value: text_of(value) or "")
    if name in ("username", "realname", "hash")
    else (frozenset({str, type(None)}), text_of)
    for name in _ROW_FIELDS
)
"""For each field the types of values that are taken as they are, and what reads any other: a call takes far longer."""

_REQUIRED: Final = ("username", "realname", "hash")
_OF_ADDRESSES: Final = ("username", "ip", "regip", "last_login", "regdate")


class AuthMePlayers(Players):
    """Common part of all backends; each adds how to connect, write rows, and recognize an unavailable table."""

    _mark: str
    """Placeholder of a parameter."""
    _greatest: str
    """Function for the greater of two numbers."""
    _collides: str
    """Expression that is equal for names of which there may be one row, with the column of names in braces."""

    def __init__(
        self,
        database: Database,
        table: str,
        columns: ColumnNames,
        schema: str | None = None,
        lock_group: int | None = None,
    ) -> None:
        """`lock_group`: the group that AuthMe lets nobody in with, where it obeys the column of groups."""
        self._database = database
        self._lock_group = lock_group
        self._table = table
        self._columns = columns
        self._schema = schema
        self._layout: TableLayout | None = None

    def find_colliding(self, key: str) -> PlayerRow | None:
        return self._find_row(turkish_spellings(key))

    def find_taken(self, keys: Collection[str]) -> set[str]:
        if not keys:
            return set()
        with self._open_table() as layout:
            name, marks = self._collides.format(layout.columns["username"]), ", ".join([self._mark] * len(keys))
            sql = f"SELECT {name} FROM {layout.table} WHERE {name} IN ({marks})"  # noqa: S608
            taken = {text_of(name) or "" for (name,) in self._query(sql, tuple(keys))}
        # names that are merely similar, of which a collation does not say to which one each is
        return taken if taken.issubset(keys) else {key for key in keys if self._find_row([key]) is not None}

    def _find_row(self, spellings: Sequence[str]) -> PlayerRow | None:
        """Return the row that the table takes for one of these names, or None."""
        with self._open_table() as layout:
            marks = ", ".join([self._mark] * len(spellings))
            sql = f"{layout.select} WHERE {self._collides.format(layout.columns['username'])} IN ({marks}) LIMIT 1"
            rows = player_rows(self._query(sql, spellings), layout.lock_group)
        return rows[0] if rows else None

    def find_many(self, keys: Iterable[str]) -> dict[str, PlayerRow]:
        wanted = set(keys)
        if not wanted:
            return {}
        with self._open_table() as layout:
            marks = ", ".join([self._mark] * len(wanted))
            sql = f"{layout.select} WHERE {layout.columns['username']} IN ({marks})"
            rows = player_rows(self._query(sql, tuple(wanted)), layout.lock_group)
        # a collation may have matched names that are merely similar
        return {row.username: row for row in rows if row.username in wanted}

    def find_names(self, keys: Iterable[str]) -> set[str]:
        wanted = set(keys)
        if not wanted:
            return set()
        with self._open_table() as layout:
            username, marks = layout.columns["username"], ", ".join([self._mark] * len(wanted))
            sql = f"SELECT {username} FROM {layout.table} WHERE {username} IN ({marks})"  # noqa: S608
            return wanted & {text_of(name) or "" for (name,) in self._query(sql, tuple(wanted))}

    def pages(self, size: int) -> Iterator[list[PlayerRow]]:
        after: tuple[str, ...] = ()
        while True:
            with self._open_table() as layout:
                username = layout.columns["username"]
                condition = f"WHERE {username} > {self._mark}" if after else ""
                sql = f"{layout.select} {condition} ORDER BY {username} LIMIT {size:d}"
                rows = player_rows(self._query(sql, after), layout.lock_group)
            if rows:
                yield rows
                after = (rows[-1].username,)
            if len(rows) < size:
                return

    def find_open_locks(self) -> list[str]:
        with self._open_table() as layout:
            return self._find_open_locks(layout)

    def _find_open_locks(self, layout: TableLayout, is_in_page: str = "", page: Sequence[Value] = ()) -> list[str]:
        """Return those among some rows."""
        username = layout.columns["username"]
        sql = f"SELECT {username} FROM {layout.table} WHERE {is_in_page} {layout.is_open_lock}"  # noqa: S608
        return [text_of(name) or "" for (name,) in self._query(sql, page)]

    def find_addresses(self, since: int, limit: int) -> list[Addresses]:
        with self._open_table() as layout:
            columns = [layout.columns.get(field, "NULL") for field in _OF_ADDRESSES]
            newest = f"{self._greatest}(COALESCE({columns[3]}, 0), COALESCE({columns[4]}, 0))"
            sql = f"SELECT {', '.join(columns)} FROM {layout.table} WHERE {newest} >= {self._mark}"  # noqa: S608
            rows = self._query(f"{sql} ORDER BY {newest} LIMIT {limit:d}", (since,))
        return [
            (text_of(name) or "", text_of(ip), text_of(regip), as_number(login), as_number(regdate))
            for name, ip, regip, login, regdate in rows
        ]

    def is_empty(self) -> bool:
        with self._open_table() as layout:
            return not self._query(f"SELECT 1 FROM {layout.table} LIMIT 1")  # noqa: S608

    def write_many(self, writes: Sequence[RowWrite]) -> list[WriteResult]:
        results = [WriteResult(is_written=True)] * len(writes)
        planned: dict[int, PlannedWrite] = {}
        with self._open_table() as layout:
            for number, write in enumerate(writes):
                try:
                    if plan := plan_write(write, self._table, layout.columns):
                        planned[number] = plan
                except PlayerRefused as refused:
                    results[number] = WriteResult(is_written=False, refused=refused)
            if planned:
                for number, result in zip(planned, self._execute_many(layout, list(planned.values())), strict=True):
                    results[number] = result
            for number, write in enumerate(writes):
                has_email = isinstance(write, RowUpdate) and write.changes.get("email") is not None
                if results[number].is_written and has_email and "email" not in layout.columns:
                    results[number] = WriteResult(is_written=True, is_email_refused=True)
        return results

    def find_missing_email_column(self) -> str | None:
        with self._open_table() as layout:
            return None if "email" in layout.columns else self._columns.email

    def refresh(self) -> None:
        """Read the columns again at the next use: AuthMe adds some when it is updated."""
        self._layout = None

    def _query(self, sql: str, values: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        return list(self._database.execute_sql(sql, values).fetchall())

    @contextmanager
    def _open_table(self) -> Iterator[TableLayout]:
        """Yield the layout, connected; database errors that mean so are raised as `PlayersUnavailable`."""
        try:
            self._connect()
            yield self._layout or self._inspect_table()
        except (DatabaseError, sqlite3.Error) as error:
            sentence = self._explain(error)
            if sentence is None:
                raise
            self.refresh()
            raise PlayersUnavailable(sentence) from error

    def _inspect_table(self) -> TableLayout:
        present = self._list_columns()
        if not present:
            raise PlayersUnavailable(self._no_table())
        table = f"`{self._schema}`.`{self._table}`" if self._schema else f"`{self._table}`"
        layout = find_layout(table, self._columns, present, self._lock_group)
        for field in _REQUIRED:
            if field not in layout.columns:
                column = column_of(self._columns, field)
                raise PlayersUnavailable(
                    f"AuthMe's table {self._table} has no column {column}; its config.yml names one."
                )
        self._layout = layout
        return layout

    def _list_columns(self) -> dict[str, bool]:
        """Return the names of the columns, each with whether it may be NULL; without a table there are none."""
        found = self._database.get_columns(self._table, schema=self._schema)
        return {column.name: bool(column.null) for column in found}

    def _no_table(self) -> str:
        return f"There is no table {self._table} yet. Start the game server with AuthMe once; AuthMe creates the table."

    def _no_column(self) -> str:
        return f"AuthMe's table {self._table} lacks a column that it had. If its config.yml is right, try again."

    @abstractmethod
    def _connect(self) -> None:
        """Make sure that the calling thread has a connection."""

    @abstractmethod
    def _execute_many(self, layout: TableLayout, writes: Sequence[PlannedWrite]) -> list[WriteResult]:
        """Execute these writes, each with its own result."""

    @abstractmethod
    def _explain(self, error: Exception) -> str | None:
        """Return a sentence if the error means that the table is unavailable; None for all other errors."""
