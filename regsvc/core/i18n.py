"""Translations: the texts of replies, pages and mails by language and key.

The texts are in `regsvc/core/translations/`: `[message]` for successes, `[refusal]` for refusals by their code,
`[fault.<code>]` for the exact rule that was broken. `{names}` in them are fields of the reply. A language may leave out
`OPERATORS_SECTIONS`: pages of operators are not offered in it.

The doctor and the sync's report have English sentences instead (`Sentence`), translated when they are shown: codes with
texts in every language would put what a check says far from the check.
"""

from __future__ import annotations

import logging
import re
import string
import tomllib
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import cache, lru_cache, reduce
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, Generic, Self, TypeVar

from plugin_bridge.text import decode_text
from regsvc.core.errors import Refusal
from regsvc.core.exceptions import StartupError
from regsvc.core.safe_paths import read_text_file
from regsvc.core.text import parse_toml

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


log = logging.getLogger(__name__)

_MAX_KEYS_SHOWN: Final = 5


class BrokenTranslation(StartupError, ValueError):
    """A translation file that cannot be used; `str()` is a sentence with the file's name."""


def list_languages(folder: Path | None) -> list[str]:
    """Return the tags of the built-in languages and those of a host's own folder, in alphabetical order.

    Raises OSError for a folder that cannot be listed.
    """
    own = files_in(folder) if folder is not None else ()
    return sorted({language for language, _file in (*files_in(_built_in_folder()), *own)})


@cache
def read_built_in_texts() -> Mapping[str, Mapping[str, str]]:
    """Return the built-in texts by language and key; cached, since they are part of the program."""
    return {language: read_texts(file) for language, file in files_in(_built_in_folder())}


def _built_in_folder() -> Traversable:
    return files("regsvc.core") / "translations"


def files_in(folder: Traversable) -> Iterator[tuple[str, Traversable]]:
    """Yield the translation files of a folder, each with its language."""
    for file in folder.iterdir():
        if file.name.endswith(".toml") and file.is_file():
            yield normalize_tag(file.name.removesuffix(".toml")), file


