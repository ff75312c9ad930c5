"""The first adoption beside a server in use, in SQL: a key range of AuthMe's table at a time, no row over the wire.

Only where AuthMe's table is on the server that has ours, and only for plain rows: an ordinary name, no lock, an e-mail
that is none or surely one and nobody else's. The others are left to the look at each name.
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from peewee import Database, DataError, IntegrityError, InternalError, OperationalError, ProgrammingError

from plugin_bridge.digests import SharedTable
from plugin_bridge.players import LOCK_PREFIX, NO_EMAIL, OLDEST_MS
from regsvc.audit import Audit
from regsvc.clock import epoch_ms
from regsvc.db import is_away
from regsvc.models import APPROVED, User
from regsvc.sync.digest_settled import KeyRange
from regsvc.sync.records import Policy

log = logging.getLogger(__name__)

_TRIES: Final = 3
_END: Final = r"\\z"  # a dollar would let a line end follow
_NAME: Final = f"^[a-z0-9_.-]{{1,60}}{_END}"
# What every mail system takes for an address, in the letters that have one upper and one lower case, and short enough.
_LOCAL: Final = "[A-Za-z0-9_+-]+([.][A-Za-z0-9_+-]+)*"
_LABEL: Final = "[A-Za-z0-9]([A-Za-z0-9-]{0,40}[A-Za-z0-9])?"
_DOMAINS: Final = "arpa|alt|example|invalid|internal|local|localhost|onion|test"
_IS_SHORT: Final = f"(?=.{{1,120}}{_END})(?=[^@]{{1,59}}@)"
_IS_PUBLIC: Final = f"(?!.*--)(?!.*[.](?i:{_DOMAINS}){_END})"
_EMAIL: Final = f"^{_IS_SHORT}{_IS_PUBLIC}{_LOCAL}@({_LABEL}[.])+[A-Za-z]{{2,20}}{_END}"


@dataclass(frozen=True)
class Candidate:
    """A player who would be adopted, and as what."""

    username_key: str
    status: str


@dataclass(frozen=True)
class BulkAdopted:
    """How many users were made."""

    count: int
    unsettled: tuple[str, ...] = ()
    """Names of those adopted as something else than approved: something follows from that."""


class BulkAdoption:
    """Works on key ranges. Blocking."""

    def __init__(self, database: Database, table: SharedTable, audit: Audit, policy: Policy) -> None:
        self._database = database
        self._table = table
        self._audit = audit
        self._policy = policy

    def candidates(self, within: KeyRange, operators: Collection[str]) -> list[Candidate]:
        """Whom `adopt` would adopt, and who would be adopted without an e-mail that somebody else has."""
        plain, values = self._plain_rows(within, operators)
        nobody = f"NOT EXISTS (SELECT id FROM regsvc_user u WHERE u.username_key = {self._key})"  # noqa: S608
        return [
            Candidate(*row) for row in self._execute(f"SELECT {self._key}, {self._status} {plain} AND {nobody}", values)
        ]

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
                if is_away(error):
                    raise
                found = error  # somebody was faster with one of the names or e-mails, or a deadlock was lost
            except (DataError, ProgrammingError) as error:
                found = error  # a value, or a server, of a kind that nobody thought of
                break
        log.warning("players are adopted one by one instead of in SQL: %s", type(found).__name__)
        return BulkAdopted(0)

    def _adopt(self, within: KeyRange, operators: Collection[str], moment: datetime) -> BulkAdopted:
        newest = User.select(User.id).order_by(User.id.desc()).limit(1).scalar() or 0
        made = self._make_users(within, operators, moment)
        if not made:
            return BulkAdopted(0)
        agreed = self._agree(newest, moment)
        if agreed != made:
            raise IntegrityError(f"{made} users, but {agreed} agreements")  # a row was gone, or another one
        new = (User.id > newest) & (User.origin == "adopted")
        first, last = (
            User.select(User.username).where(new).order_by(order).limit(1).scalar()
            for order in (User.id, User.id.desc())
        )
        self._audit.record("user.adopted", "sync", None, {"count": made, "first": first, "last": last})
        if {self._policy.existing_players, self._policy.new_players} == {APPROVED}:
            return BulkAdopted(made)
        others: Any = User.select(User.username_key).where(new & (User.status != APPROVED)).tuples()
        return BulkAdopted(made, tuple(row[0] for row in others))

    def _make_users(self, within: KeyRange, operators: Collection[str], moment: datetime) -> int:
        """How many. `changed_at` stays empty where nothing is left to look at.

        A name or an e-mail that somebody has is left out by the unique index, and the look at that name tells why.
        """
        plain, values = self._plain_rows(within, operators)
        email, regdate, now = self._email, self._registered_ms, _in_sql(moment)
        display = f"CONCAT(SUBSTRING_INDEX({email}, '@', 1), '@', LOWER(SUBSTRING_INDEX({email}, '@', -1)))"
        raw = self._table.raw_or_null("email")  # what is cheap comes first: this is asked twice of every row
        is_placeholder = f"(LENGTH({raw}) = {len(NO_EMAIL)} AND LOWER({email}) = '{NO_EMAIL}')"
        is_none = f"({raw} IS NULL OR {raw} NOT LIKE '%%@%%' OR {is_placeholder})"  # what is not is real
        registered_at = (
            f"IF({regdate} > 0 AND {regdate} <= {epoch_ms(moment)}, "
            f"TIMESTAMP('1970-01-01') + INTERVAL ({regdate} * 1000) MICROSECOND, %s)"
        )
        made = self._database.execute_sql(
            "INSERT IGNORE INTO regsvc_user (username, username_key, email, email_key, status, applied_status, origin, "
            f"created_at, changed_at) SELECT {self._username}, {self._table.raw('username')}, "
            f"IF({is_none}, NULL, {display}), IF({is_none}, NULL, LOWER({email})), "
            f"{self._status}, {self._status}, 'adopted', {registered_at}, "
            f"IF({self._status} = '{APPROVED}', NULL, %s) {plain} ORDER BY {self._table.raw('username')}",
            (now, now, *values),
        )
        return int(made.rowcount)

    def _agree(self, newest: int, moment: datetime) -> int:
        """What both sides agree on from now on. A row that changed since its user was made differs from it.

        From the new users to their rows, by AuthMe's own index; comes back with how many there are.
        """
        raw, now = self._table.raw_or_null, _in_sql(moment)  # stored as they are: the column's charset is converted
        base_email = f"IF(u.email_key IS NULL OR u.email_key = LOWER({self._email}), {self._email}, u.email)"
        made = self._database.execute_sql(
            "INSERT INTO regsvc_player (username_key, user_id, presence, base_hash, base_salt, base_email, "  # noqa: S608
            "base_realname, base_regdate, plugin_state, plugin_since, changed_at) "
            f"SELECT u.username_key, u.id, 'present', {raw('hash')}, {raw('salt')}, {base_email}, "
            f"{raw('realname')}, {raw('regdate')}, 'synced', %s, "
            f"IF(u.status = '{APPROVED}', NULL, %s) FROM regsvc_user u STRAIGHT_JOIN {self._table.by_name} "
            f"ON {self._table.raw('username')} = {self._table.as_username('u.username_key')} "
            f"AND {self._key} = u.username_key WHERE u.id > {newest} AND u.origin = 'adopted'",
            (now, now),
        )
        return int(made.rowcount)

    def _plain_rows(self, within: KeyRange, operators: Collection[str]) -> tuple[str, tuple[Any, ...]]:
        """FROM and WHERE of the rows in the range that nobody has looked at and that are plain."""
        excluded, is_real = sorted(operators), f"{self._email} REGEXP '{_EMAIL}'"
        marks = f" AND {self._key} NOT IN ({', '.join(['%s'] * len(excluded))})" if excluded else ""
        sql = (
            f"FROM {self._table.by_name} LEFT JOIN regsvc_player p ON p.username_key = {self._key} "
            f"WHERE {within.condition(self._table)} AND p.username_key IS NULL{marks} "
            f"AND {self._key} REGEXP '{_NAME}' AND COALESCE({self._table.raw_or_null('regdate')}, 0) >= 0 "
            f"AND {self._table.raw('hash')} NOT LIKE '{LOCK_PREFIX}%%' AND ({is_real} OR {self._has_no_email})"
        )
        return sql, (*within.values, *excluded)

    # --- pieces of SQL about AuthMe's row `a` ---

    @property
    def _key(self) -> str:
        return f"{self._table.text('username')} COLLATE utf8mb4_bin"

    @property
    def _email(self) -> str:
        return f"CONVERT({self._table.raw_or_null('email')} USING utf8mb4) COLLATE utf8mb4_bin"

    @property
    def _has_no_email(self) -> str:
        return f"({self._email} IS NULL OR TRIM({self._email}) = '' OR LOWER({self._email}) = '{NO_EMAIL}')"

    @property
    def _username(self) -> str:
        """With the case that its owner writes, where that is known."""
        raw, username = self._table.raw("realname"), self._table.raw("username")
        known = f"{self._table.text('realname')} COLLATE utf8mb4_bin"
        # spaces at its end make another name; the collation of the raw column may find more alike, and costs less
        is_same = f"LENGTH({raw}) = LENGTH({username}) AND LOWER({known}) = {self._key}"
        return f"IF({is_same} AND ({raw} <> 'Player' OR {known} <> 'Player'), {raw}, {username})"

    @property
    def _registered_ms(self) -> str:
        """As `in_milliseconds` has it: a small number is in seconds."""
        regdate = self._table.raw_or_null("regdate")
        return f"IF({regdate} BETWEEN 1 AND {OLDEST_MS - 1}, {regdate} * 1000, {regdate})"

    @property
    def _status(self) -> str:
        first_start = epoch_ms(self._policy.first_started_at)
        was_first = f"COALESCE({self._registered_ms}, 0) < {first_start}"
        return f"IF({was_first}, '{self._policy.existing_players}', '{self._policy.new_players}')"

    def _execute(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        return list(self._database.execute_sql(sql, values).fetchall())


def _in_sql(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")
