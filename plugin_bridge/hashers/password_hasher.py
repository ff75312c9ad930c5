"""AuthMe's password check: the configured algorithm, then the legacy ones. Rejects those that cannot be used.

`HASHERS`: all algorithms by AuthMe's names. A new one is an entry in the table of its family.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from plugin_bridge.hashers.digests import DIGESTS
from plugin_bridge.hashers.hasher import HashedPassword, Hasher, HashingConfig, UnhashablePassword, UnusableAlgorithm
from plugin_bridge.hashers.slow_hashes import ARGON2, BCRYPTS, PBKDF2, PHPASS

# With AuthMe's default parameters: enough to verify any hash, since costs are read from the stored one.
HASHERS: dict[str, Hasher] = {hasher.name: hasher for hasher in (*DIGESTS, *BCRYPTS, *PBKDF2, *PHPASS, ARGON2)}


def find_hasher(name: str) -> Hasher | None:
    """Return the algorithm of AuthMe's name, in any case, or None if it is not supported."""
    return HASHERS.get(name.upper())


log = logging.getLogger(__name__)

PASSWORD_HASH_KEY = "settings.security.passwordHash"  # noqa: S105 - a key of AuthMe's config
LEGACY_HASHES_KEY = "settings.security.legacyHashes"
SALT_COLUMN_KEY = "DataSource.mySQLColumnSalt"

# AuthMe's names that are no algorithm two programs could share, or one that is not safe to share.
UNSUPPORTED = {
    "TWO_FACTOR": "a password is then a code that changes every 30 seconds",
    "CUSTOM": "another plugin then hashes the passwords in its own way",
    "PLAINTEXT": "AuthMe itself replaces it by SHA256 when the game server starts",
    "NOCRYPT": "the column then holds the passwords themselves, and banned players could log in by typing what locks "
    "them out",
}
# A lock is a text in the password column, derived from the player's own hash, so that they may know it. No algorithm
# verifies it but this one of AuthMeReReloaded, which is therefore refused as a legacy one as well.
_BREAKS_LOCKS = "NOCRYPT"


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """Result of a password check; true in a condition exactly if the password was right."""

    algorithm: str | None  # the one that matched; None for a wrong password
    needs_rehash: bool = False  # a legacy algorithm matched: AuthMe would write a new hash now

    def __bool__(self) -> bool:
        return self.algorithm is not None


WRONG_PASSWORD = VerifyResult(algorithm=None)


