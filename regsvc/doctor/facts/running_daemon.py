"""Facts from a daemon that is running during the checkup, which no table has."""

import json
from dataclasses import dataclass
from typing import Any

from regsvc.config.sections import Config
from regsvc.database.location import WrongDatabase, find_installation_fingerprint
from regsvc.doctor.facts.host import Host, PortClosed

_READY_PATH = "/health/ready"
_ALIVE_PATH = "/health/alive"


@dataclass(frozen=True)
class RunningDaemon:
    """The program on our port. `is_companion` False: another program.

    `is_other`: a companion of another installation than the one in our state directory, where there may be none.
    `has_held_back_changes`: reported by its sync. `restart_needed`: keys that have changed since its start and are not
    in effect. `seconds_since_sync`: since its last sync run ended; None: it does not say.
    """

    address: str
    is_companion: bool
    is_other: bool = False
    has_held_back_changes: bool = False
    restart_needed: tuple[str, ...] = ()
    is_state_lost: bool = False
    seconds_since_sync: float | None = None


def find_running_daemon(config: Config, host: Host) -> RunningDaemon | None:
    """Return the program listening on our port; None if there is none, or if the port is chosen at start."""
    if config.server.port == 0:
        return None
    address = config.address()
    try:
        status = _parse(host.fetch(address + _READY_PATH))
        alive = _parse(host.fetch(address + _ALIVE_PATH))
    except PortClosed:
        return None
    if "success" not in status:
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
        seconds_since_sync=seconds if isinstance(seconds, int) else None,
    )


def _find_fingerprint(config: Config) -> str | None:
    try:
        return find_installation_fingerprint(config.server.state_dir)
    except WrongDatabase:  # a finding of its own
        return None


def _parse(answer: bytes | None) -> dict[str, Any]:
    """Parse a JSON object; return {} for anything else."""
    try:
        parsed = json.loads(answer or b"")
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}
