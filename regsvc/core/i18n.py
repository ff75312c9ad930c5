"""Words for people: what replies say, in every language there is.

The words stand in `translations/<language>.toml`: `[message]` for successes, `[refusal]` for refusals by
their code, `[fault.<code>]` for what exactly breaks a rule. `{names}` in them are the reply's own fields.
"""

from __future__ import annotations

import logging
import re
import string
import tomllib
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from regsvc.core.errors import Refusal

FALLBACK = "en"
_MAX_ACCEPTED_LANGUAGES = 20
# RFC 5646 4.4.1 gets by with 35. A tag is shortened piece by piece, so its length must not be a stranger's choice.
_LONGEST_TAG = 64


def load_translations(*folders: Path) -> Translations:
    """The built-in languages, and on top of them those of a host's own folders (`<language>.toml`).

    Raises `BrokenTranslation`, and OSError for a folder that cannot be read.
    """
    languages = {language: dict(words) for language, words in read_built_in_words().items()}
    english = dict(languages[FALLBACK])
    for folder in folders:
        for language, file in _files_in(folder):
            languages.setdefault(language, {}).update(check_words(file, read_words(file), english))
    return Translations(languages)


@cache
def read_built_in_words() -> Mapping[str, Mapping[str, str]]:
    """Texts by key, by language; read once, since they belong to the program that runs."""
    return {language: read_words(file) for language, file in _files_in(files("regsvc.core") / "translations")}


def _files_in(folder: Traversable) -> Iterator[tuple[str, Traversable]]:
    """Files of words, each with its language."""
    for file in folder.iterdir():
        if file.name.endswith(".toml") and file.is_file():
            yield normalise(file.name.removesuffix(".toml")), file


class Translations:
    """Texts by language and key, such as `refusal.username_taken`."""

    def __init__(self, languages: Mapping[str, Mapping[str, str]]) -> None:
        """`languages`: texts by key, by tag. English must be there; it stands in for what is missing."""
        self._words = {normalise(language): dict(words) for language, words in languages.items()}
        if FALLBACK not in self._words:
            raise ValueError(f"translations without {FALLBACK!r}")

    @property
    def languages(self) -> list[str]:
        """The tags there are words for, in alphabetical order."""
        return sorted(self._words)

    def keys(self, language: str) -> set[str]:
        """The keys a language has words for itself; raises KeyError for an unknown language."""
        return set(self._words[language])

    def text(self, key: str, language: str, /, **facts: object) -> str:
        """The words for a key, with the facts filled in; English where the language lacks it.

        Raises KeyError for a key that English lacks: that is a bug, not a gap in a translation.
        """
        template = self._words.get(language, {}).get(key) or self._words[FALLBACK][key]
        return template.format_map(_Facts(facts))

    def section(self, name: str, language: str) -> dict[str, str]:
        """The words of a section such as `page.register`, by their keys in it; `{names}` in them stay.

        Empty for a section that English does not have.
        """
        prefix = f"{name}."
        keys = [key for key in self._words[FALLBACK] if key.startswith(prefix)]
        return {key.removeprefix(prefix): self.text(key, language) for key in keys}

    def refusal(self, refusal: Refusal, language: str) -> str:
        """What a refusal says, in the words of its exact fault where it has one."""
        key = f"fault.{refusal.code}.{refusal.facts.get('fault')}"
        if key not in self._words[FALLBACK]:
            key = f"refusal.{refusal.code}"
        facts = {"field": refusal.field, **refusal.facts}
        if "status" in facts:
            facts["status"] = self.text(f"status.{facts['status']}", language)
        return self.text(key, language, **facts)

    def find(self, requested: str) -> str | None:
        """The language with words that serves a tag ("zh-CN" → "zh"), None if there is none."""
        return find_language(self._words, requested)

    def pick(self, requested: str | None, accept_language: str | None, default: str) -> str:
        """The language to answer in; see `pick_language`."""
        return pick_language(self._words, requested, accept_language, default)


def find_language(known: Container[str], requested: str) -> str | None:
    """The one of these languages (in lower case) that serves a tag ("zh-CN" → "zh"), None if there is none."""
    tag = normalise(requested[:_LONGEST_TAG])
    while tag and tag not in known:
        tag = tag.rpartition("-")[0]
    return tag or None


