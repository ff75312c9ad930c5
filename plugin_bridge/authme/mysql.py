"""AuthMe's table on MySQL or MariaDB, over our own connection."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from peewee import Database, DatabaseError, OperationalError

from plugin_bridge.authme.config import IDENTIFIER
from plugin_bridge.authme.players import (
    PlayerExists,
    PlayerRefused,
    PlayerRow,
    PlayersUnavailable,
    WriteResult,
    turkish_spellings,
)
from plugin_bridge.authme.table import (
    NUMBERS,
    AuthMePlayers,
    PlannedWrite,
    TableLayout,
    Value,
    player_rows,
    refusal,
    write_alone,
)
from plugin_bridge.authme.table_checksums import (
    EMPTY,
    LIST_COLUMNS,
    LIST_INDEXES,
    MAX_SHIFT,
    Bucket,
    Columns,
    IdColumn,
    SharedTable,
    find_id_column,
    find_name_index,
)

NOT_IN_CHARSET: Final = {1267, 1270, 1271}
_WRITES_PER_STATEMENT: Final = 500
_MARIADB_DOES_NOT_WAIT: Final = "/*M! SET STATEMENT innodb_lock_wait_timeout = 0 FOR */"
"""A comment to MySQL, where the shortest time-out is a second."""
_WRITTEN: Final = WriteResult(is_written=True)


class MySqlWriter:
    """Executor of writes inside the caller's transaction, for one call of `write_many`."""

    def __init__(self, database: Database, layout: TableLayout, find_shared: Callable[[], SharedTable]) -> None:
        self._database = database
        self._layout = layout
        self._find_shared = find_shared
        self.had_warnings = False
        """Whether the server warned of anything, such as a value that it changed to fit the column."""
        self.inserted: dict[str, PlayerRow] = {}
        """The rows that were inserted, by name."""

    def write_together(self, writes: Sequence[PlannedWrite]) -> list[WriteResult]:
        """Execute writes to rows of different names, which can be rolled back, in as few statements as possible."""
        by_shape = defaultdict(list)
        for number, write in enumerate(writes):
            by_shape[write.shape].append(number)
        results: dict[int, WriteResult] = {}
        for numbers in by_shape.values():
            numbers.sort(key=lambda number: writes[number].username)  # of two processes that write, neither blocks both
            for start in range(0, len(numbers), _WRITES_PER_STATEMENT):
                some = numbers[start : start + _WRITES_PER_STATEMENT]
                results |= zip(some, self._write_some([writes[number] for number in some]), strict=True)
        return [results[number] for number in range(len(writes))]

    def _write_some(self, writes: list[PlannedWrite]) -> list[WriteResult]:
        """Execute writes of one shape. Those that some row or value prevents are isolated by halving."""
        if len(writes) == 1:
            return [write_alone(self.execute, writes[0])]
        if self._is_done(writes):
            return [_WRITTEN] * len(writes)
        middle = len(writes) // 2
        return self._write_some(writes[:middle]) + self._write_some(writes[middle:])

    def _is_done(self, writes: list[PlannedWrite]) -> bool:
        try:
            with self._database.atomic() as savepoint:
                if self._run(writes) == len(writes):
                    return True
                savepoint.rollback()
        except (PlayerRefused, PlayerExists):
            pass
        return False

    def execute(self, write: PlannedWrite) -> bool:
        """Execute one write. Returns whether a row was written; raises `PlayerRefused` or `PlayerExists`."""
        return self._run([write]) > 0

    def _run(self, writes: Sequence[PlannedWrite]) -> int:
        """Execute writes of one shape in one statement. Returns how many rows it inserted, deleted or matched."""
        if writes[0].is_insert:
            self._execute(*_insertion(self._layout, writes))
            return self._count_inserted(writes)
        shared = self._find_shared() if len(writes) > 1 else None
        return self._execute(*_change(self._layout, shared, writes))

    def _count_inserted(self, writes: Sequence[PlannedWrite]) -> int:
        """Return how many of the rows are the ones just inserted: the statement counts those that it left alone too."""
        select, name = self._layout.select, self._layout.columns["username"]
        marks = ", ".join(["%s"] * len(writes))
        cursor = self._database.execute_sql(f"{select} WHERE {name} IN ({marks})", [write.username for write in writes])
        rows = {row.username: row for row in player_rows(cursor.fetchall(), self._layout.lock_group)}
        ours = [write.username for write in writes if _is_inserted(write, rows.get(write.username))]
        self.inserted |= {name: rows[name] for name in ours}
        return len(ours)

    def _execute(self, sql: str, values: Sequence[Value]) -> int:
        try:
            cursor: Any = self._database.execute_sql(sql, values)
        except DatabaseError as error:
            if isinstance(error, OperationalError) and error.args[0] in NOT_IN_CHARSET:
                return 0  # a name that the column's charset cannot write is not in it
            refused = refusal(error)
            if refused is None:
                raise
            raise refused from None
        self.had_warnings |= cursor.warning_count > 0
        return int(cursor.rowcount)


