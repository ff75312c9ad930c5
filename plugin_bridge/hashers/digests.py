"""Digests: without a salt, with one inside the hash, or with one in a column of its own.

AuthMe advises against those without a random salt, and creates none of the plain ones.
"""

import hashlib
import hmac
import secrets
import string
from abc import abstractmethod
from typing import ClassVar

from plugin_bridge.hashers.hasher import MAX_STORED_CHARACTERS, HashedPassword, Hasher, HashingConfig, UnusableAlgorithm
from plugin_bridge.hashers.whirlpool import whirlpool


def md5(text: str) -> str:
    """Return the MD5 of a text, 32 hex digits."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def sha1(text: str) -> str:
    """Return the SHA-1 of a text, 40 hex digits."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def sha256(text: str) -> str:
    """Return the SHA-256 of a text, 64 hex digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def sha512(text: str) -> str:
    """Return the SHA-512 of a text, 128 hex digits."""
    return hashlib.sha512(text.encode()).hexdigest()


def is_same(computed: str, stored: str) -> bool:
    """Compare two texts exactly, in a time that does not reveal where they differ."""
    return hmac.compare_digest(computed.encode(), stored.encode())


class Unsalted(Hasher):
    """A digest of the password, or of name and password."""

    def _matches(self, password: str, stored: HashedPassword, username: str) -> bool:
        return is_same(self._digest(password, username), stored.hash)

    def _create(self, password: str, username: str) -> HashedPassword:
        return HashedPassword(self._digest(password, username))

    @abstractmethod
    def _digest(self, password: str, username: str) -> str: ...


class Md5(Unsalted):
    """md5(password)."""

    name = "MD5"
    is_deprecated = True

    def _digest(self, password: str, username: str) -> str:
        return md5(password)


class DoubleMd5(Unsalted):
    """md5(md5(password))."""

    name = "DOUBLEMD5"
    is_deprecated = True

    def _digest(self, password: str, username: str) -> str:
        return md5(md5(password))


class Sha1(Unsalted):
    """sha1(password)."""

    name = "SHA1"
    is_deprecated = True

    def _digest(self, password: str, username: str) -> str:
        return sha1(password)


class Sha512(Unsalted):
    """sha512(password)."""

    name = "SHA512"
    is_deprecated = True

    def _digest(self, password: str, username: str) -> str:
        return sha512(password)


class Whirlpool(Unsalted):
    """Whirlpool of the password in upper-case hex. AuthMe 5.7 and newer do not know it; AuthMeReReloaded does."""

    name = "WHIRLPOOL"
    is_deprecated = True

    def _digest(self, password: str, username: str) -> str:
        return whirlpool(password).upper()


class Cmw(Unsalted):
    """md5(sha1(password)), as CraftMyWebsite does."""

    name = "CMW"

    def _digest(self, password: str, username: str) -> str:
        return md5(sha1(password))


class RoyalAuth(Unsalted):
    """sha512, 25 times, each time of the previous hex text."""

    name = "ROYALAUTH"

    def _digest(self, password: str, username: str) -> str:
        text = password
        for _round in range(25):
            text = sha512(text)
        return text


class Smf(Unsalted):
    """sha1(username + password), as Simple Machines Forum does.

    There is a salt column as well; it is not used, but where it is NULL no password verifies.
    """

    name = "SMF"
    needs_salt_column = True
    _SALT_CHARACTERS = string.digits + string.ascii_lowercase

    def _create(self, password: str, username: str) -> HashedPassword:
        salt = "".join(secrets.choice(self._SALT_CHARACTERS) for _number in range(4))
        return HashedPassword(self._digest(password, username), salt)

    def _digest(self, password: str, username: str) -> str:
        return sha1(username + password)


class CrazyCrypt1(Unsalted):
    """sha512 of name and password in a fixed phrase, as CrazyLogin did.

    The digest covers only as many bytes of the UTF-8 as the text has UTF-16 units, so that a few at the end are cut.
    """

    name = "CRAZYCRYPT1"

    def _digest(self, password: str, username: str) -> str:
        text = f"ÜÄaeut//&/=I {password}7421€547{username}__+IÄIH§%NK {password}"
        utf16_units = len(text.encode("utf-16-le")) // 2
        return hashlib.sha512(text.encode()[:utf16_units]).hexdigest()


_LETTERS_AND_DIGITS = string.digits + string.ascii_letters


class SeparatelySalted(Hasher):
    """A digest of password and salt. The salt is used as text, exactly; it may be empty, but not missing."""

    needs_salt_column = True

    def _matches(self, password: str, stored: HashedPassword, username: str) -> bool:
        return is_same(self._digest(password, stored.salt or ""), stored.hash)

    def _create(self, password: str, username: str) -> HashedPassword:
        salt = self._new_salt()
        return HashedPassword(self._digest(password, salt), salt)

    @abstractmethod
    def _digest(self, password: str, salt: str) -> str: ...

    @abstractmethod
    def _new_salt(self) -> str: ...


class SaltedSha512(SeparatelySalted):
    """sha512(password + salt)."""

    name = "SALTEDSHA512"

    def _digest(self, password: str, salt: str) -> str:
        return sha512(password + salt)

    def _new_salt(self) -> str:
        return secrets.token_hex(16)


class SaltedSha256(SeparatelySalted):
    """sha256(password + salt); new in AuthMe 6."""

    name = "SALTEDSHA256"

    def _digest(self, password: str, salt: str) -> str:
        return sha256(password + salt)

    def _new_salt(self) -> str:
        return secrets.token_hex(16)


class DoubleSha512(SeparatelySalted):
    """sha512(sha512(password) + salt); new in AuthMe 6."""

    name = "DOUBLE_SHA512"

    def _digest(self, password: str, salt: str) -> str:
        return sha512(sha512(password) + salt)

    def _new_salt(self) -> str:
        return secrets.token_hex(16)


class Salted2Md5(SeparatelySalted):
    """md5(md5(password) + salt). `doubleMD5SaltLength` configures the length of new salts in hex digits."""

    name = "SALTED2MD5"

    def __init__(self, salt_length: int = 8) -> None:
        self._salt_length = salt_length

    def with_parameters(self, config: HashingConfig) -> Hasher:
        length = config.double_md5_salt_length
        if not 0 <= length <= MAX_STORED_CHARACTERS:
            raise UnusableAlgorithm(
                f"settings.security.doubleMD5SaltLength is {length}; it must be between 0 and {MAX_STORED_CHARACTERS}."
            )
        return Salted2Md5(length)

    def _digest(self, password: str, salt: str) -> str:
        return md5(md5(password) + salt)

    def _new_salt(self) -> str:
        return secrets.token_hex((self._salt_length + 1) // 2)[: self._salt_length]


class MyBb(SeparatelySalted):
    """md5(md5(salt) + md5(password)), as MyBB does; the salt is eight letters and digits."""

    name = "MYBB"

    def _digest(self, password: str, salt: str) -> str:
        return md5(md5(salt) + md5(password))

    def _new_salt(self) -> str:
        return "".join(secrets.choice(_LETTERS_AND_DIGITS) for _number in range(8))


class Ipb3(SeparatelySalted):
    """md5(md5(salt) + md5(password)), as Invision Power Board 3 does; the salt is five hex digits."""

    name = "IPB3"

    def _digest(self, password: str, salt: str) -> str:
        return md5(md5(salt) + md5(password))

    def _new_salt(self) -> str:
        return secrets.token_hex(3)[:5]


class Wbb3(SeparatelySalted):
    """sha1(salt + sha1(salt + sha1(password))), as WoltLab Burning Board 3 does."""

    name = "WBB3"

    def _digest(self, password: str, salt: str) -> str:
        return sha1(salt + sha1(salt + sha1(password)))

    def _new_salt(self) -> str:
        return secrets.token_hex(20)


class PhpFusion(SeparatelySalted):
    """HMAC-SHA256 of the password; the key is the hex text of sha1(salt).

    The password is encoded as ASCII with a question mark for every other character.
    """

    name = "PHPFUSION"
    is_ascii_only = True

    def _digest(self, password: str, salt: str) -> str:
        return hmac.new(sha1(salt).encode(), password.encode("ascii", "replace"), hashlib.sha256).hexdigest()

    def _new_salt(self) -> str:
        return secrets.token_hex(6)


class _Doubled(Hasher):
    """`$` mark `$` salt `$` digest(digest(password) + salt). The salt may be any text without a `$`."""

    _mark: ClassVar[str]

    @staticmethod
    @abstractmethod
    def _digest(text: str) -> str:
        """Return the digest in hexadecimal."""

    def _matches(self, password: str, stored: HashedPassword, username: str) -> bool:
        parts = stored.hash.split("$")
        return len(parts) == 4 and is_same(self._text(password, parts[2]), stored.hash)

    def _create(self, password: str, username: str) -> HashedPassword:
        return HashedPassword(self._text(password, secrets.token_hex(8)))

    def _text(self, password: str, salt: str) -> str:
        return f"${self._mark}${salt}${self._digest(self._digest(password) + salt)}"


class Sha256(_Doubled):
    """AuthMe's default algorithm."""

    name = "SHA256"
    _mark = "SHA"

    @staticmethod
    def _digest(text: str) -> str:
        return sha256(text)


