"""Records that the rules decide on: our user, the sync record, the player's row; loaded by a page of names."""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, TypeVar

from peewee import Database, Field

from plugin_bridge.authme.players import PlayerRow, Players, in_milliseconds, locked_hash
from regsvc.auth.hashing import StoredPassword
from regsvc.core.clock import Clock
from regsvc.database.bulk import insert_rows, select_rows
from regsvc.database.models import (
    ABSENT,
    APPROVED,
    BANNED,
    GONE,
    OPEN,
    PRESENT,
    PROVISION,
    UNASKED,
    SyncRecord,
    User,
)
from regsvc.users.gates import EndCause, access_of

_REMEMBERED: Final = 8
"""Number of earlier hashes remembered for each player."""


@dataclass(frozen=True)
class UserRecord:
    """The fields of a user that the rules need."""

    id: int
    username: str
    username_key: str
    email: str | None
    email_key: str | None
    is_email_verified: bool
    status: str
    applied_status: str
    created_at: datetime
    ban_expires_at: datetime | None
    registration_ip: str | None
    platform: str = "java"
    token_generation: int = 0
    totp_step: int | None = None
    totp_nonce: str | None = field(default=None, repr=False)
    totp_enabled_at: datetime | None = None
    password_hash: str | None = field(default=None, repr=False)
    password_salt: str | None = field(default=None, repr=False)
    password_algorithm: str | None = None
    role: str | None = None
    banned_from: str | None = None
    member_until: datetime | None = None
    applied_until: datetime | None = None
    lapses_at: datetime | None = None
    lapse: EndCause | None = None
    ended_because: EndCause | None = None
    applied_ended: EndCause | None = None
    ended_at: datetime | None = None

    @property
    def status_without_ban(self) -> str:
        """The applied status; of a banned user the one that the end of the ban at its time returns to."""
        return (self.banned_from or APPROVED) if self.applied_status == BANNED else self.applied_status

    @property
    def access(self) -> str:
        """The status that the gates obey (`access_of`)."""
        return access_of(self)

    @property
    def applied_access(self) -> str:
        """The access without a status typed in SQL, as the column `access`."""
        return access_of(replace(self, status=self.applied_status))

    @property
    def owned_email(self) -> str | None:
        """The address for AuthMe's row; None also for one given without proof, which belongs to nobody."""
        return self.email if self.email_key is not None else None

    @cached_property
    def password(self) -> StoredPassword | None:
        """The password set through us, or None."""
        if self.password_hash is None:
            return None
        return StoredPassword(self.password_hash, self.password_salt, self.password_algorithm)

    @classmethod
    def from_row(cls, row: User) -> "UserRecord":
        """Return the record of a database row."""
        return cls(*attrgetter(*USER_COLUMNS)(row))

    def with_columns(self, changes: Mapping[str, Any]) -> "UserRecord":
        """Return the record after these columns of the user were written; columns without a field are ignored."""
        return replace(self, **{name: value for name, value in changes.items() if name in USER_COLUMNS})


USER_COLUMNS: Final = tuple(UserRecord.__dataclass_fields__)


