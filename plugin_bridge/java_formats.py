"""YAML, JSON and properties as the programs of the game read them: by SnakeYAML, by Gson, and by Java itself.

They read more than the standards allow, and hosts edit these files by hand. What they read is read here, too; what a
stricter reader would refuse, or what was certainly not meant, comes back as an `Oddity`. Compared with SnakeYAML 1.33,
Gson 2.10 and Java 17, each run on thousands of files that were changed at random; versions from 1.26, 2.8 and 8 on read
the same by their sources.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import Any, Final, NamedTuple

import yaml
from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from plugin_bridge.text import decode_text


class OddityKind(Enum):
    """Unusual thing about a file that is read all the same."""

    NOT_UTF8 = auto()
    """Bytes of another encoding, each of which Java replaces by a question mark in a diamond."""
    TAB = auto()
    """A tab behind a value, which YAML's own rules and other parsers take for an error."""
    REPEATED_KEY = auto()
    """A key that was there before: the last value counts."""
    NOT_JSON = auto()
    """Comments, names without quotes and the like: from here on it is no JSON."""


class Oddity(NamedTuple):
    """The first place in a file where it is unusual in this way; lines and columns count from 1."""

    kind: OddityKind
    line: int
    column: int


class FormatError(ValueError):
    """The program that owns the file could not read it either. `str()` says where and why, without quoting it."""


class JavaObject:
    """Value that has no counterpart here, such as a date: what the program makes of it depends on its machine."""


class _Section(dict[str, Any]):
    """Table made of keys with dots, which, unlike one that was written, belongs to nothing else."""


_ALIASES: Final = 50
"""Aliases of lists and tables in one file, as in SnakeYAML: more would be an attack on the memory."""
_DEPTH: Final = 200
_LONGEST_NUMBER: Final = 1000
_END_OF_WORD: Final = "\0 \t\r\n\x85\u2028\u2029"
_END_OF_LINE: Final = "\0\r\n\x85\u2028\u2029"
_TAG: Final = "tag:yaml.org,2002:"
_BOOLEANS: Final = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}


