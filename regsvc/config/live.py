"""The configuration in force while the process runs, including the rules derived from AuthMe's own config."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from plugin_bridge.authme.config import AuthMeConfig
from plugin_bridge.authme.rules import (
    DEFAULT_NAME_RULE,
    DEFAULT_PASSWORD_RULE,
    NameRule,
    PasswordRule,
    compile_java_pattern,
)
from plugin_bridge.hashers import PasswordHasher, UnusableAlgorithm, make_password_hasher
from regsvc.config.sections import Config, ConfigError


@dataclass(frozen=True)
class AuthMeRules:
    """Rules derived from AuthMe's config; its defaults where there is no AuthMe."""

    names: NameRule = DEFAULT_NAME_RULE
    passwords: PasswordRule = DEFAULT_PASSWORD_RULE
    hasher: PasswordHasher | None = None
    """None: there is no AuthMe."""
    is_cached: bool = False
    """Whether AuthMe caches rows (`DataSource.caching`), so that it may not see what we write at once."""

    unverified_minutes: int = 0
    """Minutes after which AuthMe deletes rows of unverified players by itself; 0: never."""

    @property
    def algorithms(self) -> frozenset[str]:
        """AuthMe's configured and legacy algorithms; empty without AuthMe."""
        return frozenset(self.hasher.algorithms) if self.hasher is not None else frozenset()

    @property
    def may_provision(self) -> bool:
        """Return whether AuthMe's table takes rows of ours; False where it is a forum's own table of users."""
        return self.hasher is None or not self.hasher.configured.uses_forum_table


class LiveConfig:
    """The current config and AuthMe's current rules, read by services at each use.

    Each is an immutable object that is replaced as a whole: a thread that needs several values of one moment reads
    `current` or `authme` once. A change that fails leaves both as they were.
    """

    def __init__(self, config: Config, authme: AuthMeConfig | None = None) -> None:
        """`authme` is None without AuthMe. Raises `ConfigError` for hashing settings that cannot be used."""
        self.current = config
        """The config in force now."""
        self.authme = _derive(config, authme)
        """AuthMe's rules in force now."""
        self.is_cached_elsewhere = False
        """Whether the AuthMe of another game server caches rows."""

    def apply_other_authmes(self, authmes: Iterable[object]) -> None:
        """Take notice of AuthMe's configs on the other game servers; those that cannot be read count for nothing."""
        self.is_cached_elsewhere = any(isinstance(other, AuthMeConfig) and other.caching for other in authmes)

    def apply(self, config: Config) -> None:
        """Replace the config with one that differs only in reloadable keys (`regsvc.runtime.reload.RELOADABLE`)."""
        self.current = config

    def apply_authme(self, authme: AuthMeConfig) -> None:
        """Replace AuthMe's rules; its table and columns must be the same. Raises `ConfigError`, changing nothing."""
        self.authme = _derive(self.current, authme)


def _derive(config: Config, authme: AuthMeConfig | None) -> AuthMeRules:
    """Return AuthMe's own rules, with the patterns from our config in place of AuthMe's."""
    hasher = _make_hasher(authme)
    names = authme.name_rule if authme else DEFAULT_NAME_RULE
    passwords = authme.password_rule if authme else DEFAULT_PASSWORD_RULE
    given = config.registration
    if given.username_regex:
        pattern = compile_java_pattern(given.username_regex, "registration.username_regex", names.pattern)
        names = dataclasses.replace(names, pattern=pattern)
    if given.password_regex:
        pattern = compile_java_pattern(given.password_regex, "registration.password_regex", passwords.pattern)
        passwords = dataclasses.replace(passwords, pattern=pattern)
    if hasher is not None:
        longest = min(passwords.max_length, hasher.configured.max_characters)
        passwords = dataclasses.replace(passwords, is_ascii_only=hasher.configured.is_ascii_only, max_length=longest)
    if authme is None:
        return AuthMeRules(names, passwords, hasher)
    return AuthMeRules(names, passwords, hasher, authme.caching, authme.unverified_minutes)


def _make_hasher(authme: AuthMeConfig | None) -> PasswordHasher | None:
    if authme is None:
        return None
    try:
        return make_password_hasher(authme.hashing)
    except UnusableAlgorithm as error:
        raise ConfigError(f"{authme.source}: {error}" if authme.source else str(error)) from error