@dataclass(frozen=True)
class SyncValues:
    """The stored knowledge about one player: last synced state (`base_*`), pending intent, lock and tombstone."""

    username_key: str
    user_id: int | None = None
    presence: str = UNASKED
    base_hash: str | None = field(default=None, repr=False)
    base_salt: str | None = field(default=None, repr=False)
    base_email: str | None = None
    base_realname: str | None = None
    base_regdate: int | None = None
    intent: str | None = None
    intent_hash: str | None = field(default=None, repr=False)
    intent_salt: str | None = field(default=None, repr=False)
    intent_regdate: int | None = None
    lock_reason: str | None = None
    locked_at: datetime | None = None
    kept_hash: str | None = field(default=None, repr=False)
    kept_origin: str | None = None
    kept_premium_uuid: str | None = None
    kept_group: int | None = None
    kicked_login: int | None = None
    tombstone_hash: str | None = field(default=None, repr=False)
    tombstone_regdate: int | None = None
    tombstone_at: datetime | None = None
    conflict: str | None = None
    plugin_state: str = "off"
    plugin_since: datetime | None = None
    earlier_hashes: str | None = field(default=None, repr=False)

    def columns(self) -> dict[str, Any]:
        """Return the columns of the row, by name."""
        return vars(self).copy()

    def is_different_row(self, player: PlayerRow) -> bool:
        """Return whether the row is not the last synced one: none existed then, or it was registered at another time.

        A regdate unknown to one side proves nothing, nor does one that changed from seconds to milliseconds.
        """
        if self.presence in (ABSENT, GONE, UNASKED):
            return True
        both_known = bool(self.base_regdate) and bool(player.regdate)
        return both_known and in_milliseconds(self.base_regdate) != player.registered_ms

    def had_earlier(self, hash_: str) -> bool:
        """Return whether the player probably had this hash before the last synced one, not long ago."""
        return hash_ != self.base_hash and _mark(hash_) in (self.earlier_hashes or "").split()

    def with_earlier_hash(self, hash_: str) -> "SyncValues":
        """Return the record that remembers a hash that is no longer the last synced one."""
        mark = _mark(hash_)
        others = [known for known in (self.earlier_hashes or "").split() if known != mark]
        return replace(self, earlier_hashes=" ".join([*others[1 - _REMEMBERED :], mark]))

    def has_new_login(self, player: PlayerRow) -> bool:
        """Return whether AuthMe logged the player of the locked row in, and the player was not kicked for it yet.

        AuthMe marks who is online, and leaves the mark where the game server crashes; the time of the login, which it
        writes with every kind of login, tells two of them apart.
        """
        return bool(player.is_logged) and self.kicked_login != (player.last_login or 0)

    def is_playable(self, player: PlayerRow) -> bool:
        """Return whether the row is the last synced one and not locked: its password is the user's."""
        return not player.is_locked and not self.is_different_row(player)

    @property
    def taken_hash(self) -> str | None:
        """Hash with which an operator gave the user a foreign row; None: the user's own password was to be written."""
        return self.intent_hash if self.intent == OPEN else None

    def is_own_insert(self, player: PlayerRow) -> bool:
        """Return whether the row is the one we were inserting when we were interrupted."""
        return (
            self.intent == PROVISION
            and self.intent_hash is not None
            and player.hash == self.intent_hash
            and player.regdate == self.intent_regdate
        )


def _mark(hash_: str) -> str:
    """Return a checksum too short to test guessed passwords with: of 65,536 hashes one has the same."""
    return hashlib.sha256(hash_.encode("utf-8", "surrogatepass")).hexdigest()[:4]


RECORD_COLUMNS: Final = tuple(SyncValues.__dataclass_fields__)


@dataclass(frozen=True)
class Account:
    """User, sync record and player row of one name, as loaded at `now`."""

    key: str
    user: UserRecord | None
    sync_record: SyncValues | None
    player: PlayerRow | None
    is_operator: bool
    now: datetime
    renamed: UserRecord | None = None
    """The user the sync record belongs to, where this name has no user: it was renamed in SQL."""
    known_as: str | None = None
    """The name in the user's sync record, where it is not this one."""
    is_player_known: bool = True
    """Whether AuthMe's table could be read; if not, `player` is None without meaning that there is no row."""

    @property
    def own_player(self) -> PlayerRow | None:
        """The player row if it is the last synced one, not that of another player who took the name since."""
        if self.player is None or self.sync_record is None or self.sync_record.is_different_row(self.player):
            return None
        return self.player


@dataclass(frozen=True)
class Policy:
    """The host's choices where the rules leave one (section `sync` of the config)."""

    existing_players: str
    new_players: str
    on_player_removed: str
    unapproved_players: str
    conflict: str
    first_started_at: datetime
    algorithms: frozenset[str]
    """AuthMe's configured and legacy algorithms: a hash of any other one counts as no password."""
    is_bridge_on: bool
    may_provision: bool = True
    """Whether rows are inserted; False where AuthMe's table is a forum's own table of users."""
    idle: timedelta | None = None
    """For how long a member may be unseen in the game; None: that ends nobody."""
    looks_at_roles: bool = False
    """Whether members need a role on the chat platform."""
    notice: timedelta = timedelta()
    """How long before an end members are first reminded of it."""
    unverified_minutes: int = 0
    """Minutes after which AuthMe deletes rows of unverified players by itself; 0: never."""