def read_texts(file: Traversable) -> dict[str, str]:
    """Read a file's texts by dotted key, however the tables are nested. Raises `BrokenTranslation`."""
    try:
        return _flatten(parse_toml(read_text_file(file)))
    except UnicodeDecodeError as error:
        raise BrokenTranslation(f"{file}: it is not UTF-8 text; save it as UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        raise BrokenTranslation(f"{file}: it is not TOML: {error}; correct that line.") from error
    except RecursionError:
        raise BrokenTranslation(f"{file}: a key has too many dots.") from None
    except OSError as error:
        raise BrokenTranslation(f"{file}: it cannot be read ({error.strerror}).") from error
    except TypeError as error:
        raise BrokenTranslation(f"{file}: {error} must be a text in quotes.") from error


def check_name(file: Traversable) -> None:
    """Raise `BrokenTranslation` unless the file is named after a language."""
    if not is_language_tag(file.name.removesuffix(".toml")):
        raise BrokenTranslation(f'{file}: name it after its language, such as "fr.toml" or "pt-br.toml".')


def check_texts(file: Traversable, texts: Mapping[str, str], english: Mapping[str, str]) -> dict[str, str]:
    """Return the texts that are in use. Raises `BrokenTranslation` for names in braces that English does not have."""
    check_name(file)
    for key, text in texts.items():
        if key in english and (problem := find_unknown_name(text, english[key])):
            raise BrokenTranslation(f"{file}: {key}: {problem}.")
    unused = [key for key in texts if key not in english]
    if unused:
        more = ", …" if len(unused) > _MAX_KEYS_SHOWN else ""
        log.warning("%s: keys without effect: %s%s", file, ", ".join(unused[:_MAX_KEYS_SHOWN]), more)
    return {key: text for key, text in texts.items() if key in english}


def find_unknown_name(text: str, english: str) -> str | None:
    """Return what is wrong with the names in braces of a text, in words, or None."""
    known = names_in(english)
    try:
        names = names_in(text)
    except ValueError:
        return "unbalanced braces (write {{ for a literal brace)"
    if names <= known:
        return None
    listed = ", ".join(f"{{{name}}}" for name in sorted(known)) or "none"
    return f"{{{min(names - known)}}} is not known in this text; known: {listed}"


def names_in(text: str) -> set[str]:
    """Return the names in braces, each with its conversion and format. Raises ValueError for unbalanced braces."""
    return {
        name + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
        for _text, name, spec, conversion in string.Formatter().parse(text)
        if name is not None
    }


def _flatten(texts: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """Return texts by dotted key. Raises TypeError with the key of a value that is not text."""
    flat: dict[str, str] = {}
    for name, value in texts.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{name}.")
        elif isinstance(value, str):
            flat[prefix + name] = value
        else:
            raise TypeError(prefix + name)
    return flat


OPERATORS_SECTIONS: Final = ("page.admin.", "why.")
"""Beginnings of the keys of texts that only operators read."""
_EARLIER_REASONS: Final = {"the ban has ended": "ban_ended"}
"""What earlier versions stored in place of a code."""


def load_translations(
    *folders: Path,
    offered: Sequence[str] = (),
    default: str = FALLBACK_LANGUAGE,
    contact: Callable[[], str] = str,
    zone: tzinfo | None = None,
) -> Translations:
    """Load the built-in languages, and over them the texts in a host's own folders (`<language>.toml`).

    The other arguments are those of `Translations`. Raises `BrokenTranslation`, and OSError for a folder that
    cannot be read.
    """
    languages = {language: dict(texts) for language, texts in read_built_in_texts().items()}
    english = dict(languages[FALLBACK_LANGUAGE])
    for folder in folders:
        for language, file in files_in(folder):
            languages.setdefault(language, {}).update(check_texts(file, read_texts(file), english))
    return Translations(languages, offered, default, contact, zone)


class Translations:
    """Texts by language and key, such as `refusal.username_taken`."""

    def __init__(
        self,
        languages: Mapping[str, Mapping[str, str]],
        offered: Sequence[str] = (),
        default: str = FALLBACK_LANGUAGE,
        contact: Callable[[], str] = str,
        zone: tzinfo | None = None,
    ) -> None:
        """`languages`: texts by key, by language tag. English is required: it is the fallback for missing texts.

        `offered`: the languages that the host offers, of those; empty: all. `default` is the host's own.
        `contact` returns how players reach the team; texts with `{contact}` end with a line about it, if it is not "".
        `zone`: the time zone of times in texts; None: the machine's.
        """
        self._texts = {normalize_tag(language): dict(texts) for language, texts in languages.items()}
        if FALLBACK_LANGUAGE not in self._texts:
            raise ValueError(f"translations without {FALLBACK_LANGUAGE!r}")
        self._offered = {normalize_tag(language) for language in offered}
        self._default = default
        self._contact = contact
        self._zone = zone
        self.available: Final = frozenset(self._offered or self._texts)
        """The tags of the languages that the host offers."""

    @property
    def languages(self) -> list[str]:
        """`available` in alphabetical order."""
        return sorted(self.available)

    def keys(self, language: str) -> set[str]:
        """Return the keys that a language itself has; raises KeyError for an unknown language."""
        return set(self._texts[language])

    def languages_of(self, section: str) -> list[str]:
        """Return the tags of the offered languages that have texts of a section such as `page.admin`, in order."""
        prefix = f"{section}."
        return [tag for tag in self.languages if any(key.startswith(prefix) for key in self._texts[tag])]

    def text(self, key: str, language: str, /, **facts: object) -> str:
        """Return the text of a key with the facts filled in; in English where the language lacks it.

        Raises KeyError for a key that English lacks: a bug, not an incomplete translation.
        """
        template = self._texts.get(language, {}).get(key) or self._texts[FALLBACK_LANGUAGE][key]
        if "{contact}" in template:
            contact = self._contact()
            facts["contact"] = contact and "\n" + self.text("contact.line", language, address=contact)
        return template.format_map(_Facts(facts))

    def moment(self, at: datetime, language: str, now: datetime) -> str:
        """Return a time as it is written in a language, in the host's time zone: "24 November, 05:37 (UTC+1)".

        The year is left out if it is the one of `now`.
        """
        tag = find_language(self._texts, language) or FALLBACK_LANGUAGE
        local = at.astimezone(self._zone)
        is_this_year = local.year == now.astimezone(self._zone).year
        return self.text(
            "time.moment" if is_this_year else "time.moment_of_year",
            tag,
            day=self.text("time.first_day", tag) if local.day == 1 else local.day,
            month=self.text(f"time.month_{local.month}", tag),
            year=local.year,
            time=f"{local:%H:%M}",
            zone=_offset_of(local),
        )

    def place(self, place: str, address: str | None, language: str) -> str:
        """Return the words for where a password was changed; `address`: that of the client, or None."""
        words = self.text(f"password_change.{place}", language)
        return words if address is None else self.text("password_change.from", language, place=words, address=address)

    def section(self, name: str, language: str) -> dict[str, str]:
        """Return the texts of a section such as `page.register`, by their keys within it; `{names}` stay as they are.

        Empty for a section that English does not have.
        """
        prefix = f"{name}."
        keys = [key for key in self._texts[FALLBACK_LANGUAGE] if key.startswith(prefix)]
        return {key.removeprefix(prefix): self.text(key, language) for key in keys}

    def refusal(self, refusal: Refusal, language: str) -> str:
        """Return the text of a refusal: that of its `fault` if there is one, else that of its code."""
        key = f"fault.{refusal.code}.{refusal.facts.get('fault')}"
        if key not in self._texts[FALLBACK_LANGUAGE]:
            key = f"refusal.{refusal.code}"
        facts = {"field": refusal.field, **self.facts_of(refusal, language)}
        if "status" in facts:
            facts["status"] = self.text(f"status.{facts['status']}", language)
        return self.text(key, language, **facts)

    def facts_of(self, refusal: Refusal, language: str) -> dict[str, object]:
        """Return the facts of a refusal, with the reason of a decision in words."""
        reason = refusal.facts.get("reason")
        return refusal.facts | ({"reason": self.reason(reason, language)} if isinstance(reason, str) else {})

    def reason(self, stored: str | None, language: str) -> str | None:
        """Return the reason of a decision: in words if it is a code (`[reason]`), else as the operator wrote it."""
        code = _EARLIER_REASONS.get(stored or "", stored)
        if f"reason.{code}" not in self._texts[FALLBACK_LANGUAGE]:
            return stored
        return self.text(f"reason.{code}", find_language(self._texts, language) or FALLBACK_LANGUAGE)

    def offered_for(self, stored: str) -> str:
        """Return the language of a mail to a user with this language: the same, unless the host no longer offers it.

        Then it is English if that is offered, else the host's own.
        """
        if not self._offered or find_language(self._offered, stored):
            return stored
        return FALLBACK_LANGUAGE if FALLBACK_LANGUAGE in self._offered else self._default


def _offset_of(local: datetime) -> str:
    """Return the distance of a local time to UTC: "UTC", "UTC+1", "UTC−3:30"."""
    minutes = round((local.utcoffset() or timedelta()) / timedelta(minutes=1))
    hours, rest = divmod(abs(minutes), 60)
    sign = "+" if minutes > 0 else "−"
    return f"UTC{sign}{hours}" + (f":{rest:02}" if rest else "") if minutes else "UTC"


class _Facts(dict[str, object]):
    """Facts of a reply. A missing one stays visible as its name in braces instead of failing the reply."""

    def __missing__(self, name: str) -> str:
        return f"{{{name}}}"


class Sentence(str):
    """English text, made of a template with `{names}` and facts, that `translate` can put into other languages.

    As in gettext, the template is the key of its translation. A fact that is a sentence is translated as well.
    """

    template: str
    facts: Mapping[str, object]

    def __new__(cls, template: str, /, **facts: object) -> Self:
        """Fill the facts in; a template without facts stays as it is, with its braces."""
        sentence = super().__new__(cls, template.format(**facts) if facts else template)
        sentence.template = template
        sentence.facts = facts
        return sentence


def plural(count: int, one: str, several: str, /, **facts: object) -> Sentence:
    """Return the sentence of the template for one or for several; both may contain `{count}`."""
    return Sentence(one if count == 1 else several, count=count, **facts)


def join(sentences: Sequence[Sentence], joint: str) -> Sentence:
    """Join at least one sentence; `joint` is the template for two of them, `first` and `next`."""
    return reduce(lambda first, following: Sentence(joint, first=first, next=following), sentences)


def translate(text: str, words: Mapping[str, str]) -> str:
    """Return the sentence with its template looked up in `words`, in English where they lack it; other text as it is.

    The result is an ordinary string, which can be sent: facts may be names of files in any encoding.
    """
    if not isinstance(text, Sentence):
        return decode_text(text)
    template = words.get(text.template, text.template)
    if not text.facts:
        return template
    facts = {name: translate(fact, words) if isinstance(fact, str) else fact for name, fact in text.facts.items()}
    return decode_text(template.format(**facts))
