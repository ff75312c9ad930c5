"""The questionnaire: its questions, the rules that answers obey, and the points they are worth.

Points are added up over all questions; wrong choices may cost some, but nobody ends below 0. An answer in words has
points once somebody (or `regsvc.registration.questionnaire.scorer`) has judged it. Until then the doubt is the
applicant's: the answers pass if they could still reach the pass score, and a person has to read them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from regsvc.core.errors import InvalidAnswer
from regsvc.core.i18n import FALLBACK, find_language, pick_language

QuestionType = Literal["single_choice", "multiple_choice", "text"]


@dataclass(frozen=True)
class TranslatedText:
    """One text of the host's, in one language or in several; never without any."""

    by_language: Mapping[str, str]
    """By tag in lower case; "" is the text of all languages."""

    def in_language(self, language: str) -> str:
        """The text in this language, else in English, else the one that was written first."""
        known = self.by_language
        tag = find_language(known, language) or (FALLBACK if FALLBACK in known else next(iter(known)))
        return known[tag]


EMPTY_TEXT = TranslatedText({"": ""})


@dataclass(frozen=True)
class Answer:
    """What somebody gave for one question, as it came."""

    type: str | None = None
    selected_option_ids: tuple[int, ...] = ()
    text: str = ""


@dataclass(frozen=True)
class ScoredAnswer:
    """An answer that obeys the rules. One that was left out has neither options nor text, and no points."""

    question: "Question"
    options: "tuple[Option, ...]" = ()
    text: str = ""
    points: int | None = 0
    """None: somebody has to read the text."""
    note: str = ""
    """What the one who judged it says about it."""


@dataclass(frozen=True, kw_only=True)
class Question(ABC):
    """What all kinds of questions share. `id` is the host's own number, which stays when questions move."""

    id: int
    text: TranslatedText
    is_required: bool

    @property
    @abstractmethod
    def type(self) -> QuestionType: ...

    @property
    @abstractmethod
    def max_points(self) -> int:
        """The most that an answer can bring; below 0 where every answer costs something."""

    @abstractmethod
    def evaluate(self, answer: Answer) -> ScoredAnswer:
        """The answer by this question's rules. Raises `InvalidAnswer`."""

    def _skipped(self) -> ScoredAnswer:
        if self.is_required:
            raise InvalidAnswer("required", self.id)
        return ScoredAnswer(self)


@dataclass(frozen=True)
class Option:
    """One of several answers to choose from, and the points it brings or costs."""

    text: TranslatedText
    score: int


@dataclass(frozen=True, kw_only=True)
class ChoiceQuestion(Question):
    """Options to choose from; the id of an option is its place, from 0. The bounds hold for who chooses at all."""

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
        by_count = list(accumulate(scores, initial=0))  # of the best so many
        best = max(by_count[self.min_selections : self.max_selections + 1])
        return best if self.is_required else max(best, 0)

    def evaluate(self, answer: Answer) -> ScoredAnswer:
        if answer.type not in (None, self.type) or answer.text.strip():
            raise InvalidAnswer("wrong_type", self.id)
        chosen = set(answer.selected_option_ids)
        if not chosen:
            return self._skipped()
        self._check(answer.selected_option_ids, chosen)
        options = tuple(option for place, option in enumerate(self.options) if place in chosen)
        return ScoredAnswer(self, options=options, points=sum(option.score for option in options))

    def _check(self, given: tuple[int, ...], chosen: set[int]) -> None:
        if not chosen <= set(range(len(self.options))):
            raise InvalidAnswer("unknown_option", self.id)
        if len(chosen) < len(given):
            raise InvalidAnswer("repeated_option", self.id)
        if len(chosen) < self.min_selections:
            raise InvalidAnswer("too_few_options", self.id, min_selections=self.min_selections)
        if len(chosen) > self.max_selections:
            raise InvalidAnswer("too_many_options", self.id, max_selections=self.max_selections)


@dataclass(frozen=True, kw_only=True)
class TextQuestion(Question):
    """An answer in words. Lengths are in characters, without white space around, and hold for who answers at all.

    `max_score` 0: it brings no points, and is there for the one who reads it. `scoring_rule` says what earns points.
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
            raise InvalidAnswer("wrong_type", self.id)
        text = self._tidy(answer.text)
        if not text:
            return self._skipped()
        if len(text) < self.min_length:
            raise InvalidAnswer("too_short", self.id, min_length=self.min_length)
        if len(text) > self.max_length:
            raise InvalidAnswer("too_long", self.id, max_length=self.max_length)
        return ScoredAnswer(self, text=text, points=None)

    def _tidy(self, text: str) -> str:
        """Line ends are of one kind; where one line was asked for, there is one."""
        return "\n".join(text.splitlines()).strip() if self.is_multiline else " ".join(text.split())


@dataclass(frozen=True)
class Evaluation:
    """All answers of one submission, one for each question in its order, and what follows from them."""

    answers: tuple[ScoredAnswer, ...]
    max_score: int
    pass_score: int

    @property
    def score(self) -> int:
        """The points known so far."""
        return max(0, self._known_points)

    @property
    def unread(self) -> tuple[ScoredAnswer, ...]:
        """The answers that nobody has judged."""
        return tuple(answer for answer in self.answers if answer.points is None)

    @property
    def open_points(self) -> int:
        """The most that the unread answers can still bring."""
        return sum(answer.question.max_points for answer in self.unread)

    @property
    def is_passed(self) -> bool:
        """Whether somebody may register with it: the pass score is reached, or still can be."""
        return max(0, self._known_points + self.open_points) >= self.pass_score

    @property
    def requires_review(self) -> bool:
        """Whether somebody has to read it before the applicant may play. Where all is lost, nobody has to."""
        return self.is_passed and bool(self.unread)

    def with_points(self, scored: Mapping[int, ScoredAnswer]) -> "Evaluation":
        """The same with these answers, by the id of their question, in the place of theirs."""
        return replace(self, answers=tuple(scored.get(answer.question.id, answer) for answer in self.answers))

    @property
    def _known_points(self) -> int:
        return sum(answer.points or 0 for answer in self.answers)


@dataclass(frozen=True)
class Questionnaire:
    """The questions in their order, each with an id of its own, and the points it takes to pass."""

    questions: tuple[Question, ...]
    pass_score: int

    @property
    def max_score(self) -> int:
        """The most points anybody can have."""
        return max(0, sum(question.max_points for question in self.questions))

    @property
    def has_text_questions(self) -> bool:
        return any(question.type == "text" for question in self.questions)

    @property
    def languages(self) -> frozenset[str]:
        """The tags that the questions are written in, each at least in part."""
        return frozenset(tag for question in self.questions for tag in question.text.by_language if tag)

    def pick_language(self, requested: str | None, accept_language: str | None, default: str) -> str:
        """The language to ask in; see `regsvc.core.i18n.pick_language`."""
        return pick_language(self.languages, requested, accept_language, default)

    def evaluate(self, answers: Mapping[str, Answer]) -> Evaluation:
        """The answers, by the id of their question as text. Raises `InvalidAnswer` for the first that breaks a rule."""
        known = {str(question.id) for question in self.questions}
        for key in answers:
            if key not in known:
                raise InvalidAnswer("unknown_question", int(key))
        scored = tuple(question.evaluate(answers.get(str(question.id), Answer())) for question in self.questions)
        return Evaluation(scored, self.max_score, self.pass_score)
