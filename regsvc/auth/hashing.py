"""Hashes and verifies passwords: with AuthMe's algorithms where there is an AuthMe, else with our own; off the loop."""

from dataclasses import dataclass, field
from typing import Final

from passlib.context import CryptContext

from plugin_bridge.hashers import HashedPassword, PasswordHasher, find_hasher, is_hashable
from regsvc.core.bounded_pool import BoundedPool


@dataclass(frozen=True)
class StoredPassword:
    """A hash with its salt (None where the hash holds it) and the algorithm it was made with."""

    hash: str = field(repr=False)
    salt: str | None = field(repr=False)
    algorithm: str | None
    """AuthMe's name of it, or PASSLIB; None for a hash out of AuthMe's table: one of those it is configured with."""


PASSLIB: Final = "PASSLIB"
"""The algorithm of passwords that no AuthMe has to understand: argon2id, by passlib."""

# OWASP's smallest argon2id: this runs beside a game server, where memory is dear.
_OWN = CryptContext(
    schemes=["argon2"],
    argon2__type="ID",
    argon2__memory_cost=19456,
    argon2__time_cost=2,
    argon2__parallelism=1,
)


@dataclass(frozen=True)
class PasswordCheck:
    """The answer to a password. It is true in a condition exactly if the password was right."""

    is_correct: bool
    rehashed: StoredPassword | None = field(default=None, repr=False)
    """The same password in the algorithm AuthMe is configured with, where the stored hash is of a legacy one."""

    def __bool__(self) -> bool:
        return self.is_correct


WRONG: Final = PasswordCheck(is_correct=False)


class PasswordHashing:
    """Hashes new passwords and verifies stored ones. Every call takes as long as hashing takes: use `HashPool`."""

    def __init__(self, authme: PasswordHasher | None) -> None:
        """`authme` None: there is no AuthMe, and ours is the only algorithm."""
        self._authme = authme
        self._decoy = None if authme else _OWN.hash("nobody has this password")

    def replace_hasher(self, authme: PasswordHasher) -> None:
        """AuthMe is configured in another way from now on. Never where there was none: the decoy is ours then."""
        self._authme = authme

    def hash(self, password: str, username: str) -> StoredPassword:
        """A new password, in the algorithm AuthMe is configured with. It must be hashable: the rules see to it."""
        if self._authme is None:
            return StoredPassword(_OWN.hash(password), None, PASSLIB)
        hashed = self._authme.hash(password, username)
        return StoredPassword(hashed.hash, hashed.salt, self._authme.algorithm)

    def verify(self, password: str, stored: StoredPassword | None, username: str) -> PasswordCheck:
        """Whether the password is right. None stored (no such user): `WRONG`, after the work of a wrong password."""
        if not is_hashable(password):
            return WRONG
        if stored is None:
            return self._verify_dummy(password, username)
        if stored.algorithm == PASSLIB:
            return PasswordCheck(bool(_OWN.verify(password, stored.hash)))
        hashed = HashedPassword(stored.hash, stored.salt)
        if stored.algorithm is not None:
            hasher = find_hasher(stored.algorithm)
            return PasswordCheck(hasher is not None and hasher.verify(password, hashed, username))
        return self._verify_players(password, hashed, username)

    def _verify_players(self, password: str, hashed: HashedPassword, username: str) -> PasswordCheck:
        """A hash out of AuthMe's table, as AuthMe would."""
        if self._authme is None:
            return WRONG
        verdict = self._authme.verify(password, hashed, username)
        again = self._authme.rehash(password, verdict, username)
        rehashed = StoredPassword(again.hash, again.salt, self._authme.algorithm) if again else None
        return PasswordCheck(bool(verdict), rehashed)

    def _verify_dummy(self, password: str, username: str) -> PasswordCheck:
        if self._authme is not None:
            self._authme.verify_dummy(password, username)
        else:
            _OWN.verify(password, self._decoy)
        return WRONG


class HashPool(BoundedPool):
    """A few threads that do nothing but hash."""

    def __init__(self, threads: int, max_waiting: int) -> None:
        super().__init__("hash", threads, max_waiting)
