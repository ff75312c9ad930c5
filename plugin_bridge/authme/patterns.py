"""Safe compilation of regular expressions from a host's config: those with exponential running time are refused.

Python's `re` has no timeout, so the expression is checked before the first match. What remains is polynomial:
callers must still bound the length of the texts they match.
"""

import importlib
import re
import warnings
from collections.abc import Iterator
from typing import Any

MAX_PATTERN_LENGTH = 256

# An outer repeat of a few turns stays polynomial, like "([0-9]{1,3}[.]){3}".
_MANY_TURNS = 10

# The parser behind re.compile has no public name since sre_parse was deprecated (Python 3.11).
_parser: Any = importlib.import_module("re._parser")

_BACKTRACKING_REPEATS = frozenset({"MAX_REPEAT", "MIN_REPEAT"})


def compile_pattern(text: str) -> re.Pattern[str]:
    """Compile a host's regular expression. Raises ValueError with a sentence that says what is wrong with it."""
    if len(text) > MAX_PATTERN_LENGTH:
        raise ValueError(f"a regular expression may have at most {MAX_PATTERN_LENGTH} characters; shorten it")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # "[[" is legal today; the host may write it
            pattern = re.compile(text)
            is_endless = can_explode(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"this is not a regular expression ({error}); for example ^[a-z0-9_]{{3,16}}$") from None
    if is_endless:
        raise ValueError(
            "a repeat inside a repeat, or alternatives inside one, can take for ever on a crafted name; "
            "write it with one character class, for example ^[a-zA-Z0-9_]{3,16}$"
        )
    return pattern


def can_explode(text: str) -> bool:
    """Return whether a short text could keep this expression busy for ever. Raises `re.error` if it is invalid."""
    return _can_explode(_parser.parse(text), is_repeated=False)


def _can_explode(tree: Any, *, is_repeated: bool) -> bool:
    """Return whether the parsed expression repeats many times something that itself can match in several ways."""
    for operation, argument in tree:
        name = str(operation)
        is_repeated_here = is_repeated
        if name in _BACKTRACKING_REPEATS:
            low, high, _body = argument
            if is_repeated and high > 1 and low != high:
                return True
            is_repeated_here = is_repeated or high > _MANY_TURNS
        elif name == "BRANCH" and is_repeated:
            return True
        if any(_can_explode(inner, is_repeated=is_repeated_here) for inner in _inner_trees(argument)):
            return True
    return False


def _inner_trees(argument: Any) -> Iterator[Any]:
    """Yield the parsed expressions directly below one operation, whatever its argument's type."""
    if isinstance(argument, _parser.SubPattern):
        yield argument
    elif isinstance(argument, tuple | list):
        for part in argument:
            yield from _inner_trees(part)
