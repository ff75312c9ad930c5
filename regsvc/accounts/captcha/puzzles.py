"""What captchas ask, and the answers: in characters that nobody takes for others, however they are bent."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from regsvc.config.sections import CaptchaSection

_DIGITS = "23459"
"""Leaning, a 7 is a 1; crossed by a curve, 0, 6 and 8 are one another."""

_CHARACTERS = "AEHKNPXY23"
"""None of them passes for another where a curve cuts or closes it; no J, M or W, which lend their neighbours a leg."""


@dataclass(frozen=True, slots=True)
class Question:
    """`text` is drawn, `answer` is what a person types who can read it. Neither appears in a repr."""

    text: str = field(repr=False)
    answer: str = field(repr=False)


def question_maker(config: CaptchaSection) -> Callable[[], Question]:
    """A function that comes up with a new question each time."""
    return partial(ask_characters, config.length) if config.type == "text" else ask_sum


def ask_sum() -> Question:
    """A two-digit number plus a one-digit one; who guesses is right one time in thirty at best."""
    tens, ones, other = (secrets.choice(_DIGITS) for _digit in range(3))
    return Question(f"{tens}{ones}+{other}=?", str(int(tens + ones) + int(other)))


def ask_characters(length: int) -> Question:
    """Capital letters and digits to copy."""
    text = "".join(secrets.choice(_CHARACTERS) for _character in range(length))
    return Question(text, text)
