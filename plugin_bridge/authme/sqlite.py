"""AuthMe's table in its own SQLite file: opened, never created; every write is a statement of its own."""

import os
import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from peewee import SQL, Expression, Field, Model, Node, Select, Value, fn

from plugin_bridge.authme.config import ColumnNames
from plugin_bridge.authme.lenient_sqlite import UNREADABLE, LenientSqlite, is_exactly
from plugin_bridge.authme.players import PlayerRow, PlayersUnavailable
from plugin_bridge.authme.sqlite_checksums import FileVersion, TableScan, names_in
from plugin_bridge.authme.table import AuthMePlayers, field_of, player_row
from plugin_bridge.authme.table_checksums import COMPARED_FIELDS, Bucket, StoredChecksums, bucket_of


class SqlitePlayers(AuthMePlayers):
    """AuthMe's table in its own SQLite file, over a connection of its own."""

    def __init__(self, path: Path, table: str, columns: ColumnNames, busy_timeout: timedelta) -> None:
        uri = f"file:{quote(str(path.absolute()))}?mode=rw"
        super().__init__(LenientSqlite(uri, busy_timeout.total_seconds()), table, columns)
        self._path = path
        self._local = threading.local()
        self._version = FileVersion(path, busy_timeout)
        self._scan = TableScan()

    def close(self) -> None:
        self._database.close()
        self._version.close()

    def pages(self, size: int) -> Iterator[list[PlayerRow]]:
        after = -(1 << 63)  # not by name: one that is not UTF-8 sorts elsewhere than the text it is read as
        while True:
            with self._open_table() as model:
                is_blob = fn.typeof(field_of(model, "username")) == "blob"
                query = model.select(model, SQL("rowid").alias("number"), is_blob.alias("is_blob"))
                query = query.where(SQL("rowid > ?", (after,))).order_by(SQL("rowid")).limit(size)
                page: list[Any] = list(query.dicts())
            if page:
                yield [player_row(row | _misread(row)) for row in page]
                after = page[-1]["number"]
            if len(page) < size:
                return

    def version(self) -> object:
        try:
            return self._version.read()
        except OSError as error:
            raise PlayersUnavailable(f"AuthMe's file {self._path} cannot be opened: {error.strerror}.") from None
        except sqlite3.Error as error:
            raise PlayersUnavailable(
                self._explain(error) or f"AuthMe's file {self._path} cannot be read: {error}."
            ) from error

    def changed_buckets(self, stored: StoredChecksums) -> dict[int, Bucket]:
        with self._open_table() as model:
            compared = [_quoted(model, name) for name in COMPARED_FIELDS if hasattr(model, name)]
            username = _quoted(model, "username")
        return self._scan.changed_buckets(self._query, f'"{self._table}"', username, compared, stored)

    def names_in(self, buckets: Collection[int]) -> Iterator[list[str]]:
        with self._open_table() as model:
            username = _quoted(model, "username")
        yield from names_in(self._query, f'"{self._table}"', username, buckets)

    def buckets_of(self, keys: Collection[str]) -> dict[str, int]:
        return {key: bucket_of(key) for key in keys}

    def _query(self, sql: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        with self._open_table():
            return list(self._database.execute_sql(sql, values).fetchall())

    def _connect(self) -> None:
        try:
            status = os.stat(self._path)  # noqa: PTH116 - called before every statement
        except OSError as error:
            self.close()
            raise PlayersUnavailable(f"AuthMe's file {self._path} cannot be opened: {error.strerror}.") from None
        file = (status.st_dev, status.st_ino)
        if getattr(self._local, "file", None) != file:  # a restored backup is another file under the same name
            self.close()
            self._model = None
        self._database.connect(reuse_if_open=True)
        self._local.file = file

    def _is_exactly(self, field: Field, value: str | int | None) -> Node:
        return is_exactly(field, value)

    def _collides(self, model: type[Model], key: str) -> Expression:
        return fn.LOWER(field_of(model, "username")) == key

    def _insertion(self, model: type[Model], username: str, values: Mapping[str, str | int | None]) -> Any:
        # the unique key here distinguishes case, AuthMe only sometimes: one row for one name
        taken = model.select(SQL("1")).where(self._collides(model, username))
        new = Select(columns=[Value(value, converter=False) for value in values.values()]).where(~fn.EXISTS(taken))
        return model.insert_from(new, [field_of(model, name) for name in values]).as_rowcount()

    def _explain(self, error: Exception) -> str | None:
        message = str(error)
        if "locked" in message or "busy" in message:
            return f"AuthMe's file {self._path} is busy; the operation will be tried again."
        if "no such table" in message:
            return self._no_table()
        if "no such column" in message:
            return self._no_column()
        if "unable to open" in message or "readonly" in message or "not a database" in message or "disk" in message:
            return f"AuthMe's file {self._path} cannot be used: {message}."
        return None


def _quoted(model: type[Model], name: str) -> str:
    return f'"{field_of(model, name).column_name}"'


def _misread(row: Any) -> dict[str, str]:
    """Return a name that finds no row for a blob: neither SQLite nor AuthMe finds a blob by its text."""
    return {"username": f"{UNREADABLE}{row['username']}"} if row["is_blob"] else {}
