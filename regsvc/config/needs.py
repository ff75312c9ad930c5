"""Requirements of keys: another key, or something that the game's files say, without which they have no effect.

Each section declares it for all of its keys, as `NEEDS`; the loader names keys that a host has set in vain.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

from plugin_bridge.authme.config import AuthMeConfig, AuthMeConfigError, Backend, read_authme_config
from plugin_bridge.server.files import PropertiesFile
from regsvc.config.key_types import to_toml
from regsvc.core.i18n.sentences import Sentence, join

Config = Any
"""`regsvc.config.sections.Config`, which imports this module."""


class Requirement(ABC):
    """Condition under which a key has an effect."""

    @abstractmethod
    def is_met(self, config: Config, section: Any, value: Any) -> bool:
        """Return whether it is, for a key of this section (its dataclass) with this value."""

    @abstractmethod
    def describe(self, section: str) -> Sentence:
        """Return what a key of the section with this name needs, as the object of "it needs"."""

    def __or__(self, other: Requirement) -> Requirement:
        return AnyOf(self, other)


@dataclass(frozen=True)
class AnyOf(Requirement):
    """One of two requirements."""

    first: Requirement
    other: Requirement

    def is_met(self, config: Config, section: Any, value: Any) -> bool:
        return self.first.is_met(config, section, value) or self.other.is_met(config, section, value)

    def describe(self, section: str) -> Sentence:
        return join([self.first.describe(section), self.other.describe(section)], "{first} or {next}")


class _OtherKey(Requirement):
    """`key` is "section.key", or a key of the same section."""

    def __init__(self, key: str) -> None:
        self.key = key

    def find(self, config: Config, section: Any) -> Any:
        return attrgetter(self.key)(config) if "." in self.key else getattr(section, self.key)

    def name(self, section: str) -> Sentence:
        return Sentence("{key}", key=self.key if "." in self.key else f"{section}.{self.key}")


class Needs(_OtherKey):
    """Another key that has one of these values; without values, one that is set."""

    def __init__(self, key: str, *values: object) -> None:
        super().__init__(key)
        self.values = values

    def is_met(self, config: Config, section: Any, value: Any) -> bool:
        found = self.find(config, section)
        return found in self.values if self.values else bool(found)

    def describe(self, section: str) -> Sentence:
        if not self.values:
            return self.name(section)
        values = [Sentence("{value}", value=to_toml(wanted)) for wanted in self.values]
        return Sentence("{key} = {value}", key=self.name(section), value=join(values, "{first} or {next}"))


class NeedsItem(_OtherKey):
    """Another key whose list has this value."""

    def __init__(self, key: str, item: str) -> None:
        super().__init__(key)
        self.item = item

    def is_met(self, config: Config, section: Any, value: Any) -> bool:
        return self.item in self.find(config, section)

    def describe(self, section: str) -> Sentence:
        return Sentence("{key} with {value}", key=self.name(section), value=to_toml(self.item))


class NeedsWithout(_OtherKey):
    """Another key that is not set, or whose list lacks this value."""

    def __init__(self, key: str, unwanted: str | None = None) -> None:
        super().__init__(key)
        self.unwanted = unwanted

    def is_met(self, config: Config, section: Any, value: Any) -> bool:
        found = self.find(config, section)
        return not found if self.unwanted is None else self.unwanted not in found

    def describe(self, section: str) -> Sentence:
        if self.unwanted is None:
            return Sentence("no {key}", key=self.name(section))
        return Sentence("{key} without {value}", key=self.name(section), value=to_toml(self.unwanted))


class NeedsHigher(_OtherKey):
    """Another key whose value is not below that of the key itself."""

    def is_met(self, config: Config, section: Any, value: Any) -> bool:
        return bool(self.find(config, section) >= value)

    def describe(self, section: str) -> Sentence:
        return Sentence("a higher {key}", key=self.name(section))


@dataclass(frozen=True)
class NeedsFact(Requirement):
    """Something that is not the value of one key. `is_so` gets the key's section, and may read the game's files."""

    sentence: Sentence
    is_so: Callable[[Config, Any], bool]

    def is_met(self, config: Config, section: Any, value: Any) -> bool:
        return self.is_so(config, section)

    def describe(self, section: str) -> Sentence:
        return self.sentence


NeedsTable = Mapping[str, tuple[Requirement, ...]]
"""What the keys of a section need, all of it; () for those that always have an effect. Keys with the same needs are
separated by spaces.
"""


def needs_of(section: Any) -> dict[str, tuple[Requirement, ...]]:
    """Return what each key of a section, or of its dataclass, needs to have an effect."""
    table: NeedsTable = section.NEEDS
    return {name: needed for names, needed in table.items() for name in names.split()}


def find_unmet(config: Config, section: Any, name: str) -> Requirement | None:
    """Return the first thing that is missing for this key of a section to have an effect, or None."""
    value = getattr(section, name)
    return next((need for need in needs_of(section)[name] if not need.is_met(config, section, value)), None)


# --- what the game's files say ---


def _knows_authme(config: Config, section: Any = None) -> bool:
    is_known = config.authme_config_path is not None or config.authme.backend
    return bool(config.authme.enabled is not False and is_known)


def _read_authme(config: Config) -> tuple[str, str] | None:
    """Return the kind of AuthMe's database and its algorithm for new passwords; None if its config cannot be read."""
    file, ours = config.authme_config_path, config.authme
    try:
        authme = read_authme_config(file) if file is not None and file.exists() else AuthMeConfig()
    except (AuthMeConfigError, OSError):  # reported by those who need it
        return None
    return ours.backend or authme.backend, ours.password_hash or authme.password_hash


