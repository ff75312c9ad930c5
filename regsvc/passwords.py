"""Hashes and verifies passwords: with AuthMe's algorithms where there is an AuthMe, else with our own; off the loop."""

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

from passlib.context import CryptContext

from plugin_bridge.hashers import HashedPassword, PasswordHasher, find_hasher, is_hashable
from regsvc.errors import Overloaded
from regsvc.sync.records import StoredPassword

P = ParamSpec("P")
T = TypeVar("T")

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


class Passwords:
    """Hashes new passwords and verifies stored ones. Every call takes as long as hashing takes: use `HashPool`."""

    def __init__(self, authme: PasswordHasher | None) -> None:
        """`authme` None: there is no AuthMe, and ours is the only algorithm."""
        self._authme = authme
        self._decoy = None if authme else _OWN.hash("nobody has this password")

    def hash(self, password: str, username: str) -> StoredPassword:
        """A new password, in the algorithm AuthMe is configured with. It must be hashable: the rules see to it."""
        if self._authme is None:
            return StoredPassword(_OWN.hash(password), None, PASSLIB)
        hashed = self._authme.hash(password, username)
        return StoredPassword(hashed.hash, hashed.salt, self._authme.algorithm)

    def verify(self, password: str, stored: StoredPassword | None, username: str) -> bool:
        """Whether the password is right. None stored (no such user): False, after the work of a wrong password."""
        if not is_hashable(password):
            return False
        if stored is None:
            return self._verify_nobody(password, username)
        if stored.algorithm == PASSLIB:
            return bool(_OWN.verify(password, stored.hash))
        hashed = HashedPassword(stored.hash, stored.salt)
        if stored.algorithm is not None:
            hasher = find_hasher(stored.algorithm)
            return hasher is not None and hasher.verify(password, hashed, username)
        return self._authme is not None and bool(self._authme.verify(password, hashed, username))

    def _verify_nobody(self, password: str, username: str) -> bool:
        if self._authme is not None:
            self._authme.verify_nobody(password, username)
        else:
            _OWN.verify(password, self._decoy)
        return False


class HashPool:
    """A few threads that do nothing but hash, with a queue of bounded length before them."""

    def __init__(self, threads: int, max_waiting: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="hash")
        self._count = threads
        self._max_under_way = threads + max_waiting
        self._under_way = 0
        self.refused = 0
        """How often there was no room."""

    @property
    def running(self) -> int:
        """How many are being hashed now."""
        return min(self._under_way, self._count)

    @property
    def waiting(self) -> int:
        """How many wait for a thread."""
        return self._under_way - self.running

    def require_room(self) -> None:
        """Raises `Overloaded` when too much waits already."""
        if self._under_way >= self._max_under_way:
            self.refused += 1
            raise Overloaded(retry_after=1)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `work` returns. Raises `Overloaded` at once when too much waits already."""
        self.require_room()
        self._under_way += 1
        try:
            call = functools.partial(work, *args, **kwargs)
            return await asyncio.get_running_loop().run_in_executor(self._threads, call)
        finally:
            self._under_way -= 1

    def close(self) -> None:
        """Let what runs end; what waits is not begun any more."""
        self._threads.shutdown(wait=True, cancel_futures=True)
