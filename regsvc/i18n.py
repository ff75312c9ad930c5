"""Words for people: what replies say, in every language there is.

The words stand in `translations/<language>.toml`: `[message]` for successes, `[refusal]` for refusals by
their code, `[fault.<code>]` for what exactly breaks a rule. `{names}` in them are the reply's own fields.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from regsvc.errors import Refusal

FALLBACK = "en"
_MAX_ACCEPTED_LANGUAGES = 20


def load_translations(*folders: Path) -> Translations:
    """The built-in languages, and on top of them those of a host's own folders (`<language>.toml`).

    Raises OSError for a folder that cannot be read and tomllib.TOMLDecodeError for a broken file.
    """
    languages: dict[str, dict[str, str]] = {}
    builtin: Traversable = files("regsvc") / "translations"
    for folder in (builtin, *folders):
        for file in folder.iterdir():
            language, dot, suffix = file.name.rpartition(".")
            if dot and suffix == "toml":
                words = tomllib.loads(file.read_text(encoding="utf-8"))
                languages.setdefault(_normalise(language), {}).update(_flatten(words))
    return Translations(languages)


class Translations:
    """Texts by language and key, such as `refusal.username_taken`."""

    def __init__(self, languages: Mapping[str, Mapping[str, str]]) -> None:
        """`languages`: texts by key, by tag. English must be there; it stands in for what is missing."""
        self._words = {_normalise(language): dict(words) for language, words in languages.items()}
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

    def refusal(self, refusal: Refusal, language: str) -> str:
        """What a refusal says, in the words of its exact fault where it has one."""
        key = f"fault.{refusal.code}.{refusal.facts.get('fault')}"
        if key not in self._words[FALLBACK]:
            key = f"refusal.{refusal.code}"
        return self.text(key, language, **{"field": refusal.field, **refusal.facts})

    def find(self, requested: str) -> str | None:
        """The language with words that serves a tag ("zh-CN" → "zh"), None if there is none."""
        tag = _normalise(requested)
        while tag and tag not in self._words:
            tag = tag.rpartition("-")[0]
        return tag or None

    def pick(self, requested: str | None, accept_language: str | None, default: str) -> str:
        """The language to answer in.

        `requested` was named by the request or stored with the user, and counts even if there are no words
        for it (English, then); `accept_language` is the browser's header; `default` is the host's.
        """
        if requested:
            return self.find(requested) or FALLBACK
        for tag in _accepted(accept_language or ""):
            if language := self.find(tag):
                return language
        return self.find(default) or FALLBACK


class _Facts(dict[str, object]):
    """A fact the reply does not have stays visible as its name, instead of failing the reply."""

    def __missing__(self, name: str) -> str:
        return f"{{{name}}}"


def _normalise(tag: str) -> str:
    return tag.strip().replace("_", "-").lower()


def _flatten(words: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in words.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = str(value)
    return flat


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
