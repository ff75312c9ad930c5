"""The companion that serves while the doctor looks: it knows what stands in no table."""

import json
from dataclasses import dataclass
from typing import Any

from regsvc.config.sections import Config
from regsvc.doctor.facts.host import Host, PortClosed

_READY_PATH = "/health/ready"


@dataclass(frozen=True)
class RunningDaemon:
    """`is_ours` False: another program has our port. `has_held_back_changes`: its sync left something out."""

    address: str
    is_ours: bool
    has_held_back_changes: bool = False


def find_running_daemon(config: Config, host: Host) -> RunningDaemon | None:
    """Whoever listens on our port; None if nobody does, or if any free port will do."""
    if config.server.port == 0:
        return None
    address = config.address()
    try:
        vitals = _parse(host.fetch(address + _READY_PATH))
    except PortClosed:
        return None
    return RunningDaemon(address, "success" in vitals, vitals.get("braked") is True)


def _parse(answer: bytes | None) -> dict[str, Any]:
    """The JSON object; empty for anything else."""
    try:
        parsed = json.loads(answer or b"")
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}
