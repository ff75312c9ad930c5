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


def find_free_port(etc: Path) -> int:
    """Return the first port from 8080 that nothing listens on and no config of the companion below `etc` names."""
    taken = set()
    for config in etc.glob("companion*/companion.toml"):
        with suppress(ConfigError):
            taken.add(read_values(config).get(PORT, FIRST_PORT))
    return next(port for port in range(FIRST_PORT, 65536) if port not in taken and _is_free(port))


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True
