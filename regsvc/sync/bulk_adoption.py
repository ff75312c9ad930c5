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
from plugin_bridge.players import LOCK_PREFIX, NO_EMAIL
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
_EMAIL: Final = f"^{_LOCAL}@({_LABEL}[.])+[A-Za-z]{{2,20}}{_END}"
_NO_DOMAIN: Final = f"--|[.](arpa|alt|example|invalid|internal|local|localhost|onion|test){_END}"


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
        """Whom `adopt` would adopt."""
        plain, values = self._plain_rows(within, operators)
        return [Candidate(*row) for row in self._execute(f"SELECT {self._key}, {self._status} {plain}", values)]

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
        self._agree(within, newest, moment)
        new = f"FROM regsvc_user WHERE id > {newest} AND origin = 'adopted'"
        [(first, last)] = self._execute(f"SELECT MIN(username_key), MAX(username_key) {new}")
        spelt = {user.username_key: user.username for user in User.select().where(User.username_key.in_([first, last]))}
        detail = {"count": made, "first": spelt[first], "last": spelt[last]}
        self._audit.record("user.adopted", "sync", None, detail)
        others = self._execute(f"SELECT username_key {new} AND status <> '{APPROVED}'")
        return BulkAdopted(made, tuple(row[0] for row in others))

    def _make_users(self, within: KeyRange, operators: Collection[str], moment: datetime) -> int:
        """How many. `changed_at` stays empty where nothing is left to look at."""
        plain, values = self._plain_rows(within, operators)
        email, regdate, now = self._email, self._table.number("regdate"), _in_sql(moment)
        display = f"CONCAT(SUBSTRING_INDEX({email}, '@', 1), '@', LOWER(SUBSTRING_INDEX({email}, '@', -1)))"
        registered_at = (
            f"IF({regdate} > 0 AND {regdate} <= {epoch_ms(moment)}, "
            f"TIMESTAMP('1970-01-01') + INTERVAL ({regdate} * 1000) MICROSECOND, %s)"
        )
        made = self._database.execute_sql(
            "INSERT INTO regsvc_user (username, username_key, email, email_key, status, applied_status, origin, "
            f"created_at, changed_at) SELECT {self._username}, {self._key}, "
            f"IF({self._has_no_email}, NULL, {display}), IF({self._has_no_email}, NULL, LOWER({email})), "
            f"{self._status}, {self._status}, 'adopted', {registered_at}, "
            f"IF({self._status} = '{APPROVED}', NULL, %s) {plain}",
            (now, now, *values),
        )
        return int(made.rowcount)

    def _agree(self, within: KeyRange, newest: int, moment: datetime) -> None:
        """What both sides agree on from now on. A row that changed since its user was made differs from it."""
        text, now = self._table.text, _in_sql(moment)
        base_email = f"IF(u.email_key <=> LOWER({self._email}) OR u.email_key IS NULL, {text('email')}, u.email)"
        self._database.execute_sql(
            "INSERT INTO regsvc_player (username_key, user_id, presence, base_hash, base_salt, base_email, "  # noqa: S608
            "base_realname, base_regdate, plugin_state, plugin_since, changed_at) "
            f"SELECT u.username_key, u.id, 'present', {text('hash')}, {text('salt')}, {base_email}, "
            f"{text('realname')}, {self._table.number('regdate')}, 'synced', %s, "
            f"IF(u.status = '{APPROVED}', NULL, %s) FROM {self._table.name} a "
            f"JOIN regsvc_user u ON u.username_key = {self._key} "
            f"WHERE {within.condition(self._table)} AND u.id > {newest} AND u.origin = 'adopted'",
            (now, now, *within.values),
        )

    def _plain_rows(self, within: KeyRange, operators: Collection[str]) -> tuple[str, tuple[Any, ...]]:
        """FROM and WHERE of the rows in the range that nobody has looked at and that are plain."""
        excluded = sorted({*operators, *self._rows_that_are_not_plain(within), *self._rows_that_share_an_email(within)})
        marks = f" AND {self._key} NOT IN ({', '.join(['%s'] * len(excluded))})" if excluded else ""
        sql = f"{self._new_rows} WHERE {within.condition(self._table)} AND p.username_key IS NULL{marks}"
        return sql, (*within.values, *excluded)

    def _rows_that_are_not_plain(self, within: KeyRange) -> list[str]:
        email = self._email
        is_real = (
            f"LENGTH({email}) <= 120 AND LOCATE('@', {email}) <= 60 AND {email} REGEXP '{_EMAIL}' "
            f"AND NOT LOWER({email}) REGEXP '{_NO_DOMAIN}'"
        )
        is_locked = f"COALESCE(LEFT({self._table.text('hash')}, {len(LOCK_PREFIX)}) = '{LOCK_PREFIX}', 1)"
        rows = self._execute(
            f"SELECT {self._key} {self._new_rows} "
            f"LEFT JOIN regsvc_user u ON u.username_key = {self._key} "
            f"LEFT JOIN regsvc_user t ON t.email_key = LOWER({email}) "
            f"WHERE {within.condition(self._table)} AND p.username_key IS NULL AND (u.id IS NOT NULL "
            f"OR t.id IS NOT NULL OR NOT {self._key} REGEXP '{_NAME}' OR {self._table.number('regdate')} < 0 "
            f"OR {is_locked} OR NOT ({self._has_no_email} OR ({is_real})))",
            within.values,
        )
        return [row[0] for row in rows]

    def _rows_that_share_an_email(self, within: KeyRange) -> list[str]:
        """Within the range; who has it in another one is a user by now, or will meet one there."""
        crc = f"CRC32(LOWER({self._email}))"
        new = f"{self._new_rows} WHERE {within.condition(self._table)} AND p.username_key IS NULL"
        shared = self._execute(
            f"SELECT {crc} {new} AND NOT ({self._has_no_email}) GROUP BY 1 HAVING COUNT(*) > 1", within.values
        )
        if not shared:
            return []
        numbers = ", ".join(str(row[0]) for row in shared)
        return [row[0] for row in self._execute(f"SELECT {self._key} {new} AND {crc} IN ({numbers})", within.values)]

    # --- pieces of SQL about AuthMe's row `a` ---

    @property
    def _new_rows(self) -> str:
        return f"FROM {self._table.name} a LEFT JOIN regsvc_player p ON p.username_key = {self._key}"

    @property
    def _key(self) -> str:
        return f"{self._table.text('username')} COLLATE utf8mb4_bin"

    @property
    def _email(self) -> str:
        return f"CONVERT({self._table.number('email')} USING utf8mb4) COLLATE utf8mb4_bin"

    @property
    def _has_no_email(self) -> str:
        return f"({self._email} IS NULL OR TRIM({self._email}) = '' OR LOWER({self._email}) = '{NO_EMAIL}')"

    @property
    def _username(self) -> str:
        """With the case that its owner writes, where that is known."""
        realname = f"{self._table.text('realname')} COLLATE utf8mb4_bin"
        return f"IF(LOWER({realname}) = {self._key} AND {realname} <> 'Player', {realname}, {self._key})"

    @property
    def _status(self) -> str:
        first_start = epoch_ms(self._policy.first_started_at)
        was_first = f"COALESCE({self._table.number('regdate')}, 0) < {first_start}"
        return f"IF({was_first}, '{self._policy.existing_players}', '{self._policy.new_players}')"

    def _execute(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        return list(self._database.execute_sql(sql, values).fetchall())


def _in_sql(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")
