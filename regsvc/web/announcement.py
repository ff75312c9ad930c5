"""The host's announcement at the top of the players' pages: its links, and whether the visitor has dismissed it."""

from __future__ import annotations

import hashlib
import re
from typing import Final, NamedTuple

ANNOUNCEMENT_COOKIE: Final = "companion_announcement"
"""Cookie with the id of the announcement that the visitor dismissed; written by the pages' own scripts."""

# An address ends before punctuation that belongs to the sentence around it.
_ADDRESS: Final = re.compile(r"https?://[^\s<>\"'，。；：！？、）】」』]*[^\s<>\"'，。；：！？、）】」』.,;:!?)\]]")


class TextPart(NamedTuple):
    """A part of a text; `address` is "" unless it is a link."""

    text: str
    address: str = ""


def split_links(text: str) -> list[TextPart]:
    """Return a text as its parts, in which web addresses are links."""
    parts: list[TextPart] = []
    end = 0
    for match in _ADDRESS.finditer(text):
        parts += [TextPart(text[end : match.start()]), TextPart(match[0], match[0])]
        end = match.end()
    parts.append(TextPart(text[end:]))
    return [part for part in parts if part.text]


def announcement_id(text: str) -> str:
    """Return an id that changes with the text."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]
