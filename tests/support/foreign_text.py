"""Text as other programs send it: bytes that are no UTF-8, halves of characters, NUL, and what confuses terminals."""

import json
from typing import Any, Final

HOSTILE: Final[dict[str, bytes]] = {
    "GBK": "登录失败".encode("gbk"),
    "Latin-1": "réponse négative".encode("latin-1"),
    "half a character": "😀".encode()[:3],
    "a surrogate in UTF-8": b"\xed\xa0\x80",
    "NUL": b"a\x00b",
    "from right to left": "\u202eecilA\u2067\u200f".encode(),
    "control characters": b"\x1b[31mred\x07\x08\xc2\x85",
    "a megabyte": b"x" * 2**20,
    "every byte": bytes(byte for byte in range(256) if byte not in b"\r\n"),
}
"""By what they are; each is one line."""

LONE: Final = "\\ud800"
"""A lone surrogate, as JSON and YAML escape it."""


def in_json(raw: bytes) -> bytes:
    """Return a JSON text of these bytes, with escapes only where JSON has to have them, and a lone surrogate."""
    escaped = raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    for byte in range(32):
        escaped = escaped.replace(bytes([byte]), b"\\u%04x" % byte)
    return b'"' + escaped + LONE.encode() + b'"'


def fill(document: Any, raw: bytes) -> bytes:
    """Return the document as JSON, with these bytes in place of each text `?`."""
    return json.dumps(document).encode().replace(b'"?"', in_json(raw))


def require_text(value: Any, longest: int = 4096) -> None:
    """Require that every text in a value can be stored, sent and shown. Raises AssertionError, and UnicodeError."""
    if isinstance(value, str):
        value.encode()
        assert "\0" not in value
        assert len(value) <= longest
    elif isinstance(value, dict):
        for name, member in value.items():
            require_text(name, longest)
            require_text(member, longest)
    elif isinstance(value, list | tuple | set | frozenset):
        for member in value:
            require_text(member, longest)


def require_line(text: str, longest: int = 4096) -> None:
    """Require one line, without control characters and marks that change the writing direction, too."""
    require_text(text, longest)
    assert "\n" not in text
    assert not any(letter < " " or letter in "\x7f\x85\u2028\u202e\u2067\u200f" for letter in text), ascii(text)
