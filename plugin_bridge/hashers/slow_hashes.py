"""Slow hash functions of AuthMe: bcrypt, PBKDF2, argon2i and phpass."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import argon2.low_level
import bcrypt
from argon2.exceptions import HashingError
from passlib.utils.binary import HASH64_CHARS, h64

from plugin_bridge.hashers.digests import is_same, random_text
from plugin_bridge.hashers.hasher import CostTooHigh, HashedPassword, Hasher, HashingConfig, UnusableAlgorithm

# --- The bcrypt family ---
# The bcrypt family: one hash function with several prefixes, which AuthMe distinguishes only when it writes.


MAX_COST = 16

_MAX_BCRYPT_COST = 31

_FORM = re.compile(r"\$2[abxy]\$([0-9]{2})\$[./A-Za-z0-9]{53}")

_WBB4_FORM = re.compile(r"\$2a\$08\$[./A-Za-z0-9]{53}")

_SALT_LENGTH = 29  # with prefix and cost

_SIGNIFICANT_BYTES = 72  # bcrypt ignores the rest, even if that splits a character


def verify_bcrypt(password: str, text: str) -> bool:
    """Return whether the password matches a hash of prefix 2a, 2b, 2x or 2y and any cost. Raises `CostTooHigh`."""
    form = _FORM.fullmatch(text)
    if form is None:
        return False
    cost = int(form[1])
    if MAX_COST < cost <= _MAX_BCRYPT_COST:
        raise CostTooHigh(f"bcrypt cost {cost} is above {MAX_COST}")
    return bcrypt.checkpw(_secret(password), text.encode())


def create_bcrypt(password: str, version: str, cost: int) -> str:
    """Create a hash; `version` is its prefix, such as `$2y$`."""
    digest = bcrypt.hashpw(_secret(password), bcrypt.gensalt(cost, prefix=b"2a")).decode()
    return version + digest[4:]  # the library does not write 2y, which is the same function as 2a


def _secret(password: str) -> bytes:
    return password.encode()[:_SIGNIFICANT_BYTES]


def bcrypt_hasher(name: str, cost: int, version: str = "$2a$", **traits: Any) -> Hasher:
    """Return an algorithm that verifies every bcrypt hash, and writes this version with this cost."""

    def create(password: str, username: str) -> HashedPassword:
        text = create_bcrypt(password, version, cost)
        return HashedPassword(text, text[7:_SALT_LENGTH] if traits.get("needs_salt_column") else None)

    return Hasher(name, lambda password, stored, _username: verify_bcrypt(password, stored.hash), create, **traits)


def _with_configured_cost(config: HashingConfig) -> Hasher:
    cost = config.bcrypt_log2_rounds
    if not 4 <= cost <= MAX_COST:
        raise UnusableAlgorithm(f"ExternalBoardOptions.bCryptLog2Round is {cost}; it must be between 4 and {MAX_COST}.")
    return bcrypt_hasher("BCRYPT", cost)


def _require_own_table(config: HashingConfig) -> Hasher:
    """Return XFBCRYPT; on MySQL and MariaDB AuthMe reads XenForo's own hash from another table instead."""
    if config.has_forum_extension:
        raise UnusableAlgorithm(
            "settings.security.passwordHash is XFBCRYPT: on MySQL and MariaDB AuthMe replaces the hash in its "
            "table by XenForo's own at every login, so that locks would keep no banned, rejected or pending player "
            "out of the game; give AuthMe a table of its own and another algorithm, such as BCRYPT."
        )
    return _XFBCRYPT


_XFBCRYPT: Final = bcrypt_hasher("XFBCRYPT", 10, uses_forum_table=True, configure=_require_own_table)


def _wbb4() -> Hasher:
    """Return bcrypt(bcrypt(password, salt), salt), as WoltLab Burning Board 4 does: `$2a$08$` and nothing else."""

    def text(password: str, salt: bytes) -> str:
        return bcrypt.hashpw(bcrypt.hashpw(_secret(password), salt), salt).decode()

    def matches(password: str, stored: HashedPassword, username: str) -> bool:
        if _WBB4_FORM.fullmatch(stored.hash) is None:
            return False
        return is_same(text(password, stored.hash[:_SALT_LENGTH].encode()), stored.hash)

    return Hasher(
        "WBB4", matches, lambda password, _username: HashedPassword(text(password, bcrypt.gensalt(8, prefix=b"2a")))
    )


BCRYPTS: Final = (
    bcrypt_hasher("BCRYPT", 12, configure=_with_configured_cost),
    bcrypt_hasher("BCRYPT2Y", 10, "$2y$"),  # as PHP writes it
    _XFBCRYPT,  # XenForo
    # Invision Power Board 4: the salt's 22 characters also in a column of their own, which is not used, but where it is
    # NULL no password verifies
    bcrypt_hasher("IPB4", 13, needs_salt_column=True, uses_forum_table=True),
    _wbb4(),
)


