"""The bound of a regular expression's steps, against a matcher that tries every way and counts."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from plugin_bridge.authme.pattern_steps import most_steps

LENGTH = 14


@dataclass(frozen=True)
class Part:
    """A part of an expression. `text`: characters, the mark of a look-ahead, or "?" of a repeat that is not greedy."""

    kind: str
    text: str = ""
    inner: tuple["Part", ...] = ()
    least: int = 1
    most: int = 1

    @property
    def is_one_character(self) -> bool:
        """Whether it is one set of characters to the parser, like `a|[bc]`."""
        is_set = self.kind == "alternatives" and all(part.is_one_character for part in self.inner)
        return self.kind == "characters" or is_set

    @property
    def beginning(self) -> str:
        """What a parser takes out of alternatives that have it in common."""
        return self.inner[0].beginning if self.kind == "sequence" else str(self)

    def __str__(self) -> str:
        match self.kind:
            case "characters":
                return self.text
            case "sequence":
                return "".join(map(str, self.inner))
            case "alternatives":
                return f"(?:{'|'.join(map(str, self.inner))})"
            case "look-ahead":
                return f"{self.text}{self.inner[0]})"
        return f"(?:{self.inner[0]}){{{self.least},{self.most}}}{self.text}"


class Matcher:
    """Tries every way as a backtracking matcher does, without any of the shortcuts that `re` knows."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.steps = 0

    def matches(self, part: Part) -> bool:
        return any(end == len(self.text) for end in self.ends(part, 0))

    def ends(self, part: Part, at: int) -> Iterator[int]:
        """Yield where the part can end that begins here."""
        if part.is_one_character:
            self.steps += 1
            if at < len(self.text) and re.fullmatch(str(part), self.text[at]):
                yield at + 1
        elif part.kind == "sequence":
            yield from self._sequence(part.inner, at)
        elif part.kind == "alternatives":
            for alternative in part.inner:
                yield from self.ends(alternative, at)
        elif part.kind == "look-ahead":
            if any(True for _end in self.ends(part.inner[0], at)) == (part.text == "(?="):
                yield at
        else:
            yield from self._turns(part, at, 0)

    def _sequence(self, parts: tuple[Part, ...], at: int) -> Iterator[int]:
        if not parts:
            yield at
            return
        for middle in self.ends(parts[0], at):
            yield from self._sequence(parts[1:], middle)

    def _turns(self, part: Part, at: int, count: int) -> Iterator[int]:
        self.steps += 1
        if part.text == "?" and count >= part.least:
            yield at
        if count < part.most:
            for end in self.ends(part.inner[0], at):
                yield from self._turns(part, end, count + 1)
        if part.text != "?" and count >= part.least:
            yield at


def compose(inner: st.SearchStrategy[Part]) -> st.SearchStrategy[Part]:
    many = st.lists(inner, min_size=2, max_size=4).map(tuple)
    different = many.filter(lambda parts: len({part.beginning for part in parts}) == len(parts))
    turns = st.tuples(st.integers(0, 1), st.integers(1, LENGTH))
    repeats = st.builds(
        lambda part, mark, turns: Part("repeat", mark, (part,), turns[0], sum(turns)),
        inner,
        st.sampled_from(["", "?"]),
        turns,
    )
    return st.one_of(
        many.map(lambda parts: Part("sequence", inner=parts)),
        different.map(lambda parts: Part("alternatives", inner=parts)),
        repeats,
        st.lists(repeats, min_size=3, max_size=5).map(lambda parts: Part("sequence", inner=tuple(parts))),
        st.builds(lambda part, mark: Part("look-ahead", mark, (part,)), inner, st.sampled_from(["(?=", "(?!"])),
    )


CHARACTERS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "[^b-]", r"\d", r"\w"])
PARTS = st.recursive(CHARACTERS.map(lambda text: Part("characters", text)), compose, max_leaves=7)


@settings(max_examples=150, deadline=None)
@given(PARTS, st.lists(st.text("ab1-", max_size=LENGTH), min_size=3, max_size=6))
def test_no_text_takes_more_steps_than_the_bound(part: Part, texts: list[str]) -> None:
    bound = most_steps(str(part), LENGTH)
    assume(bound < 50_000)
    for text in (*texts, "a" * LENGTH, "a" * (LENGTH - 1) + "-", "ab" * (LENGTH // 2)):
        matcher = Matcher(text)
        assert matcher.matches(part) == (re.fullmatch(str(part), text) is not None)
        assert matcher.steps <= bound, (str(part), text)


@pytest.mark.parametrize("length", [8, 16, 32])
def test_the_bound_follows_the_number_of_ways(length: int) -> None:
    assert most_steps("a*b", length) < 10 * length
    assert length**2 // 2 <= most_steps("a*a*b", length) < 5 * length**2
    assert length**3 // 6 <= most_steps("a*a*a*b", length) < 5 * length**3
    assert most_steps("(?:a|aa)*b", length) >= 2**length
    assert most_steps("(?:a|b)*c", length) < 10 * length


@pytest.mark.parametrize("written", ["(" * 60 + "a" + ")+" * 60, "a*" * 128, "(?:a|" * 40 + "b" + ")*" * 40])
def test_the_bound_itself_is_found_in_a_moment(written: str) -> None:
    assert most_steps(written, 128) > 10**9
