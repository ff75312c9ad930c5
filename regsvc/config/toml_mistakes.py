"""Sentences about text that is not TOML: the line, and what was probably meant."""

import re
import tomllib
from collections.abc import Callable, Iterator
from typing import Final

_POSITION: Final = re.compile(r"\(at line (\d+), column \d+\)")
_HEADER: Final = re.compile(r"\s*\[+\s*([^\]#]*?)\s*\]*\s*(?:#.*)?")
_PAIR: Final = re.compile(r"\s*([A-Za-z0-9_.-]+)\s*([=:])?\s*(.*?)\s*")
_MAX_SHOWN: Final = 80


def explain_mistake(text: str, error: tomllib.TOMLDecodeError, may_show: Callable[[str], bool]) -> str:
    """Return where the mistake is, that line, and what to do. A value is shown only if `may_show(key)`."""
    position = _POSITION.search(str(error))
    if position is None:
        return f"it is not TOML: the text ends too early ({_reason(error)}); close the last quote or bracket."
    number = int(position[1])
    lines = text.splitlines()
    line = lines[number - 1] if number <= len(lines) else ""
    headers = [header for before in lines[: number - 1] if (header := _section(before)) is not None]
    place = f"line {number}, [{headers[-1]}]" if headers and _section(line) is None else f"line {number}"
    hint = next(_hints(line, error), f"correct that line ({_reason(error)})")
    return f"{place}: {_shown(line, may_show)}: {hint}."


def _hints(line: str, error: tomllib.TOMLDecodeError) -> Iterator[str]:
    """Yield what to do about the line, the most likely first."""
    message = str(error)
    pair = _PAIR.fullmatch(line)
    key, sign, value = (pair[1], pair[2], pair[3]) if pair and pair[2] else ("key", None, "")
    if "twice" in message:
        yield "this section is there twice; write its keys below one header"
    if "overwrite" in message:
        yield f"{key} is there twice; remove one of them"
    if line.lstrip().startswith("["):
        yield "a section is a name in square brackets, such as [server], alone on its line"
    if re.search("[\u201c\u201d\u201e\u2018\u2019]", line):
        yield 'use straight quotes: "text"'
    if sign == ":" or sign is None:
        yield f'write a key, an equals sign and a value, such as {key} = "text"'
    if value.lower() in ("true", "false", "yes", "no", "on", "off"):
        yield "write true or false, in lower case and without quotes"
    if "\\" in value and value.startswith('"'):
        yield f"a backslash has a meaning of its own in double quotes; use single quotes: {key} = 'C:\\server'"
    if _has_open_quote(value):
        yield "a quote is not closed"
    if not value:
        yield 'a value is missing; for an empty text write ""'
    if value[:1] in ("'", '"') and message.startswith("Expected newline"):
        yield "only a comment (#) may follow a value on its line"
    if value[:1] in "[{":
        yield 'a list is written ["one", "two"], with quotes around texts and commas between them'
    if value.isdecimal():
        yield "a number begins with no 0"
    if value[:1] not in "\"'":
        yield f'texts need quotes, also durations and addresses: {key} = "…"'


def _has_open_quote(value: str) -> bool:
    quote = value[:1]
    return quote in ("'", '"') and value.count(quote) % 2 == 1


def _section(line: str) -> str | None:
    """Return the section that a header line begins, None for another line."""
    match = _HEADER.fullmatch(line)
    return match[1] if match else None


def _shown(line: str, may_show: Callable[[str], bool]) -> str:
    """Return the line for the message, without what might be a secret."""
    shown = line.strip()
    if _section(line) is None:
        pair = _PAIR.fullmatch(line)
        if pair is None or not pair[2]:
            shown = "…"
        elif not may_show(pair[1]):
            shown = f"{pair[1]} {pair[2]} …"
    return shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}…"


def _reason(error: tomllib.TOMLDecodeError) -> str:
    """Return the parser's reason without its position."""
    return str(error).partition(" (at ")[0]
