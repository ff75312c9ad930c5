"""Text that people type: cleaned before it is shown, as the key of a name, or drawn as a QR code.

Text of other programs: `plugin_bridge/text.py`.
"""

import re
import tomllib
from typing import Any, Final

from plugin_bridge.text import INVISIBLE, decode_text

_LINE_ENDS: Final = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")
_STRAY: Final = "".join(filter(str.isspace, map(chr, range(0x3001)))) + (
    "\u00ad\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff"
)
"""White space, and what has no width."""
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
    """Return the text with `\n` between its lines, spaces for tabs, and nothing invisible or that cannot be stored."""
    return decode_text(strip_invisible(_LINE_ENDS.sub("\n", text).replace("\t", " ")))


def clean_reason(written: str | None) -> str | None:
    """Return the reason of a decision as it is stored: clean and cut; None if nothing is left.

    Requests and commands refuse one of more than `MAX_REASON` characters before, as a person is there to shorten it.
    """
    return shorten(clean_lines(written or "").strip(), MAX_REASON) or None


def shorten(text: str, length: int) -> str:
    """Truncate the text to this many characters, with an ellipsis at the end if anything was cut."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def strip_stray(written: str, but: str = "") -> str:
    """Return the text without what copying leaves at its ends: white space, line ends, and marks without a width.

    `but`: a character that stays.
    """
    return written.strip(_STRAY.replace(but, "") if but else _STRAY)


def clean_name(written: str) -> str:
    """Return the name without white space at its ends.

    No player has any there. Some collations ignore it when they compare, so that a row is found under another key than
    its own; others do not.
    """
    return written.strip()


def name_key(name: str) -> str:
    """Return the key of a name: clean, and in lower case as in AuthMe's table."""
    return clean_name(name).lower()


def turkish_key(name: str) -> str:
    """Return the key of a name under which AuthMe has its row where Java lower-cases as in Turkish: I becomes ı."""
    return name_key(name.replace("I", "ı"))


def look_key(name: str) -> str:
    """Return the key of names that look alike, by I, l and 1 or 0 and O, as the database makes it of users' names."""
    return name_key(name).translate(_LOOK_ALIKE)


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML, with or without the byte order mark that some editors on Windows write. Raises TOMLDecodeError."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise tomllib.TOMLDecodeError("brackets are nested too deeply") from None
    except ValueError:
        raise tomllib.TOMLDecodeError("a number is too long") from None


def draw_qr_code(text: str) -> str:
    """Return a QR code as a `data:` address of a PNG image. The library is loaded when it is used first."""
    import segno

    image: str = segno.make(text, error="m", micro=False).png_data_uri(scale=5, border=4)
    return image
