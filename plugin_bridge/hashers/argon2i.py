"""argon2i, the only kind of argon2 that AuthMe verifies."""

import base64
import hmac
import logging
import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import argon2.low_level
from argon2.exceptions import HashingError

from plugin_bridge.hashers.hasher import CostTooHigh, HashedPassword, Hasher

log = logging.getLogger(__name__)

MAX_MEMORY = 128 * 1024  # KiB; also of all hashes that are computed at a time
MAX_WORK = 16 * MAX_MEMORY  # KiB written over all passes: about two seconds
MIN_MEMORY = 8  # KiB, argon2's own minimum: a smaller value does not allow more passes
MAX_LANES = 64  # each lane is a thread
_USUAL_MEMORY = 64 * 1024  # of the hashes that AuthMe writes


class _SharedMemory:
    """Memory that the hashes computed at a time share; others wait for it."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._changed = threading.Condition()

    @contextmanager
    def reserve(self, size: int) -> Iterator[None]:
        """Reserve so many KiB, at most `MAX_MEMORY`, once they are free."""
        with self._changed:
            self._changed.wait_for(lambda: size <= self._free)
            self._free -= size
        try:
            yield
        finally:
            with self._changed:
                self._free += size
                self._changed.notify_all()


_MEMORY: Final = _SharedMemory(MAX_MEMORY)


# argon2id and argon2d never verify, and any version is treated as 19, as in AuthMe
_FORM = re.compile(
    r"\$argon2i\$v=[^$]*\$([mtp]=[0-9]{1,10}(?:,[mtp]=[0-9]{1,10}){2})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)"
)


def _matches(password: str, stored: HashedPassword, username: str) -> bool:
    form = _FORM.fullmatch(stored.hash)
    if form is None:
        return False
    costs = {key: int(value) for key, value in (pair.split("=") for pair in form[1].split(","))}
    if len(costs) != 3:
        return False
    _check_costs(costs["m"], costs["t"], costs["p"])
    tag = _unpadded_base64(form[3])
    try:
        with _MEMORY.reserve(costs["m"]):
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
        log.warning("ARGON2: a stored hash of %r cannot be computed: %s", username, failure)
        return False
    return hmac.compare_digest(computed, tag)


def _create(password: str, username: str) -> HashedPassword:
    with _MEMORY.reserve(_USUAL_MEMORY):
        digest = argon2.low_level.hash_secret(
            secret=password.encode(),
            salt=secrets.token_bytes(16),
            memory_cost=_USUAL_MEMORY,
            time_cost=2,
            parallelism=1,
            hash_len=32,
            type=argon2.low_level.Type.I,
        )
    return HashedPassword(digest.decode())


def _check_costs(memory: int, passes: int, lanes: int) -> None:
    if memory > MAX_MEMORY:
        raise CostTooHigh(f"argon2 memory of {memory} KiB is above {MAX_MEMORY} KiB")
    if max(memory, MIN_MEMORY) * passes > MAX_WORK:
        raise CostTooHigh(f"argon2 with {passes} passes over {memory} KiB takes too long")
    if lanes > MAX_LANES:
        raise CostTooHigh(f"argon2 with {lanes} lanes is above {MAX_LANES}")


def _unpadded_base64(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)


ARGON2: Final = Hasher("ARGON2", _matches, _create)
