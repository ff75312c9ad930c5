"""The bcrypt family: one hash function with several prefixes, which AuthMe distinguishes only when it writes."""

import re
from typing import Any, Final

import bcrypt

from plugin_bridge.hashers.digests import is_same
from plugin_bridge.hashers.hasher import CostTooHigh, HashedPassword, Hasher, HashingConfig, UnusableAlgorithm

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
