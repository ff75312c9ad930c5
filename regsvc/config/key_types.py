"""Types of config keys: how each is written in TOML and the environment, what is refused, and what each key needs.

Each function here declares one key of a section's dataclass. It is annotated with the type of the key's value,
so that mypy compares it with the field's annotation; at run time it returns a dataclass field that carries a
`Key`. Parsers raise ValueError with a sentence that never repeats the value (it may be a secret).

A key may need another one, or something that the game's files say, to have an effect. Each section declares it for all
of its keys, as `NEEDS`; the loader names keys that a host has set in vain.
"""

from __future__ import annotations

import ipaddress
import json
import re
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from itertools import chain
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Generic, Literal, TypeVar, cast, get_args

from plugin_bridge.authme.config import AuthMeConfig, AuthMeConfigError, Backend, read_authme_config
from plugin_bridge.authme.rules import compile_pattern
from plugin_bridge.server.files import PropertiesFile
from regsvc.config.value_checks import (
    clean_value,
    column_name,
    console_command,
    filled_in,
    is_placeholder,
    language_tag,
    listen_host,
    present,
    required,
    web_address_or_path,
)
from regsvc.core.addresses import LOOPBACK, trusted_networks
from regsvc.core.i18n import Sentence, Translated, join, normalize_tag
from regsvc.core.text import parse_toml
from regsvc.core.units import ChangeLimit, RateLimit, format_duration, parse_duration, parse_size

T = TypeVar("T")
Choice = TypeVar("Choice", bound=str)

IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
Switch = Literal[True, False, "auto"]
TrustedProxies = Literal["auto"] | tuple[IpNetwork, ...]

_REFUSING_EMPTY = (required, listen_host)
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")


@dataclass(frozen=True)
class Key(Generic[T]):
    """Declaration of one key: its default as a TOML value, its help text, and its parsers.

    `parse` turns a TOML value into the typed one, `from_text` the text of an environment variable into a TOML
    value (text that it cannot convert is passed on unchanged: `parse` says what is wrong with it).
    """

    default: object
    help: str
    parse: Callable[[object], T]
    from_text: Callable[[str], object] = str
    is_secret: bool = False
    choices: tuple[object, ...] = ()
    is_prose: bool = False
    """Whether it is a text for people, which may have quotes around it in TOML."""

    def read(self, written: object, *, is_typed: bool) -> tuple[object, list[str]]:
        """Return the clean TOML value, and remarks about what is left out (`clean_value`).

        `is_typed`: it is a text that was typed as a variable, an option or an argument, and not in TOML.
        """
        if not is_typed:
            return (written, []) if self.is_prose else clean_value(written, is_secret=self.is_secret)
        cleaned, remarks = clean_value(written, is_secret=self.is_secret, is_typed=True)
        value = self.from_text(cleaned) if isinstance(cleaned, str) else cleaned
        if isinstance(value, str):
            return value, remarks
        value, more = clean_value(value, is_secret=self.is_secret)
        return value, list(dict.fromkeys([*remarks, *more]))


def keys_of(section: type) -> dict[str, Key[Any]]:
    """Return the keys that a section's dataclass declares, by name, in order of declaration."""
    return {declared.name: declared.metadata["key"] for declared in fields(section)}


# --- declaring functions ---


def text(default: str, help: str, *, check: Callable[[str], str] | None = None) -> str:
    """Declare one line of text; `check` may refuse it or return its canonical form."""
    return _declare(Key(default, help, _checked(_parse_line, check)))


def paragraph(default: str, help: str, *, check: Callable[[str], str] | None = None) -> str:
    """Declare text that may have several lines; see `text`."""
    return _declare(Key(default, help, _checked(_parse_text, check), is_prose=True))


def secret(default: str, help: str, *, check: Callable[[str], str] | None = None) -> str:
    """Declare a text that is never shown; may come from `<key>_file`. Placeholders such as "changeme" are refused."""
    return _declare(Key(default, help, _checked(_parse_secret, check), is_secret=True))


def secrets(default: Sequence[str], help: str, *, check: Callable[[str], str]) -> tuple[str, ...]:
    """Declare a list of secrets; a `<key>_file` holds one per line."""
    parse = _list_parser(_checked(_parse_secret, check))
    return _declare(Key(list(default), help, parse, _list_from_text, is_secret=True))


def names(default: Sequence[str], help: str, *, check: Callable[[str], str] | None = None) -> tuple[str, ...]:
    """Declare a list of texts, each of one line and not empty."""
    parse = _list_parser(_checked(_parse_name, check))
    return _declare(Key(list(default), help, parse, _list_from_text))


