"""Facts from a daemon that is running during the checkup, which no table has."""

import json
from dataclasses import dataclass
from typing import Any

from regsvc.config.sections import Config
from regsvc.doctor.facts.host import Host, PortClosed

_READY_PATH = "/health/ready"


@dataclass(frozen=True)
class RunningDaemon:
    """The program on our port. `is_ours` False: not a companion.

    `has_held_back_changes`: reported by its sync. `restart_needed`: keys that have changed since its start and are not
    in effect.
    """

    address: str
    is_ours: bool
    has_held_back_changes: bool = False
    restart_needed: tuple[str, ...] = ()


def find_running_daemon(config: Config, host: Host) -> RunningDaemon | None:
    """Return the program listening on our port; None if there is none, or if the port is chosen at start."""
    if config.server.port == 0:
        return None
    address = config.address()
    try:
        status = _parse(host.fetch(address + _READY_PATH))
    except PortClosed:
        return None
    keys = status.get("restartNeeded")
    restart_needed = tuple(map(str, keys)) if isinstance(keys, list) else ()
    return RunningDaemon(address, "success" in status, status.get("braked") is True, restart_needed)


def _parse(answer: bytes | None) -> dict[str, Any]:
    """Parse a JSON object; return {} for anything else."""
    try:
        parsed = json.loads(answer or b"")
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}
