"""One table of the questionnaire's file, read key by key: a problem is noted, and something usable stands in."""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from regsvc.config.key_types import to_toml
from regsvc.config.value_checks import language_tag
from regsvc.core.i18n import normalise
from regsvc.registration.questionnaire.questions import NO_WORDS, Words

_UNWANTED: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LONGEST_SHOWN: Final = 60
_MISSING: Final = object()


class Table:
    """`where` begins every sentence about this table; `problems` is shared by all tables of a file."""

    def __init__(self, values: dict[str, object], where: str, problems: list[str]) -> None:
        self._values = values
        self.where = where
        self.problems = problems

    def integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number between two bounds, both included; without a default it must be there."""
        value = self._values.get(key, default)
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        what = f"a whole number from {low} to {high}"
        self.complain(key, f"write {what}, such as {key} = {low}" if value is None else f"this must be {what}")
        return low

    def flag(self, key: str, default: bool) -> bool:
        value = self._values.get(key, default)
        if isinstance(value, bool):
            return value
        self.complain(key, "this must be true or false, without quotes")
        return default

    def choice(self, key: str, allowed: Iterable[str]) -> str | None:
        """One of these texts. It must be there; else None."""
        value = self._values.get(key)
        if isinstance(value, str) and value in allowed:
            return value
        self.complain(key, f"this must be {' or '.join(map(to_toml, allowed))}")
        return None

    def line(self, key: str, longest: int) -> str:
        """A text in one language, "" if it is not there."""
        return self._text(key, self._values.get(key, ""), longest, may_be_empty=True)

    def words(self, key: str, longest: int, default: Words | None = None) -> Words:
        """A text in one language, or a table of texts by language; without a default it must be there."""
        value = self._values.get(key, _MISSING)
        if value is _MISSING and default is not None:
            return default
        if not isinstance(value, dict):
            return Words({"": self._text(key, value, longest)})
        if not value:
            self.complain(key, f'write it in one language at least, such as {key}.en = "…"')
            return NO_WORDS
        return Words({self._tag(key, tag): self._text(f"{key}.{tag}", text, longest) for tag, text in value.items()})

    def tables(self, key: str, at_least: int, at_most: int) -> Iterator["Table"]:
        """The tables under the headings `[[key]]`; sentences call the first one "key 1"."""
        value = self._values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.complain(key, f"each {key} needs a heading of its own, in double brackets")
            return
        if not at_least <= len(value) <= at_most:
            self.complain(key, f"there must be from {at_least} to {at_most}, and there are {len(value)}")
        for place, item in enumerate(value, 1):
            yield Table(item, f"{self.where}, {key} {place}", self.problems)

    def refuse_others(self, known: Iterable[str], explain: Callable[[str], str | None] = lambda key: None) -> None:
        """Complain about every key that is none of these; `explain` may know why somebody wrote it."""
        for key in self._values:
            if key in known:
                continue
            alike = difflib.get_close_matches(key, list(known), n=1)
            guess = f"did you mean {alike[0]}?" if alike else f"the keys are {', '.join(known)}."
            self.complain(key, explain(key) or f"there is no such key here; {guess}")

    def complain(self, key: str, reason: str) -> None:
        """Note what is wrong with a key, and what to do; the value is shown where it is a short one."""
        value = self._values.get(key)
        is_short = isinstance(value, str | int | float | bool)
        shown = f" = {_shorten(to_toml(value))}" if is_short else ""
        end = "" if reason[-1] in ".?" else "."
        self.problems.append(f"{self.where}: {key}{shown}: {reason}{end}")

    def _text(self, key: str, value: object, longest: int, *, may_be_empty: bool = False) -> str:
        if not isinstance(value, str):
            self.complain(key, f'write a text in quotes, such as {key} = "…"')
        elif not value.strip() and not may_be_empty:
            self.complain(key, "this must not be empty")
        elif len(value) > longest:
            self.complain(key, f"this has {len(value)} characters; it may have {longest}")
        elif _UNWANTED.search(value):
            self.complain(key, "this holds a control character; remove it")
        else:
            return value.strip()
        return ""

    def _tag(self, key: str, written: str) -> str:
        tag = normalise(written)
        try:
            language_tag(tag)
        except ValueError as error:
            self.complain(f"{key}.{written}", str(error))
        return tag


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