# --- PBKDF2 with HMAC-SHA256, in the three forms that AuthMe knows: tag `$` rounds `$` salt `$` key ---
# They differ in the encoding of salt and key. The tag is ignored; the length of the stored key is the length to derive.


_MAX_ROUNDS = 5_000_000  # about two seconds for the longest key that AuthMe writes

_DIGEST_BYTES = 32  # of SHA-256

_USUAL_DIGESTS = 2  # in the longest key that AuthMe writes

_NUMBER = re.compile(r"[0-9]{1,255}")

_IGNORED_IN_HEX = str.maketrans("", "", " \t\r\n")  # by the library that AuthMe 6 decodes hex with, wherever it is

_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?")


def _split(text: str) -> tuple[int, str, str]:
    """Split a stored text into rounds, and salt and key in their stored encoding.

    Raises ValueError for another form, `CostTooHigh` for too many rounds.
    """
    parts = text.rstrip("$").split("$")  # AuthMe's Java drops empty parts at the end
    if len(parts) != 4 or _NUMBER.fullmatch(parts[1]) is None or int(parts[1]) == 0:
        raise ValueError("this is not tag, rounds, salt and key")
    rounds = int(parts[1])
    if rounds > _MAX_ROUNDS:
        raise CostTooHigh(f"{rounds} rounds are above {_MAX_ROUNDS}")
    return rounds, parts[2], parts[3]


def _is_key(secret: bytes, salt: bytes, rounds: int, key: bytes) -> bool:
    """Compare with the derived key. Raises `CostTooHigh`: every 32 bytes of the stored key's length cost all rounds."""
    if rounds * -(-len(key) // _DIGEST_BYTES) > _MAX_ROUNDS * _USUAL_DIGESTS:
        raise CostTooHigh(f"{rounds} rounds for a key of {len(key)} bytes take too long")
    return hmac.compare_digest(hashlib.pbkdf2_hmac("sha256", secret, salt, rounds, len(key)), key)


def _decode_base64(text: str) -> bytes:
    """Decode as Java does: all of the padding may be missing, and no other deviation is tolerated."""
    if _BASE64.fullmatch(text) is None:
        raise ValueError("this is not base64")
    bare = text.rstrip("=")
    return base64.b64decode(bare + "=" * (-len(bare) % 4))


def _encode_base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _configured_rounds(config: HashingConfig, default: int) -> int:
    """Return the configured rounds; 0 or less means `default`. Raises `UnusableAlgorithm`."""
    rounds = config.pbkdf2_rounds
    if rounds > _MAX_ROUNDS:
        raise UnusableAlgorithm(f"settings.security.pbkdf2Rounds is {rounds}; the maximum is {_MAX_ROUNDS}.")
    return rounds if rounds > 0 else default


def pbkdf2(rounds: int = 10_000) -> Hasher:
    """Return `pbkdf2_sha256$` rounds `$` salt `$` key: the salt is used as text, the key (64 bytes) is hex."""

    def matches(password: str, stored: HashedPassword, username: str) -> bool:
        stored_rounds, salt, key = _split(stored.hash)
        raw = binascii.unhexlify(key.translate(_IGNORED_IN_HEX))
        return _is_key(password.encode(), salt.encode(), stored_rounds, raw)

    def create(password: str, username: str) -> HashedPassword:
        salt = secrets.token_hex(8)
        key = hashlib.pbkdf2_hmac("sha256", password.encode(), salt.encode(), rounds, 64)
        return HashedPassword(f"pbkdf2_sha256${rounds}${salt}${key.hex().upper()}")

    return Hasher("PBKDF2", matches, create, lambda config: pbkdf2(_configured_rounds(config, 10_000)))


def pbkdf2_base64(rounds: int = 120_000) -> Hasher:
    """Return `pbkdf2$` rounds `$` salt `$` key: salt (16 bytes) and key (32 bytes) are base64; new in AuthMe 6."""

    def matches(password: str, stored: HashedPassword, username: str) -> bool:
        stored_rounds, salt, key = _split(stored.hash)
        return _is_key(password.encode(), _decode_base64(salt), stored_rounds, _decode_base64(key))

    def create(password: str, username: str) -> HashedPassword:
        salt = secrets.token_bytes(16)
        key = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, rounds, _DIGEST_BYTES)
        return HashedPassword(f"pbkdf2${rounds}${_encode_base64(salt)}${_encode_base64(key)}")

    return Hasher("PBKDF2BASE64", matches, create, lambda config: pbkdf2_base64(_configured_rounds(config, 120_000)))