class Md5Vb(_Doubled):
    """The variant of vBulletin."""

    name = "MD5VB"
    _mark = "MD5vb"

    @staticmethod
    def _digest(text: str) -> str:
        return md5(text)


class Joomla(Hasher):
    """md5(password + salt) `:` salt. The salt may be any text without a colon, but not empty."""

    name = "JOOMLA"

    def _matches(self, password: str, stored: HashedPassword, username: str) -> bool:
        parts = stored.hash.split(":")
        return len(parts) == 2 and parts[1] != "" and is_same(self._text(password, parts[1]), stored.hash)

    def _create(self, password: str, username: str) -> HashedPassword:
        return HashedPassword(self._text(password, secrets.token_hex(16)))

    @staticmethod
    def _text(password: str, salt: str) -> str:
        return f"{md5(password + salt)}:{salt}"


class XAuth(Hasher):
    """Whirlpool of salt + password, with the salt put into it as far from its beginning as the password is long.

    AuthMe 5.7 and newer do not know it; AuthMeReReloaded does. Of each character of the password only the low byte
    counts, so that Ł is the same as A. A password as long as the digest has no place for the salt, and never verifies.
    """

    name = "XAUTH"
    is_ascii_only = True
    max_characters = 127
    _SALT_CHARACTERS = 12

    def _matches(self, password: str, stored: HashedPassword, username: str) -> bool:
        at = len(password.encode("utf-16-le")) // 2  # as Java counts characters
        salt = stored.hash[at : at + self._SALT_CHARACTERS]
        return at <= self.max_characters and is_same(self._text(password, salt, at), stored.hash)

    def _create(self, password: str, username: str) -> HashedPassword:
        return HashedPassword(self._text(password, secrets.token_hex(self._SALT_CHARACTERS // 2), len(password)))

    @staticmethod
    def _text(password: str, salt: str, at: int) -> str:
        digest = whirlpool(salt + password)
        return digest[:at] + salt + digest[at:]
