"""phpass, PHP's "portable" hash, and the two forums that use it: thousands of rounds of MD5.

The form is `$P$` or `$H$`, a letter for the number of rounds, eight characters of salt, 22 of the digest.
"""

import hashlib
import re
from typing import Final

from passlib.utils.binary import HASH64_CHARS, h64

from plugin_bridge.hashers.bcrypts import create_bcrypt, verify_bcrypt
from plugin_bridge.hashers.digests import is_same, random_text
from plugin_bridge.hashers.hasher import CostTooHigh, HashedPassword, Hasher

_LENGTH = 34
_MD5_BLOCK = 64  # bytes; each round hashes the whole password again
_MIN_POWER = 7  # powers of two
_MAX_POWER = 30
_MAX_ROUNDS = 1 << 20  # half a second, in which other threads of Python get every second turn at best
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
    if rounds > _MAX_ROUNDS:
        raise CostTooHigh(f"{rounds} rounds are above {_MAX_ROUNDS}")
    if rounds * (1 + len(secret) // _MD5_BLOCK) > _MAX_ROUNDS:
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
