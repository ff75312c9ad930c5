"""Layers of the config: a file, the environment, the command line.

A layer holds tables as TOML would: section, key, value; a download is the section `downloads.<id>`, the second
[[game.server]] is `game.server.2`. Nothing is checked here except what prevents a layer from being read at all.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, Final, get_type_hints

from plugin_bridge.server.files import require_regular_file
from regsvc.config.host_sections import GameServer, TeamChat, WebhookSection
from regsvc.config.key_types import Key, keys_of
from regsvc.config.sections import Config, ConfigError, Download
from regsvc.core.text import parse_toml

_POSITION: Final = re.compile(r"\(at line (\d+), column \d+\)")
_HEADER: Final = re.compile(r"\s*\[+\s*([^\]#]*?)\s*\]*\s*(?:#.*)?")
_PAIR: Final = re.compile(r"\s*([A-Za-z0-9_.-]+)\s*([=:])?\s*(.*?)\s*")
_NO_UTF8: Final = "it is not UTF-8 text; save it as UTF-8."
_MAX_SHOWN: Final = 80
ENVIRONMENT_PREFIX = "COMPANION_"
CONFIG_VARIABLE = "COMPANION_CONFIG"
"""Names the config file (`regsvc.config.places`)."""
# Hooks of the test suite, not config keys.
_TEST_PREFIX = "COMPANION_TEST_"
VARIABLE_SOURCE: Final = "environment variable "
COMMAND_LINE: Final = "command line"
DOWNLOADS = "downloads"
GAME_SERVERS = "game.server"
TEAM_CHATS = "team_chat"
WEBHOOKS = "webhook"
LISTED: dict[str, type] = {GAME_SERVERS: GameServer, TEAM_CHATS: TeamChat, WEBHOOKS: WebhookSection}
"""Sections in double brackets, of which there may be many."""
_DOWNLOAD_SECTION = re.compile(r"downloads\.[A-Za-z0-9_-]{1,64}")
_LISTED_SECTION = re.compile(rf"({'|'.join(map(re.escape, LISTED))})\.[0-9]+")
_COLUMNS_PREFIX = "columns_"
SECTIONS: dict[str, type] = {
    name: declaring
    for name, declaring in get_type_hints(Config).items()
    if isinstance(declaring, type) and is_dataclass(declaring)
}
"""The dataclass of each section by name, without `downloads` and those `LISTED`, of which there may be many."""


def explain_mistake(text: str, error: tomllib.TOMLDecodeError, may_show: Callable[[str], bool]) -> str:
    """Return where the mistake is, that line, and what to do. A value is shown only if `may_show(key)`."""
    position = _POSITION.search(str(error))
    if position is None and "end of document" not in str(error):
        return f"it is not TOML: {error}."
    if position is None:
        return f"it is not TOML: the text ends too early ({_reason(error)}); close the last quote or bracket."
    number = int(position[1])
    lines = text.splitlines()
    line = lines[number - 1] if number <= len(lines) else ""
    headers = [header for before in lines[: number - 1] if (header := section_on(before)) is not None]
    place = f"line {number}, [{headers[-1]}]" if headers and section_on(line) is None else f"line {number}"
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
    if value[:1] in ("'", '"') and value.count(value[0]) % 2 == 1:
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


def section_on(line: str) -> str | None:
    """Return the section that a header line begins, None for another line."""
    match = _HEADER.fullmatch(line)
    return match[1] if match else None


def _shown(line: str, may_show: Callable[[str], bool]) -> str:
    """Return the line for the message, without what might be a secret."""
    shown = line.strip()
    if section_on(line) is None:
        pair = _PAIR.fullmatch(line)
        if pair is None or not pair[2]:
            shown = "…"
        elif not may_show(pair[1]):
            shown = f"{pair[1]} {pair[2]} …"
    return shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}…"


def _reason(error: tomllib.TOMLDecodeError) -> str:
    """Return the parser's reason without its position."""
    return str(error).partition(" (at ")[0]


@dataclass(frozen=True)
class Layer:
    """Values by section and key; `source_of(section, key)` says, for messages, where one was set.

    `folder`: what relative paths count from; None for the current folder.
    """

    tables: Mapping[str, Mapping[str, object]]
    source_of: Callable[[str, str], str]
    problems: tuple[str, ...] = ()
    folder: Path | None = None
    lines: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """The line of each key in the file, by section and key, where it is known."""
    is_typed: bool = False
    """Whether its values are texts that were typed as variables, and not in TOML."""

    def place_of(self, section: str, key: str) -> str:
        """Return what `source_of` says, with the line."""
        line, source = self.lines.get((section, key)), self.source_of(section, key)
        return source if line is None else f"{source}, line {line}"


def section_class(section: str) -> type | None:
    """Return the dataclass that declares a section's keys, or None if there is no such section."""
    if listed := _LISTED_SECTION.fullmatch(section):
        return LISTED[listed[1]]
    return Download if _DOWNLOAD_SECTION.fullmatch(section) else SECTIONS.get(section)


def key_of(section: str, name: str) -> Key[Any]:
    """Return the declaration of a key, which must exist."""
    declaring = section_class(section)
    assert declaring is not None
    return keys_of(declaring)[name]


def header_of(section: str) -> str:
    """Return the header of a section as people write it; which one of several follows it."""
    if listed := _LISTED_SECTION.fullmatch(section):
        return f"[[{listed[1]}]] #{section.rpartition('.')[2]}"
    return f"[{section}]"


