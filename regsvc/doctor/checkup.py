"""Checkups: all checks, in the order of the report, and the function that runs them."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from regsvc.config.sections import Config
from regsvc.core.clock import Clock
from regsvc.core.exceptions import describe_exception, locate_exception
from regsvc.core.i18n.languages import FALLBACK_LANGUAGE
from regsvc.core.i18n.sentences import Sentence
from regsvc.doctor.checks import (
    allowlist,
    authme,
    background,
    backups,
    config,
    database,
    game,
    holes,
    host,
    rules,
    tables,
)
from regsvc.doctor.facts.facts import Facts, FactUnavailable, FixLocation, Source
from regsvc.doctor.facts.host import Host, RunningDaemon
from regsvc.doctor.finding import Check, Finding, Severity, Symptom, check

log = logging.getLogger(__name__)
_MODULES: Final = (config, database, tables, holes, authme, rules, game, allowlist, host, backups, background)


@check(
    "doctor.check_failed",
    Severity.BROKEN,
    means="Checks could not run, because of a bug in the doctor.",
    why="What they look for may be broken unnoticed.",
    do="Fix what else was found, which may be the cause. Report the bug, with this finding and the version.",
    where=FixLocation(Source.MACHINE, "companion version"),
)
def checks_fail(facts: Facts) -> Iterator[Sentence]:
    """Yield nothing: `examine` reports the checks that failed."""
    yield from ()


CHECKS: Final = (
    *(check for module in _MODULES for check in vars(module).values() if isinstance(check, Check)),
    checks_fail,
)
"""All checks, in the order of the report."""


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
    found: list[Finding] = []
    not_examined: list[str] = []
    failed: dict[str, list[str]] = {}
    for each in CHECKS:
        try:
            for finding in each.find(facts):
                found.append(finding)  # those before an exception count
        except FactUnavailable as reason:
            not_examined.append(Sentence(str(reason)))
        except Exception as error:  # a bug in one check must not prevent the others, nor go unnoticed
            log.debug("the check %s failed: %s", each.id, describe_exception(error))
            failed.setdefault(locate_exception(error), []).append(each.id)
    for place, ids in failed.items():
        title = Sentence("Could not run: {checks} ({place}).", checks=", ".join(ids), place=place)
        found.append(checks_fail.report(facts, Symptom(title)))
    severities = [*Severity]
    found.sort(key=lambda finding: severities.index(finding.severity))
    return Checkup(tuple(found), tuple(dict.fromkeys(reason for reason in not_examined if reason)))


def examine_daemon(config: Config, now: Clock, about_us: Mapping[str, Any]) -> Checkup:
    """Run all checks inside the daemon; `about_us` are further fields of `RunningDaemon`. Blocking."""
    running_daemon = RunningDaemon(config.address(), is_companion=True, **about_us)
    return examine(Facts(config, Host(now=now), running_daemon))
