"""Findings, and the decorator that declares a check: one function per kind of finding.

A check receives `Facts` and yields a `Sentence` for each problem found. Everything else about the finding is in the
declaration, from which the report and docs/doctor.md are generated. A check that yields the messages of other parts,
which exist in English only, is annotated with `str`; in other languages, `means` precedes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from regsvc.core.i18n import Sentence, join
from regsvc.core.shapes import Output

if TYPE_CHECKING:
    from regsvc.doctor.facts.facts import Facts, FixLocation


class Severity(StrEnum):
    """Severity of a finding, worst first. The values are part of the `--json` format."""

    BROKEN = "broken"
    """Something that players or operators need does not work, or strangers can play as other players."""
    RISKY = "risky"
    """It works, but not as safely or as reliably as it could."""


@dataclass(frozen=True)
class Symptom:
    """One problem found by a check. `do`, `where` and `severity`, if given, replace those of the check.

    `server`: the name of the game server that has it, "" for the main one; None: it is not about one of them. Servers
    with the same problem share one finding.
    """

    title: str
    do: Sentence | None = None
    where: str | FixLocation | None = None
    severity: Severity | None = None
    server: str | None = None


Words = Annotated[str, Meta(description="A sentence or two, in the language of the reply.")]


class FindingFields(Output, frozen=True):
    """A problem: `broken`, or `risky` if it works, but not as safely or reliably as it could."""

    id: Annotated[str, Meta(description="A stable id of the kind of finding.", examples=["authme.caching"])]
    severity: Literal["broken", "risky"]
    title: Annotated[Words, Meta(examples=["DataSource.caching is true."])]
    why: Annotated[Words, Meta(examples=["An old password works for minutes after it was changed on the web."])]
    do: Annotated[Words, Meta(examples=["Switch the cache off and restart the game server."])]
    where: Annotated[
        str,
        Meta(
            description="A file and a key with the value it should have, a command, or a statement.",
            examples=["plugins/AuthMe/config.yml: DataSource.caching: false"],
        ),
    ]


CheckFunction = Callable[["Facts"], Iterator[str | Symptom]]


@dataclass(frozen=True)
class Check:
    """One kind of finding. The meaning of `id` never changes; `means` describes it in docs/doctor.md.

    `severity`: the worst that it may have.
    """

    id: str
    severity: Severity
    means: str
    why: str
    do: str
    location: FixLocation
    examine: CheckFunction

    def find(self, facts: Facts) -> Iterator[FindingFields]:
        """Yield the findings of this kind. Raises `FactUnavailable`, perhaps after the first ones."""
        groups: dict[object, list[Symptom]] = {}
        failure: Exception | None = None
        try:
            for number, found in enumerate(self.examine(facts)):
                symptom = found if isinstance(found, Symptom) else Symptom(found)
                shared = (symptom.title, symptom.do, symptom.severity)
                groups.setdefault(number if symptom.server is None else shared, []).append(symptom)
        except Exception as error:
            failure = error
        for symptoms in groups.values():
            yield self.report(facts, *symptoms)
        if failure is not None:
            raise failure

    def report(self, facts: Facts, first: Symptom, *others: Symptom) -> FindingFields:
        """Return the finding for a problem of this kind; `others`: further game servers that have it."""
        title = _with_full_stop(first.title)
        servers = [symptom.server for symptom in (first, *others) if symptom.server is not None]
        if any(servers):
            names = [Sentence("{name}", name=name) if name else Sentence("the main game server") for name in servers]
            title = Sentence("{server}: {sentence}", server=join(names, "{first}, {next}"), sentence=title)
        wheres = [self.location if symptom.where is None else symptom.where for symptom in (first, *others)]
        places = [where if isinstance(where, str) else facts.describe(where) for where in wheres]
        return FindingFields(
            id=self.id,
            severity="broken" if (first.severity or self.severity) is Severity.BROKEN else "risky",
            title=title,
            why=Sentence(self.why),
            do=first.do or Sentence(self.do),
            where=reduce(lambda before, after: Sentence("{first}; {next}", first=before, next=after), places),
        )


def check(
    id: str, severity: Severity, *, means: str, why: str, do: str, where: FixLocation
) -> Callable[[CheckFunction], Check]:
    """Declare the decorated function as a check; it yields a sentence or a `Symptom` for each problem."""

    def declare(examine: CheckFunction) -> Check:
        return Check(id, severity, means, why, do, where, examine)

    return declare


def list_some(names: Sequence[str], most: int = 3) -> str:
    """Return the first names, for a title."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def _with_full_stop(title: str) -> str:
    if title.endswith((".", "?", "…")):
        return title
    return Sentence("{sentence}.", sentence=title) if isinstance(title, Sentence) else f"{title}."
