"""Reads the words of one language from a file, and says what is wrong with it."""

import logging
import re
import string
import tomllib
from collections.abc import Mapping
from importlib.resources.abc import Traversable
from typing import Final

log = logging.getLogger(__name__)

_LANGUAGE: Final = re.compile(r"[a-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")
_MOST_NAMED: Final = 5


class BrokenTranslation(ValueError):
    """Words that cannot be used; `str()` is a sentence with the file's name."""


def read_words(file: Traversable) -> dict[str, str]:
    """Texts by dotted key, however the file is nested. Raises `BrokenTranslation`."""
    try:
        return _flatten(tomllib.loads(file.read_text(encoding="utf-8")))
    except UnicodeDecodeError as error:
        raise BrokenTranslation(f"{file}: this is not UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        raise BrokenTranslation(f"{file}: this is not TOML: {error}.") from error
    except OSError as error:
        raise BrokenTranslation(f"{file}: this cannot be read ({error.strerror}).") from error
    except TypeError as error:
        raise BrokenTranslation(f"{file}: {error} must be a text in quotes.") from error


def check_words(file: Traversable, words: Mapping[str, str], english: Mapping[str, str]) -> dict[str, str]:
    """The words that are said somewhere. Raises `BrokenTranslation` for names in braces that English does not have."""
    if _LANGUAGE.fullmatch(file.name.removesuffix(".toml")) is None:
        raise BrokenTranslation(f'{file}: such a file is named after its language, as in "fr.toml" or "pt-br.toml".')
    for key, text in words.items():
        if key in english:
            _check_names(file, key, text, _names_in(english[key]))
    idle = [key for key in words if key not in english]
    if idle:
        more = ", …" if len(idle) > _MOST_NAMED else ""
        log.warning("%s: nothing says %s%s", file, ", ".join(idle[:_MOST_NAMED]), more)
    return {key: text for key, text in words.items() if key in english}


def _check_names(file: Traversable, key: str, text: str, known: set[str]) -> None:
    try:
        names = _names_in(text)
    except ValueError as error:
        raise BrokenTranslation(f"{file}: {key}: the braces do not fit together (write {{{{ for a brace).") from error
    if names - known:
        there_are = ", ".join(f"{{{name}}}" for name in sorted(known)) or "none"
        raise BrokenTranslation(f"{file}: {key}: {{{min(names - known)}}} is not known here; there are: {there_are}.")


def _names_in(text: str) -> set[str]:
    """What stands in braces, with whatever follows the name there."""
    return {
        name + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
        for _text, name, spec, conversion in string.Formatter().parse(text)
        if name is not None
    }


def _flatten(words: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """Raises TypeError with the key of what is no text."""
    flat: dict[str, str] = {}
    for name, value in words.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{name}.")
        elif isinstance(value, str):
            flat[prefix + name] = value
        else:
            raise TypeError(prefix + name)
    return flat
