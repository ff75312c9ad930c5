"""Generator for the lists of docs/doctor.md, from the checks: `python -m tests.generators.doctor [--check]`."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from regsvc.doctor.checkup import CHECKS
from regsvc.doctor.finding import Check
from tests.generators import bullets, with_parts, write_or_check

DOCTOR_FILE: Final = Path(__file__).resolve().parents[2] / "docs" / "doctor.md"

_AREAS: Final = {
    "config": "Our config",
    "database": "Our database",
    "table": "AuthMe's table",
    "authme": "AuthMe's config",
    "hash": "Hash algorithms",
    "network": "Several game servers",
    "rules": "Names and passwords",
    "bedrock": "Bedrock players",
    "game": "The game server",
    "allowlist": "The allowlist",
    "server": "Address and port",
    "mail": "Mail",
    "secrets": "Secrets",
    "machine": "The machine",
    "backup": "Backups",
    "sync": "The sync",
    "outbox": "Mail, webhook and console messages",
    "team": "The team",
    "chat": "Chat accounts of players",
    "team_chat": "The team's chats",
    "doctor": "The doctor itself",
}


def main(arguments: list[str] | None = None, file: Path = DOCTOR_FILE) -> int:
    """Write or check the page; return the exit status."""
    areas: dict[str, list[Check]] = {}
    for check in CHECKS:
        areas.setdefault(check.id.partition(".")[0], []).append(check)
    findings = "\n".join(_area(_AREAS[area], checks) for area, checks in areas.items())
    return write_or_check(file, with_parts(file, {"findings": findings}), arguments, __doc__ or "")


def _area(title: str, checks: Iterable[Check]) -> str:
    lines = [(f"`{check.id}`{' (broken)' * (check.severity == 'broken')}", check.means) for check in checks]
    return f"## {title}\n\n{bullets(lines)}"


if __name__ == "__main__":
    sys.exit(main())
