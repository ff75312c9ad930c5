"""What the doctor asks of the machine: who we are, what time it is, how much room there is, who listens."""

import http.client
import os
import shutil
import socket
import ssl
import stat
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from regsvc.core import clock
from regsvc.core.clock import Clock

_TIMEOUT: Final = 0.5  # seconds, for a port of this machine
_MAX_ANSWER: Final = 64 * 1024
_PROBE_ADDRESS: Final = ("192.0.2.1", 9)  # for documentation: nothing is ever sent there


class PortClosed(Exception):
    """The port is free."""


def free_bytes(folder: Path) -> int:
    """What a user may still write there. Raises OSError."""
    return shutil.disk_usage(folder).free


def find_public_address() -> str | None:
    """The address this machine has on the internet; None behind a router of its own. No packet is sent."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(_PROBE_ADDRESS)
            address = str(probe.getsockname()[0])
    except OSError:
        return None
    return address if ip_address(address).is_global else None


def accepts_connections(host: str, port: int) -> bool:
    """Whether somebody takes connections there."""
    try:
        socket.create_connection((host, port), _TIMEOUT).close()
    except OSError:
        return False
    return True


def fetch(url: str) -> bytes | None:
    """What a web server on this machine answers, whatever its status; None if it does not speak HTTP.

    Raises `PortClosed`.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 0
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        trusting = ssl.create_default_context()
        trusting.check_hostname = False  # it is our own, under the name of this machine
        trusting.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(host, port, timeout=_TIMEOUT, context=trusting)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
    try:
        connection.request("GET", parts.path)
        return connection.getresponse().read(_MAX_ANSWER)
    except ConnectionRefusedError:
        raise PortClosed from None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def is_world_readable(file: Path) -> bool:
    """Whether every user of this machine may read the file: it, and every folder on the way to it."""
    try:
        path = file.resolve(strict=True)
        is_readable = bool(path.stat().st_mode & stat.S_IROTH)
        return is_readable and all(folder.stat().st_mode & stat.S_IXOTH for folder in path.parents)
    except OSError:
        return False


@dataclass(frozen=True)
class Host:
    """All of it. Each may be replaced by whoever wants another machine."""

    now: Clock = clock.now
    user_id: Callable[[], int] = os.geteuid
    free_bytes: Callable[[Path], int] = free_bytes
    find_public_address: Callable[[], str | None] = find_public_address
    accepts_connections: Callable[[str, int], bool] = accepts_connections
    fetch: Callable[[str], bytes | None] = fetch