def pick_language(known: Container[str], requested: str | None, accept_language: str | None, default: str) -> str:
    """The language to answer in, of those that there are words in; English where none fits.

    `requested` was named by the request or stored with the user, and counts even if there are no words for it
    (English, then); `accept_language` is the browser's header; `default` is the host's.
    """
    if requested:
        return find_language(known, requested) or FALLBACK
    for tag in _accepted(accept_language or ""):
        if language := find_language(known, tag):
            return language
    return find_language(known, default) or FALLBACK


class _Facts(dict[str, object]):
    """A fact the reply does not have stays visible as its name, instead of failing the reply."""

    def __missing__(self, name: str) -> str:
        return f"{{{name}}}"


def normalise(tag: str) -> str:
    """A language tag as tags are compared."""
    return tag.strip().replace("_", "-").lower()


def _accepted(header: str) -> Sequence[str]:
    """The tags of an Accept-Language header, the most welcome first. What cannot be read is left out."""
    weighted = [entry for part in header.split(",")[:_MAX_ACCEPTED_LANGUAGES] for entry in _weighted(part)]
    return [tag for weight, tag in sorted(weighted, key=lambda entry: -entry[0]) if weight > 0]


def _weighted(part: str) -> Iterator[tuple[float, str]]:
    tag, _semicolon, parameter = part.partition(";")
    name, _equals, weight = parameter.replace(" ", "").partition("=")
    try:
        yield (float(weight) if name == "q" else 1.0), tag
    except ValueError:
        return


log = logging.getLogger(__name__)

_LANGUAGE: Final = re.compile(r"[a-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")
_MOST_NAMED: Final = 5


class BrokenTranslation(ValueError):
    """Words that cannot be used; `str()` is a sentence with the file's name."""


def read_words(file: Traversable) -> dict[str, str]:
    """Texts by dotted key, however the file is nested. Raises `BrokenTranslation`."""
    try:
        return _flatten(tomllib.loads(file.read_text(encoding="utf-8")))
    except UnicodeDecodeError as error:
        raise BrokenTranslation(f"{file}: this is not UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        raise BrokenTranslation(f"{file}: this is not TOML: {error}.") from error
    except OSError as error:
        raise BrokenTranslation(f"{file}: this cannot be read ({error.strerror}).") from error
    except TypeError as error:
        raise BrokenTranslation(f"{file}: {error} must be a text in quotes.") from error


def check_words(file: Traversable, words: Mapping[str, str], english: Mapping[str, str]) -> dict[str, str]:
    """The words that are said somewhere. Raises `BrokenTranslation` for names in braces that English does not have."""
    if _LANGUAGE.fullmatch(file.name.removesuffix(".toml")) is None:
        raise BrokenTranslation(f'{file}: such a file is named after its language, as in "fr.toml" or "pt-br.toml".')
    for key, text in words.items():
        if key in english:
            _check_names(file, key, text, _names_in(english[key]))
    idle = [key for key in words if key not in english]
    if idle:
        more = ", …" if len(idle) > _MOST_NAMED else ""
        log.warning("%s: nothing says %s%s", file, ", ".join(idle[:_MOST_NAMED]), more)
    return {key: text for key, text in words.items() if key in english}


def _check_names(file: Traversable, key: str, text: str, known: set[str]) -> None:
    try:
        names = _names_in(text)
    except ValueError as error:
        raise BrokenTranslation(f"{file}: {key}: the braces do not fit together (write {{{{ for a brace).") from error
    if names - known:
        there_are = ", ".join(f"{{{name}}}" for name in sorted(known)) or "none"
        raise BrokenTranslation(f"{file}: {key}: {{{min(names - known)}}} is not known here; there are: {there_are}.")


def _names_in(text: str) -> set[str]:
    """What stands in braces, with whatever follows the name there."""
    return {
        name + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
        for _text, name, spec, conversion in string.Formatter().parse(text)
        if name is not None
    }


def _flatten(words: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """Raises TypeError with the key of what is no text."""
    flat: dict[str, str] = {}
    for name, value in words.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{name}.")
        elif isinstance(value, str):
            flat[prefix + name] = value
        else:
            raise TypeError(prefix + name)
    return flat
