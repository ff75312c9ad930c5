"""AuthMe's own rules for passwords and names, so that what works on the web works in the game.

The order of the checks and the odd corners (the password is matched in lower case, lengths count UTF-16
units) are AuthMe's. The regular expressions are Java's; they are translated as far as the usual ones need it.
"""

from __future__ import annotations

import logging
import re
import warnings
from dataclasses import dataclass
from enum import StrEnum

from plugin_bridge.authme.patterns import can_explode

log = logging.getLogger(__name__)

MAX_PATTERN_CHARACTERS = 200
# Bounds on what a host's regular expression is tried with, however long it lets a password or name be.
MAX_PASSWORD_CHARACTERS = 256
MAX_NAME_CHARACTERS = 64

_JAVA_PIECE = re.compile(r"\\Q.*?(?:\\E|\Z)|\\p\{\w+\}|\\.|&&|.", re.DOTALL)
_JAVA_CLASSES = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "XDigit": "0-9a-fA-F",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "ASCII": r"\x00-\x7f",
}


class PasswordViolation(StrEnum):
    """What is wrong with a new password."""

    FORBIDDEN_CHARACTERS = "forbidden_characters"
    SAME_AS_USERNAME = "same_as_username"
    TOO_SHORT = "too_short"
    TOO_LONG = "too_long"
    UNSAFE = "unsafe"


class NameViolation(StrEnum):
    """What is wrong with a name."""

    TOO_SHORT = "too_short"
    TOO_LONG = "too_long"
    FORBIDDEN_CHARACTERS = "forbidden_characters"


@dataclass(frozen=True, slots=True)
class JavaPattern:
    """A regular expression of AuthMe's config that has to match the whole text."""

    text: str
    compiled: re.Pattern[str]

    def matches(self, text: str) -> bool:
        return self.compiled.fullmatch(text) is not None

    @property
    def anchored(self) -> str:
        """The expression for a client that searches instead of matching, e.g. `^[!-~]*$`."""
        if "|" in self.text or "\\" in self.text:
            return f"^(?:{self.text})$"
        return f"^{self.text.removeprefix('^').removesuffix('$')}$"


ANYTHING = JavaPattern(".*", re.compile(".*", re.DOTALL))


def _translate(java: str) -> str:
    """The expression in Python's words; raises ValueError for what has no short equivalent."""
    translated = []
    is_in_set = False
    for piece in _JAVA_PIECE.findall(java):
        if is_in_set and piece in ("[", "&&"):
            raise ValueError("sets inside sets are Java's alone")
        if piece == "[":
            is_in_set = True
        elif piece == "]":
            is_in_set = False
        translated.append(_translate_piece(piece, is_in_set))
    return "".join(translated)


def _translate_piece(piece: str, is_in_set: bool) -> str:
    if piece.startswith("\\Q"):
        return re.escape(piece[2:].removesuffix("\\E"))
    if piece.startswith("\\p{"):
        members = _JAVA_CLASSES.get(piece[3:-1])
        if members is None:
            raise ValueError(f"the character class {piece} is not known here")
        return members if is_in_set else f"[{members}]"
    if piece == "\\z":
        return "\\Z"
    return piece


def compile_java_pattern(text: str, key: str) -> JavaPattern:
    """The expression; `ANYTHING`, and a warning with the config key, if it is invalid, too long, too slow, too special.

    AuthMe does so with an invalid one. What only Java understands, or what may take for ever, is left to the game.
    """
    if len(text) > MAX_PATTERN_CHARACTERS:
        log.warning("%s is longer than %d characters; the web allows everything", key, MAX_PATTERN_CHARACTERS)
        return ANYTHING
    try:
        with warnings.catch_warnings():
            # Python warns where a set looks like set arithmetic, which it may mean in Java.
            warnings.simplefilter("error")
            pattern = re.compile(_translate(text), re.ASCII)
            if can_explode(pattern.pattern):
                raise ValueError("a repeat inside a repeat can take for ever on a crafted text")
            return JavaPattern(text, pattern)
    except (re.error, ValueError, OverflowError, RecursionError, Warning) as problem:
        log.warning("%s: %r cannot be used (%s); the web allows everything", key, text, problem)
        return ANYTHING


_DEFAULT_PASSWORD_PATTERN = compile_java_pattern("[!-~]*", "allowedPasswordCharacters")
_DEFAULT_NAME_PATTERN = compile_java_pattern("[a-zA-Z0-9_]*", "allowedNicknameCharacters")


@dataclass(frozen=True, slots=True)
class PasswordRule:
    """Which passwords AuthMe lets a player choose. The defaults are AuthMe's own."""

    pattern: JavaPattern = _DEFAULT_PASSWORD_PATTERN
    min_length: int = 5
    max_length: int = 30
    unsafe: frozenset[str] = frozenset(
        {"123456", "password", "qwerty", "12345", "54321", "123456789", "help"}
    )  # in lower case
    is_ascii_only: bool = False
    """Whether the algorithm takes all other characters for one and the same, so that a password must not have any."""

    @property
    def regex(self) -> str:
        """For clients; AuthMe applies it to the password in lower case. Lengths are not part of it."""
        return self.pattern.anchored

    def validate(self, password: str, username: str) -> PasswordViolation | None:
        """The first objection in AuthMe's order, None if the password is fine."""
        if len(password) > MAX_PASSWORD_CHARACTERS:
            return PasswordViolation.TOO_LONG
        lowered = password.lower()
        if _has_lone_surrogate(password) or not self.pattern.matches(lowered):
            return PasswordViolation.FORBIDDEN_CHARACTERS
        if self.is_ascii_only and not password.isascii():
            return PasswordViolation.FORBIDDEN_CHARACTERS
        if lowered == username.lower():
            return PasswordViolation.SAME_AS_USERNAME
        length = _utf16_length(password)
        if length < self.min_length:
            return PasswordViolation.TOO_SHORT
        if length > self.max_length:
            return PasswordViolation.TOO_LONG
        return PasswordViolation.UNSAFE if lowered in self.unsafe else None


@dataclass(frozen=True, slots=True)
class NameRule:
    """Which names AuthMe lets join. The defaults are AuthMe's own."""

    pattern: JavaPattern = _DEFAULT_NAME_PATTERN
    min_length: int = 3
    max_length: int = 16

    @property
    def regex(self) -> str:
        """For clients, with the lengths in it, e.g. `^(?=.{3,16}$)[a-zA-Z0-9_]*$`."""
        return f"^(?=.{{{self.min_length},{self.max_length}}}$){self.pattern.anchored.removeprefix('^')}"

    def validate(self, name: str) -> NameViolation | None:
        """The first objection in AuthMe's order, None if the name may join."""
        if len(name) > MAX_NAME_CHARACTERS or _utf16_length(name) > self.max_length:
            return NameViolation.TOO_LONG
        if _utf16_length(name) < self.min_length:
            return NameViolation.TOO_SHORT
        if _has_lone_surrogate(name) or not self.pattern.matches(name):
            return NameViolation.FORBIDDEN_CHARACTERS
        return None


DEFAULT_PASSWORD_RULE = PasswordRule()
DEFAULT_NAME_RULE = NameRule()


def _utf16_length(text: str) -> int:
    """The length as Java counts it: a character outside the basic plane counts twice."""
    return len(text) + sum(character > "\uffff" for character in text)


def _has_lone_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
