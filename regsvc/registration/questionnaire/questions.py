"""The questionnaire: questions, validation of answers, and points.

Points are added up over all questions; wrong choices may cost points, but the total is never below 0. A text answer
gets points from `regsvc.registration.questionnaire.scorer` or from an admin who reads it. Until then the applicant has
the benefit of the doubt: the answers pass if they can still reach the pass score, and an admin has to read them.
"""

import difflib
import re
import tomllib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from pathlib import Path
from typing import Final, Literal

from regsvc.config.key_types import to_toml
from regsvc.config.sections import ConfigError
from regsvc.config.value_checks import language_tag, unreadable_reason
from regsvc.core.errors import InvalidAnswer
from regsvc.core.i18n import Translated, normalize_tag
from regsvc.core.safe_paths import read_text_file
from regsvc.core.text import parse_toml

QuestionType = Literal["single_choice", "multiple_choice", "text"]

TranslatedText = Translated[str]
EMPTY_TEXT = TranslatedText({"": ""})


@dataclass(frozen=True)
class Answer:
    """The answer to one question, as received."""

    type: str | None = None
    selected_option_ids: tuple[int, ...] = ()
    text: str = ""


@dataclass(frozen=True)
class ScoredAnswer:
    """A valid answer. A skipped one has neither options nor text, and no points."""

    question: "Question"
    options: "tuple[Option, ...]" = ()
    text: str = ""
    points: int | None = 0
    """None: an admin has to read the text."""
    note: str = ""
    """The scorer's reason, or empty."""


@dataclass(frozen=True, kw_only=True)
class Question(ABC):
    """Base class of questions. `id` is the host's number, which stays when questions are reordered."""

    id: int
    text: TranslatedText
    is_required: bool

    @property
    @abstractmethod
    def type(self) -> QuestionType: ...

    @property
    @abstractmethod
    def max_points(self) -> int:
        """Most points an answer can bring; below 0 where every answer costs points."""

    @abstractmethod
    def evaluate(self, answer: Answer) -> ScoredAnswer:
        """Validate and score the answer. Raises `InvalidAnswer`."""

    def _skipped(self) -> ScoredAnswer:
        if self.is_required:
            raise InvalidAnswer("required", question_id=self.id)
        return ScoredAnswer(self)


@dataclass(frozen=True)
class Option:
    """An option with the points it brings or costs."""

    text: TranslatedText
    score: int


@dataclass(frozen=True, kw_only=True)
class ChoiceQuestion(Question):
    """Options to choose from, whose ids are their positions from 0. The bounds apply unless the question is skipped."""

    options: tuple[Option, ...]
    is_single: bool
    min_selections: int
    max_selections: int

    @property
    def type(self) -> QuestionType:
        return "single_choice" if self.is_single else "multiple_choice"

    @property
    def max_points(self) -> int:
        scores = sorted((option.score for option in self.options), reverse=True)
        by_count = list(accumulate(scores, initial=0))  # by_count[n]: points of the n best options
        best = max(by_count[self.min_selections : self.max_selections + 1])
        return best if self.is_required else max(best, 0)

    def evaluate(self, answer: Answer) -> ScoredAnswer:
        if answer.type not in (None, self.type) or answer.text.strip():
            raise InvalidAnswer("wrong_type", question_id=self.id)
        chosen = set(answer.selected_option_ids)
        if not chosen:
            return self._skipped()
        self._check(answer.selected_option_ids, chosen)
        options = tuple(option for place, option in enumerate(self.options) if place in chosen)
        return ScoredAnswer(self, options=options, points=sum(option.score for option in options))

    def _check(self, given: tuple[int, ...], chosen: set[int]) -> None:
        if not chosen <= set(range(len(self.options))):
            raise InvalidAnswer("unknown_option", question_id=self.id)
        if len(chosen) < len(given):
            raise InvalidAnswer("repeated_option", question_id=self.id)
        if len(chosen) < self.min_selections:
            raise InvalidAnswer("too_few_options", question_id=self.id, min_selections=self.min_selections)
        if len(chosen) > self.max_selections:
            raise InvalidAnswer("too_many_options", question_id=self.id, max_selections=self.max_selections)


@dataclass(frozen=True, kw_only=True)
class TextQuestion(Question):
    """A question with a text answer. Lengths are in characters, stripped, and apply unless the question is skipped.

    `max_score` 0: it brings no points, and admins read the answer. `scoring_rule` describes what earns points.
    """

    min_length: int
    max_length: int
    is_multiline: bool
    placeholder: TranslatedText
    max_score: int
    scoring_rule: str

    @property
    def type(self) -> QuestionType:
        return "text"

    @property
    def max_points(self) -> int:
        return self.max_score

    def evaluate(self, answer: Answer) -> ScoredAnswer:
        if answer.type not in (None, self.type) or answer.selected_option_ids:
            raise InvalidAnswer("wrong_type", question_id=self.id)
        text = answer.text
        text = "\n".join(text.splitlines()).strip() if self.is_multiline else " ".join(text.split())
        if not text:
            return self._skipped()
        if len(text) < self.min_length:
            raise InvalidAnswer("too_short", question_id=self.id, min_length=self.min_length)
        if len(text) > self.max_length:
            raise InvalidAnswer("too_long", question_id=self.id, max_length=self.max_length)
        return ScoredAnswer(self, text=text, points=None)


