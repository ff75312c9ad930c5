"""What crosses the border between AuthMe's table and us: frozen records and the one plan both tables follow."""

import base64
import binascii
import hashlib
import ipaddress
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from plugin_bridge.authme.lenient_sqlite import UNREADABLE
from plugin_bridge.authme.table_checksums import Bucket, SharedTable, StoredChecksums

NO_EMAIL = "your@email.com"
LOCK_PREFIX = "!locked!"
OLDEST_MS = 100_000_000_000
"""A time below this (1973 in milliseconds) was written in seconds, or not at all."""
_LONGEST_LOCK = 255


class PlayersUnavailable(Exception):
    """AuthMe's table cannot be read or written now; `str()` says why, in a sentence."""


class PlayerExists(Exception):
    """AuthMe's unique key said no: the name, or one its collation takes for the same, has a row."""


class PlayerRefused(Exception):
    """AuthMe's table does not take a value (a character its charset lacks, say); `str()` says which."""


class NameCollides(PlayerRefused):
    """AuthMe's table takes the name for another one that it has: in another case, with an accent or a space."""


@dataclass(frozen=True)
class PlayerRow:
    """A row of AuthMe's table as it stands there, byte for byte. A column the table does not have is None.

    `regdate` and `last_login` are as written: ms since 1970, or seconds; 0 and None both mean "unknown" and "never".
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

    @property
    def is_locked(self) -> bool:
        """Whether the password column holds a lock of ours instead of a hash."""
        return self.hash.startswith(LOCK_PREFIX)

    @property
    def registered_ms(self) -> int | None:
        """When the player registered in the game, in ms since 1970; None or 0: unknown."""
        return in_milliseconds(self.regdate)

    @property
    def known_email(self) -> str | None:
        """The e-mail, or None where AuthMe means "none": NULL, empty, or its placeholder in any case."""
        return known_email(self.email)

    @property
    def known_realname(self) -> str | None:
        """The name with its case; None where AuthMe fills it in at the next join."""
        return self.realname if self.realname.strip() and self.realname != "Player" else None


@dataclass(frozen=True)
class NewPlayer:
    """A row to insert. `email` and `uuid` None leave the column to its default."""

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


def known_email(raw: str | None) -> str | None:
    """The e-mail of the raw column, or None where AuthMe means "none"."""
    if raw is None or not raw.strip() or raw.strip().lower() == NO_EMAIL:
        return None
    return raw.strip()


def in_milliseconds(time: int | None) -> int | None:
    """A time of AuthMe's table in milliseconds, also where an old version or another program wrote seconds."""
    return time * 1000 if time is not None and 0 < time < OLDEST_MS else time


def is_findable(username: str) -> bool:
    """Whether AuthMe finds a row of this name for everything it does, and whether a person can write the name.

    Not so in another case than lower, with spaces at an end, or with what is no character.
    """
    plain = username.strip().lower()
    return username == plain and plain.isprintable() and plain != "" and UNREADABLE not in plain


def java_address(ip: str | None) -> str | None:
    """The address as AuthMe writes and compares it: IPv6 in eight groups without leading zeros. None for no address."""
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
    """What the password column holds while the row is locked: verifies false under every algorithm.

    The hash stays in it, so that a host can unlock everything without us; one too long for the column is only marked.
    """
    text = LOCK_PREFIX + base64.urlsafe_b64encode(hash_.encode()).decode().rstrip("=")
    if len(text) <= _LONGEST_LOCK:
        return text
    return LOCK_PREFIX + hashlib.sha256(hash_.encode()).hexdigest()[:32]


