"""What the doctor finds, and how a check is written: one function for each kind of finding.

A check gets `Facts` and yields what is so, as a sentence, once for each time it is so. Everything else about the
finding stands in its declaration, from which the report and docs/doctor.md are made.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from regsvc.doctor.facts.facts import Facts, FixLocation


class Severity(StrEnum):
    """How bad it is. The words are part of `--json`."""

    BROKEN = "broken"
    """Something that players or operators need does not work."""
    RISKY = "risky"
    """It works, but not as safely or as reliably as it could."""


@dataclass(frozen=True)
class Symptom:
    """What is so. `do` and `where` replace those of the check where it matters which one it is."""

    title: str
    do: str | None = None
    where: str | None = None


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong or risky. The fields are those of `--json`; each but `id` is text for people."""

    id: str
    severity: Severity
    title: str
    why: str
    do: str
    where: str


CheckFunction = Callable[[Facts], Iterator[str | Symptom]]


@dataclass(frozen=True)
class Check:
    """One kind of finding. `id` never changes its meaning; `means` says in docs/doctor.md what is so."""

    id: str
    severity: Severity
    means: str
    why: str
    do: str
    location: FixLocation
    examine: CheckFunction

    def list_findings(self, facts: Facts) -> list[Finding]:
        """All findings of this kind; raises `FactUnavailable`."""
        return [self._finding(symptom, facts) for symptom in self.examine(facts)]

    def _finding(self, told: str | Symptom, facts: Facts) -> Finding:
        symptom = Symptom(told) if isinstance(told, str) else told
        where = facts.describe(self.location) if symptom.where is None else symptom.where
        title = symptom.title if symptom.title.endswith((".", "?", "…")) else f"{symptom.title}."
        return Finding(self.id, self.severity, title, self.why, symptom.do or self.do, where)


def check(
    id: str, severity: Severity, *, means: str, why: str, do: str, where: FixLocation
) -> Callable[[CheckFunction], Check]:
    """Declare a check; the function below it yields a sentence, or a `Symptom`, for each time that it is so."""

    def declare(examine: CheckFunction) -> Check:
        return Check(id, severity, means, why, do, where, examine)

    return declare
