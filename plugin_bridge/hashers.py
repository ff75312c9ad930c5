"""AuthMe's hash algorithms, and the password check made of them.

Each algorithm is one small class and one entry in `HASHERS`. All facts about stored forms are AuthMe 6.0.1's
own answers. The algorithm is chosen by its configured name, never guessed from the look of a stored hash.

Everything here is slow on purpose and blocks: call it from a worker thread.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import argon2.low_level
import bcrypt
from argon2.exceptions import HashingError

log = logging.getLogger(__name__)

MAX_PASSWORD_BYTES = 1024
MAX_STORED_CHARACTERS = 255  # the width of AuthMe's password and salt columns

# A stored hash names its own price. Dearer ones than these do not verify: one row must not stop the service.
MAX_BCRYPT_COST = 16
MAX_ROUNDS = 10_000_000
MAX_ARGON2_MEMORY = 1024 * 1024  # KiB
MAX_ARGON2_WORK = 16 * MAX_ARGON2_MEMORY  # KiB written over all passes
MAX_ARGON2_LANES = 64  # each lane is a thread


class UnhashablePassword(ValueError):
    """The password is longer than `MAX_PASSWORD_BYTES`, or has a lone surrogate, which UTF-8 cannot hold."""


class UnusableHashing(ValueError):
    """The configured algorithm or its parameter cannot be used here. The message is a sentence."""


class CostTooHigh(ValueError):
    """A stored hash asks for more time or memory than we grant. The message holds no part of the hash."""


@dataclass(frozen=True, slots=True)
class HashedPassword:
    """What stands in the password column and, for some algorithms, in the salt column."""

    hash: str = field(repr=False)
    salt: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class HashingConfig:
    """How AuthMe is told to hash. The defaults are AuthMe's own."""

    password_hash: str = "SHA256"  # noqa: S105 - the name of an algorithm
    legacy_hashes: tuple[str, ...] = ()
    pbkdf2_rounds: int = 10_000
    bcrypt_log2_rounds: int = 12
    double_md5_salt_length: int = 8
    has_salt_column: bool = False


def is_hashable(password: str) -> bool:
    """Whether a password may be hashed at all: at most 1024 bytes of UTF-8, without lone surrogates."""
    if len(password) > MAX_PASSWORD_BYTES:
        return False
    try:
        return len(password.encode()) <= MAX_PASSWORD_BYTES
    except UnicodeEncodeError:
        return False


class Hasher(ABC):
    """One algorithm, with the parameters for new hashes. It has no state and may be shared by threads.

    A subclass writes `_matches` and `_create`; both get an `is_hashable` password and a lower-case username.
    """

    name: ClassVar[str]
    needs_salt_column: ClassVar[bool] = False

    def verify(self, password: str, stored: HashedPassword, username: str) -> bool:
        """Whether AuthMe would take this password for the stored hash.

        False, and never an exception, for a hash this algorithm cannot read, a missing separate salt, an
        unhashable password, and a hash that costs too much (this one is logged).
        """
        if not is_hashable(password) or not self._is_readable(stored):
            return False
        try:
            return self._matches(password, stored, username.lower())
        except CostTooHigh as refusal:
            log.warning("%s: the stored hash of %r does not verify: %s", self.name, username, refusal)
            return False
        except ValueError:
            return False

    def hash(self, password: str, username: str) -> HashedPassword:
        """A new hash with a fresh random salt; raises `UnhashablePassword`."""
        if not is_hashable(password):
            raise UnhashablePassword("the password is too long or is not valid text")
        return self._create(password, username.lower())

    def with_parameters(self, config: HashingConfig) -> Hasher:
        """This algorithm with the configured cost; itself if it has none. Raises `UnusableHashing`."""
        return self

    def _is_readable(self, stored: HashedPassword) -> bool:
        if self.needs_salt_column and stored.salt is None:
            return False
        return max(len(stored.hash), len(stored.salt or "")) <= MAX_STORED_CHARACTERS

    @abstractmethod
    def _matches(self, password: str, stored: HashedPassword, username: str) -> bool:
        """The comparison; a ValueError means "cannot read this hash"."""

    @abstractmethod
    def _create(self, password: str, username: str) -> HashedPassword: ...


