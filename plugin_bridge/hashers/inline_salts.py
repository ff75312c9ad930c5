"""Algorithms that store digest and salt in one text. The whole text is computed again and compared exactly."""

import secrets
from abc import abstractmethod
from typing import ClassVar

from plugin_bridge.hashers.hasher import HashedPassword, Hasher
from plugin_bridge.hashers.hex_digests import is_same, md5, sha256
from plugin_bridge.hashers.whirlpool import whirlpool


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
