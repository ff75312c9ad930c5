"""Reader of the questionnaire's file (TOML; `conf/questionnaire.toml` is a sample), read once at the start.

It is not read again on SIGHUP: questions must not change between the form and its answers.
Every problem is reported before anything starts: a sentence with the file, the question and what to do.
"""

import difflib
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Final

from regsvc.config.key_types import to_toml
from regsvc.config.sections import ConfigError
from regsvc.config.value_checks import language_tag, unreadable_reason
from regsvc.core.i18n.languages import normalize_tag
from regsvc.core.safe_paths import read_text_file
from regsvc.registration.questionnaire.questions import (
    EMPTY_TEXT,
    ChoiceQuestion,
    Option,
    Question,
    Questionnaire,
    TextQuestion,
    TranslatedText,
)

_UNWANTED: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")

_LONGEST_SHOWN: Final = 60

_MISSING: Final = object()


class FileTable:
    """A TOML table. `where` begins every sentence about it; `problems` is shared by all tables of a file."""

    def __init__(self, values: dict[str, object], where: str, problems: list[str]) -> None:
        self._values = values
        self.where = where
        self.problems = problems

    def integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """Return an integer between two bounds, both included; required without a default."""
        value = self._values.get(key, default)
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        what = f"a whole number from {low} to {high}"
        self.complain(key, f"write {what}, such as {key} = {low}" if value is None else f"this must be {what}")
        return low

    def flag(self, key: str, default: bool) -> bool:
        """Return a boolean."""
        value = self._values.get(key, default)
        if isinstance(value, bool):
            return value
        self.complain(key, "this must be true or false, without quotes")
        return default

    def choice(self, key: str, allowed: Iterable[str]) -> str | None:
        """Return one of these texts. It is required; None after a complaint."""
        value = self._values.get(key)
        if isinstance(value, str) and value in allowed:
            return value
        self.complain(key, f"this must be {' or '.join(map(to_toml, allowed))}")
        return None

    def line(self, key: str, longest: int) -> str:
        """Return a text in one language, or "" if it is missing."""
        return self._text(key, self._values.get(key, ""), longest, may_be_empty=True)

    def translated(self, key: str, longest: int, default: TranslatedText | None = None) -> TranslatedText:
        """Return a text in one language or a table of texts by language; required without a default."""
        value = self._values.get(key, _MISSING)
        if value is _MISSING and default is not None:
            return default
        if not isinstance(value, dict):
            return TranslatedText({"": self._text(key, value, longest)})
        if not value:
            self.complain(key, f'write it in one language at least, such as {key}.en = "…"')
            return EMPTY_TEXT
        return TranslatedText(
            {self._tag(key, tag): self._text(f"{key}.{tag}", text, longest) for tag, text in value.items()}
        )

    def tables(self, key: str, at_least: int, at_most: int) -> Iterator["FileTable"]:
        """Yield the tables under the headings `[[key]]`; sentences call the first one "key 1"."""
        value = self._values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.complain(key, f"each {key} needs a heading of its own, in double brackets")
            return
        if not at_least <= len(value) <= at_most:
            self.complain(key, f"there must be from {at_least} to {at_most}, and there are {len(value)}")
        for place, item in enumerate(value, 1):
            yield FileTable(item, f"{self.where}, {key} {place}", self.problems)

    def refuse_others(self, known: Iterable[str], explain: Callable[[str], str | None] = lambda key: None) -> None:
        """Complain about every unknown key; `explain` may return why it is wrong here."""
        for key in self._values:
            if key in known:
                continue
            alike = difflib.get_close_matches(key, list(known), n=1)
            guess = f"did you mean {alike[0]}?" if alike else f"the keys are {', '.join(known)}."
            self.complain(key, explain(key) or f"there is no such key here; {guess}")

    def complain(self, key: str, reason: str) -> None:
        """Add a problem: what is wrong with a key and what to do. The value is shown if it is a scalar."""
        value = self._values.get(key)
        is_short = isinstance(value, str | int | float | bool)
        text = to_toml(value) if is_short else ""
        shown = f" = {text if len(text) <= _LONGEST_SHOWN else f'{text[:_LONGEST_SHOWN]}…'}" if is_short else ""
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
        tag = normalize_tag(written)
        try:
            language_tag(tag)
        except ValueError as error:
            self.complain(f"{key}.{written}", str(error))
        return tag


_MAX_FILE: Final = 1024 * 1024
_MAX_QUESTIONS: Final = 100
_MAX_OPTIONS: Final = 50
_MAX_ID: Final = 999_999
_MAX_POINTS: Final = 10_000
_LONGEST_QUESTION: Final = 2000
_LONGEST_OPTION: Final = 500
_LONGEST_PLACEHOLDER: Final = 200
_LONGEST_RULE: Final = 4000
_LONGEST_ANSWER: Final = 4000
_USUAL_LONGEST_ANSWER: Final = 1000