def _has_authme_on_server(config: Config, section: Any = None) -> bool:
    found = _read_authme(config)
    return found is None or found[0] != Backend.SQLITE


def needs_algorithm(algorithm: str) -> NeedsFact:
    """Return the need for an AuthMe that hashes new passwords with this algorithm, or one of its kind."""

    def is_so(config: Config, section: Any) -> bool:
        found = _read_authme(config)
        return found is None or found[1].startswith(algorithm)

    return NeedsFact(Sentence("passwordHash {algorithm} in AuthMe’s config", algorithm=algorithm), is_so)


def _may_be_on_server(config: Config, section: Any) -> bool:
    if config.database.url == "auto":
        return _knows_authme(config) and _has_authme_on_server(config)
    return not config.database.url.startswith("sqlite:")


def _has_console(config: Config, server: Any) -> bool:
    return bool(server.uses_rcon(PropertiesFile(server.server_properties_path).current))


AUTHME: Final = NeedsFact(Sentence("AuthMe (game.directory, authme.config or authme.backend)"), _knows_authme)
AUTHME_ON_SERVER: Final = NeedsFact(
    Sentence("an AuthMe on MySQL or MariaDB (DataSource.backend)"), _has_authme_on_server
)
DATABASE_SERVER: Final = NeedsFact(Sentence("a database on MySQL or MariaDB (database.url)"), _may_be_on_server)
OWN_CONSOLE: Final = NeedsFact(
    Sentence("a remote console (RCON): enable-rcon=true in this server’s server.properties, and see rcon"),
    _has_console,
)
ANY_CONSOLE: Final = NeedsFact(
    Sentence(
        "a remote console (RCON): enable-rcon=true and a long rcon.password in server.properties, and see game.rcon"
    ),
    lambda config, section: any(_has_console(config, server) for server in config.game_servers.values()),
)
CODES: Final = NeedsItem("registration.methods", "email")
MAIL: Final = NeedsFact(
    Sentence("a way to send mails (mail.host, or mail.backend)"),
    lambda config, section: (
        config.mail.backend not in ("auto", "off") or (config.mail.backend == "auto" and _knows_authme(config))
    ),
)
