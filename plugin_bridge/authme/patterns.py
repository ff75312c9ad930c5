"""Safe compilation of regular expressions from a host's config: those that a crafted text could keep busy are refused.

Python's `re` has no time-out, and holds the interpreter's lock while it matches, so that a thread of its own would not
help. So an expression is checked before the first match, for texts of at most `MAX_TEXT` characters; callers refuse
longer ones.
"""

import re
import warnings

from plugin_bridge.authme.pattern_steps import most_steps

MAX_PATTERN_LENGTH = 256
MAX_TEXT = 128
"""Characters of the longest text that an expression is matched with."""

# A step takes up to 10 ns. Three repeats in a row that match the same characters stay below the limit, four do not.
_MAX_STEPS = 4_000_000


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
            "this can take for ever on a crafted text; repeat single sets of characters, at most three in a row that "
            "have a character in common, and require one with a look-ahead, for example ^(?=.*[0-9])[!-~]{8,30}$"
        )
    return pattern


def can_explode(text: str) -> bool:
    """Return whether a text of `MAX_TEXT` characters could keep this expression busy. Raises `re.error` if invalid."""
    return most_steps(text, MAX_TEXT) > _MAX_STEPS
