"""Checkups: all checks, in the order of the report, the function that runs them, and the daemon's cache of the last."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import Final

from regsvc.core.clock import Clock
from regsvc.core.exceptions import locate_exception
from regsvc.core.i18n.languages import FALLBACK_LANGUAGE
from regsvc.core.i18n.sentences import Sentence
from regsvc.core.shared_lookup import CachedCall
from regsvc.doctor.abandonable import await_call
from regsvc.doctor.checks import authme, background, config, database, game, host, rules, tables
from regsvc.doctor.facts.facts import Facts, FactUnavailable
from regsvc.doctor.finding import Check, Finding, Severity

_MODULES: Final = (config, database, tables, authme, rules, game, host, background)
CHECKS: Final = tuple(check for module in _MODULES for check in vars(module).values() if isinstance(check, Check))
"""All checks, in the order of the report."""
MAX_AGE: Final = timedelta(minutes=1)


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
            for finding in check.find(facts):
                found[finding.severity].append(finding)
        except FactUnavailable as reason:
            not_examined.append(Sentence(str(reason)))
        except Exception as error:  # a bug in one check must not prevent the others
            place = locate_exception(error)
            not_examined.append(Sentence("one check, because of a bug in the doctor ({place})", place=place))
    findings = tuple(chain.from_iterable(found.values()))
    return Checkup(findings, tuple(dict.fromkeys(reason for reason in not_examined if reason)))


def cached_checkup(
    gather: Callable[[], Facts],
    now: Clock,
    *,
    examine: Callable[[Facts], Checkup] = examine,
    max_age: timedelta = MAX_AGE,
) -> CachedCall[tuple[Checkup, datetime]]:
    """Return checkups, each with when it was made, on a thread of their own. `gather` creates the facts for one."""

    async def run() -> tuple[Checkup, datetime]:
        return await await_call(partial(examine, gather())), now()

    return CachedCall(run, max_age, "doctor")
