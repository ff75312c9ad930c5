"""Places of an installation: its config file, its state directory, and its secrets.

A single server is `companion`, the server NAME of many is `companion@NAME`; every place follows from that name.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from regsvc.config.layers import CONFIG_VARIABLE, file_layer
from regsvc.config.sections import ConfigError

LOCATION_FILE: Final = "home.json"
"""File in the state directory that says which database the installation uses; written at its first start."""

BACKUPS: Final = Path("/var/backups")
_ETC = Path("/etc")
_VAR_LIB = Path("/var/lib")
_CREDENTIALS = Path("/run/credentials")
LOCAL_CONFIG: Final = Path("conf/companion.toml")
"""The config of a folder, such as a clone of the repository, whose sample is this file."""
_LOCAL_STATE = "var"
_PROGRAM: Final = "companion"
_INSTANCE = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
_NAME = rf"{_PROGRAM}(?:@{_INSTANCE})?"
_CREDENTIAL_PREFIX: Final = "secrets_"
"""Of the files that `LoadCredential=secrets:/etc/companion/secrets` makes."""


@dataclass(frozen=True)
class SystemPlaces:
    """Places of an installation that the system runs. `name`: `companion`, or `companion@NAME`."""

    name: str

    @classmethod
    def of_instance(cls, instance: str | None) -> "SystemPlaces":
        """Return the places of the server with this name among many; of the only server for None.

        Raises `ConfigError` for a name that cannot be one.
        """
        if instance is None:
            return cls(_PROGRAM)
        if re.fullmatch(_INSTANCE, instance) is None:
            raise ConfigError("The name of an instance consists of letters, digits and _ . - (64 at most).")
        return cls(f"{_PROGRAM}@{instance}")

    @classmethod
    def of_config(cls, file: Path) -> "SystemPlaces | None":
        """Return the places of the installation whose config this is; None for a config that is not below /etc."""
        folder = file.absolute().parent
        is_ours = folder.parent == _ETC and re.fullmatch(_NAME, folder.name) is not None
        return cls(folder.name) if is_ours else None

    @property
    def config_file(self) -> Path:
        return _ETC / self.name / "companion.toml"

    @property
    def secrets_dir(self) -> Path:
        return _ETC / self.name / "secrets"

    @property
    def state_dir(self) -> Path:
        return _VAR_LIB / self.name

    @property
    def record_file(self) -> Path:
        """The record of `companion install`."""
        return self.config_file.with_name("installed.json")

    @property
    def backups(self) -> Path:
        """The folder of the nightly backups."""
        return BACKUPS / self.name

    @property
    def unit(self) -> str:
        return f"{self.name}.service"

    @property
    def backup_unit(self) -> str:
        return self.unit.replace("companion", "companion-backup", 1)

    @property
    def backup_timer(self) -> str:
        """The timer that starts the backups."""
        return self.backup_unit.replace(".service", ".timer")


def find_config_file(given: str | None, instance: str | None, environ: Mapping[str, str]) -> Path | None:
    """Return the absolute path of the config file to read; None if there is none, and all defaults apply.

    It is `given`, else that of `instance`, else the one that COMPANION_CONFIG names, else ./conf/companion.toml if it
    sets a key (an untouched sample sets none), else /etc/companion/companion.toml. A file that may not be read counts
    as existing, since failing to start is better than starting with defaults; but in a folder that may not be entered
    (`sudo -u mc companion` in /root) it does not hide the one in /etc. Raises `ConfigError` if a named one is missing,
    or the current folder may not be entered and there is none in /etc.
    """
    if given is not None:
        return _named(Path(given), "the path given with --config")
    if instance is not None:
        return _named(SystemPlaces.of_instance(instance).config_file, "the name given with --instance")
    if environ.get(CONFIG_VARIABLE):
        return _named(Path(environ[CONFIG_VARIABLE]), f"the environment variable {CONFIG_VARIABLE}")
    system = SystemPlaces.of_instance(None).config_file
    if _is_hidden(LOCAL_CONFIG):
        if may_exist(system):
            return system
        # usual where there is no config, but the state directory is a volume of another user
        folder = (Path() if _is_hidden(LOCAL_CONFIG.parent) else LOCAL_CONFIG.parent).absolute()
        raise ConfigError(
            f"{folder}: user {os.geteuid()} may not enter this folder, which belongs to user {folder.stat().st_uid}; "
            "run the companion as its owner, or change that (chown -R)."
        )
    if LOCAL_CONFIG.exists() and _sets_a_key(LOCAL_CONFIG):
        return LOCAL_CONFIG.absolute()
    return system if may_exist(system) else None


def find_shadowed_config(file: Path | None, environ: Mapping[str, str]) -> Path | None:
    """Return a config that sets keys and is not read, since `find_config_file` found `file` before it; None: none."""
    system = SystemPlaces.of_instance(None).config_file
    later = (LOCAL_CONFIG.absolute(), system) if environ.get(CONFIG_VARIABLE) else (system,)
    return next((other for other in later if other != file and _is_config(other)), None)


def _is_config(file: Path) -> bool:
    return not _is_hidden(file) and file.is_file() and _sets_a_key(file)


def list_configs(etc: Path = _ETC) -> list[Path]:
    """Return the configs of all servers that the system runs, by name; `etc` stands for /etc."""
    return sorted(file for file in etc.glob("companion*/companion.toml") if re.fullmatch(_NAME, file.parent.name))


def list_installations() -> list[SystemPlaces]:
    """Return the places of all servers of this machine; not of one that is neither configured nor has ever started."""
    found = [SystemPlaces(file.parent.name) for file in list_configs()]
    return [places for places in found if _sets_a_key(places.config_file) or is_installation(places.state_dir)]


def default_state_dir(config_file: Path | None, environ: Mapping[str, str]) -> Path:
    """Return the absolute path of the state directory where `server.state_dir` is not set.

    It is systemd's STATE_DIRECTORY, else /var/lib/X for a config in /etc/X, else /var/lib/companion if there is an
    installation, else `var` beside the config (without a config: in the current folder).
    """
    given = environ.get("STATE_DIRECTORY", "").split(":")[0]
    if given:
        return Path(given).absolute()
    places = SystemPlaces.of_config(config_file) if config_file is not None else None
    if places is not None:
        return places.state_dir
    system = SystemPlaces.of_instance(None).state_dir
    if is_installation(system):
        return system
    return (config_file.parent if config_file is not None else Path()).absolute() / _LOCAL_STATE


def is_installation(state_dir: Path) -> bool:
    """Return whether an installation has started with this state directory, on whatever database.

    A directory that may not be read counts as one: nothing may be created in place of it.
    """
    return may_exist(state_dir / LOCATION_FILE)


def find_credential_source(file: Path) -> Path | None:
    """Return the file from which systemd makes this credential of our unit; None for other files.

    The credential exists only while the unit is running; its source can always be read, by root.
    """
    name = file.name.removeprefix(_CREDENTIAL_PREFIX)
    places = re.fullmatch(rf"({_NAME})\.service", file.parent.name)
    if places is None or file.parent.parent != _CREDENTIALS or name == file.name:
        return None
    return SystemPlaces(places[1]).secrets_dir / name


def _named(file: Path, what: str) -> Path:
    if not may_exist(file):
        raise ConfigError(f"{file.absolute()}: there is no such file; check {what}.")
    return file.absolute()


def may_exist(file: Path) -> bool:
    """Return whether the file exists, or may not be looked for."""
    try:
        return _is_hidden(file) or file.exists()
    except OSError:  # a name that no file can have
        return False


def _is_hidden(file: Path) -> bool:
    """Return whether the file may not be looked for, because we may not enter its folder."""
    try:
        file.stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _sets_a_key(file: Path) -> bool:
    """Return whether a config sets any key; also for one with a mistake, which is reported when it is loaded."""
    try:
        layer = file_layer(file)
    except ConfigError:
        return True
    return bool(layer.problems) or any(layer.tables.values())
