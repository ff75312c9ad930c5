"""Facts about the machine: user, time, disk space, listening ports, and the daemon on ours."""

import asyncio
import errno
import http.client
import os
import re
import shlex
import shutil
import socket
import ssl
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from plugin_bridge.text import decode_json
from regsvc.accounts.chat.guild_roles import Guild
from regsvc.config.sections import Config
from regsvc.core import clock
from regsvc.core.addresses import Network, is_in_networks, trusted_networks
from regsvc.core.clock import Clock
from regsvc.database.location import WrongDatabase, find_installation_fingerprint
from regsvc.doctor.abandonable import call_within
from regsvc.notifications.delivery import Drop, PermanentFailure, TemporaryFailure
from regsvc.notifications.mail.transport import PROBE_LIMIT, MailBackend
from regsvc.team_chat.platform import MessageGone, Platform

_TIMEOUT: Final = 0.5  # seconds, for a port of this machine
_CHAT_LIMIT: Final = 15.0  # seconds
_MAX_ANSWER: Final = 64 * 1024
_PROBE_ADDRESS: Final = ("192.0.2.1", 9)  # reserved for documentation; nothing is sent there
UNIT_FOLDERS: Final = tuple(map(Path, ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")))
_READY_PATH = "/health/ready"
_ALIVE_PATH = "/health/alive"
_UNREACHABLE: Final = (errno.EADDRNOTAVAIL, errno.EHOSTUNREACH, errno.ENETUNREACH)
"""Of an address that is not this machine's."""


class PortClosed(Exception):
    """No program listens on the port."""


def free_bytes(folder: Path) -> int:
    """Return the bytes that an unprivileged user may still write there. Raises OSError."""
    return shutil.disk_usage(folder).free


def find_public_address() -> str | None:
    """Return the machine's public address; None behind NAT. No packet is sent."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(_PROBE_ADDRESS)
            address = str(probe.getsockname()[0])
    except OSError:
        return None
    return address if ip_address(address).is_global else None


def accepts_connections(host: str, port: int) -> bool:
    """Return whether a TCP connection can be opened."""
    try:
        socket.create_connection((host, port), _TIMEOUT).close()
    except OSError:
        return False
    return True


def can_listen_on(host: str) -> bool:
    """Return whether the host, a name or an IP address, is one of this machine's own addresses.

    Raises `socket.gaierror` for a name that cannot be looked up.
    """
    try:
        family, _type, _protocol, _name, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind(address)
    except socket.gaierror:
        raise
    except OSError:
        return False
    return True


def fetch(url: str, proxies: Sequence[Network] = ()) -> bytes | None:
    """Return the body a local web server answers with, whatever the status; None if it does not speak HTTP.

    `proxies`: the networks from which connections have to begin with a PROXY header. Raises `PortClosed`.
    """
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc)  # sends Host
    try:
        connection.sock = _connect(parts.hostname or "", parts.port or 0, proxies, is_tls=parts.scheme == "https")
        connection.request("GET", parts.path)
        return connection.getresponse().read(_MAX_ANSWER)
    except (ConnectionRefusedError, socket.gaierror):
        raise PortClosed from None
    except OSError as error:
        if error.errno in _UNREACHABLE:
            raise PortClosed from None
        return None
    except http.client.HTTPException:
        return None
    finally:
        connection.close()


def _connect(host: str, port: int, proxies: Sequence[Network], *, is_tls: bool) -> socket.socket:
    """Connect to a server on this machine. Raises OSError."""
    connection = socket.create_connection((host, port), _TIMEOUT)
    try:
        if is_in_networks(connection.getsockname()[0], proxies):
            connection.sendall(b"PROXY UNKNOWN\r\n")  # it is we who connect
        if is_tls:
            trusting = ssl.create_default_context()
            trusting.check_hostname = False  # it is our own server, addressed by the name of this machine
            trusting.verify_mode = ssl.CERT_NONE
            connection = trusting.wrap_socket(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def find_mail_problem(backend: MailBackend) -> str | None:
    """Return why no mail can be sent at the moment, or None. Logs in to the mail server, and sends nothing."""
    try:
        return call_within(PROBE_LIMIT.total_seconds() + 1, lambda: asyncio.run(backend.find_problem(PROBE_LIMIT)))
    except TimeoutError:  # a name server that does not answer cannot be cancelled
        return "the mail server’s name cannot be looked up in time: check mail.host or http_url, and this machine’s DNS"


def find_chat_problems(platform: Platform, now: datetime) -> list[str]:
    """Return what keeps the team from deciding in a chat. Asks the platform, and sends no message."""
    try:
        return call_within(_CHAT_LIMIT, lambda: asyncio.run(platform.find_problems(now)))
    except TimeoutError:
        return [f"{platform.title} does not answer in time"]
    except (Drop, MessageGone, TemporaryFailure, PermanentFailure) as error:
        return [str(error) or f"{platform.title}: a reply of another kind than documented"]


def find_role_problems(guild: Guild) -> list[str]:
    """Return what keeps the roles of a guild from being known or given. Asks the platform, and changes nothing."""
    try:
        return call_within(_CHAT_LIMIT, lambda: asyncio.run(guild.find_problems()))
    except TimeoutError:
        return ["Discord does not answer in time"]


def find_lock_holder(folder: Path) -> int | None:
    """Return the id of the process that has locked the folder, as a daemon locks its state directory; None: unknown."""
    try:
        found = folder.stat()
        place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        locks = [line.split() for line in Path("/proc/locks").read_text("ascii").splitlines()]
    except OSError:
        return None
    return next((int(lock[4]) for lock in locks if lock[1] == "FLOCK" and lock[5] == place), None)


def find_start(process_id: int) -> datetime | None:
    """Return when a process started; None if it has ended, or may not be seen."""
    try:
        ticks = int(Path(f"/proc/{process_id}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19])
    except OSError:
        return None
    seconds = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return clock.now() - timedelta(seconds=seconds)


def is_world_readable(file: Path) -> bool:
    """Return whether every user of this machine may read the file and enter every folder above it."""
    try:
        path = file.resolve(strict=True)
        is_readable = bool(path.stat().st_mode & stat.S_IROTH)
        return is_readable and all(folder.stat().st_mode & stat.S_IXOTH for folder in path.parents)
    except OSError:
        return False


def is_forbidden_by_unit(unit: str, state_dir: Path, folder: Path) -> bool:
    """Return whether a unit that protects the file system leaves a folder read-only; False if there is no such unit.

    `state_dir`: what the unit's StateDirectory= is.
    """
    template = re.sub(r"@.*\.", "@.", unit)
    found = [units / template for units in UNIT_FOLDERS if (units / template).is_file()]
    files = [*found[:1], *sorted((UNIT_FOLDERS[0] / f"{unit}.d").glob("*.conf"))]
    protection, writable = "", [state_dir]
    for line in (line for file in files for line in file.read_text("utf-8", "replace").splitlines()):
        key, _equals, value = line.partition("=")
        if key == "ProtectSystem":
            protection = value
        elif key == "ReadWritePaths":
            words = [Path(word.lstrip("-+").replace("%%", "%")) for word in shlex.split(value)]
            writable = [*writable, *words] if words else [state_dir]
    return protection == "strict" and not any(folder.absolute().is_relative_to(allowed) for allowed in writable)


@dataclass(frozen=True)
class Host:
    """Access to the machine; tests replace single functions."""

    now: Clock = clock.now
    user_id: Callable[[], int] = os.geteuid
    free_bytes: Callable[[Path], int] = free_bytes
    find_public_address: Callable[[], str | None] = find_public_address
    accepts_connections: Callable[[str, int], bool] = accepts_connections
    fetch: Callable[..., bytes | None] = fetch
    can_listen_on: Callable[[str], bool] = can_listen_on
    find_mail_problem: Callable[[MailBackend], str | None] = find_mail_problem
    find_chat_problems: Callable[[Platform, datetime], list[str]] = find_chat_problems
    find_role_problems: Callable[[Guild], list[str]] = find_role_problems


@dataclass(frozen=True)
class RunningDaemon:
    """The program on our port. `is_companion` False: another program.

    `is_other`: a companion of another installation than the one in our state directory, where there may be none.
    `has_held_back_changes`: reported by its sync. `restart_needed`: keys that have changed since its start and are not
    in effect. `is_unwritable`: our database accepts no changes. `seconds_since_sync`: since its last sync run ended;
    None: it does not say. `roles_problem`: why it does not know, or give, roles on Discord. `health`: what
    `/health/ready` replied; empty if it did not in time.
    """

    address: str
    is_companion: bool
    is_other: bool = False
    has_held_back_changes: bool = False
    restart_needed: tuple[str, ...] = ()
    is_state_lost: bool = False
    is_unwritable: bool = False
    seconds_since_sync: float | None = None
    roles_problem: str = ""
    health: Mapping[str, Any] = field(default_factory=dict)


def find_running_daemon(config: Config, host: Host) -> RunningDaemon | None:
    """Return the program listening on our port; None if there is none, or if the port is chosen at start."""
    if config.server.port == 0:
        return None
    address = config.address()
    try:
        status = _parse(fetch_own(config, host, _READY_PATH))
        alive = _parse(fetch_own(config, host, _ALIVE_PATH))
    except PortClosed:
        return None
    if "success" not in status and "success" not in alive:  # its database may take longer to answer than we wait
        return RunningDaemon(address, is_companion=False)
    is_state_lost = status.get("stateLost") is True
    if not is_state_lost and alive.get("installation") not in (None, _find_fingerprint(config)):
        return RunningDaemon(address, is_companion=True, is_other=True)
    keys = status.get("restartNeeded")
    restart_needed = tuple(map(str, keys)) if isinstance(keys, list) else ()
    seconds = status.get("syncSeconds")
    return RunningDaemon(
        address,
        is_companion=True,
        has_held_back_changes=status.get("braked") is True,
        restart_needed=restart_needed,
        is_state_lost=is_state_lost,
        is_unwritable=status.get("writable") is False,
        seconds_since_sync=seconds if isinstance(seconds, int) else None,
        health=status,
    )


def fetch_own(config: Config, host: Host, path: str) -> bytes | None:
    """Return what the daemon on our port answers, as `fetch` does. Raises `PortClosed`."""
    proxies = trusted_networks(config.http.trusted_proxies, config.server.host)
    with_header = (proxies,) if config.http.proxy_protocol and proxies else ()
    return host.fetch(config.address() + path, *with_header)


def _find_fingerprint(config: Config) -> str | None:
    try:
        return find_installation_fingerprint(config.server.state_dir)
    except WrongDatabase:  # a finding of its own
        return None


def _parse(answer: bytes | None) -> dict[str, Any]:
    """Parse a JSON object; return {} for anything else."""
    try:
        parsed = decode_json(answer or b"")
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