def _is_inserted(write: PlannedWrite, row: PlayerRow | None) -> bool:
    """Return whether the row of this name is the one that the write inserts; salts make every hash unique."""
    is_same_time = "regdate" not in write.new or row is None or row.regdate == write.new["regdate"]
    return row is not None and row.hash == write.new["hash"] and is_same_time


def _insertion(layout: TableLayout, writes: Sequence[PlannedWrite]) -> tuple[str, list[Value]]:
    """Return the INSERT, which changes nothing where the name is taken.

    A plain INSERT that fails on a duplicate leaves a shared lock on that row: our next write to it and one of AuthMe's
    would then wait for each other, and the server would roll AuthMe's back. This one leaves the lock of a write. Where
    a row of this name was deleted a moment ago, even a single INSERT locks twice, and could wait in between: on MariaDB
    it does not wait at all, but is repeated.
    """
    fields = list(writes[0].new)
    columns = ", ".join(layout.columns[field] for field in fields)
    marks = f"({', '.join(['%s'] * len(fields))})"
    name = layout.columns["username"]
    rows = ", ".join([marks] * len(writes))
    sql = f"INSERT INTO {layout.table} ({columns}) VALUES {rows} ON DUPLICATE KEY UPDATE {name} = {name}"  # noqa: S608
    return f"{_MARIADB_DOES_NOT_WAIT} {sql}", [write.new[field] for write in writes for field in fields]


def _change(layout: TableLayout, shared: SharedTable | None, writes: Sequence[PlannedWrite]) -> tuple[str, list[Value]]:
    """Return the UPDATE or DELETE of one row, or of several by a join; `shared` is needed for several.

    It finds the rows by AuthMe's ids where it can. By the index of names MySQL would also lock entries of deleted rows,
    which a locking read with NOWAIT skips: AuthMe, writing such a name anew, and we would wait for each other.
    """
    new, seen = _Values([write.new for write in writes], "n"), _Values([write.seen for write in writes], "s")
    changes = [f"a.{layout.columns[field]} = {new.expressions[field]}" for field in new.expressions]
    conditions = [_is_exactly(field, layout, expression) for field, expression in seen.expressions.items()]
    has_ids = "id" in seen.expressions
    values: list[Value] = []
    if shared is None:
        rows = f"{layout.table} a"
        by = "id" if has_ids else "username"
        conditions.insert(0, f"a.{layout.columns[by]} = %s")
        last = [*new.constants, writes[0].seen[by], *seen.constants]
    else:
        varying = [f"%s AS {column}" for column in (*new.columns, *seen.columns)]
        others = f" UNION ALL SELECT {', '.join(['%s'] * len(varying))}" * (len(writes) - 1)
        if has_ids and shared.is_id(layout.names["id"]):
            place, by = f"{shared.name} a FORCE INDEX (PRIMARY)", f"{shared.raw('id')} = w.{seen.column('id')}"
        else:
            name = shared.as_username(f"w.{seen.column('username')}")
            place, by = shared.by_name, f"{shared.raw('username')} = {name}"
        rows = f"(SELECT {', '.join(varying)}{others}) w STRAIGHT_JOIN {place} ON {by}"
        values = [value for row in zip(*new.columns.values(), *seen.columns.values(), strict=True) for value in row]
        last = [*new.constants, *seen.constants]
    where = " AND ".join(conditions)
    if changes:
        return f"UPDATE {rows} SET {', '.join(changes)} WHERE {where}", values + last  # noqa: S608
    return f"DELETE a FROM {rows} WHERE {where}", values + last


class _Values:
    """The values of some rows: a parameter for a field that is the same in all, a column of `w` for one that varies."""

    def __init__(self, rows: Sequence[Mapping[str, Value]], prefix: str) -> None:
        self.expressions: dict[str, str] = {}
        self.constants: list[Value] = []
        self.columns: dict[str, list[Value]] = {}
        self._column_of: dict[str, str] = {}
        for number, field in enumerate(rows[0]):
            values = [row[field] for row in rows]
            if values.count(values[0]) == len(values):
                self.constants.append(values[0])
                self.expressions[field] = "%s"
            else:
                column = f"{prefix}{number}"
                self._column_of[field] = column
                self.columns[column] = values
                self.expressions[field] = f"w.{column}"

    def column(self, field: str) -> str:
        """Return the column of a field that varies."""
        return self._column_of[field]