def flag(default: bool, help: str) -> bool:
    """Declare a boolean."""
    return _declare(Key(default, help, _parse_flag, _flag_from_text, choices=(True, False)))


def switch(default: Switch, help: str) -> Switch:
    """Declare a choice of true, false and "auto"."""
    return _declare(Key(default, help, _parse_switch, _flag_from_text, choices=("auto", True, False)))


def choice(default: Choice, options: object, help: str) -> Choice:
    """Declare a choice of the texts of a Literal type; case does not matter when it is parsed."""
    allowed: tuple[Choice, ...] = get_args(options)
    return _declare(Key(default, help, _choice_parser(allowed), choices=allowed))


def choices(default: Sequence[Choice], options: object, help: str) -> tuple[Choice, ...]:
    """Declare a list of texts of a Literal type, each at most once."""
    allowed: tuple[Choice, ...] = get_args(options)
    parse = _list_parser(_choice_parser(allowed), unique=True)
    return _declare(Key(list(default), help, parse, _list_from_text, choices=allowed))


def integer(default: int, help: str, *, at_least: int, at_most: int) -> int:
    """Declare a whole number between two bounds, both included."""

    def parse(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"this must be a whole number without quotes, such as {default}")
        if not at_least <= value <= at_most:
            raise ValueError(f"this must be a whole number from {at_least} to {at_most}")
        return value

    return _declare(Key(default, help, parse, _integer_from_text))


def duration(default: str, help: str, *, at_least: str = "1 second", at_most: str = "1000 years") -> timedelta:
    """Declare a duration such as "5 minutes", between two bounds, both included."""
    low, high = parse_duration(at_least), parse_duration(at_most)

    def check(value: timedelta) -> timedelta:
        if not low <= value <= high:
            raise ValueError(f"this must be from {format_duration(low)} to {format_duration(high)}")
        return value

    return _declare(Key(default, help, lambda value: check(parse_duration(_parse_line(value, default)))))


def optional_duration(help: str, *, at_least: str = "1 second") -> timedelta | None:
    """Declare a duration that may be left empty, which is None."""
    low = parse_duration(at_least)

    def parse(value: object) -> timedelta | None:
        if not (written := _parse_line(value, "30 days")):
            return None
        if (duration := parse_duration(written)) < low:
            raise ValueError(f"this must be at least {format_duration(low)}, or empty")
        return duration

    return _declare(Key("", help, parse))


def durations(default: Sequence[str], help: str) -> tuple[timedelta, ...]:
    """Declare a list of different durations, each at least a minute."""

    def parse_item(value: object) -> timedelta:
        if (duration := parse_duration(_parse_line(value, "7 days"))) < timedelta(minutes=1):
            raise ValueError("each must be at least 1 minute")
        return duration

    return _declare(Key(list(default), help, _list_parser(parse_item, unique=True), _list_from_text))


def size(default: str, help: str, *, at_least: str, at_most: str) -> int:
    """Declare a size in bytes such as "64 KiB", between two bounds, both included."""

    def parse(value: object) -> int:
        amount = parse_size(_parse_line(value, default))
        if not parse_size(at_least) <= amount <= parse_size(at_most):
            raise ValueError(f"this must be from {at_least} to {at_most}")
        return amount

    return _declare(Key(default, help, parse))


def rate_limits(default: Sequence[str], help: str) -> tuple[RateLimit, ...]:
    """Declare a list of limits that all apply; an empty list is no limit."""
    parse = _list_parser(lambda value: RateLimit.parse(_parse_line(value, "10 per day")))
    return _declare(Key(list(default), help, parse, _list_from_text))


def change_limit(default: str, help: str) -> ChangeLimit:
    """Declare how much one sync run may change, such as "20 and 5%"."""
    return _declare(Key(default, help, lambda value: ChangeLimit.parse(_parse_line(value, default))))


def path(default: str, help: str) -> Path:
    """Declare a required file or folder; the loader makes its path absolute."""

    def parse(value: object) -> Path:
        if not (written := _parse_line(value)):
            raise ValueError(f'this must name a file or folder, such as "{default}"')
        return Path(written)

    return _declare(Key(default, help, parse))


def optional_path(help: str) -> Path | None:
    """Declare an optional file or folder; the default, an empty text, is None."""
    return _declare(Key("", help, _parse_optional_path))


def pattern(default: str, help: str) -> str:
    """Declare a regular expression, kept as text; may be empty."""
    return text(default, help, check=lambda written: compile_pattern(written).text)


def networks(default: Sequence[str], help: str) -> tuple[IpNetwork, ...]:
    """Declare a list of IP addresses and networks, such as "10.0.0.0/8"."""
    return _declare(Key(list(default), help, _parse_networks, _list_from_text))