def read_text(path: Path) -> str:
    """Return the text of a config as it is. Raises `ConfigError`."""
    try:
        require_regular_file(path)
        text = path.read_bytes().decode()
    except OSError as error:
        raise ConfigError(f"{path}: it cannot be read ({error.strerror}); check its name and permissions.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: {_NO_UTF8}") from error
    if "\0" in text:
        raise ConfigError(f"{path}: {_NO_UTF8}")  # but UTF-16, for example
    return text


def file_layer(path: Path, text: str | None = None) -> Layer:
    """Read a TOML file, or take `text` for its content. Raises `ConfigError` if it cannot be read or parsed."""
    text = read_text(path) if text is None else text
    try:
        document = parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {explain_mistake(text, error, _may_show)}") from error
    tables: dict[str, Mapping[str, object]] = {}
    problems: list[str] = []
    for name, table in _flat_tables(document):
        if isinstance(table, dict):
            tables[name] = table
        else:
            owners = [f"[{section}]" for section, declaring in SECTIONS.items() if name in keys_of(declaring)]
            example = next((f"[[{listed}]]" for listed in LISTED if name.startswith(listed)), "[server]")
            problems.append(
                f"{path}: {name} is above all headers; write it below {' or '.join(owners)}."
                if owners and not isinstance(table, list)
                else f"{path}: {name} must be a section; write its keys below a header such as {example}."
            )
    return Layer(tables, lambda section, key: str(path), tuple(problems), path.absolute().parent, _find_lines(text))


def _find_lines(text: str) -> dict[tuple[str, str], int]:
    """Return the line of each key by section and key; not of one that several lines may set, such as in a long text."""
    found: dict[tuple[str, str], list[int]] = {}
    headers: Counter[str] = Counter()
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        header = section_on(line) if line.lstrip().startswith("[") else None
        pair = _PAIR.fullmatch(line)
        if header is not None:
            headers[header] += 1
            is_first_webhook = header == WEBHOOKS and headers[header] == 1
            is_listed = line.lstrip().startswith("[[") and not is_first_webhook
            section = f"{header}.{headers[header]}" if is_listed else header
            above, _dot, table = header.rpartition(".")
            if above in SECTIONS and section_class(section) is None:  # such as [authme.columns]
                found.setdefault((above, table), []).append(number)
        elif pair is not None and pair[2] == "=":
            first, _dot, rest = pair[1].partition(".")
            key = (section, first) if section else (first, rest.partition(".")[0])
            found.setdefault(key, []).append(number)
    return {key: numbers[0] for key, numbers in found.items() if len(numbers) == 1}


def environment_layer(environ: Mapping[str, str]) -> Layer:
    """Read COMPANION_<SECTION>_<KEY>, also AUTHME_COLUMNS_<NAME> and DOWNLOADS_<ID>_<KEY>."""
    tables: dict[str, dict[str, object]] = {}
    columns: dict[str, object] = {}
    variables = {("authme", "columns"): f"{ENVIRONMENT_PREFIX}AUTHME_COLUMNS_*"}
    for variable, written in sorted(environ.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable.startswith(_TEST_PREFIX):
            continue
        if variable == CONFIG_VARIABLE:
            continue
        section, key = _section_and_key(variable)
        variables[section, key] = variable
        if section == "authme" and key.startswith(_COLUMNS_PREFIX):
            columns[key.removeprefix(_COLUMNS_PREFIX)] = written
        else:
            tables.setdefault(section, {})[key] = written
    if columns:
        tables.setdefault("authme", {})["columns"] = columns
    return Layer(tables, lambda section, key: f"{VARIABLE_SOURCE}{variables[section, key]}", is_typed=True)


def command_line_layer(overrides: Mapping[str, object]) -> Layer:
    """Return a layer of command-line options, given by "section.key" with TOML values."""
    tables: dict[str, dict[str, object]] = {}
    for name, value in overrides.items():
        section, _, key = name.rpartition(".")
        tables.setdefault(section, {})[key] = value
    return Layer(tables, lambda section, key: COMMAND_LINE)


def _may_show(name: str) -> bool:
    """Return whether messages may quote what is written for a key of this name: it is known, and nowhere a secret."""
    sections = (*SECTIONS.values(), Download, *LISTED.values())
    declared = [keys_of(section)[name] for section in sections if name in keys_of(section)]
    return bool(declared) and not any(key.is_secret for key in declared)


def _flat_tables(document: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the sections of a document, with every download and every listed one as a section of its own."""
    game, _dot, servers = GAME_SERVERS.partition(".")
    for name, table in document.items():
        if name == DOWNLOADS and isinstance(table, dict):
            for download, keys in table.items():
                yield f"{DOWNLOADS}.{download}", keys
        elif name == game and isinstance(table, dict) and servers in table:
            yield name, {key: value for key, value in table.items() if key != servers}
            yield from _numbered(GAME_SERVERS, table[servers])
        elif name == TEAM_CHATS:
            yield from _numbered(name, table)
        elif name == WEBHOOKS and isinstance(table, list):  # the first is what [webhook] is alone
            yield from ((name if key == f"{name}.1" else key, keys) for key, keys in _numbered(name, table))
        else:
            yield name, table


def _numbered(name: str, given: object) -> Iterator[tuple[str, object]]:
    """Yield each of the tables in a list as a section of its own."""
    if isinstance(given, list):
        yield from ((f"{name}.{number}", keys) for number, keys in enumerate(given, 1))
    else:
        yield name, given


def _section_and_key(variable: str) -> tuple[str, str]:
    """Return the section and key that a variable stands for, whether or not they exist."""
    section, _, key = variable.removeprefix(ENVIRONMENT_PREFIX).lower().partition("_")
    if section == DOWNLOADS:
        download, _, key = key.rpartition("_")
        section = f"{DOWNLOADS}.{download}"
    return section, key
