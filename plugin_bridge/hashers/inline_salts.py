"""Digests that carry their salt in the same text. The whole text is computed again and compared to the letter."""

import secrets

from plugin_bridge.hashers.digests import is_same, md5, sha256
from plugin_bridge.hashers.hasher import HashedPassword, Hasher


class Sha256(Hasher):
    """`$SHA$` salt `$` sha256(sha256(password) + salt), AuthMe's default. The salt may be any text without a `$`."""

    name = "SHA256"

    def _matches(self, password: str, stored: HashedPassword, username: str) -> bool:
        parts = stored.hash.split("$")
        return len(parts) == 4 and is_same(self._text(password, parts[2]), stored.hash)

    def _create(self, password: str, username: str) -> HashedPassword:
        return HashedPassword(self._text(password, secrets.token_hex(8)))

    @staticmethod
    def _text(password: str, salt: str) -> str:
        return f"$SHA${salt}${sha256(sha256(password) + salt)}"


class Md5Vb(Hasher):
    """`$MD5vb$` salt `$` md5(md5(password) + salt), as vBulletin does. The salt may be any text without a `$`."""

    name = "MD5VB"

    def _matches(self, password: str, stored: HashedPassword, username: str) -> bool:
        parts = stored.hash.split("$")
        return len(parts) == 4 and is_same(self._text(password, parts[2]), stored.hash)

    def _create(self, password: str, username: str) -> HashedPassword:
        return HashedPassword(self._text(password, secrets.token_hex(8)))

    @staticmethod
    def _text(password: str, salt: str) -> str:
        return f"$MD5vb${salt}${md5(md5(password) + salt)}"


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