class Sha256(Hasher):
    """`$SHA$` salt `$` sha256(sha256(password) + salt), in lower-case hex."""

    name = "SHA256"

    def _matches(self, password: str, stored: HashedPassword, username: str) -> bool:
        parts = stored.hash.split("$")
        return len(parts) == 4 and _is_same(self._digest(password, parts[2]), stored.hash)

    def _create(self, password: str, username: str) -> HashedPassword:
        return HashedPassword(self._digest(password, secrets.token_hex(8)))

    @staticmethod
    def _digest(password: str, salt: str) -> str:
        return f"$SHA${salt}${_hex('sha256', _hex('sha256', password) + salt)}"


class SaltedSha512(Hasher):
    """sha512(password + salt) in lower-case hex; the salt has a column of its own."""

    name = "SALTEDSHA512"
    needs_salt_column = True

    def _matches(self, password: str, stored: HashedPassword, username: str) -> bool:
        return _is_same(_hex("sha512", password + (stored.salt or "")), stored.hash)

    def _create(self, password: str, username: str) -> HashedPassword:
        salt = secrets.token_hex(16)
        return HashedPassword(_hex("sha512", password + salt), salt)


class Bcrypt(Hasher):
    """bcrypt, written as `$2a$`. Any of 2a, 2b, 2x, 2y verifies, whichever variant is configured."""

    name = "BCRYPT"
    _version: ClassVar[str] = "$2a$"
    _FORM = re.compile(r"\$2[abxy]\$([0-9]{2})\$[./A-Za-z0-9]{53}")
    _SIGNIFICANT_BYTES = 72  # bcrypt never looks further, even if that splits a character

    def __init__(self, cost: int = 12) -> None:
        self._cost = cost

    def with_parameters(self, config: HashingConfig) -> Hasher:
        cost = config.bcrypt_log2_rounds
        if not 4 <= cost <= MAX_BCRYPT_COST:
            raise UnusableHashing(f"bCryptLog2Round is {cost}; it must be between 4 and {MAX_BCRYPT_COST}.")
        return Bcrypt(cost)

    def _matches(self, password: str, stored: HashedPassword, username: str) -> bool:
        form = self._FORM.fullmatch(stored.hash)
        if form is None:
            return False
        cost = int(form[1])
        if MAX_BCRYPT_COST < cost <= 31:
            raise CostTooHigh(f"bcrypt cost {cost} is above {MAX_BCRYPT_COST}")
        return bcrypt.checkpw(password.encode()[: self._SIGNIFICANT_BYTES], stored.hash.encode())

    def _create(self, password: str, username: str) -> HashedPassword:
        secret = password.encode()[: self._SIGNIFICANT_BYTES]
        digest = bcrypt.hashpw(secret, bcrypt.gensalt(self._cost, prefix=b"2a")).decode()
        return HashedPassword(self._version + digest[4:])


class Bcrypt2y(Bcrypt):
    """bcrypt as PHP writes it: `$2y$`, always cost 10."""

    name = "BCRYPT2Y"
    _version = "$2y$"

    def __init__(self) -> None:
        super().__init__(cost=10)

    def with_parameters(self, config: HashingConfig) -> Hasher:
        return self


