"""The interface to AuthMe's table: frozen records and the methods that every backend implements."""

import base64
import binascii
import hashlib
import ipaddress
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, product

from plugin_bridge.authme.table_checksums import Bucket, SharedTable, TableScan
from plugin_bridge.text import UNREADABLE

NO_EMAIL = "your@email.com"
LOCK_PREFIX = "!locked!"
OLDEST_MS = 100_000_000_000
"""A time below this (1973 in milliseconds) was written in seconds, or never set."""
_MAX_LOCK_LENGTH = 255
_MIXED_SPELLINGS = 4


class PlayersUnavailable(Exception):
    """AuthMe's table cannot be read or written now; `str()` is a sentence that says why."""


class PlayerExists(Exception):
    """A unique key of AuthMe's table refused the name: it, or one that its collation equates with it, has a row."""


class PlayerRefused(Exception):
    """AuthMe's table does not accept a value (a character its charset lacks, say); `str()` says which."""


class NameCollides(PlayerRefused):
    """AuthMe's table equates the name with another one that it has: in another case, with an accent or a space."""


Addresses = tuple[str, str | None, str | None, int | None, int | None]
"""Username, `ip`, `regip`, and the times of the last login and of the registration of a row."""


@dataclass(frozen=True, slots=True)
class PlayerRow:
    """A row of AuthMe's table exactly as stored. A column that the table does not have is None.

    `regdate` and `last_login` are as written: milliseconds since 1970, or seconds; 0 and None both mean "unknown" or
    "never".
    """

    username: str
    realname: str
    hash: str = field(repr=False)
    salt: str | None = field(default=None, repr=False)
    email: str | None = None
    regdate: int | None = None
    last_login: int | None = None
    has_session: int | None = None
    premium_uuid: str | None = None
    totp: str | None = field(default=None, repr=False)
    is_logged: int | None = None
    group: int | None = None
    id: int | None = field(default=None, compare=False)
    """AuthMe's own number of the row; on SQLite usually None."""
    lock_group: int | None = None
    """The group that AuthMe lets nobody in with (`ExternalBoardOptions.nonActivedUserGroup`), whatever the login; no
    column: None where the table has no column of groups, or AuthMe's config names no such group.
    """

    @property
    def is_locked(self) -> bool:
        """Return whether the password column holds a lock of ours instead of a hash."""
        return self.hash.startswith(LOCK_PREFIX)

    @property
    def admits_without_password(self) -> bool:
        """Return whether AuthMe may let the player in without comparing the password.

        It resumes a session, believes a premium account, and obeys a proxy; only the group stops all three.
        """
        is_in_other_group = self.lock_group is not None and self.group != self.lock_group
        return bool(self.has_session) or bool(self.premium_uuid) or is_in_other_group

    @property
    def registered_ms(self) -> int | None:
        """Time at which the player registered in the game, in milliseconds since 1970; None or 0: unknown."""
        return in_milliseconds(self.regdate)

    @property
    def known_email(self) -> str | None:
        """The e-mail, or None where AuthMe means "none": NULL, empty, or its placeholder in any case."""
        return known_email(self.email)

    @property
    def known_realname(self) -> str | None:
        """The name in its own case; None where AuthMe fills it in at the next join."""
        return self.realname if self.realname.strip() and self.realname != "Player" else None


@dataclass(frozen=True)
class NewPlayer:
    """A row to insert, unless the name has one. None for `email` or `uuid` leaves the column at its default."""

    realname: str
    hash: str = field(repr=False)
    salt: str | None = field(repr=False)
    email: str | None
    regdate: int
    regip: str | None
    uuid: str | None = None

    @property
    def username(self) -> str:
        """The name as AuthMe looks it up."""
        return self.realname.lower()


@dataclass(frozen=True)
class RowUpdate:
    """Write these fields (named as in `PlayerRow`) if they and the row's identity are still as in `seen`."""

    seen: PlayerRow
    changes: Mapping[str, str | int | None]


@dataclass(frozen=True)
class RowDelete:
    """Delete the row if its hash and regdate are still as in `seen`."""

    seen: PlayerRow


RowWrite = RowUpdate | NewPlayer | RowDelete