def replace_records(database: Database, records: Sequence[tuple[str, SyncValues | None]]) -> None:
    """Replace the sync records of these names with new ones, or with nothing. Runs in the caller's transaction."""
    if not records:
        return
    keys = [key for key, _new in records]
    SyncRecord.delete().where(SyncRecord.username_key.in_(keys)).execute()
    insert_rows(database, SyncRecord, [new.columns() for _key, new in records if new is not None])


def tombstone(account: Account) -> SyncValues | None:
    """Return the sync record that replaces a deleted user's: a tombstone for the player's row, or None without one.

    It says which row is to be deleted along with the user, however long that takes; while AuthMe's table cannot be
    read, that is the last synced one. A row that was never synced, and could not be looked up at the registration,
    belongs to another player and stays.
    """
    known, row = account.sync_record, account.player
    if known is None or known.presence == UNASKED:
        return None
    if row is not None:
        hash_, regdate = row.hash, row.regdate
    elif not account.is_player_known and known.presence == PRESENT and known.base_hash is not None:
        hash_, regdate = known.base_hash, known.base_regdate
    else:
        return None
    return SyncValues(
        account.key,
        presence=ABSENT,
        plugin_state="absent",
        plugin_since=account.now,
        tombstone_hash=hash_,
        tombstone_regdate=regdate,
        tombstone_at=account.now,
    )


def base_columns(player: PlayerRow) -> dict[str, Any]:
    """Return the columns that record this row as synced, with nothing pending."""
    return {**base_of(player), **NO_INTENT, **NO_TOMBSTONE}


def base_of(player: PlayerRow) -> dict[str, Any]:
    """Return the columns with the values of this row; of a locked row the hash inside the lock."""
    return {
        "presence": PRESENT,
        "base_hash": locked_hash(player.hash) if player.is_locked else player.hash,
        "base_salt": player.salt,
        "base_email": player.email,
        "base_realname": player.realname,
        "base_regdate": player.regdate,
    }


NO_INTENT: Final = dict.fromkeys(("intent", "intent_hash", "intent_salt", "intent_regdate"))
NO_LOCK: Final = dict.fromkeys(
    ("lock_reason", "locked_at", "kept_hash", "kept_origin", "kept_premium_uuid", "kept_group", "kicked_login")
)
NO_TOMBSTONE: Final = dict.fromkeys(("tombstone_hash", "tombstone_regdate", "tombstone_at"))

FindRows = Callable[[], Mapping[str, PlayerRow] | None]


