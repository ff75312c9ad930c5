"""AuthMe's own rules for passwords and names, so that what works on the web works in the game.

The order of the checks and the odd details (the password is matched in lower case, lengths count UTF-16 units) are
AuthMe's, but a text that is too long is never matched. The regular expressions are Java's; the common ones are
translated. `regex` matches them, as `re` has no time-out, and a crafted text can keep some expressions busy for ever;
`re` holds the interpreter's lock meanwhile, so that a worker thread would not free the event loop.
"""

from __future__ import annotations

import logging
import re
import warnings
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from math import prod
from typing import Final

import regex

log = logging.getLogger(__name__)

MAX_PATTERN_CHARACTERS = 200
_MAX_OWN_PATTERN_CHARACTERS: Final = 256
_LONGEST_MATCH: Final = timedelta(milliseconds=10)
"""Processor time of one attempt of two: a request matches two expressions, and they hold up the event loop."""
# Bounds on the text that a host's regular expression is tried on, however long the config lets it be.
MAX_PASSWORD_CHARACTERS = 128
MAX_NAME_CHARACTERS = 64

# `regex` compiles what is repeated at least n times n times over, and looks at repeated groups twice.
_COPIES: Final = re.compile(r"\{(\d+)|\)[*+]")
_MAX_COPIES: Final = 10_000  # compiled in 50 ms; without a limit, nested counts would take hours, and all memory

_JAVA_TOKEN = re.compile(r"\\Q.*?(?:\\E|\Z)|\\p\{\w+\}|\\.|&&|.", re.DOTALL)
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


class Violation(StrEnum):
    """The rule that a new password or a name violates."""

    FORBIDDEN_CHARACTERS = "forbidden_characters"
    SAME_AS_USERNAME = "same_as_username"
    TOO_SHORT = "too_short"
    TOO_LONG = "too_long"
    UNSAFE = "unsafe"


@dataclass(frozen=True, slots=True)
class HostPattern:
    """A host's regular expression, which has to match the whole text."""

    text: str
    compiled: regex.Pattern[str] = field(compare=False)
    is_substitute: bool = False
    """Whether it stands in for an expression that cannot be used."""

    def matches(self, text: str) -> bool:
        """Return whether it matches; a text that keeps it busy is one that does not."""
        for _attempt in range(2):  # it is the time of all threads: others may have used it up
            with suppress(TimeoutError):
                return self.compiled.fullmatch(text, timeout=_LONGEST_MATCH.total_seconds()) is not None
        log.warning("%r takes too long on some texts, which are refused; simplify it", self.text)
        return False

    @property
    def anchored(self) -> str:
        """The expression for clients that search instead of matching, e.g. `^[!-~]*$`."""
        if "|" in self.text or "\\" in self.text:
            return f"^(?:{self.text})$"
        return f"^{self.text.removeprefix('^').removesuffix('$')}$"


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

ANYTHING = HostPattern(".*", regex.compile(".*", regex.DOTALL), is_substitute=True)
"""In place of an expression for passwords: a rule that is left to the game."""


def _translate(java: str) -> str:
    """Translate the expression to Python's syntax. Raises ValueError for what has no short equivalent."""
    translated = []
    is_in_set = False
    for part in _JAVA_TOKEN.findall(java):
        if is_in_set and part in ("[", "&&"):
            raise ValueError("sets inside sets are Java's alone")
        if part == "[":
            is_in_set = True
        elif part == "]":
            is_in_set = False
        translated.append(_translate_part(part, is_in_set))
    return "".join(translated)


def _translate_part(part: str, is_in_set: bool) -> str:
    if part.startswith("\\Q"):
        return re.escape(part[2:].removesuffix("\\E"))
    if part.startswith("\\p{"):
        members = _JAVA_CLASSES.get(part[3:-1])
        if members is None:
            raise ValueError(f"the character class {part} is not known here")
        return members if is_in_set else f"[{members}]"
    if part == "\\z":
        return "\\Z"
    return part


def compile_java_pattern(text: str, key: str, substitute: HostPattern) -> HostPattern:
    """Compile the expression, or log a warning with the config key and return `substitute` if it cannot be used.

    It cannot if it is invalid (AuthMe allows everything then), too long, or understood by Java alone.
    """
    if len(text) > MAX_PATTERN_CHARACTERS:
        log.warning("%s is too long for a regular expression; the web uses %s instead", key, substitute.text)
        return substitute
    try:
        with warnings.catch_warnings():
            # Python warns where a set looks like set arithmetic, which it may be in Java.
            warnings.simplefilter("error")
            return HostPattern(text, _compile(_translate(text), regex.ASCII))
    except (re.error, regex.error, ValueError, OverflowError, RecursionError, Warning) as problem:
        log.warning("%s: %r cannot be used (%s); the web uses %s instead", key, text, problem, substitute.text)
        return substitute


