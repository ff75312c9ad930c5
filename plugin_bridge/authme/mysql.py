"""AuthMe's table on MySQL or MariaDB, over our own connection."""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from peewee import SQL, BigIntegerField, Expression, Field, Model, Node, NodeList, OperationalError, fn

from plugin_bridge.authme.config import IDENTIFIER
from plugin_bridge.authme.players import PlayerRow
from plugin_bridge.authme.table import AuthMePlayers, field_of
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

_NAMES_PER_STATEMENT: Final = 500
_NO_TABLE: Final = {1146, 1049}
_NO_COLUMN: Final = 1054
_NOT_IN_CHARSET: Final = {1267, 1271}
_ACCESS_DENIED: Final = {1044, 1142, 1143, 1227}


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
