"""Report of the doctor in other languages: `translations/<language>.toml` has each English sentence with its words."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Final

from regsvc.core.i18n.languages import FALLBACK_LANGUAGE, find_language
from regsvc.core.i18n.sentences import Sentence, translate
from regsvc.core.i18n.translation_files import read_texts
from regsvc.doctor.checkup import CHECKS, Checkup
from regsvc.doctor.finding import Finding

_MEANINGS: Final = {check.id: Sentence(check.means) for check in CHECKS}


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
