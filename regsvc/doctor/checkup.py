"""The list of all checks, in the order of the report, and the function that runs them."""

from dataclasses import dataclass
from itertools import chain
from typing import Final

from regsvc.core.exceptions import locate_exception
from regsvc.core.i18n.languages import FALLBACK_LANGUAGE
from regsvc.core.i18n.sentences import Sentence
from regsvc.doctor.checks import (
    authme,
    background,
    cluster,
    config,
    database,
    game,
    hashes,
    host,
    mail,
    network,
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
    *cluster.CHECKS,
    *tables.CHECKS,
    *authme.CHECKS,
    *hashes.CHECKS,
    *rules.CHECKS,
    *network.CHECKS,
    *game.CHECKS,
    *server.CHECKS,
    *mail.CHECKS,
    *secrets.CHECKS,
    *host.CHECKS,
    *background.CHECKS,
)


@dataclass(frozen=True)
class Checkup:
    """Result of all checks: findings, broken ones first, and what could not be examined, each with the reason."""

    findings: tuple[Finding, ...]
    not_examined: tuple[str, ...]
    language: str = FALLBACK_LANGUAGE

    def count(self, severity: Severity) -> int:
        """Return the number of findings of this severity."""
        return sum(finding.severity == severity for finding in self.findings)

    @property
    def verdict(self) -> str:
        """The worst severity, or "fine" if there are no findings."""
        return next((severity for severity in Severity if self.count(severity)), "fine")


def examine(facts: Facts) -> Checkup:
    """Run all checks. Blocking; takes some seconds at most, when a database does not answer."""
    found: dict[Severity, list[Finding]] = {severity: [] for severity in Severity}
    not_examined: list[str] = []
    for check in CHECKS:
        try:
            found[check.severity] += check.list_findings(facts)
        except FactUnavailable as reason:
            not_examined.append(Sentence(str(reason)))
        except Exception as error:  # a bug in one check must not prevent the others
            place = locate_exception(error)
            not_examined.append(Sentence("one check, because of a bug in the doctor ({place})", place=place))
    findings = tuple(chain.from_iterable(found.values()))
    return Checkup(findings, tuple(dict.fromkeys(reason for reason in not_examined if reason)))
