"""All checks, in the order of the report, and one round of them."""

import traceback
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from regsvc.doctor.checks import (
    authme,
    background,
    config,
    database,
    game,
    hashes,
    host,
    mail,
    rules,
    secrets,
    server,
    tables,
)
from regsvc.doctor.facts.facts import Facts, FactUnavailable
from regsvc.doctor.finding import Check, Finding, Severity

CHECKS: Final[tuple[Check, ...]] = (
    *config.CHECKS,
    *database.CHECKS,
    *tables.CHECKS,
    *authme.CHECKS,
    *hashes.CHECKS,
    *rules.CHECKS,
    *game.CHECKS,
    *server.CHECKS,
    *mail.CHECKS,
    *secrets.CHECKS,
    *host.CHECKS,
    *background.CHECKS,
)


@dataclass(frozen=True)
class Checkup:
    """What was found, what is broken first; and what could not be looked at, each a few words with the reason."""

    findings: tuple[Finding, ...]
    not_examined: tuple[str, ...]

    def count(self, severity: Severity) -> int:
        """How many findings are so bad."""
        return sum(finding.severity == severity for finding in self.findings)

    @property
    def verdict(self) -> str:
        """The worst severity; "fine" without findings."""
        return next((severity for severity in Severity if self.count(severity)), "fine")


def examine(facts: Facts) -> Checkup:
    """One round of all checks. Blocking: some seconds at most, where a database does not answer."""
    found: dict[Severity, list[Finding]] = {severity: [] for severity in Severity}
    not_examined: list[str] = []
    for check in CHECKS:
        try:
            found[check.severity] += check.list_findings(facts)
        except FactUnavailable as reason:
            not_examined.append(str(reason))
        except Exception as error:  # what one check stumbles over must not keep the others from telling
            not_examined.append(f"what a bug of the doctor's own hides ({_location_of(error)})")
    findings = tuple(chain.from_iterable(found.values()))
    return Checkup(findings, tuple(dict.fromkeys(reason for reason in not_examined if reason)))


def _location_of(error: Exception) -> str:
    """Where it was raised, without its message, which may quote a secret."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"