@dataclass(frozen=True)
class AccountLoader:
    """Loader of accounts. Runs inside the caller's transaction, if there is one."""

    database: Database
    players: Players
    operators: Callable[[], Collection[str]]
    """Returns the lower-case names of the operators at this moment."""
    now: Clock

    def load(self, keys: Collection[str], players: Mapping[str, PlayerRow] | FindRows | None) -> list[Account]:
        """Return the accounts of these lower-case names without locking. `players`: AuthMe's rows; None: not known.

        A function returns the rows after ours are read, so that they are not older. Raises `PlayersUnavailable`.
        """
        found = self._find(keys)
        return self._build(keys, *found, players() if callable(players) else players)

    def load_for_update(self, keys: Collection[str], *, with_players: bool = True) -> list[Account]:
        """Return the accounts of these names; our rows stay locked until the transaction ends.

        AuthMe's rows are read after ours are locked, so that they are not older. Without them the accounts have none.
        """
        users, sync_records = self._find(keys, is_locking=True)
        return self._build(keys, users, sync_records, self.players.find_many(keys) if with_players else None)

    def load_user_for_update(self, key: str, find_rows: FindRows) -> tuple[User, Account] | None:
        """Return the user of this name with the account, or None; our rows stay locked until the transaction ends.

        `find_rows` returns AuthMe's row by its name; it is called after ours are locked.
        """
        rows = self._select_users(_WHOLE_USER, [key], is_locking=True)
        if not rows:
            return None
        row, split = rows[0], len(_WHOLE_USER)
        user = User(__no_default__=True)
        user.__data__.update(zip(User._meta.fields, row, strict=False))
        if user.username_key != key:
            return None  # a collation may have matched a name that is merely similar
        sync_records = {key: SyncValues(*row[split:])} if row[split] is not None else {}
        return user, self._build([key], {key: UserRecord.from_row(user)}, sync_records, find_rows())[0]

    def find_changed(self, accounts: Sequence[Account]) -> set[str]:
        """Lock our rows of these accounts, and return the names whose rows are not as in the accounts."""
        users, sync_records = self._find([account.key for account in accounts], is_locking=True)
        changed = set()
        for account in accounts:
            if (account.user, account.sync_record) != (users.get(account.key), sync_records.get(account.key)):
                changed.add(account.key)
        return changed

    def _find(
        self, keys: Collection[str], *, is_locking: bool = False
    ) -> tuple[dict[str, UserRecord], dict[str, SyncValues]]:
        """Return users and sync records by name, with one query if all names have users."""
        users, sync_records = {}, {}
        split = len(USER_COLUMNS)
        for row in self._select_users(_OF_USER, keys, is_locking):
            users[row[2]] = UserRecord(*row[:split])
            if row[split] is not None:
                sync_records[row[split]] = SyncValues(*row[split:])
        others = [key for key in keys if key not in users]
        records = select_rows(
            self.database, SyncRecord, _OF_RECORD, SyncRecord.username_key, others, for_update=is_locking
        )
        for row in records:
            sync_records[row[0]] = SyncValues(*row)
        return users, sync_records

    def _build(
        self,
        keys: Collection[str],
        users: Mapping[str, UserRecord],
        sync_records: Mapping[str, SyncValues],
        players: Mapping[str, PlayerRow] | None,
    ) -> list[Account]:
        owner_ids: dict[str, int] = {}
        without_record = []
        for key in keys:
            user, known = users.get(key), sync_records.get(key)
            if user is not None and (known is None or known.user_id != user.id):
                without_record.append(user.id)
            elif user is None and known is not None and known.user_id:
                owner_ids[key] = known.user_id
        owners = select_rows(self.database, User, _OF_USER, User.id, set(owner_ids.values()))
        by_id = {row[0]: UserRecord(*row) for row in owners}
        ids_and_names: list[Any] = [SyncRecord.user_id, SyncRecord.username_key]
        names: dict[int, str] = dict(
            select_rows(self.database, SyncRecord, ids_and_names, SyncRecord.user_id, without_record)
        )
        moment, operators = self.now(), self.operators()
        return [
            Account(
                key=key,
                user=users.get(key),
                sync_record=sync_records.get(key),
                player=players.get(key) if players is not None else None,
                is_player_known=players is not None,
                is_operator=key in operators,
                now=moment,
                renamed=by_id.get(owner_ids.get(key, 0)),
                known_as=names.get(users[key].id) if key in users else None,
            )
            for key in keys
        ]

    def _select_users(self, fields: Sequence[Field], keys: Collection[str], is_locking: bool) -> list[tuple[Any, ...]]:
        """Return these fields of the users with these names, and those of `_OF_RECORD`, None without a record."""
        fields = [*fields, *_OF_RECORD]
        return select_rows(
            self.database, User, fields, User.username_key, keys, join=_WITH_RECORD, for_update=is_locking
        )


_OF_USER: Final = [User._meta.fields[name] for name in USER_COLUMNS]
_WHOLE_USER: Final = list(User._meta.fields.values())
_OF_RECORD: Final = [SyncRecord._meta.fields[name] for name in RECORD_COLUMNS]
_WITH_RECORD: Final = "LEFT JOIN regsvc_sync_record ON regsvc_sync_record.username_key = regsvc_user.username_key"

PAGE: Final = 500
"""Names loaded and reconciled together. Reading as many rows locks AuthMe's SQLite file for a few milliseconds."""

T = TypeVar("T")


def pages_of(values: Sequence[T], size: int = PAGE) -> Iterator[Sequence[T]]:
    """Yield the values in pages of at most `size`, none of them empty."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


def rows_in_order(query: Any, *order: Field, size: int = PAGE) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of a query, by pages, in the order of the fields that it selects first; together they are unique.

    Each page is a statement of its own that begins after the last row of the page before.
    """
    rest = query
    while True:
        rows = list(rest.order_by(*order).limit(size).tuples())
        if rows:
            yield rows
        if len(rows) < size:
            return
        rest = query.where(_is_after(order, rows[-1]))


def _is_after(order: Sequence[Field], row: Sequence[Any]) -> Any:
    first: Any = order[0]
    if len(order) == 1:
        return first > row[0]
    return (first > row[0]) | ((first == row[0]) & _is_after(order[1:], row[1:]))
