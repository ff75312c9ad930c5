"""One algorithm (`Hasher`), with the records and the limits that all of them share.

A stored hash determines its own cost in time and memory, and players can choose what a row holds. Hashes that exceed
the limits here do not verify.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

log = logging.getLogger(__name__)

MAX_PASSWORD_BYTES = 1024
MAX_STORED_CHARACTERS = 255  # the width of AuthMe's password and salt columns


class UnhashablePassword(ValueError):
    """The password cannot be hashed: it is longer than `MAX_PASSWORD_BYTES`, has a lone surrogate, which UTF-8
    cannot encode, or has characters that the algorithm does not distinguish.
    """


class UnusableAlgorithm(ValueError):
    """The configured algorithm or its parameter cannot be used. The message is a sentence that names the key."""


class CostTooHigh(ValueError):
    """A stored hash demands more time or memory than the limits allow. The message holds no part of the hash."""


@dataclass(frozen=True, slots=True)
class HashedPassword:
    """Value of the password column and, for some algorithms, of the salt column."""

    hash: str = field(repr=False)
    salt: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class HashingConfig:
    """The part of AuthMe's config that concerns hashing. The defaults are AuthMe's own."""

    password_hash: str = "SHA256"  # noqa: S105 - the name of an algorithm
    legacy_hashes: tuple[str, ...] = ()
    pbkdf2_rounds: int = 10_000
    bcrypt_log2_rounds: int = 12
    double_md5_salt_length: int = 8
    has_salt_column: bool = False
    has_forum_extension: bool = False
    """Whether AuthMe works on a forum's other tables too, as it does on MySQL and MariaDB for a forum's algorithm."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Why the installed AuthMe does not have a named algorithm, or may not have it, and what to do; by name."""


def is_hashable(password: str) -> bool:
    """Return whether a password may be hashed at all: at most 1024 bytes of UTF-8, without lone surrogates."""
    if len(password) > MAX_PASSWORD_BYTES:
        return False
    try:
        return len(password.encode()) <= MAX_PASSWORD_BYTES
    except UnicodeEncodeError:
        return False


@dataclass(frozen=True)
class Hasher:
    """One algorithm by AuthMe's name, with the parameters for new hashes. Stateless; may be shared by threads.

    Its functions get an `is_hashable` password and a lower-case username.
    """

    name: str
    matches: Callable[[str, HashedPassword, str], bool]
    """Compare password, stored hash and username; a ValueError means that this hash cannot be read."""
    create: Callable[[str, str], HashedPassword]
    """Create a hash of password and username."""
    configure: Callable[[HashingConfig], Hasher] | None = None
    """Return the same algorithm with the configured cost; None: it has none. Raises `UnusableAlgorithm`."""
    needs_salt_column: bool = False
    is_ascii_only: bool = False
    """Whether it confuses characters outside ASCII with others: such passwords are verified, but not hashed anew."""
    max_characters: int = MAX_PASSWORD_BYTES
    """Longest password that it hashes."""
    is_deprecated: bool = False
    """Whether AuthMe verifies its hashes but no longer creates any."""
    uses_forum_table: bool = False
    """Whether AuthMe's table is then a forum's own table of users, whose rows need more than we could insert."""

    def verify(self, password: str, stored: HashedPassword, username: str) -> bool:
        """Return whether AuthMe would accept this password for the stored hash.

        Never raises: returns False for a hash that this algorithm cannot read, a missing separate salt, an unhashable
        password, and a hash that costs too much (which is logged).
        """
        if not is_hashable(password) or not self._is_readable(stored):
            return False
        try:
            return self.matches(password, stored, username.lower())
        except CostTooHigh as refusal:
            log.warning("%s: the stored hash of %r does not verify: %s", self.name, username, refusal)
            return False
        except ValueError:
            return False

    def hash(self, password: str, username: str) -> HashedPassword:
        """Create a hash with a fresh random salt.

        Raises `UnhashablePassword`, and `UnusableAlgorithm` if the algorithm is deprecated.
        """
        if self.is_deprecated:
            raise UnusableAlgorithm(f"{self.name} hashes are verified, but no longer created.")
        if not is_hashable(password) or len(password) > self.max_characters:
            raise UnhashablePassword("the password is too long or is not valid text")
        if self.is_ascii_only and not password.isascii():
            raise UnhashablePassword(f"{self.name} does not distinguish all characters outside ASCII")
        return self.create(password, username.lower())

    def with_parameters(self, config: HashingConfig) -> Hasher:
        """Return this algorithm with the configured cost, or itself if it has none. Raises `UnusableAlgorithm`."""
        return self if self.configure is None else self.configure(config)

    def _is_readable(self, stored: HashedPassword) -> bool:
        if self.needs_salt_column and stored.salt is None:
            return False
        return max(len(stored.hash), len(stored.salt or "")) <= MAX_STORED_CHARACTERS
