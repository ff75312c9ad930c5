"""First adoption beside a server in use, in SQL: one key range of AuthMe's table at a time, no row over the wire.

Only where AuthMe's table is on the server that has ours, and only for plain rows: an ordinary name, no lock, and either
no e-mail or one that is surely valid and free. All other names are reconciled one by one.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from peewee import Database, DataError, IntegrityError, InternalError, OperationalError, ProgrammingError

from plugin_bridge.authme.players import LOCK_PREFIX, NO_EMAIL, OLDEST_MS
from plugin_bridge.authme.table_checksums import SharedTable
from regsvc.core.clock import epoch_ms
from regsvc.database.audit import Audit
from regsvc.database.engine import is_unreachable
from regsvc.database.models import APPROVED, User
from regsvc.sync.bulk.in_sync_rows import BATCH, InSyncRows, KeyRange
from regsvc.sync.bulk.shared_emails import EmailBloomFilter, add_shared_emails
from regsvc.sync.records import Policy

log = logging.getLogger(__name__)

_TRIES: Final = 3
_MIN_NEW_ROWS = 1_000
"""Fewer new rows in a range are reconciled name by name, which takes no more time and no block of ids."""
_ID_GAP: Final = 100
"""Ids between the two inserts that reserve a block, for users inserted between them by others."""
_END: Final = r"\\z"  # a dollar would let a line end follow
_NAME: Final = f"^[a-z0-9_.-]{{1,60}}{_END}"
# Short addresses that every mail system accepts, in letters with exactly one upper and one lower case. No repetition
# can match in two ways, which would slow down the insert.
_LOCAL: Final = "[A-Za-z0-9_+-]+(?:[.][A-Za-z0-9_+-]+)*"
_LABEL: Final = "[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*"
_DOMAINS: Final = "arpa|alt|example|invalid|internal|local|localhost|onion|test"
_IS_SHORT: Final = f"(?=[^@]{{1,59}}@.{{4,60}}{_END})"
_EMAIL: Final = f"^{_IS_SHORT}{_LOCAL}@(?:{_LABEL}[.])+(?!(?i:{_DOMAINS}){_END})[A-Za-z]{{2,20}}{_END}"


@dataclass(frozen=True)
class BulkAdoptionPlan:
    """Number of players that would be adopted, and the names that need individual reconciliation afterwards, in order.

    `not_approved` has the status by name of those that would be adopted as something else than approved.
    """

    count: int
    not_approved: Mapping[str, str]
    remaining: Sequence[str]


@dataclass(frozen=True)
class BulkAdoptionResult:
    """Number of created users."""

    count: int
    not_approved: tuple[str, ...] = ()
    """Names of the users whose status is not approved, which entails more."""
    is_whole_range: bool = False
    """Whether the range has no other rows."""


class BulkAdoption:
    """Adoption of the plain rows of a key range. Blocking."""

    def __init__(self, database: Database, table: SharedTable, audit: Audit, policy: Policy) -> None:
        self._database = database
        self._table = table
        self._audit = audit
        self._policy = policy
        self._in_sync = InSyncRows(database, table)
        self._has_shared_emails = False

    def plan(self, within: KeyRange, operators: Collection[str], maybe_taken: EmailBloomFilter) -> BulkAdoptionPlan:
        """Return what `adopt` would do, and the names it would leave out. Writes nothing.

        `maybe_taken` has the e-mails that the plan gave away in earlier ranges; those that rows share are added.
        """
        try:
            unknown = self._count_unknown(within, BATCH)
            if unknown >= _MIN_NEW_ROWS:
                return self._plan(within, operators, maybe_taken, unknown)
        except (OperationalError, InternalError, DataError, ProgrammingError) as error:
            if is_unreachable(error):
                raise
            log.warning("adoptions are planned one by one instead of in SQL: %s", type(error).__name__)
        return BulkAdoptionPlan(0, {}, self._in_sync.out_of_sync_within(within))

    def _plan(
        self, within: KeyRange, operators: Collection[str], maybe_taken: EmailBloomFilter, unknown: int
    ) -> BulkAdoptionPlan:
        """Fetch only the rows that are not simply adopted, unless the range also has known ones."""
        if not self._has_shared_emails:
            add_shared_emails(self._database, self._table, maybe_taken)
            self._has_shared_emails = True
        is_plain, excluded = self._plain_rows(operators)
        email = f"LOWER({self._email})"
        has_holder = f"EXISTS (SELECT id FROM regsvc_user e WHERE e.email_key = {email})"  # noqa: S608
        has_user = f"EXISTS (SELECT id FROM regsvc_user u WHERE u.username_key = {self._key})"  # noqa: S608
        columns = (
            f"{self._table.text('username')} AS name, COALESCE({is_plain} AND NOT {has_user}, 0) AS is_plain, "
            f"COALESCE({has_holder} OR {maybe_taken.may_contain_sql(email)}, 0) AS is_maybe_taken, "
            f"{self._status(self._table.raw_or_null('regdate'))} AS status"
        )
        is_all = unknown >= BATCH
        is_fetched = f"NOT (is_plain AND NOT is_maybe_taken AND status = '{APPROVED}')" if is_all else "1 = 1"
        sql = f"SELECT * FROM (SELECT {columns} {self._unknown(within)}) found WHERE {is_fetched}"  # noqa: S608
        rows = self._execute(sql, (*excluded, *within.values))
        adopted = {name: status for name, plain, shared, status in rows if plain and not shared}
        count = len(adopted) + (unknown - len(rows) if is_all else 0)
        names = sorted(name for name, plain, shared, _status in rows if plain and shared)  # as they would be adopted
        others = [row[0] for row in rows] if is_all else self._in_sync.out_of_sync_within(within)
        names = [name for name in dict.fromkeys([*names, *others]) if name not in adopted]
        return BulkAdoptionPlan(count, {name: status for name, status in adopted.items() if status != APPROVED}, names)

    def adopt(self, within: KeyRange, operators: Collection[str], moment: datetime) -> BulkAdoptionResult:
        """Create users and sync records in one transaction with one audit entry.

        If that fails, no player is adopted, and the names are left to individual reconciliation.
        """
        found: Exception | None = None
        for _try in range(_TRIES):
            try:
                with self._database.atomic():
                    return self._adopt(within, operators, moment)
            except (OperationalError, IntegrityError, InternalError) as error:
                if is_unreachable(error):
                    raise
                found = error  # another process took one of the names or e-mails first, or won a deadlock
            except (DataError, ProgrammingError) as error:
                found = error  # an unforeseen kind of value or server
                break
        log.warning("players are adopted one by one instead of in SQL: %s", type(found).__name__)
        return BulkAdoptionResult(0)

    def _adopt(self, within: KeyRange, operators: Collection[str], moment: datetime) -> BulkAdoptionResult:
        """Read AuthMe's rows once, into sync records with reserved user ids, and create the users from those."""
        if self._count_unknown(within, _MIN_NEW_ROWS) < _MIN_NEW_ROWS:
            return BulkAdoptionResult(0)
        block = self._reserve_ids(moment)
        inserted = self._insert_sync_records(block, within, operators, moment)
        made = self._insert_users(block, moment)
        if made != inserted:
            self._delete_records_without_user(block)
        if not made:
            return BulkAdoptionResult(0)
        new = User.id.between(*block)
        first, last = (
            User.select(User.username).where(new).order_by(order).limit(1).scalar()
            for order in (User.id, User.id.desc())
        )
        self._audit.record("user.adopted", "sync", None, {"count": made, "first": first, "last": last})
        others = new & (User.status != APPROVED)
        is_mixed = {self._policy.existing_players, self._policy.new_players} != {APPROVED}
        found: Any = User.select(User.username_key).where(others).tuples() if is_mixed else ()
        return BulkAdoptionResult(made, tuple(row[0] for row in found), self._count_rows(within) == made)

    def _reserve_ids(self, moment: datetime) -> tuple[int, int]:
        """Return the first and last of `BATCH` unused ids: a rollback removes the rows, but does not reuse their ids.

        A user registered between the two inserts gets one of the ids left out before the block.
        """
        placeholder = {"status": APPROVED, "applied_status": APPROVED, "origin": "adopted", "created_at": moment}
        with self._database.atomic() as attempt:
            first = User.insert(username="", username_key="\n", **placeholder).execute()
            User.insert(id=first + _ID_GAP + BATCH, username="", username_key="\n\n", **placeholder).execute()
            attempt.rollback()
        return first + _ID_GAP + 1, first + _ID_GAP + BATCH

    def _insert_sync_records(
        self, block: tuple[int, int], within: KeyRange, operators: Collection[str], moment: datetime
    ) -> int:
        """Insert the rows as last synced states. Returns their number, including names known before, which stay as is.

        If our table were read here to leave those out, the server would write everything to a temporary table first.
        `changed_at` stays empty where the status entails nothing.
        """
        raw, now = self._table.raw_or_null, _in_sql(moment)  # stored as they are: the column's charset is converted
        is_plain, excluded = self._plain_rows(operators)
        self._database.execute_sql("SET @regsvc_user_id = %s", (block[0] - 1,))
        self._database.execute_sql(
            "INSERT INTO regsvc_player (username_key, user_id, presence, base_hash, base_salt, base_email, "  # noqa: S608
            "base_realname, base_regdate, plugin_state, plugin_since, changed_at) "
            f"SELECT {raw('username')}, (@regsvc_user_id := @regsvc_user_id + 1), 'present', {raw('hash')}, "
            f"{raw('salt')}, {raw('email')}, {raw('realname')}, {raw('regdate')}, 'synced', %s, "
            f"IF({self._status(raw('regdate'))} = '{APPROVED}', NULL, %s) FROM {self._table.by_name} "
            f"WHERE {within.condition(self._table)} AND {is_plain} ORDER BY {raw('username')} LIMIT {BATCH} "
            "ON DUPLICATE KEY UPDATE username_key = regsvc_player.username_key",
            (now, now, *within.values, *excluded),
        )
        return int(self._execute("SELECT @regsvc_user_id")[0][0]) - block[0] + 1

    def _insert_users(self, block: tuple[int, int], moment: datetime) -> int:
        """Create users from the new sync records. Returns their number.

        The unique index leaves out names and e-mails that are taken; the individual reconciliation reports why. The
        records are read in the order of their table: one by one, by user id, would take a quarter longer.
        """
        bounds = "SELECT MIN(username_key), MAX(username_key) FROM regsvc_player WHERE user_id BETWEEN %s AND %s"
        first_and_last = self._execute(bounds, block)[0]
        regdate, status = _registered_ms("p.base_regdate"), self._status("p.base_regdate")
        is_placeholder = f"(LENGTH(p.base_email) = {len(NO_EMAIL)} AND LOWER(p.base_email) = '{NO_EMAIL}')"
        is_none = f"(p.base_email IS NULL OR p.base_email NOT LIKE '%%@%%' OR {is_placeholder})"  # any other is valid
        display = "CONCAT(SUBSTRING_INDEX(p.base_email, '@', 1), '@', LOWER(SUBSTRING_INDEX(p.base_email, '@', -1)))"
        # trailing spaces make it another name
        is_same = "LENGTH(p.base_realname) = LENGTH(p.username_key) AND LOWER(p.base_realname) = p.username_key"
        registered_at = (
            f"IF({regdate} > 0 AND {regdate} <= {epoch_ms(moment)}, "
            f"TIMESTAMP('1970-01-01') + INTERVAL ({regdate} * 1000) MICROSECOND, %s)"
        )
        made = self._database.execute_sql(
            "INSERT IGNORE INTO regsvc_user (id, username, username_key, email, email_key, status, applied_status, "  # noqa: S608
            "origin, created_at, changed_at) SELECT p.user_id, "
            f"IF({is_same} AND p.base_realname <> 'Player', p.base_realname, p.username_key), p.username_key, "
            f"IF({is_none}, NULL, {display}), IF({is_none}, NULL, LOWER(p.base_email)), {status}, {status}, 'adopted', "
            f"{registered_at}, p.changed_at FROM regsvc_player p FORCE INDEX (PRIMARY) "
            "WHERE p.username_key BETWEEN %s AND %s AND p.user_id BETWEEN %s AND %s",
            (_in_sql(moment), *first_and_last, *block),
        )
        return int(made.rowcount)

    def _delete_records_without_user(self, block: tuple[int, int]) -> None:
        """Delete the sync records whose users could not be created."""
        self._database.execute_sql(
            "DELETE p FROM regsvc_player p LEFT JOIN regsvc_user u ON u.id = p.user_id "
            "AND u.username_key = p.username_key WHERE p.user_id BETWEEN %s AND %s AND u.id IS NULL",
            block,
        )

    def _count_unknown(self, within: KeyRange, limit: int) -> int:
        few = f"SELECT 1 {self._unknown(within)} LIMIT {limit}"
        return int(self._execute(f"SELECT COUNT(*) FROM ({few}) few", within.values)[0][0])  # noqa: S608

    def _count_rows(self, within: KeyRange) -> int:
        """Count again, because rows may have been added to the range since it was measured."""
        sql = f"SELECT COUNT(*) FROM {self._table.by_name} WHERE {within.condition(self._table)}"  # noqa: S608
        return int(self._execute(sql, within.values)[0][0])

    def _unknown(self, within: KeyRange) -> str:
        """Return FROM and WHERE of the rows in the range that have no sync record."""
        return (
            f"FROM {self._table.by_name} LEFT JOIN regsvc_player p ON p.username_key = {self._key} "
            f"WHERE {within.condition(self._table)} AND p.username_key IS NULL"
        )

    def _plain_rows(self, operators: Collection[str]) -> tuple[str, tuple[str, ...]]:
        """Return the condition for plain rows, and its values."""
        excluded, is_real = sorted(operators), f"{self._email} REGEXP '{_EMAIL}'"
        marks = f"{self._key} NOT IN ({', '.join(['%s'] * len(excluded))}) AND " if excluded else ""
        condition = (
            f"{marks}{self._key} REGEXP '{_NAME}' AND COALESCE({self._table.raw_or_null('regdate')}, 0) >= 0 "
            f"AND {self._table.raw('hash')} NOT LIKE '{LOCK_PREFIX}%%' AND ({is_real} OR {self._has_no_email})"
        )
        return condition, tuple(excluded)

    # --- pieces of SQL about AuthMe's row `a` ---

    @property
    def _key(self) -> str:
        return f"{self._table.text('username')} COLLATE utf8mb4_bin"

    @property
    def _email(self) -> str:
        return f"CONVERT({self._table.raw_or_null('email')} USING utf8mb4) COLLATE utf8mb4_bin"

    @property
    def _has_no_email(self) -> str:
        # trailing spaces are ignored by the collation, but not by us
        is_placeholder = f"(LENGTH({self._email}) = {len(NO_EMAIL)} AND LOWER({self._email}) = '{NO_EMAIL}')"
        return f"({self._email} IS NULL OR TRIM({self._email}) = '' OR {is_placeholder})"

    def _status(self, regdate: str) -> str:
        """Return SQL for the status that a player registered at `regdate` is adopted with."""
        first_start = epoch_ms(self._policy.first_started_at)
        was_first = f"COALESCE({_registered_ms(regdate)}, 0) < {first_start}"
        return f"IF({was_first}, '{self._policy.existing_players}', '{self._policy.new_players}')"

    def _execute(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        return list(self._database.execute_sql(sql, values).fetchall())


def _registered_ms(regdate: str) -> str:
    """Return SQL for what `in_milliseconds` does: a small number is in seconds."""
    return f"IF({regdate} BETWEEN 1 AND {OLDEST_MS - 1}, {regdate} * 1000, {regdate})"


def _in_sql(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")