def trusted_proxies(default: Literal["auto"], help: str) -> TrustedProxies:
    """Declare "auto", or a list of IP addresses and networks."""

    def parse(value: object) -> TrustedProxies:
        return "auto" if isinstance(value, str) and value.lower() == "auto" else _parse_networks(value)

    def from_text(written: str) -> object:
        return written if written.lower() == "auto" else _list_from_text(written)

    return _declare(Key(default, help, parse, from_text))


def table_columns(known: Sequence[str], may_be_empty: Sequence[str], help: str) -> Mapping[str, str]:
    """Declare database column names by their key in our config; a missing key is not overridden."""

    def parse(value: object) -> Mapping[str, str]:
        if not isinstance(value, dict):
            raise ValueError('this must be a table, such as columns.username = "username"')
        for key, column in value.items():
            if key not in known:
                raise ValueError(f'there is no column "{key}"; known are {", ".join(known)}')
            if column != "" or key not in may_be_empty:
                column_name(_parse_line(column))
        return MappingProxyType(dict(value))

    return _declare(Key({}, help, parse))


def translated(help: str) -> Translated[str]:
    """Declare a text that may have several lines, or a table of such texts by language."""

    def parse(value: object) -> Translated[str]:
        if not isinstance(value, dict):
            return Translated({"": _parse_text(value)})
        if not value:
            raise ValueError('this must be text in quotes, or texts by language, such as description.de = "…"')
        return Translated({_parse_language(tag): _parse_text(text) for tag, text in value.items()})

    return _declare(Key("", help, parse, is_prose=True))


def links(help: str) -> Translated[dict[str, str]]:
    """Declare web addresses, or paths on this server, by the texts of their links; those in a table have its language.

    Each language has those without a language, too.
    """

    def parse_links(value: Mapping[str, object]) -> dict[str, str]:
        return {_parse_name(name): web_address_or_path(_parse_line(to)) for name, to in value.items()}

    def parse(value: object) -> Translated[dict[str, str]]:
        if not isinstance(value, dict):
            raise ValueError('this must be a table, such as links.Map = "https://map.example.org"')
        common = parse_links({name: to for name, to in value.items() if not isinstance(to, dict)})
        own = {_parse_language(tag): parse_links(to) for tag, to in value.items() if isinstance(to, dict)}
        return Translated({"": common, **{tag: common | listed for tag, listed in own.items()}})

    def from_text(written: str) -> object:
        pairs = (item.partition("=") for item in written.split(",") if item.strip())
        return {name.strip(): address.strip() for name, _equals, address in pairs}

    return _declare(Key({}, help, parse, from_text))


def commands(events: Sequence[str], help: str) -> Mapping[str, tuple[str, ...]]:
    """Declare lists of console commands by the event that they follow."""

    def parse(value: object) -> Mapping[str, tuple[str, ...]]:
        if not isinstance(value, dict):
            raise ValueError('this must be a table, such as commands.approved = ["say Welcome, {username}"]')
        if unknown := value.keys() - set(events):
            raise ValueError(f'there is no "{min(unknown)}"; known are {", ".join(events)}')
        parse_list = _list_parser(lambda item: console_command(_parse_name(item)))
        return MappingProxyType({event: parse_list(listed) for event, listed in value.items()})

    return _declare(Key({}, help, parse))


# --- writing ---


def to_toml(value: object) -> str:
    """Format a TOML value on one line, for the sample and for messages."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) >= 2**64:
        return hex(value)  # Python writes no long ones in decimal
    if isinstance(value, list):
        return f"[{', '.join(to_toml(item) for item in value)}]"
    if isinstance(value, dict):
        names = {name: name if _BARE.fullmatch(name) else to_toml(name) for name in value}
        return f"{{{', '.join(f'{names[name]} = {to_toml(item)}' for name, item in value.items())}}}"
    return str(value)


# --- parsers ---


def _declare(key: Key[T]) -> T:
    """Return the dataclass field that carries the key; secrets are left out of the section's repr."""
    declared: Any = field(default_factory=lambda: key.parse(key.default), metadata={"key": key}, repr=not key.is_secret)
    return cast(T, declared)


def _checked(parse: Callable[[object], str], check: Callable[[str], str] | None) -> Callable[[object], str]:
    """Apply a check to every text except the empty one, which means "not set" unless the check refuses it."""

    def parse_and_check(value: object) -> str:
        written = parse(value)
        return check(written) if check and (written or check in _REFUSING_EMPTY) else written

    return parse_and_check


def _parse_text(value: object, example: str = "text") -> str:
    if not isinstance(value, str):
        raise ValueError(f'this must be text in quotes, such as "{example}"')
    if "\x00" in value:
        raise ValueError("this must not contain a NUL character")
    if any("\ud800" <= letter <= "\udfff" for letter in value):  # bytes of a variable, or of an argument
        raise ValueError("this must be UTF-8 text")
    return value


