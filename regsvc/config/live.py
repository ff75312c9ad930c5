"""The configuration in force while the process runs, including the rules derived from AuthMe's own config."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock

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
from regsvc.core.clock import epoch_ms
from regsvc.core.errors import RegistrationClosed
from regsvc.core.i18n import Translated, normalize_tag


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


@dataclass(frozen=True)
class TeamSettings:
    """Settings that the team has changed while the daemons run; a config that says closed wins."""

    is_open: bool = True
    opens_at: datetime | None = None
    """When a closed registration opens by itself; None: not by itself."""
    announcements: Mapping[str, str] = field(default_factory=dict)
    """Texts by language, in place of the config's; empty: that one."""
    is_paused: bool = False
    """Whether registration is closed until the team decides about applications (`registration.pause_after`)."""

    def accepts_registrations(self, now: datetime) -> bool:
        """Return whether registration is open at this moment, as far as the team is concerned."""
        return not self.is_paused and (self.is_open or (self.opens_at is not None and self.opens_at <= now))


class LiveConfig:
    """The current config and AuthMe's current rules, read by services at each use.

    Each is an immutable object that is replaced as a whole: a thread that needs several values of one moment reads
    `current` or `authme` once. A change that fails leaves both as they were.
    """

    def __init__(self, config: Config, authme: AuthMeConfig | None = None) -> None:
        """`authme` is None without AuthMe. Raises `ConfigError` for hashing settings that cannot be used."""
        self.given = config
        """The config as the host wrote it."""
        self.settings = TeamSettings()
        """The settings of the team in force."""
        self._accepts = True
        self.current = config
        """The config in force now, with the settings that the team has changed."""
        self.authme = _derive(config, authme)
        """AuthMe's rules in force now."""
        self._changing = Lock()
        self.is_cached_elsewhere = False
        """Whether the AuthMe of another game server caches rows."""
        self.hops: frozenset[str] = frozenset()
        """Addresses of tunnels, which hide their clients, as recent requests show (`regsvc.http.hops`)."""

    def apply_other_authmes(self, authmes: Iterable[object]) -> None:
        """Take notice of AuthMe's configs on the other game servers; those that cannot be read count for nothing."""
        self.is_cached_elsewhere = any(isinstance(other, AuthMeConfig) and other.caching for other in authmes)

    def apply(self, config: Config) -> None:
        """Replace the config with one that differs only in reloadable keys (`regsvc.runtime.reload.RELOADABLE`)."""
        with self._changing:
            self.given = config
            self._combine()

    def apply_settings(self, settings: TeamSettings, now: datetime) -> None:
        """Take the settings in place of what the config says; `current` stays the same object if nothing changes."""
        with self._changing:
            if settings != self.settings or self.has_time_come(now):
                self.settings, self._accepts = settings, settings.accepts_registrations(now)
                self._combine()

    def has_time_come(self, now: datetime) -> bool:
        """Return whether registration is to open by itself now."""
        return self.settings.accepts_registrations(now) != self._accepts

    @property
    def opens_at(self) -> datetime | None:
        """When registration, closed now, opens by itself; None: not, or it is open."""
        is_timed = self.given.registration.open and not self.current.registration.open
        return self.settings.opens_at if is_timed else None

    @property
    def is_paused(self) -> bool:
        """Whether it is the pause that keeps registration closed."""
        return self.settings.is_paused and self.given.registration.open

    def require_open(self) -> None:
        """Raise `RegistrationClosed` unless registration is open now."""
        if self.is_paused:
            raise RegistrationClosed("paused")
        if not self.current.registration.open:
            raise RegistrationClosed(opens_at=None if self.opens_at is None else epoch_ms(self.opens_at))

    def announcement_for(self, language: str) -> str:
        """Return the announcement in this language, or in the one of the host."""
        return self.current.server.in_language(self.current.server.announcement, language)

    def _combine(self) -> None:
        given = self.given
        is_open = given.registration.open and self._accepts
        texts = {normalize_tag(language): text for language, text in self.settings.announcements.items()}
        announcement = Translated(texts) if texts else given.server.announcement
        registration = dataclasses.replace(given.registration, open=is_open)
        server = dataclasses.replace(given.server, announcement=announcement)
        self.current = dataclasses.replace(given, registration=registration, server=server)

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