def compile_pattern(text: str) -> HostPattern:
    """Compile a regular expression of our own config. Raises ValueError with a sentence that says what is wrong."""
    if len(text) > _MAX_OWN_PATTERN_CHARACTERS:
        raise ValueError(f"a regular expression may have at most {_MAX_OWN_PATTERN_CHARACTERS} characters; shorten it")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # "[[" is legal today; the host may write it
            return HostPattern(text, _compile(text))
    except (re.error, regex.error, RecursionError, OverflowError) as error:
        raise ValueError(f"this is not a regular expression ({error}); for example ^[a-z0-9_]{{3,16}}$") from None


def _compile(text: str, flags: int = 0) -> regex.Pattern[str]:
    """Compile what both `re` and `regex` can read, so that extensions of `regex` are no part of anybody's config."""
    re.compile(text)
    if prod(max(2, int(count or 0)) for count in _COPIES.findall(text)) > _MAX_COPIES:
        raise ValueError("this repeats too much; repeat single sets of characters, for example ^[a-z0-9_]{3,16}$")
    return regex.compile(text, flags)


_DEFAULT_PASSWORD_PATTERN = HostPattern("[!-~]*", regex.compile("[!-~]*", regex.ASCII))
_DEFAULT_NAME_PATTERN = HostPattern("[a-zA-Z0-9_]*", regex.compile("[a-zA-Z0-9_]*", regex.ASCII))
DEFAULT_NAMES = replace(_DEFAULT_NAME_PATTERN, is_substitute=True)
"""In place of an expression for names: AuthMe's default, since people read names and take them for one another."""


@dataclass(frozen=True, slots=True)
class PasswordRule:
    """AuthMe's rule for new passwords. The defaults are AuthMe's own."""

    pattern: HostPattern = _DEFAULT_PASSWORD_PATTERN
    min_length: int = 5
    max_length: int = 30
    unsafe: frozenset[str] = frozenset(
        {"123456", "password", "qwerty", "12345", "54321", "123456789", "help"}
    )  # in lower case
    is_ascii_only: bool = False
    """Whether the algorithm treats all other characters as one and the same, so that a password must not have any."""

    @property
    def regex(self) -> str:
        """The pattern for clients; AuthMe applies it to the password in lower case. It does not include the lengths."""
        return self.pattern.anchored

    def validate(self, password: str, username: str) -> Violation | None:
        """Return the first rule that is violated, in AuthMe's order; None if the password is acceptable."""
        length, lowered = _utf16_length(password), password.lower()
        if length > self.max_length or len(lowered) > MAX_PASSWORD_CHARACTERS:
            return Violation.TOO_LONG
        if _LONE_SURROGATE.search(password) or not self.pattern.matches(lowered):
            return Violation.FORBIDDEN_CHARACTERS
        if self.is_ascii_only and not password.isascii():
            return Violation.FORBIDDEN_CHARACTERS
        if lowered == username.lower():
            return Violation.SAME_AS_USERNAME
        if length < self.min_length:
            return Violation.TOO_SHORT
        return Violation.UNSAFE if lowered in self.unsafe else None


@dataclass(frozen=True, slots=True)
class NameRule:
    """AuthMe's rule for the names that may join. The defaults are AuthMe's own."""

    pattern: HostPattern = _DEFAULT_NAME_PATTERN
    min_length: int = 3
    max_length: int = 16

    @property
    def regex(self) -> str:
        """The pattern for clients, including the lengths, e.g. `^(?=.{3,16}$)[a-zA-Z0-9_]*$`."""
        return f"^(?=.{{{self.min_length},{self.max_length}}}$){self.pattern.anchored.removeprefix('^')}"

    def validate(self, name: str) -> Violation | None:
        """Return the first rule that is violated, in AuthMe's order; None if the name may join."""
        length = _utf16_length(name)
        if len(name) > MAX_NAME_CHARACTERS or length > self.max_length:
            return Violation.TOO_LONG
        if length < self.min_length:
            return Violation.TOO_SHORT
        if _LONE_SURROGATE.search(name) or not self.pattern.matches(name):
            return Violation.FORBIDDEN_CHARACTERS
        return None


DEFAULT_PASSWORD_RULE = PasswordRule()
DEFAULT_NAME_RULE = NameRule()


def _utf16_length(text: str) -> int:
    """Return the length as Java counts it: a character outside the basic plane counts twice."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
