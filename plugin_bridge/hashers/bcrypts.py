"""The bcrypt family: one hash function with several prefixes, which AuthMe distinguishes only when it writes."""

import re
from typing import ClassVar

import bcrypt

from plugin_bridge.hashers.digests import is_same
from plugin_bridge.hashers.hasher import CostTooHigh, HashedPassword, Hasher, HashingConfig, UnusableAlgorithm

MAX_COST = 16
_MAX_BCRYPT_COST = 31
_FORM = re.compile(r"\$2[abxy]\$([0-9]{2})\$[./A-Za-z0-9]{53}")
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


class Bcrypt(Hasher):
    """bcrypt, written as `$2a$`."""

    name = "BCRYPT"
    _version: ClassVar[str] = "$2a$"

    def __init__(self, cost: int = 12) -> None:
        self._cost = cost

    def with_parameters(self, config: HashingConfig) -> Hasher:
        cost = config.bcrypt_log2_rounds
        if not 4 <= cost <= MAX_COST:
            raise UnusableAlgorithm(
                f"ExternalBoardOptions.bCryptLog2Round is {cost}; it must be between 4 and {MAX_COST}."
            )
        return Bcrypt(cost)

    def _matches(self, password: str, stored: HashedPassword, username: str) -> bool:
        return verify_bcrypt(password, stored.hash)

    def _create(self, password: str, username: str) -> HashedPassword:
        return HashedPassword(create_bcrypt(password, self._version, self._cost))


class FixedCostBcrypt(Bcrypt):
    """bcrypt with a cost that cannot be configured."""

    def __init__(self, cost: int = 10) -> None:
        super().__init__(cost)

    def with_parameters(self, config: HashingConfig) -> Hasher:
        return self


class Bcrypt2y(FixedCostBcrypt):
    """bcrypt as PHP writes it: `$2y$`, cost 10."""

    name = "BCRYPT2Y"
    _version = "$2y$"


class XfBcrypt(FixedCostBcrypt):
    """bcrypt as XenForo writes it. On MySQL and MariaDB AuthMe reads XenForo's own hash from another table instead."""

    name = "XFBCRYPT"
    uses_forum_table = True

    def with_parameters(self, config: HashingConfig) -> Hasher:
        if config.has_forum_extension:
            raise UnusableAlgorithm(
                "settings.security.passwordHash is XFBCRYPT: on MySQL and MariaDB AuthMe replaces the hash in its "
                "table by XenForo's own at every login, so that locks would keep no banned, rejected or pending player "
                "out of the game; give AuthMe a table of its own and another algorithm, such as BCRYPT."
            )
        return self


class Ipb4(FixedCostBcrypt):
    """bcrypt as Invision Power Board 4 writes it: cost 13, the salt's 22 characters also in a column of their own.

    That column is not used, but where it is NULL no password verifies.
    """

    name = "IPB4"
    needs_salt_column = True
    uses_forum_table = True

    def __init__(self, cost: int = 13) -> None:
        super().__init__(cost)

    def _create(self, password: str, username: str) -> HashedPassword:
        text = create_bcrypt(password, self._version, self._cost)
        return HashedPassword(text, text[7:29])


class Wbb4(Hasher):
    """bcrypt(bcrypt(password, salt), salt), as WoltLab Burning Board 4 does: `$2a$08$` and nothing else."""

    name = "WBB4"
    _FORM = re.compile(r"\$2a\$08\$[./A-Za-z0-9]{53}")
    _SALT_LENGTH = 29  # with prefix and cost

    def _matches(self, password: str, stored: HashedPassword, username: str) -> bool:
        if self._FORM.fullmatch(stored.hash) is None:
            return False
        return is_same(self._text(password, stored.hash[: self._SALT_LENGTH].encode()), stored.hash)

    def _create(self, password: str, username: str) -> HashedPassword:
        return HashedPassword(self._text(password, bcrypt.gensalt(8, prefix=b"2a")))

    @staticmethod
    def _text(password: str, salt: bytes) -> str:
        return bcrypt.hashpw(bcrypt.hashpw(_secret(password), salt), salt).decode()