def _django() -> Hasher:
    """Return `pbkdf2_sha256$` rounds `$` salt `$` key: the salt is used as text, the key is base64, always 32 bytes.

    The password is encoded as ASCII with a question mark for every other character, which Django itself does not do.
    """
    rounds = 24_000

    def matches(password: str, stored: HashedPassword, username: str) -> bool:
        stored_rounds, salt, key = _split(stored.hash)
        raw = _decode_base64(key)
        secret = password.encode("ascii", "replace")
        return len(raw) == _DIGEST_BYTES and _is_key(secret, salt.encode(), stored_rounds, raw)

    def create(password: str, username: str) -> HashedPassword:
        salt = secrets.token_hex(6)
        key = hashlib.pbkdf2_hmac("sha256", password.encode(), salt.encode(), rounds, _DIGEST_BYTES)
        return HashedPassword(f"pbkdf2_sha256${rounds}${salt}${_encode_base64(key)}")

    return Hasher("PBKDF2DJANGO", matches, create, is_ascii_only=True)


PBKDF2: Final = (pbkdf2(), pbkdf2_base64(), _django())


# --- argon2i, the only kind of argon2 that AuthMe verifies ---


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
_ARGON2_FORM = re.compile(
    r"\$argon2i\$v=[^$]*\$([mtp]=[0-9]{1,10}(?:,[mtp]=[0-9]{1,10}){2})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)"
)


def _matches(password: str, stored: HashedPassword, username: str) -> bool:
    form = _ARGON2_FORM.fullmatch(stored.hash)
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


# --- phpass, PHP's "portable" hash, and the two forums that use it: thousands of rounds of MD5 ---
# The form is `$P$` or `$H$`, a letter for the number of rounds, eight characters of salt, 22 of the digest.


_LENGTH = 34

_MD5_BLOCK = 64  # bytes; each round hashes the whole password again

_MIN_POWER = 7  # powers of two

_MAX_POWER = 30

_MAX_DOUBLINGS = 1 << 20  # half a second, in which other threads of Python get every second turn at best

_BCRYPT_FORM = re.compile(r"\$2.{58}", re.DOTALL)


def _matches_wordpress(password: str, stored: HashedPassword, username: str) -> bool:
    text = stored.hash
    if len(text) != _LENGTH or text[:3] not in ("$P$", "$H$"):
        return False
    return is_same(_phpass(password.encode(), text[:12], text[4:12].encode()), text)


def _create_wordpress(password: str, username: str) -> HashedPassword:
    salt = random_text(HASH64_CHARS, 8)
    return HashedPassword(_phpass(password.encode(), f"$P$B{salt}", salt.encode()))


def phpbb(cost: int = 10) -> Hasher:
    """Return the algorithms that phpBB has used over time: md5, phpass as `$H$`, and bcrypt as `$2y$`, for new hashes.

    For the first two the password is encoded as Latin-1, with a question mark for every other character.
    """

    def matches(password: str, stored: HashedPassword, username: str) -> bool:
        text = stored.hash
        if _BCRYPT_FORM.fullmatch(text):
            return verify_bcrypt(password, text)
        latin = password.encode("latin-1", "replace")
        if len(text) != _LENGTH:
            return is_same(hashlib.md5(latin, usedforsecurity=False).hexdigest(), text)
        salt = text[4:12].encode("latin-1", "replace")
        return text.startswith("$H$") and is_same(_phpass(latin, text[:12], salt), text)

    def create(password: str, username: str) -> HashedPassword:
        return HashedPassword(create_bcrypt(password, "$2y$", cost))

    return Hasher("PHPBB", matches, create, uses_forum_table=True)


def _phpass(secret: bytes, setting: str, salt: bytes) -> str:
    """Return the whole text for its first twelve characters. Raises ValueError for an impossible number of rounds."""
    power = HASH64_CHARS.index(setting[3])
    if not _MIN_POWER <= power <= _MAX_POWER:
        raise ValueError("phpass does not allow this number of rounds")
    rounds = 1 << power
    if rounds > _MAX_DOUBLINGS:
        raise CostTooHigh(f"{rounds} rounds are above {_MAX_DOUBLINGS}")
    if rounds * (1 + len(secret) // _MD5_BLOCK) > _MAX_DOUBLINGS:
        raise CostTooHigh(f"{rounds} rounds over a password of {len(secret)} bytes take too long")
    md5 = hashlib.md5
    digest = md5(salt + secret, usedforsecurity=False).digest()
    for _round in range(rounds):
        digest = md5(digest + secret, usedforsecurity=False).digest()
    encoded: bytes = h64.encode_bytes(digest)  # type: ignore[no-untyped-call]
    return setting + encoded.decode()


PHPASS: Final = (
    # the UTF-8 password, written as `$P$` with 8192 rounds; WordPress 6.8's own bcrypt is not supported
    Hasher("WORDPRESS", _matches_wordpress, _create_wordpress, uses_forum_table=True),
    phpbb(),
)
