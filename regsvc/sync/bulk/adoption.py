"""The first adoption beside a server in use, in SQL: a key range of AuthMe's table at a time, no row over the wire.

Only where AuthMe's table is on the server that has ours, and only for plain rows: an ordinary name, no lock, an e-mail
that is none or surely one and nobody else's. The others are left to the look at each name.
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
from regsvc.sync.bulk.in_sync_rows import BATCH, KeyRange, SettledRows
from regsvc.sync.bulk.shared_emails import Checksums, find_shared_emails
from regsvc.sync.records import Policy

log = logging.getLogger(__name__)

_TRIES: Final = 3
_WORTHWHILE = 1_000
"""Fewer new rows in a range are looked at name by name, which takes no more time, and no block of ids."""
_LEFT_OUT: Final = 100
"""Ids between the two inserts that reserve a block, for those who draw theirs meanwhile."""
_END: Final = r"\\z"  # a dollar would let a line end follow
_NAME: Final = f"^[a-z0-9_.-]{{1,60}}{_END}"
# What every mail system takes for an address, in the letters that have one upper and one lower case, and short enough;
# no repetition can match in two ways, which would cost the time of the insert.
_LOCAL: Final = "[A-Za-z0-9_+-]+(?:[.][A-Za-z0-9_+-]+)*"
_LABEL: Final = "[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*"
_DOMAINS: Final = "arpa|alt|example|invalid|internal|local|localhost|onion|test"
_IS_SHORT: Final = f"(?=[^@]{{1,59}}@.{{4,60}}{_END})"
_EMAIL: Final = f"^{_IS_SHORT}{_LOCAL}@(?:{_LABEL}[.])+(?!(?i:{_DOMAINS}){_END})[A-Za-z]{{2,20}}{_END}"


@dataclass(frozen=True)
class BulkPlan:
    """How many would be adopted, the status by name of those who would be something else than approved, and the names
    that are to be looked at afterwards, in this order."""

    count: int
    unsettled: Mapping[str, str]
    names: Sequence[str]


@dataclass(frozen=True)
class BulkAdopted:
    """How many users were made."""

    count: int
    unsettled: tuple[str, ...] = ()
    """Names of those adopted as something else than approved: something follows from that."""
    is_everybody: bool = False
    """Whether the range has no row beside theirs."""


class BulkAdoption:
    """Works on key ranges. Blocking."""

    def __init__(self, database: Database, table: SharedTable, audit: Audit, policy: Policy) -> None:
        self._database = database
        self._table = table
        self._audit = audit
        self._policy = policy
        self._settled = SettledRows(database, table)
        self._knows_shared = False

    def plan(self, within: KeyRange, operators: Collection[str], contested: Checksums) -> BulkPlan:
        """What `adopt` would do, and whom it would leave to the look at each name. Nothing is written.

        `contested`: of e-mails that a plan has given away in earlier ranges; those that rows share are added.
        """
        try:
            unknown = self._count_unknown(within, BATCH)
            if unknown >= _WORTHWHILE:
                return self._plan(within, operators, contested, unknown)
        except (OperationalError, InternalError, DataError, ProgrammingError) as error:
            if is_unreachable(error):
                raise
            log.warning("adoptions are planned one by one instead of in SQL: %s", type(error).__name__)
        return BulkPlan(0, {}, self._settled.unsettled_within(within))

    def _plan(self, within: KeyRange, operators: Collection[str], contested: Checksums, unknown: int) -> BulkPlan:
        """Only who is not simply adopted comes over the wire, unless there are others in the range as well."""
        if not self._knows_shared:
            find_shared_emails(self._database, self._table, contested)
            self._knows_shared = True
        is_plain, excluded = self._is_plain(operators)
        email = f"LOWER({self._email})"
        has_holder = f"EXISTS (SELECT id FROM regsvc_user e WHERE e.email_key = {email})"  # noqa: S608
        has_user = f"EXISTS (SELECT id FROM regsvc_user u WHERE u.username_key = {self._key})"  # noqa: S608
        columns = (
            f"{self._table.text('username')} AS name, COALESCE({is_plain} AND NOT {has_user}, 0) AS is_plain, "
            f"COALESCE({has_holder} OR {contested.may_hold(email)}, 0) AS is_contested, "
            f"{self._status(self._table.raw_or_null('regdate'))} AS status"
        )
        is_all = unknown >= BATCH
        is_told = f"NOT (is_plain AND NOT is_contested AND status = '{APPROVED}')" if is_all else "1 = 1"
        sql = f"SELECT * FROM (SELECT {columns} {self._unknown(within)}) found WHERE {is_told}"  # noqa: S608
        rows = self._execute(sql, (*excluded, *within.values))
        adopted = {name: status for name, plain, shared, status in rows if plain and not shared}
        count = len(adopted) + (unknown - len(rows) if is_all else 0)
        names = sorted(name for name, plain, shared, _status in rows if plain and shared)  # as they would be adopted
        others = [row[0] for row in rows] if is_all else self._settled.unsettled_within(within)
        names = [name for name in dict.fromkeys([*names, *others]) if name not in adopted]
        return BulkPlan(count, {name: status for name, status in adopted.items() if status != APPROVED}, names)

    def adopt(self, within: KeyRange, operators: Collection[str], moment: datetime) -> BulkAdopted:
        """Make their users and agreements, in one transaction with one audit entry.

        Where that cannot be, nobody is adopted, and the look at each name will do it.
        """
        found: Exception | None = None
        for _try in range(_TRIES):
            try:
                with self._database.atomic():
                    return self._adopt(within, operators, moment)
            except (OperationalError, IntegrityError, InternalError) as error:
                if is_unreachable(error):
                    raise
                found = error  # somebody was faster with one of the names or e-mails, or a deadlock was lost
            except (DataError, ProgrammingError) as error:
                found = error  # a value, or a server, of a kind that nobody thought of
                break
        log.warning("players are adopted one by one instead of in SQL: %s", type(found).__name__)
        return BulkAdopted(0)

    def _adopt(self, within: KeyRange, operators: Collection[str], moment: datetime) -> BulkAdopted:
        """AuthMe's rows are read once, into agreements that have their users' ids; the users are made of those."""
        if self._count_unknown(within, _WORTHWHILE) < _WORTHWHILE:
            return BulkAdopted(0)
        block = self._reserve_ids(moment)
        agreed = self._agree(block, within, operators, moment)
        made = self._make_users(block, moment)
        if made != agreed:
            self._forget_userless(block)
        if not made:
            return BulkAdopted(0)
        new = User.id.between(*block)
        first, last = (
            User.select(User.username).where(new).order_by(order).limit(1).scalar()
            for order in (User.id, User.id.desc())
        )
        self._audit.record("user.adopted", "sync", None, {"count": made, "first": first, "last": last})
        others = new & (User.status != APPROVED)
        is_mixed = {self._policy.existing_players, self._policy.new_players} != {APPROVED}
        found: Any = User.select(User.username_key).where(others).tuples() if is_mixed else ()
        return BulkAdopted(made, tuple(row[0] for row in found), self._count_rows(within) == made)

    def _reserve_ids(self, moment: datetime) -> tuple[int, int]:
        """First and last of `BATCH` ids that nobody else gets: a rollback takes the rows back, not their numbers.

        Who registers between the two inserts draws one of those that are left out before the block.
        """
        nobody = {"status": APPROVED, "applied_status": APPROVED, "origin": "adopted", "created_at": moment}
        with self._database.atomic() as attempt:
            first = User.insert(username="", username_key="\n", **nobody).execute()
            User.insert(id=first + _LEFT_OUT + BATCH, username="", username_key="\n\n", **nobody).execute()
            attempt.rollback()
        return first + _LEFT_OUT + 1, first + _LEFT_OUT + BATCH

    def _agree(self, block: tuple[int, int], within: KeyRange, operators: Collection[str], moment: datetime) -> int:
        """What both sides agree on from now on; comes back with how many, those included who are known and stay as is.

        Were our table read here to leave those out, the server would write everything to a temporary table first.
        `changed_at` stays empty where nothing is left to look at.
        """
        raw, now = self._table.raw_or_null, _in_sql(moment)  # stored as they are: the column's charset is converted
        is_plain, excluded = self._is_plain(operators)
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

    def _make_users(self, block: tuple[int, int], moment: datetime) -> int:
        """Of the new agreements; comes back with how many.

        A name or an e-mail that somebody has is left out by the unique index, and the look at that name tells why. The
        agreements are read as they lie in their table: one by one, by their ids, they would take a quarter longer.
        """
        bounds = "SELECT MIN(username_key), MAX(username_key) FROM regsvc_player WHERE user_id BETWEEN %s AND %s"
        first_and_last = self._execute(bounds, block)[0]
        regdate, status = _registered_ms("p.base_regdate"), self._status("p.base_regdate")
        is_placeholder = f"(LENGTH(p.base_email) = {len(NO_EMAIL)} AND LOWER(p.base_email) = '{NO_EMAIL}')"
        is_none = f"(p.base_email IS NULL OR p.base_email NOT LIKE '%%@%%' OR {is_placeholder})"  # what is not is real
        display = "CONCAT(SUBSTRING_INDEX(p.base_email, '@', 1), '@', LOWER(SUBSTRING_INDEX(p.base_email, '@', -1)))"
        # spaces at its end make another name
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

    def _forget_userless(self, block: tuple[int, int]) -> None:
        """The agreements whose users could not be made."""
        self._database.execute_sql(
            "DELETE p FROM regsvc_player p LEFT JOIN regsvc_user u ON u.id = p.user_id "
            "AND u.username_key = p.username_key WHERE p.user_id BETWEEN %s AND %s AND u.id IS NULL",
            block,
        )

    def _count_unknown(self, within: KeyRange, limit: int) -> int:
        few = f"SELECT 1 {self._unknown(within)} LIMIT {limit}"
        return int(self._execute(f"SELECT COUNT(*) FROM ({few}) few", within.values)[0][0])  # noqa: S608

    def _count_rows(self, within: KeyRange) -> int:
        """Somebody may have come into the range since it was measured."""
        sql = f"SELECT COUNT(*) FROM {self._table.by_name} WHERE {within.condition(self._table)}"  # noqa: S608
        return int(self._execute(sql, within.values)[0][0])

    def _unknown(self, within: KeyRange) -> str:
        """FROM and WHERE of the rows in the range that nobody has looked at."""
        return (
            f"FROM {self._table.by_name} LEFT JOIN regsvc_player p ON p.username_key = {self._key} "
            f"WHERE {within.condition(self._table)} AND p.username_key IS NULL"
        )

    def _is_plain(self, operators: Collection[str]) -> tuple[str, tuple[str, ...]]:
        """The condition of plain rows, and its values."""
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
        # with spaces at its end it is the same to the collation alone
        is_placeholder = f"(LENGTH({self._email}) = {len(NO_EMAIL)} AND LOWER({self._email}) = '{NO_EMAIL}')"
        return f"({self._email} IS NULL OR TRIM({self._email}) = '' OR {is_placeholder})"

    def _status(self, regdate: str) -> str:
        """As what a player of this date is adopted."""
        first_start = epoch_ms(self._policy.first_started_at)
        was_first = f"COALESCE({_registered_ms(regdate)}, 0) < {first_start}"
        return f"IF({was_first}, '{self._policy.existing_players}', '{self._policy.new_players}')"

    def _execute(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        return list(self._database.execute_sql(sql, values).fetchall())


def _registered_ms(regdate: str) -> str:
    """As `in_milliseconds` has it: a small number is in seconds."""
    return f"IF({regdate} BETWEEN 1 AND {OLDEST_MS - 1}, {regdate} * 1000, {regdate})"


def _in_sql(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")
