"""Output of a checkup: text for people, JSON for programs, an exit status for both."""

import json
import logging
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from importlib.resources import files
from typing import Final

from regsvc.core.i18n.languages import FALLBACK_LANGUAGE, find_language
from regsvc.core.i18n.sentences import Sentence, join, translate
from regsvc.core.i18n.translations import read_texts
from regsvc.doctor.checkup import CHECKS, Checkup
from regsvc.doctor.finding import Finding, Severity

_MEANINGS: Final = {check.id: Sentence(check.means) for check in CHECKS}
log = logging.getLogger(__name__)
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


def _translate_finding(finding: Finding, words: Mapping[str, str]) -> Finding:
    title: str = finding.title
    if words and not isinstance(title, Sentence):  # a message of another part, which exists in English only
        title = Sentence("{means} {message}", means=_MEANINGS[finding.id], message=title)
    return replace(
        finding,
        title=translate(title, words),
        why=translate(finding.why, words),
        do=translate(finding.do, words),
        where=translate(finding.where, words),
    )


def as_json(checkup: Checkup, places: Mapping[str, str]) -> str:
    """Return JSON with `verdict`, the counts `broken` and `risky`, `findings` (see `Finding`) and `notExamined`.

    `places`: what was examined, by name.
    """
    data = {
        "verdict": checkup.verdict,
        **{str(severity): checkup.count(severity) for severity in Severity},
        "findings": [asdict(finding) for finding in checkup.findings],
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
    alike: dict[tuple[str, ...], list[Finding]] = {}
    for finding in checkup.findings:
        alike.setdefault((finding.id, finding.severity, finding.why, finding.do), []).append(finding)
    paragraphs = [_paragraph(findings, words, width, has_colours) for findings in alike.values()]
    examined = "".join(f"{words.get(name, name)}: {place}\n" for name, place in places.items())
    return "\n\n".join([*paragraphs, examined + _summary(checkup, words, width, has_colours)])


def log_summary(checkup: Checkup) -> None:
    """Log what is broken, a line for each of the first findings, and how many findings there are."""
    broken = [finding for finding in checkup.findings if finding.severity == Severity.BROKEN]
    for finding in broken[:_MAX_LOGGED]:
        log.error("doctor: %s %s (%s)", finding.title, finding.do, finding.where)
    if checkup.findings:
        log.warning("doctor: %s; for all of it run: companion doctor, or see /admin", _counts(checkup))
    else:
        log.info("doctor: %s", _counts(checkup))


def _paragraph(findings: Sequence[Finding], words: Mapping[str, str], width: int, has_colours: bool) -> str:
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
