"""Algorithms whose salt is in a column of its own. Most come from a forum's table of users."""

import hashlib
import hmac
import secrets
import string
from abc import abstractmethod

from plugin_bridge.hashers.hasher import MAX_STORED_CHARACTERS, HashedPassword, Hasher, HashingConfig, UnusableAlgorithm
from plugin_bridge.hashers.hex_digests import is_same, md5, sha1, sha256, sha512

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
