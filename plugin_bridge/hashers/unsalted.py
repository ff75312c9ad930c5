"""Digests without a random salt: the same password, or the same name and password, has the same hash everywhere.

AuthMe advises against all of them. It creates new ones only where a host configured so, and none of the plain
ones.
"""

import hashlib
import secrets
import string
from abc import abstractmethod

from plugin_bridge.hashers.hasher import HashedPassword, Hasher
from plugin_bridge.hashers.hex_digests import is_same, md5, sha1, sha512
from plugin_bridge.hashers.whirlpool import whirlpool


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
