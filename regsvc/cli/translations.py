"""`companion translations`: what the files of a language lack, and what is wrong with them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from regsvc.config.sections import Config
from regsvc.core.i18n import (
    FALLBACK_LANGUAGE,
    OPERATORS_SECTIONS,
    BrokenTranslation,
    check_name,
    find_unknown_name,
    is_language_tag,
    names_in,
    normalize_tag,
    read_built_in_texts,
    read_texts,
)
from regsvc.notifications.mail.renderer import MAILS, BrokenTemplate, MailTemplate, TemplateFile, list_template_files


def add_translations_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `companion translations`."""
    parser.add_argument("language", metavar="LANGUAGE", nargs="?", help="such as nl or pt-BR; default: a line for each")
    parser.add_argument("--all", dest="is_for_operators", action="store_true", help="count the texts of /admin too")


def report_translations(config: Config, language: str | None, is_for_operators: bool) -> int:
    """Print what a language lacks, or a line about each language. Return 0 if nothing has to be done, else 1."""
    languages = _read_languages(config)
    offered = {normalize_tag(tag) for tag in config.server.languages} or languages.keys()
    if language is None:
        for tag in sorted(languages):
            mark = "" if tag in offered else " (not in server.languages)"
            print(f"{tag:5}  {languages[tag].summary(is_for_operators)}{mark}")
        return int(any(languages[tag].is_incomplete(is_for_operators) for tag in offered))
    tag = normalize_tag(language)
    if tag not in languages and not is_language_tag(tag):
        print(f"companion: {language} is not a language; write it as nl or pt-BR", file=sys.stderr)
        return 2
    found = languages.get(tag, _Language())
    print("\n".join(found.report(tag, is_for_operators)))
    return int(found.is_incomplete(is_for_operators))


@dataclass
class _Language:
    """Texts and mails of a language: the built-in ones and, over them, the host's."""

    texts: set[str] = field(default_factory=set)
    mails: set[str] = field(default_factory=set)
    mistakes: list[str] = field(default_factory=list)

    def missing_texts(self, is_for_operators: bool) -> list[str]:
        """Return the keys of texts that are shown in English, in the order of the English file."""
        keys = (key for key in _english() if is_for_operators or not key.startswith(OPERATORS_SECTIONS))
        return [key for key in keys if key not in self.texts]

    def missing_mails(self) -> list[str]:
        """Return the names of mails that are sent in English."""
        return [name for name in MAILS if name not in self.mails]

    def is_incomplete(self, is_for_operators: bool) -> bool:
        """Return whether something has to be done."""
        return bool(self.mistakes or self.missing_mails() or self.missing_texts(is_for_operators))

    def summary(self, is_for_operators: bool) -> str:
        """Return a line about the language."""
        texts, mails = self.missing_texts(is_for_operators), self.missing_mails()
        counts = {"texts missing": len(texts), "mails missing": len(mails), "mistakes": len(self.mistakes)}
        return ", ".join(f"{what}: {count}" for what, count in counts.items() if count) or "complete"

    def report(self, tag: str, is_for_operators: bool) -> Iterator[str]:
        """Yield lines: mistakes, then missing texts as they are in a translation file, then missing mails.

        With missing texts, all other lines are comments: written into a file, it is a translation to begin with.
        """
        missing = self.missing_texts(is_for_operators)
        mark = "# " if missing else ""
        yield f"{mark}{tag}: {self.summary(is_for_operators)}"
        if self.mistakes:
            yield from ("", f"{mark}To correct:", *(f"{mark}  {mistake}" for mistake in self.mistakes))
        if missing:
            yield from ("", f"# Missing texts, for {tag}.toml in the folder server.translations:")
            yield from _as_toml(missing)
        if mails := self.missing_mails():
            yield from ("", f"{mark}Missing mails, for the folder mail.templates:")
            yield from (f"{mark}  {tag}/{name}.txt" for name in mails)
        left = len(self.missing_texts(True)) - len(missing)
        if left and not is_for_operators:
            yield from ("", f"{mark}Only operators would read another {left} texts (--all lists them).")


def _as_toml(keys: list[str]) -> Iterator[str]:
    """Yield lines of a translation file with the English texts."""
    shown = None
    for key in keys:
        section, _dot, name = key.rpartition(".")
        if section != shown:
            yield from ("", f"[{section}]")
            shown = section
        yield f"{name} = {json.dumps(_english()[key], ensure_ascii=False)}"


def _english() -> Mapping[str, str]:
    return read_built_in_texts()[FALLBACK_LANGUAGE]


def _read_languages(config: Config) -> dict[str, _Language]:
    """Read all languages, with every mistake in the host's files."""
    languages = {tag: _Language(set(texts)) for tag, texts in read_built_in_texts().items()}
    built_in = list(list_template_files(files("regsvc.notifications.mail") / "texts"))
    english = {file.name: file.read() for file in built_in if file.language == FALLBACK_LANGUAGE}
    for file in built_in:
        languages.setdefault(file.language, _Language()).mails.add(file.name)
    if config.server.translations is not None:
        for text_file in sorted(config.server.translations.glob("*.toml")):
            language = languages.setdefault(normalize_tag(text_file.stem), _Language())
            _add_texts(language, text_file)
    if config.mail.templates is not None:
        for template_file in list_template_files(config.mail.templates):
            language = languages.setdefault(template_file.language, _Language())
            _add_mail(language, template_file, english)
        for html_file, tag in _html_files_without_text(config.mail.templates):
            languages.setdefault(tag, _Language()).mistakes.append(f"{html_file} has no effect without its .txt file")
    return languages


def _add_texts(language: _Language, file: Path) -> None:
    """Add a host's texts. Those that cannot be used are mistakes, and count as present."""
    try:
        check_name(file)
        texts = read_texts(file)
    except BrokenTranslation as error:
        language.mistakes.append(str(error))
        return
    language.texts |= texts.keys()
    for key, text in texts.items():
        if problem := _find_problem(key, text):
            language.mistakes.append(f"{file}: {key}: {problem}")


def _find_problem(key: str, text: str) -> str | None:
    """Return what is wrong with a text, in words, or None."""
    english = _english().get(key)
    if english is None:
        return "this text is not in use"
    if problem := find_unknown_name(text, english):
        return problem
    if missing := names_in(english) - names_in(text):
        return f"does not use {', '.join(f'{{{name}}}' for name in sorted(missing))}"
    return None


def _add_mail(language: _Language, file: TemplateFile, english: Mapping[str, MailTemplate]) -> None:
    language.mails.add(file.name)
    try:
        template = file.read()
    except BrokenTemplate as error:
        language.mistakes.append(str(error))
        return
    if missing := template.find_missing_names(english[file.name]):
        language.mistakes.append(f"{file.text}: does not use {', '.join(f'${name}' for name in sorted(missing))}")


def _html_files_without_text(folder: Path) -> Iterator[tuple[Traversable, str]]:
    """Yield the HTML files of mails without text, each with its language."""
    known = {str(file.html) for file in list_template_files(folder)}
    for file in sorted((*folder.glob("*.*.html"), *folder.glob("*/*.html"))):
        if str(file) not in known:
            in_name = file.stem.rpartition(".")[2] if file.parent == folder else file.parent.name
            yield file, normalize_tag(in_name)