class _Loader(yaml.SafeLoader):
    """PyYAML with the rules of SnakeYAML where they differ: tabs, anchors, numbers, keys of any kind."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - as in PyYAML's class
    yaml_constructors = yaml.SafeLoader.yaml_constructors.copy()

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.oddities: dict[OddityKind, Oddity] = {}
        self._aliases = 0

    def note(self, kind: OddityKind, mark: yaml.Mark) -> None:
        self.oddities.setdefault(kind, Oddity(kind, mark.line + 1, mark.column + 1))

    # --- characters ---

    def scan_plain_spaces(self, indent: int, start_mark: yaml.Mark) -> list[str]:
        """Take tabs for blanks, which PyYAML refuses."""
        mark, blanks = self.get_mark(), self._find_blanks()
        if "\t" in blanks:
            self.forward(len(blanks))
            if self.peek() in f"#{_END_OF_LINE}":
                self.note(OddityKind.TAB, mark)
            if self.peek() not in _END_OF_LINE:
                return [blanks]
        return super().scan_plain_spaces(indent, start_mark) or []

    def _find_blanks(self) -> str:
        length = 0
        while self.peek(length) in " \t":
            length += 1
        return str(self.prefix(length))

    def scan_to_next_token(self) -> None:
        super().scan_to_next_token()
        while self.flow_level and self.peek() == "\t":
            self.forward(len(self._find_blanks()))
            super().scan_to_next_token()

    def scan_anchor(self, TokenClass: type[Any]) -> Any:  # noqa: N803 - PyYAML's name
        start_mark = self.get_mark()
        self.forward()
        length = 0
        while self.peek(length) not in f"{_END_OF_WORD}:,[]{{}}/.*&":
            length += 1
        name = self.prefix(length)
        self.forward(length)
        if not name or self.peek() not in f"{_END_OF_WORD}?:,]}}%@`":
            raise yaml.scanner.ScannerError("while scanning an anchor", start_mark, "unexpected", self.get_mark())
        return TokenClass(name, start_mark, self.get_mark())

    # --- nodes ---

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        is_alias = self.check_event(yaml.AliasEvent)
        if not is_alias:
            self.anchors.pop(getattr(self.peek_event(), "anchor", None), None)  # type: ignore[no-untyped-call]  # a second one is another
        node: Node | None = super().compose_node(parent, index)
        if is_alias and isinstance(node, CollectionNode):
            self._aliases += 1
            if self._aliases > _ALIASES:
                raise yaml.composer.ComposerError(None, None, "too many aliases", node.start_mark)
        return node

    def flatten_mapping(self, node: MappingNode) -> None:
        """Merge tables that others name with `<<`, each key once: the file's own before merged ones."""
        own, merged = [], dict[str, tuple[Node, Node]]()
        for key, value in node.value:
            if key.tag != f"{_TAG}merge":
                own.append((key, value))
                continue
            others = value.value if isinstance(value, SequenceNode) else [value]
            for other in others:
                if not isinstance(other, MappingNode):
                    raise yaml.constructor.ConstructorError(None, None, "a table is expected", value.start_mark)
                if other is not node:
                    self.flatten_mapping(other)
                for pair in other.value:
                    merged.setdefault(self._key_of(pair[0]), pair)
        if merged or len(own) < len(node.value):
            present = {self._key_of(key) for key, _value in own}
            node.value = [pair for name, pair in merged.items() if name not in present] + own

    def construct_mapping(self, node: Node, deep: bool = False) -> dict[Any, Any]:
        if not isinstance(node, MappingNode):
            raise yaml.constructor.ConstructorError(None, None, "a table is expected", node.start_mark)
        self.flatten_mapping(node)
        last = dict[str, Node]()
        for key_node, value_node in node.value:
            key = self._key_of(key_node)
            if key in last:
                self.note(OddityKind.REPEATED_KEY, key_node.start_mark)
            last[key] = value_node
        table = dict[str, Any]()
        is_deep = deep or any("." in key for key in last)  # else tables are filled later, too late to add to them
        for key, value_node in last.items():
            _put(table, key, self.construct_object(value_node, deep=is_deep))
        return table

    def _key_of(self, node: Node) -> str:
        return describe(self.construct_object(node, deep=True)) or ""

    def construct_scalar(self, node: Node) -> str:
        if not isinstance(node, ScalarNode):
            raise yaml.constructor.ConstructorError(None, None, "a value is expected", node.start_mark)
        return decode_text(join_surrogates(node.value))

    def construct_bool(self, node: Node) -> bool | None:
        return _BOOLEANS.get(self.construct_scalar(node).lower())

    def construct_number(self, node: Node) -> int | float | JavaObject:
        """Return a number in decimal, binary, octal, hexadecimal or minutes. Raises ValueError."""
        text = self.construct_scalar(node).replace("_", "")
        if len(text) > _LONGEST_NUMBER:  # Python would not write it again
            return JavaObject()
        sign = -1 if text.startswith("-") else 1
        text = text[1:] if text[:1] in ("-", "+") else text
        if ":" in text:
            total: float = 0
            for part in text.split(":"):
                total = total * 60 + _number(part)
            return sign * (total if node.tag == f"{_TAG}float" else int(total))
        if node.tag == f"{_TAG}float":
            return sign * float(text.lower().removeprefix(".") if text[:2].lower() in (".i", ".n") else text)
        base = {"0b": 2, "0x": 16}.get(text[:2], 8 if text[:1] == "0" and text != "0" else 10)
        return sign * int(text[2:] if base in (2, 16) else text, base)

    def construct_other(self, node: Node) -> JavaObject:
        return JavaObject()


def _number(text: str) -> float:
    return float(text) if "." in text else int(text)


