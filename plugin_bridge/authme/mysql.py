"""AuthMe's table on MySQL or MariaDB, over our own connection."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final

from peewee import OperationalError

from plugin_bridge.authme.config import IDENTIFIER
from plugin_bridge.authme.mysql_writes import NOT_IN_CHARSET, MySqlWriter
from plugin_bridge.authme.players import PlayerRow, PlayersUnavailable, WriteResult
from plugin_bridge.authme.row_writes import PlannedWrite, write_alone
from plugin_bridge.authme.table import AuthMePlayers
from plugin_bridge.authme.table_checksums import (
    EMPTY,
    LIST_COLUMNS,
    LIST_INDEXES,
    MAX_SHIFT,
    Bucket,
    IdColumn,
    SharedTable,
    StoredChecksums,
    TableKeys,
)
from plugin_bridge.authme.table_layout import TableLayout

_NAMES_PER_STATEMENT: Final = 500
_NO_TABLE: Final = {1146, 1049}
_NO_COLUMN: Final = 1054
_IS_LOCKED: Final = {1205, 3572}  # what MariaDB and MySQL say with NOWAIT
_DEADLOCK: Final = 1213
_ACCESS_DENIED: Final = {1044, 1142, 1143, 1227}


class MySqlPlayers(AuthMePlayers):
    """AuthMe's table on MySQL or MariaDB, over our own connection: one transaction covers both sides."""

    _mark = "%s"

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
            if error.args[0] not in NOT_IN_CHARSET:
                raise
        if len(wanted) == 1:
            return {}  # a name that the column's charset cannot write is not in it
        middle = len(wanted) // 2
        return self.find_many(wanted[:middle]) | self.find_many(wanted[middle:])

    def find_names(self, keys: Iterable[str]) -> set[str]:
        try:
            return super().find_names(keys)
        except OperationalError as error:
            if error.args[0] not in NOT_IN_CHARSET:
                raise
        return set(self.find_many(keys))

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

    def lock(self, keys: Collection[str]) -> None:
        if not keys or not self.shares_transactions:
            return
        table, wanted = self._shared_sql(), sorted(keys)
        marks = ", ".join(["%s"] * len(wanted))
        sql = f"SELECT 1 FROM {table.by_name} WHERE {table.raw('username')} IN ({marks}) FOR UPDATE NOWAIT"  # noqa: S608
        try:
            with self._open_table():
                self._database.execute_sql(sql, wanted)
        except OperationalError as error:
            if error.args[0] not in _IS_LOCKED:
                raise
            raise OperationalError(_DEADLOCK, "AuthMe is writing a row that we are about to write") from error

    def shared_table(self) -> SharedTable:
        return self._shared_sql()

    def refresh(self) -> None:
        super().refresh()
        self._shared = None

    def _shared_sql(self) -> SharedTable:
        if self._shared is None:
            with self._open_table() as layout:
                place = (self._schema, self._table)
                columns = self._database.execute_sql(LIST_COLUMNS, place).fetchall()
                keys = TableKeys(columns, self._database.execute_sql(LIST_INDEXES, place).fetchall())
                index = keys.index_of(layout.names["username"])
                if index is None:
                    self.refresh()
                    raise PlayersUnavailable(self._no_table())
                ids = self._find_ids(keys.id_column())
                self._shared = SharedTable(self._table, self._schema, layout.names, layout.nullable, index, ids)
        return self._shared

    def _find_ids(self, column: str | None) -> IdColumn | None:
        if column is None or not IDENTIFIER.fullmatch(column):
            return None
        table = f"`{self._schema}`.`{self._table}`" if self._schema else f"`{self._table}`"
        bounds = f"SELECT COALESCE(MIN(`{column}`), 0), COALESCE(MAX(`{column}`), 0) FROM {table}"  # noqa: S608
        least, greatest = self._database.execute_sql(bounds).fetchone()
        ids = IdColumn(column, int(greatest))
        return ids if least >= 0 and ids.shift <= MAX_SHIFT else None

    def find_colliding(self, key: str) -> PlayerRow | None:
        try:
            return super().find_colliding(key)
        except OperationalError as error:
            if error.args[0] not in NOT_IN_CHARSET:
                raise
        return None

    def _connect(self) -> None:
        self._database.connect(reuse_if_open=True)

    def _execute(self, layout: TableLayout, write: PlannedWrite) -> bool:
        return self._writer(layout).execute(write)

    def _execute_many(self, layout: TableLayout, writes: Sequence[PlannedWrite]) -> list[WriteResult]:
        writer = self._writer(layout)
        are_names_unique = len({write.username for write in writes}) == len(writes)
        if len(writes) > 1 and are_names_unique and self.shares_transactions:
            results = writer.write_together(writes)
        else:
            results = [write_alone(writer.execute, write) for write in writes]
        results = self._with_changed_emails(writes, results, had_warnings=writer.had_warnings)
        return [
            replace(result, inserted=writer.inserted.get(write.username)) if write.is_insert else result
            for write, result in zip(writes, results, strict=True)
        ]

    def _with_changed_emails(
        self, writes: Sequence[PlannedWrite], results: list[WriteResult], *, had_warnings: bool
    ) -> list[WriteResult]:
        """Mark the e-mails that the table stored differently: not in strict mode it cuts and replaces silently.

        An ASCII e-mail fits every charset. One that is too long is cut with a warning, so without warnings only the
        others are read again.
        """
        emails: dict[str, object] = {}
        for write, result in zip(writes, results, strict=True):
            email = write.new.get("email")
            may_differ = isinstance(email, str) and (had_warnings or not email.isascii())
            if may_differ and result == WriteResult(is_written=True):
                emails[write.username] = email
        stored = self.find_many(emails)
        return [
            replace(result, is_email_refused=True)
            if write.username in stored and stored[write.username].email != emails[write.username]
            else result
            for write, result in zip(writes, results, strict=True)
        ]

    def _writer(self, layout: TableLayout) -> MySqlWriter:
        return MySqlWriter(self._database, layout, self._shared_sql)

    def _collides(self, layout: TableLayout) -> str:
        return f"{layout.columns['username']} = %s"

    def _explain(self, error: Exception) -> str | None:
        code = error.args[0] if error.args else None
        if code in _NO_TABLE:
            return self._no_table()
        if code == _NO_COLUMN:
            return self._no_column()
        if code in _ACCESS_DENIED:
            return f"The database login is not allowed to do this on AuthMe's table {self._table}: grant it the right."
        return None
