"""Text that people typed, before it stands where somebody else reads it."""

import re
from typing import Final

# Control characters but for the line feed, line separators, and what turns the direction of writing around.
_UNWANTED: Final = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """The text without what nobody sees; its line feeds stay."""
    return _UNWANTED.sub("", text)


def shorten(text: str, length: int) -> str:
    """The text, cut to this many characters; what was cut ends with an ellipsis."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