def int_value(number: int | float) -> int:
    """Return a number as Java's `intValue` does: the last 32 bits of a whole one, and the nearest one to a fraction."""
    if isinstance(number, float):
        return int(max(-(2.0**31), min(number, 2.0**31 - 1)))
    return (number + 2**31) % 2**32 - 2**31


def _add_rules() -> None:
    """Give the loader SnakeYAML's rules for what a word without quotes means: the first that matches counts."""
    rules = (
        ("bool", r"(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)", "yYnNtTfFoO"),
        (
            "int",
            r"(?:[-+]?0b_*[0-1][0-1_]*|[-+]?0_*[0-7][0-7_]*|[-+]?(?:0|[1-9][0-9_]*)"
            r"|[-+]?0x_*[0-9a-fA-F][0-9a-fA-F_]*|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+)",
            "-+0123456789",
        ),
        (
            "float",
            r"(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
            r"|[-+]?\.[0-9_]+(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*"
            r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))",
            "-+0123456789.",
        ),
        ("merge", r"<<", "<"),
        ("null", r"(?:~|null|Null|NULL)?", ["~", "n", "N", ""]),
        (
            "timestamp",
            r"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{4}-[0-9]{2}?-[0-9]{2}?(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}"
            r"(?:\.[0-9]*)?(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::[0-9]{2})?))?)",
            "0123456789",
        ),
    )
    for tag, pattern, first in rules:
        _Loader.add_implicit_resolver(f"{_TAG}{tag}", re.compile(f"{pattern}\\Z", re.ASCII), list(first))
    _Loader.add_constructor(f"{_TAG}bool", _Loader.construct_bool)
    for tag in ("int", "float"):
        _Loader.add_constructor(f"{_TAG}{tag}", _Loader.construct_number)
    for tag in ("timestamp", "binary", "set", "omap", "pairs"):
        _Loader.add_constructor(f"{_TAG}{tag}", _Loader.construct_other)


_add_rules()


def _put(table: dict[str, Any], key: str, value: Any) -> None:
    """Add a value; a key with dots leads into tables inside, as for ConfigMe and Bukkit."""
    first, dot, rest = key.partition(".")
    if dot:
        inner = table.get(first)
        if not isinstance(inner, _Section):
            inner = table[first] = _Section(inner if isinstance(inner, dict) else {})
        _put(inner, rest, value)
    elif isinstance(value, dict) and isinstance(inner := table.get(key), _Section):
        inner.update(value)
    else:
        table[key] = value


def parse_yaml(content: bytes) -> tuple[Any, tuple[Oddity, ...]]:
    """Return the document, with texts for keys, and what is odd about it. Raises `FormatError`."""
    text, oddities = _decode(content)
    try:
        loader = _Loader(text.removeprefix("\ufeff"))
        document = loader.get_single_data()
    except yaml.MarkedYAMLError as problem:
        # Only the place: the parser's own message quotes the text, which may be a password.
        raise FormatError(_describe_yaml_error(text, problem.problem_mark or problem.context_mark)) from None
    except yaml.reader.ReaderError as problem:
        raise FormatError(f"{_place(text, problem.position)}: a character that no text has") from None
    except RecursionError:
        raise FormatError("it is nested too deeply") from None
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
        raise FormatError("a value does not have the form that its tag requires") from None
    return document, (*oddities, *loader.oddities.values())


def _describe_yaml_error(text: str, mark: yaml.Mark | None) -> str:
    if mark is None:
        return "it cannot be parsed"
    line = re.split("\r\n|[\r\n\x85\u2028\u2029]", text)[mark.line : mark.line + 1]
    is_tab = bool(line) and "\t" in line[0][: max(mark.column, len(line[0]) - len(line[0].lstrip())) + 1]
    reason = ": a tab is used where YAML needs spaces" if is_tab else ""
    return f"line {mark.line + 1}, column {mark.column + 1}{reason}"


