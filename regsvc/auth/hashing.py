"""Password hashing, off the event loop: with AuthMe's algorithms where AuthMe is used, otherwise with our own."""

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

from passlib.context import CryptContext

from plugin_bridge.hashers import HashedPassword, UnhashablePassword, find_hasher, is_hashable
from regsvc.config.live import LiveConfig
from regsvc.core.bounded_pool import BoundedPool


@dataclass(frozen=True)
class StoredPassword:
    """A hash with its salt (None where the hash contains it) and its algorithm."""

    hash: str = field(repr=False)
    salt: str | None = field(repr=False)
    algorithm: str | None
    """AuthMe's name of it, or PASSLIB; None for a hash from AuthMe's table: one of its configured algorithms."""


PASSLIB: Final = "PASSLIB"
"""Algorithm of passwords that AuthMe need not understand: argon2id, by passlib."""

# OWASP's smallest argon2id setting: memory is scarce beside a game server.
_OWN = CryptContext(
    schemes=["argon2"],
    argon2__type="ID",
    argon2__memory_cost=19456,
    argon2__time_cost=2,
    argon2__parallelism=1,
)
_NOBODYS: Final = "$argon2id$v=19$m=19456,t=2,p=1$ilEqpXSOEULIGcP4H4NQSg$5SICyB3GuxsWQOc4vGIQRanOtjLgxCx/D9iMSxrRA/I"
"""Hash of a forgotten password with these settings: to verify one for no user takes as long as for any."""


@dataclass(frozen=True)
class PasswordCheck:
    """Result of verifying a password; truthy if the password was correct."""

    is_correct: bool
    rehashed: StoredPassword | None = field(default=None, repr=False)
    """The password rehashed with AuthMe's configured algorithm, if the stored hash in AuthMe's table uses a legacy one,
    or if AuthMe does not verify the algorithm of a hash of ours.
    """

    def __bool__(self) -> bool:
        return self.is_correct


WRONG: Final = PasswordCheck(is_correct=False)


class HashPool(BoundedPool):
    """Threads that only hash passwords. 0 `threads`: all processors but one."""

    def __init__(self, threads: int, max_waiting: int) -> None:
        super().__init__("hash", threads or max(1, (os.cpu_count() or 2) - 1), max_waiting)


@dataclass(frozen=True)
class PasswordHashing:
    """Hashing of new passwords, and verification of stored ones.

    `hash` and `verify` block for as long as hashing takes; the event loop uses `hash_in_pool` and `verify_in_pool`.
    """

    live: LiveConfig
    """`live.authme.hasher` None: there is no AuthMe, and ours is the only algorithm."""
    pool: HashPool

    async def hash_in_pool(self, password: str, username: str) -> StoredPassword:
        """Return `hash` from a thread of the pool. Raises `Overloaded`."""
        return await self.pool.run(self.hash, password, username)

    def reserve(self) -> AbstractContextManager[None]:
        """Reserve a place for one `verify_in_pool`. Raises `Overloaded` when the queue is full."""
        return self.pool.reserve()

    async def verify_in_pool(self, password: str, stored: StoredPassword | None, username: str) -> PasswordCheck:
        """Return `verify` from a thread of the pool, inside a `reserve` block."""
        return await self.pool.run_reserved(self.verify, password, stored, username)

    def hash(self, password: str, username: str) -> StoredPassword:
        """Hash a new password with AuthMe's configured algorithm. It must be hashable, as `CredentialRules` checks."""
        authme = self.live.authme.hasher
        if authme is None:
            return StoredPassword(_OWN.hash(password), None, PASSLIB)
        hashed = authme.configured.hash(password, username)
        return StoredPassword(hashed.hash, hashed.salt, authme.configured.name)

    def verify(self, password: str, stored: StoredPassword | None, username: str) -> PasswordCheck:
        """Verify a password. None stored (no such user): `WRONG`, after the same work as for a wrong password."""
        if not is_hashable(password):
            return WRONG
        if stored is None:
            return self._verify_dummy(password, username)
        hashed = HashedPassword(stored.hash, stored.salt)
        if stored.algorithm is None:
            return self._verify_players(password, hashed, username)
        if stored.algorithm == PASSLIB:
            is_correct = bool(_OWN.verify(password, stored.hash))
        else:
            hasher = find_hasher(stored.algorithm)
            is_correct = hasher is not None and hasher.verify(password, hashed, username)
        return PasswordCheck(is_correct, self._replace(password, stored.algorithm, username) if is_correct else None)

    def _replace(self, password: str, algorithm: str, username: str) -> StoredPassword | None:
        """Return the password hashed anew, or None if it can stay as it is or cannot be hashed."""
        if algorithm in (self.live.authme.algorithms or (PASSLIB,)):
            return None
        try:
            return self.hash(password, username)
        except UnhashablePassword:
            return None

    def _verify_players(self, password: str, hashed: HashedPassword, username: str) -> PasswordCheck:
        """Verify a hash from AuthMe's table, as AuthMe would."""
        authme = self.live.authme.hasher
        if authme is None:  # it was turned off
            return self._verify_dummy(password, username)
        verdict = authme.verify(password, hashed, username)
        again = authme.rehash(password, verdict, username)
        rehashed = StoredPassword(again.hash, again.salt, authme.configured.name) if again else None
        return PasswordCheck(bool(verdict), rehashed)

    def _verify_dummy(self, password: str, username: str) -> PasswordCheck:
        authme = self.live.authme.hasher
        if authme is not None:
            authme.verify_dummy(password, username)
        else:
            _OWN.verify(password, _NOBODYS)
        return WRONG
