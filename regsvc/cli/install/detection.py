"""Defaults that the machine suggests: the game server's folder, its owner, a free port."""

import errno
import pwd
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from plugin_bridge.authme.config import AuthMeConfigError, Backend, read_authme_config
from regsvc.cli.install.settings import PORT, read_values
from regsvc.config.sections import ConfigError

FIRST_PORT: Final = 8080
AUTHME: Final = Path("plugins/AuthMe")
_USUAL_FOLDERS: Final = ("srv/*", "srv/*/*", "home/*", "home/*/*", "opt/*", "opt/*/*", "var/lib/*", "var/opt/*")


def find_game_directory(instance: str | None) -> Path | None:
    """Return the folder of a game server with AuthMe: the only one, or the one named like the instance."""
    found = sorted({folder for pattern in _USUAL_FOLDERS for folder in _list_matches(pattern)})
    named = [folder for folder in found if folder.name == instance]
    candidates = named or found
    return candidates[0] if len(candidates) == 1 else None


def _list_matches(pattern: str) -> Iterator[Path]:
    with suppress(OSError):
        yield from (path.parents[1] for path in Path("/").glob(f"{pattern}/{AUTHME}"))


def find_owner(game_directory: Path) -> str | None:
    """Return the user who owns AuthMe's folder, or the game server's; None for root and for unknown users."""
    for folder in (game_directory / AUTHME, game_directory):
        with suppress(OSError, KeyError):
            owner = pwd.getpwuid(folder.stat().st_uid)
            return owner.pw_name if owner.pw_uid else None
    return None


def writes_authme_file(game_directory: Path) -> bool:
    """Return whether AuthMe's table is a file in its folder, or may be."""
    try:
        return read_authme_config(game_directory / AUTHME / "config.yml").backend == Backend.SQLITE
    except (OSError, AuthMeConfigError):
        return True


def find_other_server(etc: Path, own_config: Path, key: str, value: object) -> Path | None:
    """Return the config of another server below `etc` that has this value, too; "" and 0 are no such value."""
    for config, values in _list_configs(etc).items():
        if value and config != own_config and values.get(key) == value:
            return config
    return None


def find_free_port(etc: Path) -> int:
    """Return the first port from 8080 that nothing listens on and no config of the companion below `etc` names."""
    taken = {values.get(PORT, FIRST_PORT) for values in _list_configs(etc).values()}
    return next(port for port in range(FIRST_PORT, 65536) if port not in taken and _is_free(port))


def _list_configs(etc: Path) -> dict[Path, dict[str, object]]:
    """Return the values of every server's config that can be read, by file."""
    found = {}
    for config in sorted(etc.glob("companion*/companion.toml")):
        with suppress(ConfigError):
            found[config] = read_values(config)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True