class Pbkdf2(Hasher):
    """`pbkdf2_sha256$` rounds `$` salt `$` key: HMAC-SHA256, salt taken as text, key in upper-case hex."""

    name = "PBKDF2"
    _DEFAULT_ROUNDS = 10_000
    _KEY_BYTES = 64

    def __init__(self, rounds: int = _DEFAULT_ROUNDS) -> None:
        self._rounds = rounds

    def with_parameters(self, config: HashingConfig) -> Hasher:
        rounds = config.pbkdf2_rounds
        if rounds > MAX_ROUNDS:
            raise UnusableHashing(f"pbkdf2Rounds is {rounds}; at most {MAX_ROUNDS} are possible.")
        return Pbkdf2(rounds if rounds > 0 else self._DEFAULT_ROUNDS)

    def _matches(self, password: str, stored: HashedPassword, username: str) -> bool:
        # Java's split drops empty parts at the end; AuthMe does not look at the first part.
        parts = stored.hash.rstrip("$").split("$")
        if len(parts) != 4:
            return False
        rounds = _rounds(parts[1])
        key = bytes.fromhex(parts[3])
        computed = hashlib.pbkdf2_hmac("sha256", password.encode(), parts[2].encode(), rounds, len(key))
        return hmac.compare_digest(computed, key)

    def _create(self, password: str, username: str) -> HashedPassword:
        salt = secrets.token_hex(8)
        key = hashlib.pbkdf2_hmac("sha256", password.encode(), salt.encode(), self._rounds, self._KEY_BYTES)
        return HashedPassword(f"pbkdf2_sha256${self._rounds}${salt}${key.hex().upper()}")


class Argon2(Hasher):
    """argon2i in PHC form. As in AuthMe, argon2id and argon2d never verify, and any version counts as 19."""

    name = "ARGON2"
    _FORM = re.compile(
        r"\$argon2i\$v=[^$]*\$([mtp]=[0-9]{1,10}(?:,[mtp]=[0-9]{1,10}){2})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)"
    )

    def _matches(self, password: str, stored: HashedPassword, username: str) -> bool:
        form = self._FORM.fullmatch(stored.hash)
        if form is None:
            return False
        costs = {key: int(value) for key, value in (pair.split("=") for pair in form[1].split(","))}
        if len(costs) != 3:
            return False
        self._check_costs(costs["m"], costs["t"], costs["p"])
        tag = _unpadded_base64(form[3])
        try:
            computed = argon2.low_level.hash_secret_raw(
                secret=password.encode(),
                salt=_unpadded_base64(form[2]),
                memory_cost=costs["m"],
                time_cost=costs["t"],
                parallelism=costs["p"],
                hash_len=len(tag),
                type=argon2.low_level.Type.I,
            )
        except HashingError as failure:  # such as a salt under 8 bytes, or no memory left
            log.warning("%s: a stored hash of %r cannot be computed: %s", self.name, username, failure)
            return False
        return hmac.compare_digest(computed, tag)

    def _create(self, password: str, username: str) -> HashedPassword:
        digest = argon2.low_level.hash_secret(
            secret=password.encode(),
            salt=secrets.token_bytes(16),
            memory_cost=65_536,
            time_cost=2,
            parallelism=1,
            hash_len=32,
            type=argon2.low_level.Type.I,
        )
        return HashedPassword(digest.decode())

    @staticmethod
    def _check_costs(memory: int, passes: int, lanes: int) -> None:
        if memory > MAX_ARGON2_MEMORY:
            raise CostTooHigh(f"argon2 memory of {memory} KiB is above {MAX_ARGON2_MEMORY} KiB")
        if memory * passes > MAX_ARGON2_WORK:
            raise CostTooHigh(f"argon2 with {passes} passes over {memory} KiB takes too long")
        if lanes > MAX_ARGON2_LANES:
            raise CostTooHigh(f"argon2 with {lanes} lanes is above {MAX_ARGON2_LANES}")


# With AuthMe's default parameters: enough to verify anything, since costs are read from the stored hash.
HASHERS: dict[str, Hasher] = {
    hasher.name: hasher for hasher in (Sha256(), Bcrypt(), Bcrypt2y(), Pbkdf2(), Argon2(), SaltedSha512())
}