@dataclass(frozen=True)
class WriteResult:
    """The result of a `RowWrite`."""

    is_written: bool
    """False: the row was not as seen, or the name has a row already, or the write was refused."""
    refused: PlayerRefused | None = None
    """Why AuthMe's table does not accept a value."""
    is_email_refused: bool = False
    """Whether everything was written except the e-mail, which the table refused or stored differently."""
    inserted: PlayerRow | None = field(default=None, compare=False)
    """The row that was inserted, where it had to be read to know that."""


def known_email(raw: str | None) -> str | None:
    """Return the e-mail in the raw column, or None where AuthMe means "none"."""
    if raw is None or not raw.strip() or raw.strip().lower() == NO_EMAIL:
        return None
    return raw.strip()


def in_milliseconds(time: int | None) -> int | None:
    """Convert a time of AuthMe's table to milliseconds, also where an old version or another program wrote seconds."""
    return time * 1000 if time is not None and 0 < time < OLDEST_MS else time


def is_findable(username: str) -> bool:
    """Return whether AuthMe finds a row of this name for everything it does, and whether a person can type the name.

    False for names that are not all lower case, have spaces at an end, or hold anything that is not printable.
    """
    plain = username.strip().lower()
    return username == plain and plain.isprintable() and plain != "" and UNREADABLE not in plain


def turkish_spellings(key: str) -> list[str]:
    """Return a lower-case name and what AuthMe makes of its spellings in capitals where Java's locale is Turkish.

    Java lower-cases I to a dotless ı there, and in Azeri. Of names with many an i not all mixtures are returned.
    """
    *first, last = key.split("i", _MIXED_SPELLINGS)
    letters = product("iı", repeat=len(first))
    mixed = ["".join(chain.from_iterable(zip(first, each, strict=True))) for each in letters]
    return [start + end for end in dict.fromkeys((last, last.replace("i", "ı"))) for start in mixed]


def java_address(ip: str | None) -> str | None:
    """Return the address as AuthMe writes and compares it: IPv6 in eight groups, no leading zeros. None if invalid."""
    if ip is None:
        return None
    try:
        address = ipaddress.ip_address(ip.partition("%")[0])
    except ValueError:
        return None
    if address.version == 4:
        return str(address)
    return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))


def lock_text(hash_: str) -> str:
    """Return the text that locks a row: it stands in the password column and verifies false under every algorithm.

    It contains the hash, so that a host can unlock everything without us; a hash too long for the column is replaced
    by a mere mark.
    """
    text = LOCK_PREFIX + base64.urlsafe_b64encode(hash_.encode()).decode().rstrip("=")
    if len(text) <= _MAX_LOCK_LENGTH:
        return text
    return LOCK_PREFIX + hashlib.sha256(hash_.encode()).hexdigest()[:32]


def locked_hash(text: str) -> str | None:
    """Return the hash inside a lock, or None if the text is no lock or only a mark."""
    if not text.startswith(LOCK_PREFIX):
        return None
    encoded = text.removeprefix(LOCK_PREFIX)
    try:
        hash_ = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except (binascii.Error, ValueError):
        return None
    return hash_ if lock_text(hash_) == text else None


