"""What a config key takes, as its parser shows: which kinds of values, and from where to where."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from regsvc.config.key_types import Key, to_toml

_LINES: Final = (
    *("", "a", "auto", "10 minutes", "64 KiB", "10 per day", "20 and 5%", "10.0.0.0/8", "::1", "mc.example.org"),
    *("https://mc.example.org", "/srv/game", "alice@mc.example.org", "#a0b1c2", "de", "Europe/Berlin"),
    *("example.org/Alice", "say hello", "0" * 64, "[A-Z]+"),
)
_VALUES: Final[tuple[object, ...]] = (
    *(True, 0, 1, 1.5, "two\nlines"),
    *([], ["a"], ["a", "b"], ["10 per day"], ["10.0.0.0/8"], ["de"], ["7 days"], ["0" * 64], ["example.org"]),
    *(["https://mc.example.org"], ["alice@mc.example.org"]),
    *({}, {"de": "Text"}, {"Map": "https://mc.example.org"}, {"username": "name"}, {"approved": ["say hello"]}),
)
"""Values of each kind that a config has."""
_VARIABLES: Final = (
    "true",
    "auto",
    "5",
    "10 minutes",
    "64 KiB",
    "a",
    "a, b",
    "10.0.0.0/8, ::1",
    "10 per day",
    "Map=/map",
)
_AMOUNTS: Final[dict[str, Callable[[int], object]]] = {
    "a number": lambda amount: amount,
    "seconds": lambda amount: f"{amount} seconds",
    "bytes": lambda amount: f"{amount} B",
}
_HIGHEST: Final = 10**12


def find_kinds(key: Key[Any]) -> Iterator[str]:
    """Yield what a config may have for the key, and a variable of the environment."""
    for words, texts in (("may be", _LINES), ("may in a variable be", _VARIABLES)):
        is_typed = texts is _VARIABLES
        taken = [text for text in texts if accepts(key, key.from_text(text) if is_typed else text)]
        yield from [f"{words} any line"] if len(taken) == len(texts) else [f"{words} {text!r}" for text in taken]
    yield from (f"may be {to_toml(value)}" for value in _VALUES if accepts(key, value))


def accepts(key: Key[Any], value: object) -> bool:
    """Return whether a config may have this value, as TOML has it."""
    try:
        key.parse(value)
    except (ValueError, OverflowError):
        return False
    return True


def find_bounds(key: Key[Any]) -> Iterator[tuple[str, int, int]]:
    """Yield each unit that the key is written in, with the least and the greatest amount that it takes."""
    for unit, write in _AMOUNTS.items():

        def takes(amount: int, write: Callable[[int], object] = write) -> bool:
            return accepts(key, write(amount))

        start = next((amount for power in range(41) if takes(amount := 2**power)), None)
        if start is not None and not (takes(0) and takes(_HIGHEST)):  # a text takes any
            yield unit, _find_end(takes, start, 0), _find_end(takes, start, _HIGHEST)


def _find_end(takes: Callable[[int], bool], within: int, beyond: int) -> int:
    """Return the last amount on the way from one that is taken to another that may not be."""
    while not takes(beyond) and abs(beyond - within) > 1:
        middle = (within + beyond) // 2
        within, beyond = (middle, beyond) if takes(middle) else (within, middle)
    return beyond if takes(beyond) else within
