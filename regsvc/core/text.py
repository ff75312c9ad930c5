"""Cleaning of text typed by people before it is shown to others."""

import re
from typing import Final

# Control characters except the line feed, line separators, and characters that change the writing direction.
_INVISIBLE: Final = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def strip_invisible(text: str) -> str:
    """Remove invisible characters; line feeds stay."""
    return _INVISIBLE.sub("", text)


def shorten(text: str, length: int) -> str:
    """Truncate the text to this many characters, with an ellipsis at the end if anything was cut."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