@dataclass(frozen=True)
class Evaluation:
    """The answers of one submission, one per question in order, and their result."""

    answers: tuple[ScoredAnswer, ...]
    max_score: int
    pass_score: int

    @property
    def score(self) -> int:
        """Points so far, without unread answers."""
        return self._weighed[0]

    @property
    def unread(self) -> tuple[ScoredAnswer, ...]:
        """Answers not scored yet."""
        return tuple(answer for answer in self.answers if answer.points is None)

    @property
    def is_passed(self) -> bool:
        """Return whether the pass score is reached or still can be, so that the applicant may register."""
        return self._weighed[1]

    @property
    def requires_review(self) -> bool:
        """Return whether an admin has to read answers before the applicant may play; False for a failed submission."""
        return self._weighed[2]

    def with_points(self, scored: Mapping[int, ScoredAnswer]) -> "Evaluation":
        """Return a copy with these answers, by question id, in place of the old ones."""
        return replace(self, answers=tuple(scored.get(answer.question.id, answer) for answer in self.answers))

    @property
    def _weighed(self) -> tuple[int, bool, bool]:
        return weigh([(answer.points, answer.question.max_points) for answer in self.answers], self.pass_score)


def weigh(points: Sequence[tuple[int | None, int]], pass_score: int) -> tuple[int, bool, bool]:
    """Return the score, whether it passes, and whether a person has to read answers.

    `points` are those of each answer, None if unread, with the most that it can bring. What is unread may still pass.
    """
    known = sum(given or 0 for given, _most in points)
    unread = [most for given, most in points if given is None]
    is_passed = max(0, known + sum(unread)) >= pass_score
    return max(0, known), is_passed, is_passed and bool(unread)


@dataclass(frozen=True)
class Questionnaire:
    """The questions in order, with unique ids, and the points needed to pass."""

    questions: tuple[Question, ...]
    pass_score: int

    @property
    def max_score(self) -> int:
        """Most points that can be reached."""
        return max(0, sum(question.max_points for question in self.questions))

    @property
    def has_text_questions(self) -> bool:
        return any(question.type == "text" for question in self.questions)

    @property
    def languages(self) -> frozenset[str]:
        """Tags of the languages in which at least one question is written."""
        return frozenset(tag for question in self.questions for tag in question.text.by_language if tag)

    def evaluate(self, answers: Mapping[str, Answer]) -> Evaluation:
        """Evaluate answers, keyed by question id as text. Raises `InvalidAnswer` for the first invalid one."""
        known = {str(question.id) for question in self.questions}
        for key in answers:
            if key not in known:
                raise InvalidAnswer("unknown_question", question_id=int(key))
        scored = tuple(question.evaluate(answers.get(str(question.id), Answer())) for question in self.questions)
        return Evaluation(scored, self.max_score, self.pass_score)


# --- Reader of the questionnaire's file (TOML; `conf/questionnaire.toml` is a sample) ---
# Reader of the questionnaire's file (TOML; `conf/questionnaire.toml` is a sample), read once at the start.
# It is not read again on SIGHUP: questions must not change between the form and its answers.
# Every problem is reported before anything starts: a sentence with the file, the question and what to do.


_UNWANTED: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")

_LONGEST_SHOWN: Final = 60

_MISSING: Final = object()


@dataclass
class FileTable:
    """A TOML table. `where` begins every sentence about it; `problems` is shared by all tables of a file."""

    values: dict[str, object]
    where: str
    problems: list[str]

    def integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """Return an integer between two bounds, both included; required without a default."""
        value = self.values.get(key, default)
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        what = f"a whole number from {low} to {high}"
        self.complain(key, f"write {what}, such as {key} = {low}" if value is None else f"this must be {what}")
        return low

    def flag(self, key: str, default: bool) -> bool:
        """Return a boolean."""
        value = self.values.get(key, default)
        if isinstance(value, bool):
            return value
        self.complain(key, "this must be true or false, without quotes")
        return default

    def choice(self, key: str, allowed: Iterable[str]) -> str | None:
        """Return one of these texts. It is required; None after a complaint."""
        value = self.values.get(key)
        if isinstance(value, str) and value in allowed:
            return value
        self.complain(key, f"this must be {' or '.join(map(to_toml, allowed))}")
        return None

    def line(self, key: str, longest: int) -> str:
        """Return a text in one language, or "" if it is missing."""
        return self._text(key, self.values.get(key, ""), longest, may_be_empty=True)

    def translated(self, key: str, longest: int, default: TranslatedText | None = None) -> TranslatedText:
        """Return a text in one language or a table of texts by language; required without a default."""
        value = self.values.get(key, _MISSING)
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
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.complain(key, f"each {key} needs a heading of its own, in double brackets")
            return
        if not at_least <= len(value) <= at_most:
            self.complain(key, f"there must be from {at_least} to {at_most}, and there are {len(value)}")
        for place, item in enumerate(value, 1):
            yield FileTable(item, f"{self.where}, {key} {place}", self.problems)

    def refuse_others(self, known: Iterable[str], explain: Callable[[str], str | None] = lambda key: None) -> None:
        """Complain about every unknown key; `explain` may return why it is wrong here."""
        for key in self.values:
            if key in known:
                continue
            alike = difflib.get_close_matches(key, list(known), n=1)
            guess = f"did you mean {alike[0]}?" if alike else f"the keys are {', '.join(known)}."
            self.complain(key, explain(key) or f"there is no such key here; {guess}")

    def complain(self, key: str, reason: str) -> None:
        """Add a problem: what is wrong with a key and what to do. The value is shown if it is a scalar."""
        value = self.values.get(key)
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
        return parse_toml(read_text_file(file))
    except OSError as error:
        raise ConfigError(f"[questionnaire] file: {file} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: the file is not UTF-8 text; save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
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