_COMMON_KEYS: Final = ("id", "type", "text", "required")
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "single_choice": ("option",),
    "multiple_choice": ("option", "min_selections", "max_selections"),
    "text": ("min_length", "max_length", "multiline", "placeholder", "max_score", "scoring_rule"),
}


def load_questionnaire(file: Path, pass_score: int) -> Questionnaire:
    """Return the questionnaire in the file. Raises `ConfigError` with every problem found."""
    problems: list[str] = []
    root = FileTable(_read(file), str(file), problems)
    root.refuse_others(("question",))
    tables = enumerate(root.tables("question", at_least=1, at_most=_MAX_QUESTIONS), 1)
    read = (_read_question(table, file, place) for place, table in tables)
    questions = tuple(question for question in read if question is not None)
    questionnaire = Questionnaire(questions, pass_score)
    problems += _list_repeated_ids(questions, file)
    if not problems and questionnaire.max_score < pass_score:
        problems.append(
            f"{file}: passing is impossible: the questions bring {questionnaire.max_score} points at most, and "
            f"questionnaire.pass_score is {pass_score}; give right answers more points or lower it."
        )
    if problems:
        raise ConfigError(*problems)
    return questionnaire


def _read(file: Path) -> dict[str, object]:
    if reason := unreadable_reason(file):
        raise ConfigError(f"[questionnaire] file: {reason}.")
    if file.stat().st_size > _MAX_FILE:
        raise ConfigError(f"{file}: the file is too large; a questionnaire may have up to 1 MiB.")
    try:
        return tomllib.loads(read_text_file(file))
    except OSError as error:
        raise ConfigError(f"[questionnaire] file: {file} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: the file is not UTF-8 text; save it as UTF-8.") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{file}: the file is not valid TOML: {error}; fix that line.") from None


def _list_repeated_ids(questions: tuple[Question, ...], file: Path) -> list[str]:
    times = Counter(question.id for question in questions)
    return [
        f"{file}: question {number}: this id is used {count} times; give each question its own id."
        for number, count in times.items()
        if count > 1
    ]


def _read_question(table: FileTable, file: Path, place: int) -> Question | None:
    """Return the question, or None after adding at least one problem."""
    before = len(table.problems)
    table.where = f"{file}: [[question]] number {place}"
    number = table.integer("id", 1, _MAX_ID)
    if len(table.problems) == before:
        table.where = f"{file}: question {number}"
    kind = table.choice("type", tuple(_KEYS))
    if kind is None:
        table.refuse_others((*_COMMON_KEYS, *chain(*_KEYS.values())))
        return None
    table.refuse_others((*_COMMON_KEYS, *_KEYS[kind]), _explain)
    question = _read_text(table, number) if kind == "text" else _read_choice(table, number, kind)
    return question if len(table.problems) == before else None


def _explain(key: str) -> str | None:
    """Explain a key that belongs to other types of questions; None for an unknown key."""
    kinds = [kind for kind, keys in _KEYS.items() if key in keys]
    return f"only questions of the type {' and '.join(kinds)} have it; remove it" if kinds else None


def _read_choice(table: FileTable, number: int, kind: str) -> ChoiceQuestion:
    options = tuple(_read_option(option) for option in table.tables("option", at_least=2, at_most=_MAX_OPTIONS))
    is_single = kind == "single_choice"
    low, high = (1, 1) if is_single else _read_bounds(table, max(1, len(options)))
    return ChoiceQuestion(
        id=number,
        text=table.translated("text", _LONGEST_QUESTION),
        is_required=table.flag("required", default=True),
        options=options,
        is_single=is_single,
        min_selections=low,
        max_selections=high,
    )


def _read_bounds(table: FileTable, most: int) -> tuple[int, int]:
    """Return the minimum and maximum number of selections among `most` options."""
    low = table.integer("min_selections", 1, most, default=1)
    return low, table.integer("max_selections", low, most, default=most)


def _read_option(table: FileTable) -> Option:
    table.refuse_others(("text", "score"))
    return Option(
        table.translated("text", _LONGEST_OPTION), table.integer("score", -_MAX_POINTS, _MAX_POINTS, default=0)
    )


def _read_text(table: FileTable, number: int) -> TextQuestion:
    max_score = table.integer("max_score", 0, _MAX_POINTS, default=0)
    scoring_rule = table.line("scoring_rule", _LONGEST_RULE)
    if scoring_rule and not max_score:
        table.complain("scoring_rule", "without points there is nothing to score; write max_score too")
    low = table.integer("min_length", 0, _LONGEST_ANSWER, default=0)
    return TextQuestion(
        id=number,
        text=table.translated("text", _LONGEST_QUESTION),
        is_required=table.flag("required", default=True),
        min_length=low,
        max_length=table.integer("max_length", max(1, low), _LONGEST_ANSWER, max(low, _USUAL_LONGEST_ANSWER)),
        is_multiline=table.flag("multiline", default=False),
        placeholder=table.translated("placeholder", _LONGEST_PLACEHOLDER, default=EMPTY_TEXT),
        max_score=max_score,
        scoring_rule=scoring_rule,
    )