def _parse_line(value: object, example: str = "text") -> str:
    return present(_parse_item(value, example))


def _parse_item(value: object, example: str = "text") -> str:
    """Parse a line that may be any word, such as a player's name in a list: some are called Null."""
    written = filled_in(_parse_text(value, example))
    if _CONTROL_CHARACTERS.search(written):
        raise ValueError("this must be one line without control characters")
    return written


def _parse_name(value: object) -> str:
    return required(_parse_item(value))


def _parse_language(value: object) -> str:
    return normalize_tag(language_tag(_parse_line(value)))


def _parse_secret(value: object) -> str:
    written = _parse_text(value)
    if is_placeholder(written) or re.fullmatch(r"<.*>", written):
        raise ValueError("this is a well-known placeholder; choose a secret of your own")
    return _parse_line(written)


def _parse_flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("this must be true or false, without quotes")
    return value


def _parse_switch(value: object) -> Switch:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() == "auto":
        return "auto"
    raise ValueError('this must be true, false or "auto"')


def _parse_optional_path(value: object) -> Path | None:
    written = _parse_line(value)
    return Path(written) if written else None


def _parse_networks(value: object) -> tuple[IpNetwork, ...]:
    return tuple(chain.from_iterable(_list_parser(_parse_network)(value)))


def _parse_network(value: object) -> tuple[IpNetwork, ...]:
    written = re.sub(r"\[([0-9A-Fa-f:.]+)\]", r"\1", _parse_line(value))
    if written.lower() == "localhost":
        return LOOPBACK
    try:
        network = ipaddress.ip_network(written, strict=False)
    except ValueError:
        raise ValueError(
            'write IP addresses, such as "192.0.2.7", or networks, such as "10.0.0.0/8"; names are not looked up'
        ) from None
    if "/" in written and ipaddress.ip_interface(written).ip != network.network_address:
        raise ValueError(f'this network has host bits set; write "{network}"')
    if network.prefixlen == 0:
        raise ValueError("this would trust the whole internet; list the addresses of your proxies")
    return (network,)


def _choice_parser(allowed: tuple[Choice, ...]) -> Callable[[object], Choice]:
    by_spelling = {option.lower(): option for option in allowed}

    def parse(value: object) -> Choice:
        if not isinstance(value, str) or value.lower() not in by_spelling:
            raise ValueError(f"this must be {_any_of(allowed)}")
        return by_spelling[value.lower()]

    return parse


def _list_parser(parse_item: Callable[[object], T], *, unique: bool = False) -> Callable[[object], tuple[T, ...]]:
    def parse(value: object) -> tuple[T, ...]:
        if not isinstance(value, list | tuple):
            raise ValueError('this must be a list in square brackets, such as ["one", "two"]')
        items = tuple(parse_item(item) for item in value)
        if unique and len(set(items)) < len(items):
            raise ValueError("this must not contain anything twice")
        return items

    return parse


def _any_of(options: Sequence[object]) -> str:
    written = [to_toml(option) for option in options]
    return written[0] if len(written) == 1 else f"{', '.join(written[:-1])} or {written[-1]}"


def _flag_from_text(written: str) -> object:
    """Parse what programs and people write for yes and no."""
    words = {"true": True, "yes": True, "on": True, "y": True, "1": True}
    words |= {"false": False, "no": False, "off": False, "n": False, "0": False}
    return words.get(written.lower(), written)


def _integer_from_text(written: str) -> object:
    return int(written) if re.fullmatch(r"-?[0-9]{1,18}", written) else written


def _list_from_text(written: str) -> object:
    """Parse a TOML list, or values separated by commas, semicolons or line ends."""
    if not written.lstrip().startswith("["):
        return [item.strip() for item in re.split("[,;\n]", written) if item.strip()]
    try:
        return parse_toml(f"value = {written}")["value"]
    except tomllib.TOMLDecodeError:
        return written


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


@dataclass(eq=False)
class _OtherKey(Requirement):
    """`key` is "section.key", or a key of the same section."""

    key: str

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
TRUSTED_PROXIES: Final = NeedsFact(
    Sentence("http.trusted_proxies"),
    lambda config, section: bool(trusted_networks(section.trusted_proxies, config.server.host)),
)
CODES: Final = NeedsItem("registration.methods", "email")
MAIL: Final = NeedsFact(
    Sentence("a way to send mails (mail.host, or mail.backend)"),
    lambda config, section: (
        config.mail.backend not in ("auto", "off") or (config.mail.backend == "auto" and _knows_authme(config))
    ),
)