def locked_hash(text: str) -> str | None:
    """The hash inside a lock; None when the text is no lock, or only a mark."""
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
    """Whether a write belongs to our own database's transaction (one InnoDB server) or is one of its own (SQLite)."""

    @abstractmethod
    def find(self, key: str) -> PlayerRow | None:
        """The row whose username is exactly this lower-case name, or None."""

    @abstractmethod
    def find_colliding(self, key: str) -> PlayerRow | None:
        """The row that keeps a new one of this name out: the same name, or one the table's collation takes for it."""

    @abstractmethod
    def find_many(self, keys: Iterable[str]) -> dict[str, PlayerRow]:
        """The rows with exactly these usernames, by username; those without a row are left out."""

    @abstractmethod
    def pages(self, size: int) -> Iterator[list[PlayerRow]]:
        """All rows, `size` at a time, each page a short statement. A row that comes meanwhile is not missed."""

    @abstractmethod
    def count(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def find_names(self, keys: Iterable[str]) -> set[str]:
        """Which of these usernames have a row."""

    @abstractmethod
    def names_in(self, buckets: Collection[int]) -> Iterator[list[str]]:
        """The usernames of all rows in these buckets, a short statement at a time."""

    @abstractmethod
    def buckets_of(self, keys: Collection[str]) -> dict[str, int]:
        """In which bucket the row of each of these usernames is; where that takes a row, those without are left out."""

    @abstractmethod
    def changed_buckets(self, stored: StoredChecksums) -> dict[int, Bucket]:
        """The buckets that are others than in `stored`, as they are now; an empty one where no row is left."""

    def version(self) -> object | None:
        """Equal to the one before while nobody wrote; None where that cannot be told without looking."""
        return None

    def shared_table(self) -> SharedTable | None:
        """The table for statements that name ours too; None where it is not on the server that has ours."""
        return None

    def execute_shared(self, sql: str) -> None:
        """A statement made of `shared_table`'s pieces. Never called where there is none."""
        raise AssertionError("AuthMe's table is not on our server")

    def is_marked_online(self, key: str) -> bool:
        """Whether AuthMe's row says that the player is in the game. A hint: a crash of the server leaves it so."""
        return False

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether there is no row at all; cheaper than counting."""

    @abstractmethod
    def insert(self, player: NewPlayer) -> None:
        """Raises `PlayerExists` when a unique key says no, `PlayerRefused` for a salt the table has no column for."""

    @abstractmethod
    def update(self, seen: PlayerRow, changes: Mapping[str, str | int | None]) -> bool:
        """Write these fields (named as in `PlayerRow`) if they and what identifies the row still stand as seen.

        False when not: look again. Fields whose column the table lacks are left out, but for a salt: the hash would be
        worth nothing without it, so that raises `PlayerRefused`.
        """

    @abstractmethod
    def delete(self, seen: PlayerRow) -> bool:
        """Delete the row if its hash and regdate still stand as seen. False when not."""

    def refresh(self) -> None:  # noqa: B027 - where there is nothing to look at, this is all
        """Look at the table's columns again: AuthMe adds some of its own when it is updated."""

    def close(self) -> None:
        """Close the calling thread's connection, if there is one of its own."""
        return


class NoPlayers(Players):
    """No AuthMe: no rows, and nothing to write."""

    is_enabled = False

    def find(self, key: str) -> PlayerRow | None:
        return None

    def find_colliding(self, key: str) -> PlayerRow | None:
        return None

    def find_many(self, keys: Iterable[str]) -> dict[str, PlayerRow]:
        return {}

    def pages(self, size: int) -> Iterator[list[PlayerRow]]:
        return iter(())

    def count(self) -> int:
        return 0

    def find_names(self, keys: Iterable[str]) -> set[str]:
        return set()

    def names_in(self, buckets: Collection[int]) -> Iterator[list[str]]:
        return iter(())

    def buckets_of(self, keys: Collection[str]) -> dict[str, int]:
        return {}

    def changed_buckets(self, stored: StoredChecksums) -> dict[int, Bucket]:
        return {}

    def is_empty(self) -> bool:
        return True

    def insert(self, player: NewPlayer) -> None:
        raise PlayersUnavailable("There is no AuthMe to write a player to.")

    def update(self, seen: PlayerRow, changes: Mapping[str, str | int | None]) -> bool:
        return False

    def delete(self, seen: PlayerRow) -> bool:
        return False