def _is_exactly(field: str, layout: TableLayout, expression: str) -> str:
    """Return a byte-for-byte comparison, NULL included, for every charset and collation of the column."""
    column = f"a.{layout.columns[field]}"
    if field in NUMBERS:
        return f"{column} <=> {expression}"
    return f"BINARY CONVERT({column} USING utf8mb4) <=> BINARY {expression}"


_NAMES_PER_STATEMENT: Final = 500
_NO_TABLE: Final = {1146, 1049}
_NO_COLUMN: Final = 1054
_IS_LOCKED: Final = {1205, 3572}  # what MariaDB and MySQL say with NOWAIT
_DEADLOCK: Final = 1213
_ACCESS_DENIED: Final = {1044, 1142, 1143, 1227}


class MySqlPlayers(AuthMePlayers):
    """AuthMe's table on MySQL or MariaDB, over our own connection: with InnoDB one transaction covers both sides."""

    _mark = "%s"
    _greatest = "GREATEST"
    _collides = "{}"

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
                found = cursor.fetchone()
            if found is None:  # the layout is from before it was removed
                raise PlayersUnavailable(self._no_table())
            self._is_transactional = str(found[0]).lower() == "innodb"
        return self._is_transactional

    _is_transactional: bool | None = None
    _shared: SharedTable | None = None
    _listed: Columns = ()

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

    def find_taken(self, keys: Collection[str]) -> set[str]:
        try:
            return super().find_taken(keys)
        except OperationalError as error:
            if error.args[0] not in NOT_IN_CHARSET:
                raise
        return {key for key in keys if self.find_colliding(key) is not None}

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

    def changed_buckets(self, stored: str, *, expects_some: bool) -> tuple[dict[int, Bucket], int, int]:
        table = self._shared_sql()
        with self._open_table() as layout:
            if not expects_some:
                comparison = table.comparison(stored, layout.is_open_lock)
                is_same, total, open_locks = self._database.execute_sql(comparison).fetchone()
                if is_same:
                    return {}, total, open_locks
            found = self._database.execute_sql(table.differences(stored, layout.is_open_lock)).fetchall()
            changed = {int(row[0]): Bucket(int(row[1]), int(row[2])) for row in found if row[0] is not None}
            total, open_locks, seen = (sum(int(row[column]) for row in found) for column in (1, 3, 4))
            if not found or seen != found[0][5]:  # a table without rows has no row to tell that
                gone = self._database.execute_sql(table.missing(stored)).fetchall()
                changed |= dict.fromkeys((int(number) for (number,) in gone), EMPTY)
        return changed, total, open_locks

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

    def _list_columns(self) -> dict[str, bool]:
        self._listed = self._database.execute_sql(LIST_COLUMNS, (self._schema, self._table)).fetchall()
        return {name: nullable == "YES" for name, _type, _collation, nullable in self._listed}

    def _shared_sql(self) -> SharedTable:
        if self._shared is None:
            with self._open_table() as layout:
                columns = self._listed
                indexes = self._database.execute_sql(LIST_INDEXES, (self._schema, self._table)).fetchall()
                index = find_name_index(columns, indexes, layout.names["username"])
                if index is None:
                    self.refresh()
                    raise PlayersUnavailable(self._no_table())
                ids = self._find_ids(find_id_column(columns, indexes))
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
        spellings = turkish_spellings(key)
        while spellings:
            try:
                return self._find_row(spellings)
            except OperationalError as error:
                if error.args[0] not in NOT_IN_CHARSET:
                    raise
            spellings = spellings[:1] if len(spellings) > 1 else []  # a charset without ı has no name with it
        return None

    def _connect(self) -> None:
        self._database.connect(reuse_if_open=True)

    def _execute_many(self, layout: TableLayout, writes: Sequence[PlannedWrite]) -> list[WriteResult]:
        writer = MySqlWriter(self._database, layout, self._shared_sql)
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

    def _explain(self, error: Exception) -> str | None:
        code = error.args[0] if error.args else None
        if code in _NO_TABLE:
            return self._no_table()
        if code == _NO_COLUMN:
            return self._no_column()
        if code in _ACCESS_DENIED:
            return f"The database login is not allowed to do this on AuthMe's table {self._table}: grant it the right."
        return None