class Players(ABC):
    """AuthMe's table, or the null object. Every method may raise `PlayersUnavailable`."""

    is_enabled: bool = True
    shares_transactions: bool = False
    """Whether writes join our own database's transaction (one InnoDB server) or commit on their own (SQLite)."""

    def find(self, key: str) -> PlayerRow | None:
        """Return the row whose username is exactly this lower-case name, or None."""
        return self.find_many([key]).get(key)

    @abstractmethod
    def find_colliding(self, key: str) -> PlayerRow | None:
        """Return the row that prevents a new one of this name, or None.

        It is the same one to the table's collation, or to AuthMe under a Java whose locale is Turkish.
        """

    def find_taken(self, keys: Collection[str]) -> set[str]:
        """Return those of these names that an insert would find taken: the table has one that it takes for the same."""
        return set()

    @abstractmethod
    def find_many(self, keys: Iterable[str]) -> dict[str, PlayerRow]:
        """Return the rows with exactly these usernames, by username; names without a row are left out."""

    @abstractmethod
    def pages(self, size: int) -> Iterator[list[PlayerRow]]:
        """Yield all rows, `size` at a time, each page a short statement. No row is missed that is added meanwhile."""

    @abstractmethod
    def find_names(self, keys: Iterable[str]) -> set[str]:
        """Return those of these usernames that have a row."""

    def buckets_of(self, keys: Collection[str]) -> dict[str, int]:
        """Return the bucket of each of these usernames. Names without a row may be missing."""
        return {}

    def changed_buckets(self, stored: str, *, expects_some: bool) -> tuple[dict[int, Bucket], int, int]:
        """Return the buckets that differ from those in our table `stored`, as they are now; empty ones without rows.

        With them come the number of all rows, and of those that `find_open_locks` would find. `expects_some` saves time
        if there are such buckets, and costs some if there are none.
        """
        return {}, 0, 0

    def scan(self, last: TableScan | None) -> TableScan | None:
        """Compare every row with the last scan; None where checksums of buckets are compared instead."""
        return None

    @abstractmethod
    def find_open_locks(self) -> list[str]:
        """Return the usernames of locked rows that still admit their players, or whose players are marked as online.

        A scan of its own, of columns that the checksums do not cover because AuthMe writes them at every login.
        """

    def find_addresses(self, since: int, limit: int) -> list[Addresses]:
        """Return the addresses of rows, the oldest first.

        They are those of which one of both times is at or after `since`, in milliseconds; a scan of its own, since
        AuthMe's table has no index of times. Rows with times in seconds are left out.
        """
        return []

    def find_missing_email_column(self) -> str | None:
        """Return the configured name of the e-mail column if the table has no such column, else None."""
        return None

    def version(self) -> object | None:
        """Return a value that stays equal while no process writes; None where only a full look can tell."""
        return None

    def shared_table(self) -> SharedTable | None:
        """Return the table for statements that join it with ours; None where our server does not have it."""
        return None

    @abstractmethod
    def is_empty(self) -> bool:
        """Return whether there is no row at all."""

    def update(self, seen: PlayerRow, changes: Mapping[str, str | int | None]) -> bool:
        """Write these fields (named as in `PlayerRow`) if they and the row's identity are still as in `seen`.

        Returns False if they are not: read the row again. Fields whose column the table lacks are left out, except a
        salt: the hash would be useless without it, so that raises `PlayerRefused`.
        """
        [result] = self.write_many([RowUpdate(seen, changes)])
        if result.refused is not None:
            raise result.refused
        return result.is_written

    @abstractmethod
    def write_many(self, writes: Sequence[RowWrite]) -> list[WriteResult]:
        """Do these writes, at most one for each name. Returns their results in this order.

        If the table refuses an e-mail, the other fields are written without it. Where the table shares our
        transactions, call it inside one. Elsewhere it commits as it goes: of writes that `PlayersUnavailable`
        interrupts, the first ones may have been done.
        """

    def lock(self, keys: Collection[str]) -> None:  # noqa: B027 - not abstract: only shared transactions keep locks
        """Lock these rows until our transaction ends, all at once and without waiting.

        Call it before the first write of a transaction. Raises peewee's `OperationalError`, as for a
        lost deadlock, where AuthMe is writing one of them: a transaction that never waits is in no real one. There the
        server would roll AuthMe's statement back, which is the shorter one, and AuthMe repeats none.
        """

    def refresh(self) -> None:  # noqa: B027 - not abstract: without a table there is nothing to read again
        """Read the table's columns again: AuthMe adds some when it is updated."""

    def close(self) -> None:
        """Close the calling thread's connection, if there is one of its own."""
        return


class NoPlayers(Players):
    """Null object for hosts without AuthMe: no rows, and nothing to write."""

    is_enabled = False

    def find_colliding(self, key: str) -> PlayerRow | None:
        return None

    def find_many(self, keys: Iterable[str]) -> dict[str, PlayerRow]:
        return {}

    def pages(self, size: int) -> Iterator[list[PlayerRow]]:
        return iter(())

    def find_names(self, keys: Iterable[str]) -> set[str]:
        return set()

    def find_open_locks(self) -> list[str]:
        return []

    def is_empty(self) -> bool:
        return True

    def write_many(self, writes: Sequence[RowWrite]) -> list[WriteResult]:
        if any(isinstance(write, NewPlayer) for write in writes):
            raise PlayersUnavailable("AuthMe is not set up: there is no table to add a player to.")
        return [WriteResult(is_written=False) for _write in writes]
