"""Tags of languages, and which of those there are a reader gets."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Generic, TypeVar

FALLBACK_LANGUAGE: Final = "en"

_LANGUAGE: Final = re.compile(r"[a-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")
_MAX_ACCEPTED_LANGUAGES: Final = 20
# RFC 5646 4.4.1 needs 35. A tag is shortened piece by piece, so its length must not be up to the client.
_LONGEST_TAG: Final = 64


def find_language(known: Container[str], requested: str) -> str | None:
    """Return the one of these languages (in lower case) that matches a tag ("zh-CN" → "zh"), or None."""
    tag = normalize_tag(requested[:_LONGEST_TAG])
    while tag and tag not in known:
        tag = tag.rpartition("-")[0]
    return tag or None


T = TypeVar("T")


@dataclass(frozen=True)
class Translated(Generic[T]):
    """Values of a host by language, such as texts."""

    by_language: Mapping[str, T]
    """By lower-case language tag, at least one; "" is for languages without their own."""

    def in_language(self, language: str, default: str = FALLBACK_LANGUAGE) -> T:
        """Return it in this language, else in the default one, else the first."""
        return self.by_language[self.find_tag(language, default)]

    def find_tag(self, language: str, default: str = FALLBACK_LANGUAGE) -> str:
        """Return the language that `in_language` answers in; "" if the host wrote it without a language."""
        known = self.by_language
        return find_language(known, language) or find_language(known, default) or next(iter(known))


def negotiate_language(known: Container[str], requested: str | None, accept_language: str | None, default: str) -> str:
    """Return the language to reply in, out of the available ones; English if none matches.

    `requested` is named by the request or stored with the user, and decides even if it is not available (then
    English); `accept_language` is the browser's header; `default` is the host's language.
    """
    if requested:
        return find_language(known, requested) or FALLBACK_LANGUAGE
    for tag in _accepted(accept_language or ""):
        if language := find_language(known, tag):
            return language
    return find_language(known, default) or FALLBACK_LANGUAGE


def is_language_tag(written: str) -> bool:
    """Return whether this is written like the tag of a language: "en", "pt-BR" or "pt_br"."""
    return _LANGUAGE.fullmatch(written) is not None


def normalize_tag(tag: str) -> str:
    """Return the canonical form of a language tag, for comparing."""
    return tag.strip().replace("_", "-").lower()


@lru_cache(maxsize=64)  # browsers send few different ones, up to 16 KB long
def _accepted(header: str) -> Sequence[str]:
    """Return the tags of an Accept-Language header, the most preferred first. Malformed entries are left out."""
    weighted = [entry for part in header.split(",")[:_MAX_ACCEPTED_LANGUAGES] for entry in _weighted(part)]
    return tuple(tag for weight, tag in sorted(weighted, key=lambda entry: -entry[0]) if weight > 0)


def _weighted(part: str) -> Iterator[tuple[float, str]]:
    tag, _semicolon, parameter = part.partition(";")
    name, _equals, weight = parameter.replace(" ", "").partition("=")
    try:
        yield (float(weight) if name == "q" else 1.0), tag
    except ValueError:
        return
