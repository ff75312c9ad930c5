"""Translation files: `<language>.toml`, the built-in ones and those in a host's own folder."""

from __future__ import annotations

import logging
import string
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from regsvc.core.exceptions import StartupError
from regsvc.core.i18n.languages import is_language_tag, normalize_tag
from regsvc.core.safe_paths import read_text_file

log = logging.getLogger(__name__)

_MAX_KEYS_SHOWN: Final = 5


class BrokenTranslation(StartupError, ValueError):
    """A translation file that cannot be used; `str()` is a sentence with the file's name."""


def list_languages(folder: Path | None) -> list[str]:
    """Return the tags of the built-in languages and those of a host's own folder, in alphabetical order.

    Raises OSError for a folder that cannot be listed.
    """
    own = files_in(folder) if folder is not None else ()
    return sorted({language for language, _file in (*files_in(_built_in_folder()), *own)})


@cache
def read_built_in_texts() -> Mapping[str, Mapping[str, str]]:
    """Return the built-in texts by language and key; cached, since they are part of the program."""
    return {language: read_texts(file) for language, file in files_in(_built_in_folder())}


def _built_in_folder() -> Traversable:
    return files("regsvc.core") / "translations"


def files_in(folder: Traversable) -> Iterator[tuple[str, Traversable]]:
    """Yield the translation files of a folder, each with its language."""
    for file in folder.iterdir():
        if file.name.endswith(".toml") and file.is_file():
            yield normalize_tag(file.name.removesuffix(".toml")), file


def read_texts(file: Traversable) -> dict[str, str]:
    """Read a file's texts by dotted key, however the tables are nested. Raises `BrokenTranslation`."""
    try:
        return _flatten(tomllib.loads(read_text_file(file)))
    except UnicodeDecodeError as error:
        raise BrokenTranslation(f"{file}: it is not UTF-8 text; save it as UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        raise BrokenTranslation(f"{file}: it is not TOML: {error}; correct that line.") from error
    except OSError as error:
        raise BrokenTranslation(f"{file}: it cannot be read ({error.strerror}).") from error
    except TypeError as error:
        raise BrokenTranslation(f"{file}: {error} must be a text in quotes.") from error


def check_name(file: Traversable) -> None:
    """Raise `BrokenTranslation` unless the file is named after a language."""
    if not is_language_tag(file.name.removesuffix(".toml")):
        raise BrokenTranslation(f'{file}: name it after its language, such as "fr.toml" or "pt-br.toml".')


def check_texts(file: Traversable, texts: Mapping[str, str], english: Mapping[str, str]) -> dict[str, str]:
    """Return the texts that are in use. Raises `BrokenTranslation` for names in braces that English does not have."""
    check_name(file)
    for key, text in texts.items():
        if key in english and (problem := find_unknown_name(text, english[key])):
            raise BrokenTranslation(f"{file}: {key}: {problem}.")
    unused = [key for key in texts if key not in english]
    if unused:
        more = ", …" if len(unused) > _MAX_KEYS_SHOWN else ""
        log.warning("%s: keys without effect: %s%s", file, ", ".join(unused[:_MAX_KEYS_SHOWN]), more)
    return {key: text for key, text in texts.items() if key in english}


def find_unknown_name(text: str, english: str) -> str | None:
    """Return what is wrong with the names in braces of a text, in words, or None."""
    known = names_in(english)
    try:
        names = names_in(text)
    except ValueError:
        return "unbalanced braces (write {{ for a literal brace)"
    if names <= known:
        return None
    listed = ", ".join(f"{{{name}}}" for name in sorted(known)) or "none"
    return f"{{{min(names - known)}}} is not known in this text; known: {listed}"


def names_in(text: str) -> set[str]:
    """Return the names in braces, each with its conversion and format. Raises ValueError for unbalanced braces."""
    return {
        name + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
        for _text, name, spec, conversion in string.Formatter().parse(text)
        if name is not None
    }


def _flatten(texts: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """Return texts by dotted key. Raises TypeError with the key of a value that is not text."""
    flat: dict[str, str] = {}
    for name, value in texts.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{name}.")
        elif isinstance(value, str):
            flat[prefix + name] = value
        else:
            raise TypeError(prefix + name)
    return flat