def describe(value: object) -> str | None:
    """Return a value as Java writes it (`toString`); None where that cannot be told, and for a table in a list."""
    if isinstance(value, list):
        return _join(f"[{', '.join(map(_describe_inner, value))}]", value)
    if isinstance(value, dict):
        pairs = [f"{key}={_describe_inner(inner)}" for key, inner in value.items()]
        return _join(f"{{{', '.join(pairs)}}}", list(value.values()))
    return None if isinstance(value, JavaObject) else _describe_inner(value)


def _join(text: str, values: list[Any]) -> str | None:
    return None if any(isinstance(value, list | dict | JavaObject) for value in values) else text


def _describe_inner(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float():
            return _describe_double(value)
        case _:
            return str(value) if isinstance(value, str | int) else ""


def _describe_double(value: float) -> str:
    if value != value or abs(value) == float("inf"):
        return "NaN" if value != value else f"{'-' if value < 0 else ''}Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    digits, _e, exponent = f"{value:.16e}".partition("e")
    shortest = next(text for n in range(17) if float(text := f"{value:.{n}e}") == value)
    digits, _e, exponent = shortest.partition("e")
    return f"{digits if '.' in digits else f'{digits}.0'}E{int(exponent)}"


# --- JSON, as Gson reads it ---


_BLANK: Final = re.compile(r"(?:[ \t\r\n]++|//[^\r\n]*|#[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_WORD: Final = re.compile(r"[^/\\;#={}\[\]:, \t\f\r\n]+")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?\Z")
_QUOTED: Final = {quote: re.compile(rf"((?:[^{quote}\\]++|\\.)*){quote}", re.DOTALL) for quote in "\"'"}
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", **{it: it for it in "\n'\"\\/"}}
_WORDS: Final = {"true": True, "false": False, "null": None}
_PREFIX: Final = ")]}'\n"


def parse_json(content: bytes) -> tuple[Any, tuple[Oddity, ...]]:
    """Return the document as Gson reads it where it is lenient, and what is odd about it. Raises `FormatError`.

    An empty file is an error: it is one that is being written.
    """
    text, oddities = _decode(content)
    text = text.removeprefix("\ufeff")
    try:
        return json.loads(text, strict=False), tuple(oddities)
    except json.JSONDecodeError as problem:
        found = Oddity(OddityKind.NOT_JSON, problem.lineno, problem.colno)
    except (ValueError, RecursionError):  # a number of thousands of digits; nested deeply
        found = Oddity(OddityKind.NOT_JSON, 1, 1)
    return _LenientJson(text).parse(), (*oddities, found)


class _LenientJson:
    """Parser of one text. Methods leave `_at` behind what they read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def parse(self) -> Any:
        if not self._text.strip(" \t\r\n"):
            raise FormatError("it is empty")
        self._skip()
        if self._text.startswith(_PREFIX, self._at):
            self._at += len(_PREFIX)
        value = self._value(0)
        if self._text[self._at :].strip(" \t\r\n"):  # Gson looks for more after it, and is strict then
            raise self._error("nothing more is expected")
        return value

    def _error(self, reason: str) -> FormatError:
        return FormatError(f"{_place(self._text, min(self._at, len(self._text)))}: {reason}")

    def _skip(self) -> str:
        """Skip blanks and comments, and return the next character; "" at the end."""
        match = _BLANK.match(self._text, self._at)
        assert match is not None  # it matches nothing, too
        self._at = match.end()
        return self._text[self._at : self._at + 1]

    def _value(self, depth: int) -> Any:
        if depth > _DEPTH:
            raise self._error("it is nested too deeply")
        match self._skip():
            case "[":
                self._at += 1
                return self._list(depth + 1)
            case "{":
                self._at += 1
                return self._object(depth + 1)
            case '"' | "'" as quote:
                return self._quoted(quote)
            case _:
                return _value_of(self._word("a value"))

    def _list(self, depth: int) -> list[Any]:
        items: list[Any] = []
        if self._skip() == "]":
            self._at += 1
            return items
        while True:
            items.append(None if self._skip() in ("]", ",", ";") else self._value(depth))
            if self._separator("]"):
                return items

    def _object(self, depth: int) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if self._skip() == "}":
            self._at += 1
            return fields
        while True:
            name = self._quoted(first) if (first := self._skip()) in ("'", '"') else self._word("a name")
            if self._skip() not in (":", "="):
                raise self._error("a colon is expected")
            self._at += 2 if self._text.startswith("=>", self._at) else 1
            fields[name] = self._value(depth)
            if self._separator("}"):
                return fields

    def _separator(self, end: str) -> bool:
        """Read a comma, or the end; return whether it is the end."""
        found = self._skip()
        if found not in (end, ",", ";") or not found:
            raise self._error("the list or object is not closed" if not found else "a comma is expected")
        self._at += 1
        return found == end

    def _word(self, expected: str) -> str:
        match = _WORD.match(self._text, self._at)
        if match is None:
            raise self._error(f"{expected} is expected")
        self._at = match.end()
        return match[0]

    def _quoted(self, quote: str) -> str:
        match = _QUOTED[quote].match(self._text, self._at + 1)
        if match is None:
            raise self._error("the text is not closed")
        parts = list(_unescape(match[1]))
        if None in parts:
            raise self._error("a backslash escapes a character that has no escape")
        self._at = match.end()
        return join_surrogates("".join(part for part in parts if part is not None))


def _unescape(text: str) -> Iterator[str | None]:
    """Yield the parts of a text in quotes; None for an unknown escape."""
    end = 0
    for match in _ESCAPE.finditer(text):
        yield text[end : match.start()]
        yield chr(int(match[1], 16)) if match[1] else _ESCAPED.get(match[2])
        end = match.end()
    yield text[end:]


def _value_of(word: str) -> Any:
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    if _NUMBER.match(word) is None:
        return word
    return int(word) if word.lstrip("-").isdigit() and len(word) < _LONGEST_NUMBER else float(word)


# --- server.properties ---


# `key=value`, `key: value` or `key value`; a backslash escapes, or joins lines at the end of one.
_PAIR: Final = re.compile(r"((?:\\.|[^\\:= \t\f])*)[ \t\f]*[:=]?[ \t\f]*(.*)", re.DOTALL)
_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(content: bytes) -> dict[str, str]:
    """Return keys and values, in UTF-8 or else Latin-1: newer game servers try them in this order."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    found = {}
    for line in _logical_lines(text):
        pair = _PAIR.match(line)
        if pair is not None:
            found[_unescape_property(pair[1])] = decode_text(_unescape_property(pair[2]))
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Yield the lines without comments and indentation, continued ones joined."""
    logical = ""
    for line in re.split(r"\r\n|\r|\n", text):
        stripped = line.lstrip(" \t\f")
        if not logical and (not stripped or stripped[0] in "#!"):
            continue
        backslashes = len(stripped) - len(stripped.rstrip("\\"))
        is_continued = backslashes % 2 == 1
        logical += stripped[:-1] if is_continued else stripped
        if not is_continued:
            yield logical
            logical = ""
    if logical:
        yield logical


def _unescape_property(text: str) -> str:
    return join_surrogates(_ESCAPE.sub(lambda it: chr(int(it[1], 16)) if it[1] else _CONTROL.get(it[2], it[2]), text))


# --- text ---


def join_surrogates(text: str) -> str:
    """Return the text with characters that Java escaped as two halves; half of one stays."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _decode(content: bytes) -> tuple[str, list[Oddity]]:
    """Decode as Java does by default: bytes that are no UTF-8 are replaced."""
    try:
        return content.decode(), []
    except UnicodeDecodeError as problem:
        before = content[: problem.start]
        line_start = before.rfind(b"\n") + 1
        place = before.count(b"\n") + 1, len(before[line_start:].decode(errors="replace")) + 1
        return content.decode(errors="replace"), [Oddity(OddityKind.NOT_UTF8, *place)]


def _place(text: str, at: int) -> str:
    before = text[:at]
    return f"line {before.count(chr(10)) + 1}, column {at - (before.rfind(chr(10)) + 1) + 1}"
