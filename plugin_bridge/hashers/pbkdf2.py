"""PBKDF2 with HMAC-SHA256, in the three forms that AuthMe knows: tag `$` rounds `$` salt `$` key.

They differ in the encoding of salt and key. The tag is ignored; the length of the stored key is the length to derive.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from typing import Final

from plugin_bridge.hashers.hasher import (
    CostTooHigh,
    HashedPassword,
    Hasher,
    HashingConfig,
    UnusableAlgorithm,
)

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
