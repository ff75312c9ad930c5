"""The companion that serves while the doctor looks: it knows what stands in no table."""

import json
from dataclasses import dataclass
from typing import Any

from regsvc.config.sections import Config
from regsvc.doctor.facts.host import Machine, NobodyListens

_VITALS = "/health/ready"


@dataclass(frozen=True)
class RunningCompanion:
    """`is_ours` False: another program has our port. `is_braked`: its sync left something out."""

    address: str
    is_ours: bool
    is_braked: bool = False


def find_running(config: Config, machine: Machine) -> RunningCompanion | None:
    """Whoever listens on our port; None if nobody does, or if any free port will do."""
    if config.server.port == 0:
        return None
    address = config.address()
    try:
        vitals = _parse(machine.fetch(address + _VITALS))
    except NobodyListens:
        return None
    return RunningCompanion(address, "success" in vitals, vitals.get("braked") is True)


def _parse(answer: bytes | None) -> dict[str, Any]:
    """The JSON object; empty for anything else."""
    try:
        parsed = json.loads(answer or b"")
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}
