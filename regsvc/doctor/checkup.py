"""Checkups: all checks, in the order of the report, and the function that runs them.

Output of a checkup: text for people, JSON for programs, an exit status for both.
"""

import json
import logging
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from msgspec import structs

from regsvc.config.sections import Config
from regsvc.core.clock import Clock
from regsvc.core.exceptions import describe_exception, locate_exception
from regsvc.core.i18n import FALLBACK_LANGUAGE, Sentence, find_language, join, read_texts, translate
from regsvc.doctor.checks import authme, background, config, database, game, host, rules
from regsvc.doctor.facts.facts import Facts, FactUnavailable, FixLocation, Source
from regsvc.doctor.facts.host import Host, RunningDaemon
from regsvc.doctor.finding import Check, FindingFields, Severity, Symptom, check

log = logging.getLogger(__name__)
_MODULES: Final = (config, database, authme, rules, game, host, background)


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

    findings: tuple[FindingFields, ...]
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
    found: list[FindingFields] = []
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


_MEANINGS: Final = {check.id: Sentence(check.means) for check in CHECKS}

EXIT_STATUS: Final[Mapping[str, int]] = {"fine": 0, Severity.RISKY: 1, Severity.BROKEN: 2}
"""By verdict."""
_MAX_LOGGED: Final = 5
_WIDEST: Final = 110
_NARROWEST: Final = 50
_COLOURS: Final[Mapping[str, str]] = {"fine": "\033[32m", Severity.RISKY: "\033[33m", Severity.BROKEN: "\033[31m"}
_RESET: Final = "\033[0m"


def in_language(checkup: Checkup, language: str) -> Checkup:
    """Return the checkup in this language, or in English if there are no words for it. Reads a file at first use."""
    spoken = find_language(read_words(), language) or FALLBACK_LANGUAGE
    words = read_words()[spoken]
    return Checkup(
        tuple(_translate_finding(finding, words) for finding in checkup.findings),
        tuple(translate(reason, words) for reason in checkup.not_examined),
        spoken,
    )


@cache
def read_words() -> Mapping[str, Mapping[str, str]]:
    """Return the words for each English sentence, by language; none for English."""
    folder = files("regsvc.doctor") / "translations"
    languages = {file.name.removesuffix(".toml"): file for file in folder.iterdir() if file.name.endswith(".toml")}
    return {FALLBACK_LANGUAGE: {}, **{language: read_texts(file) for language, file in languages.items()}}


def _translate_finding(finding: FindingFields, words: Mapping[str, str]) -> FindingFields:
    title: str = finding.title
    if words and not isinstance(title, Sentence):  # a message of another part, which exists in English only
        title = Sentence("{means} {message}", means=_MEANINGS[finding.id], message=title)
    return structs.replace(
        finding,
        title=translate(title, words),
        why=translate(finding.why, words),
        do=translate(finding.do, words),
        where=translate(finding.where, words),
    )


def as_json(checkup: Checkup, places: Mapping[str, str]) -> str:
    """Return JSON with `verdict`, the counts `broken` and `risky`, `findings` (see `FindingFields`) and `notExamined`.

    `places`: what was examined, by name.
    """
    data = {
        "verdict": checkup.verdict,
        **{str(severity): checkup.count(severity) for severity in Severity},
        "findings": [structs.asdict(finding) for finding in checkup.findings],
        "notExamined": checkup.not_examined,
        "examined": dict(places),
    }
    return json.dumps(data, indent=2)


def as_text(checkup: Checkup, places: Mapping[str, str], *, has_colours: bool) -> str:
    """Return a paragraph for each finding, and a summary that begins with `places`, what was examined.

    Findings with the same reason and advice share a paragraph, which has both once.
    Use colours on a terminal only.
    """
    width = max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns))
    words = read_words()[checkup.language]
    alike: dict[tuple[str, ...], list[FindingFields]] = {}
    for finding in checkup.findings:
        alike.setdefault((finding.id, finding.severity, finding.why, finding.do), []).append(finding)
    paragraphs = [_paragraph(findings, words, width, has_colours) for findings in alike.values()]
    examined = "".join(f"{words.get(name, name)}: {place}\n" for name, place in places.items())
    return "\n\n".join([*paragraphs, examined + _summary(checkup, words, width, has_colours)])


def log_summary(checkup: Checkup) -> None:
    """Log what is broken, a line for each of the first findings, and how many findings there are."""
    broken = [finding for finding in checkup.findings if finding.severity == "broken"]
    for finding in broken[:_MAX_LOGGED]:
        log.error("doctor: %s %s (%s)", finding.title, finding.do, finding.where)
    if checkup.findings:
        log.warning("doctor: %s; for all of it run: companion doctor, or see /admin", _counts(checkup))
    else:
        log.info("doctor: %s", _counts(checkup))


def _paragraph(findings: Sequence[FindingFields], words: Mapping[str, str], width: int, has_colours: bool) -> str:
    *others, finding = findings
    mark = _coloured(words.get(finding.severity, finding.severity).upper(), finding.severity, has_colours)
    do = translate(Sentence("Do: {advice}", advice=finding.do), words)
    lines = [
        f"{mark}  {finding.id}",
        *(_wrapped(other.title, "  ", width) for other in others),
        _wrapped(f"{finding.title} {finding.why}", "  ", width),
        _wrapped(do, "  ", width),
    ]
    for where in dict.fromkeys(each.where for each in findings):  # not wrapped, so that it can be copied
        lines.append(f"  {translate(Sentence('In: {where}', where=where), words)}")
    return "\n".join(lines)


def _summary(checkup: Checkup, words: Mapping[str, str], width: int, has_colours: bool) -> str:
    verdict = _coloured(words.get(checkup.verdict, checkup.verdict).upper(), checkup.verdict, has_colours)
    lines = [translate(Sentence("{verdict}: {counts}.", verdict=verdict, counts=_counts(checkup)), words)]
    not_examined = [Sentence("Not examined: {reason}.", reason=reason) for reason in checkup.not_examined]
    lines += [_wrapped(translate(reason, words), "  ", width) for reason in not_examined]
    return "\n".join(lines)


def _counts(checkup: Checkup) -> Sentence:
    counts = [
        Sentence("{count} broken", count=checkup.count(Severity.BROKEN)),
        Sentence("{count} risky", count=checkup.count(Severity.RISKY)),
    ]
    found = [count for count in counts if count.facts["count"]]
    return join(found, "{first}, {next}") if found else Sentence("no check found a problem")


def _wrapped(text: str, indent: str, width: int) -> str:
    return textwrap.fill(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _coloured(word: str, verdict: str, has_colours: bool) -> str:
    return f"{_COLOURS[verdict]}{word}{_RESET}" if has_colours else word
