"""The questionnaire: questions, validation of answers, and points.

Points are added up over all questions; wrong choices may cost points, but the total is never below 0. A text answer
gets points from `regsvc.registration.questionnaire.scorer` or from an admin who reads it. Until then the applicant has
the benefit of the doubt: the answers pass if they can still reach the pass score, and an admin has to read them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from regsvc.core.errors import InvalidAnswer
from regsvc.core.i18n.languages import Translated

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
