"""Commands for the game server's console: what people typed is part of one only where it cannot be more than text."""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = re.compile(r"(?=.*[A-Za-z0-9_])[A-Za-z0-9_.*+-]{1,32}")
_LONGEST_REASON: Final = 120  # characters; at most 480 bytes of the 1446 a command may have
_FORMAT: Final = re.compile("§.?", re.DOTALL)
# From 1.13 on a reason with `@e` in it tells the names of everything that lives; a sign that looks the same does not.
_SELECTOR: Final = str.maketrans({"@": "＠"})

LIST: Final = "list"
_LISTED: Final = re.compile(r"There are \d+(?: of a max(?: of)? |/)\d+ players online:\s*(?P<names>.*)", re.DOTALL)


class UnsafeName(ValueError):
    """The name has characters that never go into a command."""


def kick(name: str, reason: str) -> str:
    """Raises `UnsafeName`."""
    _check(name)
    # The game reads this name as a quotable word, in which an asterisk needs quotes.
    quoted = f'"{name}"' if "*" in name else name
    return f"kick {quoted} {plain(reason)}".rstrip()


def ban(name: str, reason: str) -> str:
    """Bans the name in the game's own list, which also kicks. Raises `UnsafeName`."""
    _check(name)
    return f"ban {name} {plain(reason)}".rstrip()


def pardon(name: str) -> str:
    """Takes the name off the game's own list. Raises `UnsafeName`."""
    _check(name)
    return f"pardon {name}"


def plain(text: str) -> str:
    """One short line without format codes, control characters or selectors."""
    text = _FORMAT.sub("", text)
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return text[:_LONGEST_REASON].rstrip().translate(_SELECTOR)


def is_surely_offline(name: str, listed: str) -> bool:
    """Whether the answer to `list` leaves no doubt. Plugins word it in many ways, and any of these is a doubt."""
    found = _LISTED.fullmatch(_FORMAT.sub("", listed).strip())
    return found is not None and name.lower() not in found["names"].lower()


def _check(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise UnsafeName("the name has characters that are never sent to the game's console")
