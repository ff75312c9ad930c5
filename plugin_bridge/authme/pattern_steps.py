"""Upper bound of the steps that Python's `re` takes for a regular expression, on any text of a given length.

`re` tries one way to match after another. Where the next character decides when a repeat ends, as in `[a-z]*[0-9]`, one
way is left; where it does not, as in `.*[0-9]`, all that follows is tried once for each way. The bound multiplies these
numbers. It may be too high but not too low: a part that is not understood counts as one that begins with anything.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb, prod
from typing import Any, Final

# The parser behind re.compile has no public name since sre_parse was deprecated (Python 3.11).
_parser: Any = importlib.import_module("re._parser")

_TOO_MANY: Final = 10**12
"""Bounds are not computed beyond this number."""

# The ASCII characters, one number for all other characters, and one for the end of the text.
_ASCII: Final = frozenset(range(128))
_OTHERS: Final = frozenset({128})
_END: Final = frozenset({129})
_ANYTHING: Final = _ASCII | _OTHERS | _END
_NOTHING: Final = frozenset[int]()
_ONLY_UNICODE_SPACES: Final = frozenset(range(0x1C, 0x20))  # which a flag takes out of \s
_CATEGORIES: Final = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}

_CASELESS: Final = re.compile(r"\(\?[aLmsux]*i")
_STEPS_OF_A_TURN: Final = 4  # of a repeat; comparing a character is one

Symbols = frozenset[int]
Part = tuple[str, Any]
"""Name and argument of an operation, as the parser returns them."""


def most_steps(text: str, length: int) -> int:
    """Return the bound for texts of up to `length` characters. Raises `re.error` for an invalid expression."""
    expression = _Expression(length, is_caseless=_CASELESS.search(text) is not None)
    return expression.sequence(_parts(_parser.parse(text)), _END).steps


@dataclass(frozen=True)
class _Effort:
    """Steps to try every way in which a part matches from one position, and the number of these ways."""

    steps: int
    ways: int


@dataclass(frozen=True)
class _Repeat:
    """A repeat of what matches in one way. `span`: how many turns beyond the least number are possible."""

    steps_per_turn: int
    least: int
    span: int
    is_decided: bool
    """Whether the next character decides when it ends."""


_ENDLESS: Final = _Effort(_TOO_MANY, _TOO_MANY)


@dataclass(frozen=True)
class _Expression:
    """Bounds for the parts of one expression. `after`: the characters that may follow a part."""

    length: int
    is_caseless: bool

    def sequence(self, parts: Sequence[Part], after: Symbols) -> _Effort:
        """Return the bound of parts that follow one another."""
        steps, ways = 0, 1
        spans: list[int] = []  # of the repeats whose end nothing decides; they share the text
        for number, (name, argument) in enumerate(parts):
            follows = self._first(parts[number + 1 :], after)
            arrivals = ways * self._count(spans)
            effort = self._effort(name, argument, follows)
            if isinstance(effort, _Repeat):
                turns = arrivals * effort.least + ways * self._count([*spans, effort.span])
                steps += turns * effort.steps_per_turn
                spans += [] if effort.is_decided else [effort.span]
            else:
                steps, ways = steps + arrivals * effort.steps, ways * effort.ways
            steps, ways = min(steps, _TOO_MANY), min(ways, _TOO_MANY)
        return _Effort(steps, min(ways * self._count(spans), _TOO_MANY))

    def _count(self, spans: Sequence[int]) -> int:
        """Return in how many ways repeats of up to so many turns can divide the text among them."""
        return min(prod(span + 1 for span in spans), comb(self.length + len(spans), len(spans)))

    def _effort(self, name: str, argument: Any, follows: Symbols) -> _Effort | _Repeat:
        """Return the bound of one part."""
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            return self._repeat(argument, follows)
        if name == "POSSESSIVE_REPEAT":
            return _Effort(self.sequence([("MAX_REPEAT", argument)], _END).steps, 1)
        if name == "ATOMIC_GROUP":
            return _Effort(self.sequence(_parts(argument), _END).steps, 1)
        if name in ("ASSERT", "ASSERT_NOT"):
            return _Effort(self.sequence(_parts(argument[1]), _END).steps, 1)
        if name == "BRANCH":
            return self._branches([_parts(branch) for branch in argument[1]], follows)
        if name == "GROUPREF_EXISTS":
            return self._branches([_parts(branch or ()) for branch in argument[1:]], follows)
        return _Effort(self.length if name == "GROUPREF" else 1, 1)

    def _repeat(self, argument: Any, follows: Symbols) -> _Effort | _Repeat:
        least, most, body = argument
        shortest = body.getwidth()[0]
        if shortest == 0 and most > 1:
            return _ENDLESS
        first = self._first(_parts(body), _NOTHING)
        once = self.sequence(_parts(body), first | follows if most > 1 else follows)
        steps_per_turn, turns = once.steps + _STEPS_OF_A_TURN, min(most, self.length // max(1, shortest))
        if once.ways == 1:
            return _Repeat(steps_per_turn, min(least, turns), max(0, turns - least), not first & follows)
        ways = sum(once.ways**turn for turn in range(turns + 1))
        return _Effort(min(ways * steps_per_turn, _TOO_MANY), min(ways, _TOO_MANY))

    def _branches(self, branches: Sequence[Sequence[Part]], follows: Symbols) -> _Effort:
        """Return the bound of alternatives: where the next character decides between them, only one of them counts."""
        efforts = [self.sequence(branch, follows) for branch in branches]
        firsts = [self._first(branch, follows) for branch in branches]
        is_decided = sum(map(len, firsts)) == len(_NOTHING.union(*firsts))
        ways = [effort.ways for effort in efforts]
        return _Effort(sum(effort.steps + 1 for effort in efforts), max(ways) if is_decided else sum(ways))

    def _first(self, parts: Iterable[Part], after: Symbols) -> Symbols:
        """Return the characters that these parts, or else what comes after them, can begin with."""
        found = _NOTHING
        for name, argument in parts:
            if name == "AT":
                continue
            inner = _inner(name, argument)
            if inner is None:
                return found | self._characters(name, argument)
            found = found.union(*(self._first(_parts(body), _NOTHING) for body in inner))
            if not _may_be_empty(name, argument, inner):
                return found
        return found | after

    def _characters(self, name: str, argument: Any) -> Symbols:
        """Return the characters that an operation on a single one matches."""
        if name == "NOT_LITERAL":
            found = _complement(_members("LITERAL", argument))
        elif name == "IN":
            found = _NOTHING.union(*(_members(str(kind), value) for kind, value in argument))
            found = _complement(found) if str(argument[0][0]) == "NEGATE" else found
        else:
            found = _members(name, argument)
        if self.is_caseless:
            letters = {ord(case) for code in found & _ASCII for case in (chr(code).lower(), chr(code).upper())}
            return found | letters | _OTHERS
        return found


def _parts(parsed: Any) -> list[Part]:
    """Return the operations of a parsed expression, with the contents of plain groups in place of them."""
    parts: list[Part] = []
    for operation, argument in parsed:
        if str(operation) == "SUBPATTERN":
            parts += _parts(argument[-1])
        else:
            parts.append((str(operation), argument))
    return parts


def _inner(name: str, argument: Any) -> list[Any] | None:
    """Return the expressions that a repeat, an atomic group or alternatives can begin with; None for other parts."""
    if name.endswith("_REPEAT"):
        return [argument[2]]
    if name == "ATOMIC_GROUP":
        return [argument]
    return list(argument[1]) if name == "BRANCH" else None


def _may_be_empty(name: str, argument: Any, inner: list[Any]) -> bool:
    is_optional = name.endswith("_REPEAT") and argument[0] == 0
    return is_optional or any(body.getwidth()[0] == 0 for body in inner)


def _members(kind: str, value: Any) -> Symbols:
    """Return the characters of one member of a set."""
    if kind == "NEGATE":
        return _NOTHING
    if kind == "ANY":
        return _ASCII | _OTHERS
    if kind == "LITERAL":
        return frozenset({value}) if value in _ASCII else _OTHERS
    if kind == "RANGE":
        low, high = value
        return _ASCII.intersection(range(low, min(high + 1, len(_ASCII)))) | (
            _OTHERS if high not in _ASCII else _NOTHING
        )
    word = str(value).removeprefix("CATEGORY_")
    category = _CATEGORIES.get(word.removeprefix("NOT_"))
    if kind != "CATEGORY" or category is None:
        return _ANYTHING
    found = frozenset(code for code in _ASCII if re.match(category, chr(code)))
    return _complement(found) if word.startswith("NOT_") else found | _OTHERS


def _complement(found: Symbols) -> Symbols:
    return (_ASCII - found) | _ONLY_UNICODE_SPACES | _OTHERS
