"""phpass, PHP's "portable" hash, and the two forums that use it: MD5 thousands of times over.

The form is `$P$` or `$H$`, a letter for the number of rounds, eight characters of salt, 22 of the digest.
"""

import hashlib
import re
import secrets

from passlib.utils.binary import HASH64_CHARS, h64

from plugin_bridge.hashers.bcrypts import create_bcrypt, verify_bcrypt
from plugin_bridge.hashers.hasher import MAX_ROUNDS, CostTooHigh, HashedPassword, Hasher
from plugin_bridge.hashers.hex_digests import is_same

_LENGTH = 34
_MD5_BLOCK = 64  # bytes; each round hashes the whole password again
_FEWEST_ROUNDS = 7  # powers of two
_MOST_ROUNDS_THERE_ARE = 30
_BCRYPT_FORM = re.compile(r"\$2.{58}", re.DOTALL)


class WordPress(Hasher):
    """phpass of the UTF-8 password, written as `$P$` with 8192 rounds. WordPress 6.8's own bcrypt is another thing."""

    name = "WORDPRESS"
    uses_forum_table = True

    def _matches(self, password: str, stored: HashedPassword, username: str) -> bool:
        text = stored.hash
        if len(text) != _LENGTH or text[:3] not in ("$P$", "$H$"):
            return False
        return is_same(_phpass(password.encode(), text[:12], text[4:12].encode()), text)

    def _create(self, password: str, username: str) -> HashedPassword:
        salt = "".join(secrets.choice(HASH64_CHARS) for _number in range(8))
        return HashedPassword(_phpass(password.encode(), f"$P$B{salt}", salt.encode()))


class PhpBb(Hasher):
    """What phpBB has had one after the other: md5, phpass as `$H$`, and bcrypt, which is what is written: `$2y$`.

    For the first two the password counts as Latin-1, with a question mark for every other character.
    """

    name = "PHPBB"
    uses_forum_table = True

    def __init__(self, cost: int = 10) -> None:
        self._cost = cost

    def _matches(self, password: str, stored: HashedPassword, username: str) -> bool:
        text = stored.hash
        if _BCRYPT_FORM.fullmatch(text):
            return verify_bcrypt(password, text)
        latin = password.encode("latin-1", "replace")
        if len(text) != _LENGTH:
            return is_same(hashlib.md5(latin, usedforsecurity=False).hexdigest(), text)
        salt = text[4:12].encode("latin-1", "replace")
        return text.startswith("$H$") and is_same(_phpass(latin, text[:12], salt), text)

    def _create(self, password: str, username: str) -> HashedPassword:
        return HashedPassword(create_bcrypt(password, "$2y$", self._cost))


def _phpass(secret: bytes, setting: str, salt: bytes) -> str:
    """The whole text for the first twelve characters of it. Raises ValueError for a number of rounds there is not."""
    power = HASH64_CHARS.index(setting[3])
    if not _FEWEST_ROUNDS <= power <= _MOST_ROUNDS_THERE_ARE:
        raise ValueError("phpass has no such number of rounds")
    rounds = 1 << power
    if rounds > MAX_ROUNDS:
        raise CostTooHigh(f"{rounds} rounds are above {MAX_ROUNDS}")
    if rounds * (1 + len(secret) // _MD5_BLOCK) > MAX_ROUNDS:
        raise CostTooHigh(f"{rounds} rounds over a password of {len(secret)} bytes take too long")
    md5 = hashlib.md5
    digest = md5(salt + secret, usedforsecurity=False).digest()
    for _round in range(rounds):
        digest = md5(digest + secret, usedforsecurity=False).digest()
    encoded: bytes = h64.encode_bytes(digest)  # type: ignore[no-untyped-call]
    return setting + encoded.decode()
