"""Text from outside, whatever its bytes: as a database stores it, JSON carries it, and a log or a page shows it.

Called where text comes in: replies of servers and services, files of the game and of plugins, headers, the environment,
output of programs. What comes in as a body of our own API, which can be refused, is checked there instead.
"""

import json
import re
from typing import Any, Final

UNREADABLE: Final = "\N{REPLACEMENT CHARACTER}"
"""Replaces what is no text: bytes that are not UTF-8, lone surrogates, NUL."""
INVISIBLE: Final = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Control characters except the line feed, line separators, and characters that change the writing direction."""
_MARKS: Final = re.compile("[\u061c\u200b\u200e\u200f\u2060\ufeff]")
"""Marks that change the writing direction or have no width, beside those of `INVISIBLE`."""
_NO_TEXT: Final = re.compile("[\x00\ud800-\udfff]")
_NO_ESCAPED_BYTE: Final = re.compile("[\x00\ud800-\udc7f\udd00-\udfff]")
_BYTE_ORDER_MARK: Final = "\ufeff"
_LONGEST_LINE: Final = 500


def decode_text(written: bytes | str) -> str:
    """Return the text without a byte order mark, with U+FFFD for whatever cannot be stored.

    Surrogates that stand for bytes, as Python's `surrogateescape` makes them of bytes that are not ASCII, are decoded
    as UTF-8, too.
    """
    if isinstance(written, str):
        if _NO_TEXT.search(written) is None:
            return written.removeprefix(_BYTE_ORDER_MARK)
        written = _NO_ESCAPED_BYTE.sub(UNREADABLE, written).encode("utf-8", "surrogateescape")
    return written.decode("utf-8", "replace").replace("\x00", UNREADABLE).removeprefix(_BYTE_ORDER_MARK)


def one_line(written: bytes | str, longest: int = _LONGEST_LINE) -> str:
    """Return the text on one line of so many characters at most, without control characters and invisible marks.

    An ellipsis at the end tells that it was cut.
    """
    text = " ".join(decode_text(written).split())
    text = " ".join(INVISIBLE.sub(" ", _MARKS.sub("", text)).split())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def decode_json(written: bytes | str) -> Any:
    """Return the value of a JSON text, in which every text is as `decode_text` returns it.

    Raises ValueError, which quotes nothing, for anything that is no JSON or nested too deep.
    """
    try:
        return decode_texts(json.loads(decode_text(written), parse_constant=_refuse))
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON") from None


def decode_texts(value: Any) -> Any:
    """Return a parsed document, whose escapes may stand for anything, with every text as `decode_text` returns it.

    Raises RecursionError for one that contains itself.
    """
    if isinstance(value, str):
        return decode_text(value)
    if isinstance(value, list):
        return [decode_texts(member) for member in value]
    if isinstance(value, dict):
        return {decode_texts(name): decode_texts(member) for name, member in value.items()}
    return value


def _refuse(constant: str) -> None:
    raise ValueError(constant)  # NaN and Infinity, which Python alone takes
