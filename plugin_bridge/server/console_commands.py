"""Commands for the game server's console. User input becomes part of one only where it cannot be more than text."""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = re.compile(r"(?=.*[A-Za-z0-9_])[A-Za-z0-9_.*+-]{1,32}")
_MAX_REASON_LENGTH: Final = 120  # characters; at most 480 bytes of the 1446 a command may have
_FORMAT: Final = re.compile("§.?", re.DOTALL)
# From 1.13 on `@e` in a reason expands to the names of all entities; a character that looks the same does not.
_SELECTOR: Final = str.maketrans({"@": "＠"})

LIST: Final = "list"
_LIST_REPLY: Final = re.compile(r"There are \d+(?: of a max(?: of)? |/)\d+ players online:\s*(?P<names>.*)", re.DOTALL)


class UnsafeName(ValueError):
    """The name contains characters that are never allowed in a command."""


def kick(name: str, reason: str) -> str:
    """Return a command that kicks the player of this name. Raises `UnsafeName`."""
    _check(name)
    # The game parses this argument as a quotable word, in which an asterisk needs quotes.
    quoted = f'"{name}"' if "*" in name else name
    return f"kick {quoted} {plain(reason)}".rstrip()


def ban(name: str, reason: str) -> str:
    """Return a command that puts the name on the game's own ban list, which also kicks. Raises `UnsafeName`."""
    _check(name)
    return f"ban {name} {plain(reason)}".rstrip()


def pardon(name: str) -> str:
    """Return a command that takes the name off the game's own ban list. Raises `UnsafeName`."""
    _check(name)
    return f"pardon {name}"


def plain(text: str) -> str:
    """Reduce a text to one short line without format codes, control characters or selectors."""
    text = _FORMAT.sub("", text)
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return text[:_MAX_REASON_LENGTH].rstrip().translate(_SELECTOR)


def is_surely_offline(name: str, reply: str) -> bool:
    """Return whether the reply to `list` proves that the player is offline.

    Plugins change the reply in many ways; only the game's own sentence, without the name anywhere in it, is proof.
    """
    found = _LIST_REPLY.fullmatch(_FORMAT.sub("", reply).strip())
    return found is not None and name.lower() not in found["names"].lower()


def _check(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise UnsafeName("the name has characters that are never sent to the game's console")
