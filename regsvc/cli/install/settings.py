"""Settings of an installation: what a host decides when installing; everything else follows from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from regsvc.cli.install.problem import InstallProblem
from regsvc.config.key_types import Key, keys_of
from regsvc.config.layers import file_layer, section_class
from regsvc.config.places import SystemPlaces

GAME_DIRECTORY: Final = "game.directory"
BASE_URL: Final = "server.base_url"
PORT: Final = "server.port"
MAIL_HOST: Final = "mail.host"
MAIL_PORT: Final = "mail.port"
MAIL_SECURITY: Final = "mail.security"
MAIL_USERNAME: Final = "mail.username"
MAIL_SENDER: Final = "mail.sender"

OPTIONS: Final = {
    GAME_DIRECTORY: "--game-dir",
    BASE_URL: "--base-url",
    PORT: "--port",
    MAIL_HOST: "--mail-host",
    MAIL_PORT: "--mail-port",
    MAIL_SECURITY: "--mail-security",
    MAIL_USERNAME: "--mail-username",
    MAIL_SENDER: "--mail-sender",
}
"""Config keys that have an option of `companion install`."""


@dataclass(frozen=True)
class Settings:
    """`values` are TOML values by "section.key"; `user` is the system user that runs the companion."""

    places: SystemPlaces
    user: str
    values: Mapping[str, object]
    mail_password: str | None = field(default=None, repr=False)

    @property
    def game_directory(self) -> Path:
        return self.places.config_file.parent / str(self.values[GAME_DIRECTORY])

    @property
    def state_dir(self) -> Path:
        return state_dir_of(self.places, self.values)


def parse_setting(key: str, written: str) -> object:
    """Return the TOML value of a text that was typed. Raises ValueError with a sentence."""
    declared = key_of(key)
    value = declared.from_text(written)
    declared.parse(value)
    return value


def parse_option(key: str, written: str) -> object:
    """Return the TOML value of an option's text. Raises `InstallProblem`."""
    try:
        return parse_setting(key, written)
    except ValueError as error:
        raise InstallProblem(f"{OPTIONS[key]} {written}: {error}.", status=2) from None


def read_values(config_file: Path) -> dict[str, object]:
    """Return what a config sets, by "section.key". Raises `ConfigError` for a broken config."""
    tables = file_layer(config_file).tables
    return {f"{section}.{name}": value for section, table in tables.items() for name, value in table.items()}


def state_dir_of(places: SystemPlaces, values: Mapping[str, object]) -> Path:
    """Return the state directory: that in the config, relative to it, or the one that follows from the name."""
    configured = values.get("server.state_dir")
    return places.config_file.parent / str(configured) if configured else places.state_dir


def key_of(key: str) -> Key[Any]:
    """Return the declaration of a key given as "section.key"."""
    section, _, name = key.partition(".")
    declaring = section_class(section)
    assert declaring is not None
    return keys_of(declaring)[name]


def help_of(key: str) -> str:
    """Return the help text of a key, to follow a colon."""
    text = str(key_of(key).help).rstrip(".")
    return text[0].lower() + text[1:]
