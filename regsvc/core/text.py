"""Text that people type: cleaned before it is shown, as the key of a name, or drawn as a QR code."""

import re
from typing import Final

INVISIBLE: Final = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Control characters except the line feed, line separators, and characters that change the writing direction."""
_LINE_ENDS: Final = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")
_LOOK_ALIKE: Final = str.maketrans("i10", "llo")
MAX_REASON: Final = 4000
"""Characters of a reason."""
MAX_ANSWER: Final = 4000
"""Characters of an applicant's answer to a question of the team."""


def whole(pattern: str) -> str:
    r"""Return the `pattern` of a `Meta` that the whole text has to match, in Python and in the OpenAPI document.

    msgspec searches for a pattern, and `$` alone matches before a line feed at the end, too; JSON Schema has no `\Z`.
    """
    return rf"^(?:{pattern})$(?!\n)"


def strip_invisible(text: str) -> str:
    """Remove invisible characters; line feeds stay."""
    return INVISIBLE.sub("", text)


def clean_lines(text: str) -> str:
    """Return the text with `\n` between its lines, spaces for tabs, `?` for lone surrogates, and nothing invisible."""
    lines = _LINE_ENDS.sub("\n", text).replace("\t", " ")
    return strip_invisible(lines.encode("utf-8", "replace").decode())


def clean_reason(written: str | None) -> str | None:
    """Return the reason of a decision as it is stored: clean and cut; None if nothing is left.

    Requests and commands refuse one of more than `MAX_REASON` characters before, as a person is there to shorten it.
    """
    return shorten(clean_lines(written or "").strip(), MAX_REASON) or None


def shorten(text: str, length: int) -> str:
    """Truncate the text to this many characters, with an ellipsis at the end if anything was cut."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def clean_name(written: str) -> str:
    """Return the name without white space at its ends.

    No player has any there. Some collations ignore it when they compare, so that a row is found under another key than
    its own; others do not.
    """
    return written.strip()


def name_key(name: str) -> str:
    """Return the key of a name: clean, and in lower case as in AuthMe's table."""
    return clean_name(name).lower()


def look_key(name: str) -> str:
    """Return the key of names that look alike, by I, l and 1 or 0 and O, as the database makes it of users' names."""
    return name_key(name).translate(_LOOK_ALIKE)


def draw_qr_code(text: str) -> str:
    """Return a QR code as a `data:` address of a PNG image. The library is loaded when it is used first."""
    import segno

    image: str = segno.make(text, error="m", micro=False).png_data_uri(scale=5, border=4)
    return image