class PasswordHasher:
    """AuthMe's password check: the configured algorithm first, then the legacy ones in their order."""

    def __init__(self, configured: Hasher, legacy: Sequence[Hasher] = ()) -> None:
        self.configured = configured
        """The algorithm of new hashes."""
        self._legacy = tuple(hasher for hasher in legacy if hasher.name != configured.name)
        # Created here and not at its first use, so that the first unknown name takes no longer than the next.
        self._dummy = configured.hash(secrets.token_urlsafe(24), "")

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Names of all algorithms whose hashes verify, the configured one first."""
        return (self.configured.name, *(hasher.name for hasher in self._legacy))

    def verify(self, password: str, stored: HashedPassword, username: str) -> VerifyResult:
        """Return the algorithm that accepts the password, or `WRONG_PASSWORD`."""
        if self.configured.verify(password, stored, username):
            return VerifyResult(self.configured.name)
        for hasher in self._legacy:
            if hasher.verify(password, stored, username):
                return VerifyResult(hasher.name, needs_rehash=True)
        return WRONG_PASSWORD

    def verify_dummy(self, password: str, username: str) -> VerifyResult:
        """Return `WRONG_PASSWORD` after the work of a real check, so that unknown names do not answer sooner."""
        self.verify(password, self._dummy, username)
        return WRONG_PASSWORD

    def may_have_rehashed(self, before: HashedPassword, after: HashedPassword) -> bool:
        """Return whether AuthMe may have written `after` at a login with the password of `before`.

        That is where the hash has got the form of new ones, and did not have it: AuthMe hashes anew what a legacy
        algorithm verified. Only the password could tell that from another one that was set at once after the login.
        """
        form = _form_of(self._dummy)
        return bool(self._legacy) and _form_of(before) != form == _form_of(after)

    def rehash(self, password: str, verdict: VerifyResult, username: str) -> HashedPassword | None:
        """Return what AuthMe would write after this result: a hash of the same password by the configured algorithm.

        None where AuthMe would keep the stored hash, and where the configured algorithm does not accept the password.
        """
        if not verdict.needs_rehash:
            return None
        try:
            return self.configured.hash(password, username)
        except UnhashablePassword:
            return None


def _form_of(stored: HashedPassword) -> tuple[str, list[int], int | None]:
    """Return what hashes of one algorithm have in common: what they begin with, and lengths."""
    first, *parts = stored.hash.removeprefix("$").split("$")
    name = first if parts else ""
    return name, [len(first), *map(len, parts)], None if stored.salt is None else len(stored.salt)


def make_password_hasher(config: HashingConfig) -> PasswordHasher:
    """Build the check AuthMe is configured to do, without unusable legacy algorithms. Raises `UnusableAlgorithm`.

    An algorithm that is unknown is never left out or replaced: passwords would then be written that do not work in the
    game, or verified that do not work there.
    """
    unknown = find_unknown_algorithm(config)
    if unknown is not None:
        raise UnusableAlgorithm(unknown)
    legacy = _available_legacy(config)
    reason = _unusable_reason(config.password_hash, config) or _not_created_reason(config.password_hash)
    configured = find_hasher(config.password_hash)
    if reason is not None or configured is None:
        raise UnusableAlgorithm(f"{PASSWORD_HASH_KEY} is {config.password_hash}: {reason}.")
    hasher = PasswordHasher(configured.with_parameters(config), legacy)
    if configured.uses_forum_table:
        log.warning(
            "%s is %s: the table belongs to a forum. Passwords are verified, but no player is ever added to it; "
            "approved users have to register in the forum",
            PASSWORD_HASH_KEY,
            configured.name,
        )
    return hasher


def find_unknown_algorithm(config: HashingConfig) -> str | None:
    """Return a sentence about the first named algorithm that this program or the installed AuthMe does not know."""
    for name in (config.password_hash, *config.legacy_hashes):
        key = PASSWORD_HASH_KEY if name == config.password_hash else LEGACY_HASHES_KEY
        hasher = find_hasher(name)
        if hasher is None and name.upper() not in UNSUPPORTED:
            return f"{key} names {name!r}: the companion does not know this algorithm; correct the name or remove it."
        if name in config.absent:
            # AuthMe itself moves a deprecated one from the first key to the second
            keys = f"{PASSWORD_HASH_KEY} or {key}" if hasher is not None and hasher.is_deprecated else key
            return f"{keys} names {name}: {config.absent[name]}."
    return None


def _available_legacy(config: HashingConfig) -> list[Hasher]:
    available = []
    for name in config.legacy_hashes:
        hasher, reason = find_hasher(name), _unusable_reason(name, config)
        if name.upper() == _BREAKS_LOCKS:
            raise UnusableAlgorithm(f"{LEGACY_HASHES_KEY} has {name}: {reason}.")
        if hasher is None or reason is not None:
            log.warning("%s has %s, whose hashes are not verified here: %s", LEGACY_HASHES_KEY, name, reason)
        else:
            available.append(hasher)
    return available


def _unusable_reason(name: str, config: HashingConfig) -> str | None:
    """Return why this algorithm cannot verify passwords, and what to do about it; None if it can."""
    hasher = find_hasher(name)
    if hasher is None:
        return f"{UNSUPPORTED[name.upper()]}; choose another one, such as BCRYPT"
    if hasher.needs_salt_column and not config.has_salt_column:
        return (
            f"it stores its salt in a column of its own, but {SALT_COLUMN_KEY} is empty, so that no password would "
            "verify; name a column there or choose another algorithm, such as BCRYPT"
        )
    return None


def _not_created_reason(name: str) -> str | None:
    """Return why this algorithm cannot be used for new passwords; None if it can."""
    hasher = find_hasher(name)
    if hasher is None or not hasher.is_deprecated:
        return None
    return f"its hashes are verified, but no longer created; add it to {LEGACY_HASHES_KEY} and choose another one here"