def find_hasher(name: str) -> Hasher | None:
    """The algorithm of AuthMe's name, in any case; None if we do not have it."""
    return HASHERS.get(name.upper())


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to a password. It is true in a condition exactly if the password was right."""

    algorithm: str | None  # that matched; None for a wrong password
    needs_rehash: bool = False  # a legacy algorithm matched: AuthMe would write a new hash now

    def __bool__(self) -> bool:
        return self.algorithm is not None


WRONG_PASSWORD = Verdict(algorithm=None)


class PasswordHasher:
    """AuthMe's password check: the configured algorithm first, then the legacy ones in their order."""

    def __init__(self, configured: Hasher, legacy: Sequence[Hasher] = ()) -> None:
        self._configured = configured
        self._legacy = tuple(hasher for hasher in legacy if hasher.name != configured.name)
        # Made here and not at its first use, so that the first unknown name takes no longer than the next.
        self._decoy = configured.hash(secrets.token_urlsafe(24), "")

    @property
    def algorithm(self) -> str:
        """The name of the configured algorithm, which `hash` uses."""
        return self._configured.name

    @property
    def algorithms(self) -> tuple[str, ...]:
        """The names of all whose hashes verify: the configured one first."""
        return (self._configured.name, *(hasher.name for hasher in self._legacy))

    @property
    def needs_salt_column(self) -> bool:
        """Whether new hashes come with a salt that has to be stored beside them."""
        return self._configured.needs_salt_column

    def hash(self, password: str, username: str) -> HashedPassword:
        """A new hash by the configured algorithm; raises `UnhashablePassword`."""
        return self._configured.hash(password, username)

    def verify(self, password: str, stored: HashedPassword, username: str) -> Verdict:
        """Which algorithm says yes, or `WRONG_PASSWORD`."""
        if self._configured.verify(password, stored, username):
            return Verdict(self._configured.name)
        for hasher in self._legacy:
            if hasher.verify(password, stored, username):
                return Verdict(hasher.name, needs_rehash=True)
        return WRONG_PASSWORD

    def verify_nobody(self, password: str, username: str) -> Verdict:
        """Always `WRONG_PASSWORD`, after the work of a wrong one: an unknown name must not answer sooner."""
        self.verify(password, self._decoy, username)
        return WRONG_PASSWORD


def make_password_hasher(config: HashingConfig) -> PasswordHasher:
    """The check AuthMe is configured to do; unavailable legacy ones stay out. Raises `UnusableHashing`."""
    configured = find_hasher(config.password_hash)
    if configured is None:
        raise UnusableHashing(f"passwordHash {config.password_hash} cannot be used; choose another, such as BCRYPT.")
    if configured.needs_salt_column and not config.has_salt_column:
        raise UnusableHashing(
            f"passwordHash {configured.name} keeps its salt in a column of its own, "
            "but mySQLColumnSalt is empty: nobody could log in. Name one or choose another algorithm."
        )
    legacy = []
    for name in config.legacy_hashes:
        hasher = find_hasher(name)
        if hasher is None:
            log.warning("legacyHashes: %s is not available here; its hashes do not verify", name)
        else:
            legacy.append(hasher)
    return PasswordHasher(configured.with_parameters(config), legacy)


def _hex(digest: str, text: str) -> str:
    return hashlib.new(digest, text.encode()).hexdigest()


def _is_same(computed: str, stored: str) -> bool:
    return hmac.compare_digest(computed.encode(), stored.encode())


def _rounds(text: str) -> int:
    """A stored iteration count, as Java reads a positive number."""
    if re.fullmatch(r"\+?[0-9]{1,19}", text) is None:
        raise ValueError("the number of rounds is not a number")
    rounds = int(text)
    if rounds > MAX_ROUNDS:
        raise CostTooHigh(f"{rounds} rounds are above {MAX_ROUNDS}")
    return rounds


def _unpadded_base64(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
