"""Files as SnakeYAML, Gson and Java read them: each value here is what they returned when they were run.

SnakeYAML 1.33, Gson 2.10 and OpenJDK 17, on 2026-11-28. Here, what no database would store is replaced: NUL and half
characters.
"""

import tracemalloc
from typing import Any

import pytest

from plugin_bridge.java_formats import (
    FormatError,
    JavaObject,
    Oddity,
    OddityKind,
    describe,
    int_value,
    parse_json,
    parse_properties,
    parse_yaml,
)


@pytest.mark.parametrize(
    ("content", "document", "kinds"),
    [
        (b"a: SQLITE\t# x\nb: 1\n", {"a": "SQLITE", "b": 1}, {OddityKind.TAB}),
        (b"a: SQLITE \t \r\nb: x\ty\n", {"a": "SQLITE", "b": "x\ty"}, {OddityKind.TAB}),
        (b"- a\t\n- b\n", ["a", "b"], {OddityKind.TAB}),
        ("# 注释\na: b\n".encode("gbk"), {"a": "b"}, {OddityKind.NOT_UTF8}),
        ("a: привет # ж\n".encode("cp1251"), {"a": "\ufffd" * 6}, {OddityKind.NOT_UTF8}),
        (b"\xef\xbb\xbfa: 1\r\nb: 2\r\n", {"a": 1, "b": 2}, set()),
        (b"a: 1\nb: 2\na: 3\n", {"a": 3, "b": 2}, {OddityKind.REPEATED_KEY}),
        (b"a: !!what x\na: 3\n", {"a": 3}, {OddityKind.REPEATED_KEY}),
        (b"a: &p4ss!w x\n", {"a": "x"}, set()),
        (b"a: &x 1\nb: &x 2\nc: *x\n", {"a": 1, "b": 2, "c": 2}, set()),
        (b"1: a\ntrue: b\n? [c, d]\n: e\n~: f\n", {"1": "a", "true": "b", "[c, d]": "e", "null": "f"}, set()),
        (b"a: yes\nb: Off\nc: y\nd: 'no'\n", {"a": True, "b": False, "c": "y", "d": "no"}, set()),
        (b"a: 010\nb: 0x1F\nc: 1_000\n", {"a": 8, "b": 31, "c": 1000}, set()),
        (b"a: 1:30\nb: 0b11\nc: 08\n", {"a": 90, "b": 3, "c": "08"}, set()),
        (b"a: 1e3\nb: .5\nc: 1.5e+2\nd: +.5\n", {"a": 1000.0, "b": 0.5, "c": 150.0, "d": 0.5}, set()),
        (b"b: &b {x: 1, y: 2}\nc:\n  y: 3\n  <<: *b\n", {"b": {"x": 1, "y": 2}, "c": {"x": 1, "y": 3}}, set()),
        (b'a: "\\ud83d\\ude00 \\ud83d"\n', {"a": "\U0001f600 \ufffd"}, set()),
        (b'a: "x\\0y"\n', {"a": "x\ufffdy"}, set()),
        (b"a: =\nb: null\nc:\n", {"a": "=", "b": None, "c": None}, set()),
        (b"a: !!bool maybe\n", {"a": None}, set()),
        (b"%YAML 1.1\n---\na: 1\n...\n", {"a": 1}, set()),
        (b"a: x\xe2\x80\xa8b: 1\n", {"a": "x", "b": 1}, set()),
        (b"", None, set()),
    ],
)
def test_yaml(content: bytes, document: Any, kinds: set[OddityKind]) -> None:
    read, oddities = parse_yaml(content)
    assert read == document
    assert {oddity.kind for oddity in oddities} == kinds


@pytest.mark.parametrize(
    ("content", "document"),
    [(b"DataSource.backend: MYSQL\nDataSource: {mySQLPort: 1}\n", {"backend": "MYSQL", "mySQLPort": 1}),
     (b"DataSource: {mySQLPort: 1}\nDataSource.backend: MYSQL\n", {"backend": "MYSQL", "mySQLPort": 1})],
)  # fmt: skip
def test_keys_with_dots_lead_into_sections_as_for_configme_and_bukkit(content: bytes, document: Any) -> None:
    assert parse_yaml(content)[0] == {"DataSource": document}


@pytest.mark.parametrize(
    "content",
    [
        b"\ta: 1\n",
        b"a:\tb\n",
        b"a: 'x'\t# y\n",
        b"a: 1\x00",
        b"a: \x07",
        "a: b".encode("utf-16"),
        b"a: [::1]\n",
        b"a: *x\n",
        b"a: !!java.util.Date x\n",
        b"a: !!int x\n",
        b"a: !!int ''\n",
        b"a: !!float x\n",
        b"a: 1\n---\nb: 2\n",
        b"a: [1, 2\n",
        b"a: {b: 1\n",
        b"a: @x\n",
        b"a: 'x\n",
        b"a: b: c\n",
        b"a: 1\n b: 2\n",
        b"<<: 1\na: 2\n",
        b"[" * 100_000,
        b"a: &a [1]\nb: [" + b"*a, " * 60 + b"]\n",
    ],
)
def test_yaml_that_snakeyaml_refuses_too(content: bytes) -> None:
    with pytest.raises(FormatError):
        parse_yaml(content)


def test_the_place_of_what_is_odd_or_wrong_is_named() -> None:
    content = "a: 1\nß: SQLITE\t# \xe4\n".encode().replace("ä".encode(), b"\xe4")
    assert parse_yaml(content + b"a: 2\n")[1] == (
        Oddity(OddityKind.NOT_UTF8, 2, 13),
        Oddity(OddityKind.TAB, 2, 10),
        Oddity(OddityKind.REPEATED_KEY, 3, 1),
    )
    for content in (b"a: 1\n\tb: 2\n", b"a:\tb\n"):
        with pytest.raises(FormatError, match=r"line [12], column [13]: a tab is used where YAML needs spaces"):
            parse_yaml(content)
    with pytest.raises(FormatError, match=r"^line 2, column 4: a character that no text has$"):
        parse_yaml(b"a: 1\nb: \x00secret\n")


def test_merging_tables_does_not_multiply() -> None:
    lines = ["a0: &a0 {x: 1}"] + [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 6)}]}}" for n in range(1, 8)]
    assert parse_yaml("\n".join(lines).encode())[0]["a7"] == {"x": 1}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"), (5, "5"), (True, "true"), (1.0, "1.0"), (12345678.5, "1.23456785E7"), (1e7, "1.0E7"),
        (0.001, "0.001"), (0.0001, "1.0E-4"), (-2e10, "-2.0E10"), (float("inf"), "Infinity"), (float("nan"), "NaN"),
        (["a", 1, None], "[a, 1, null]"), ({"a": None, "b": False}, "{a=null, b=false}"), ([["a"]], None),
        (JavaObject(), None),
    ],
)  # fmt: skip
def test_values_as_java_writes_them(value: object, text: str | None) -> None:
    assert describe(value) == text


@pytest.mark.parametrize(
    ("content", "document"),
    [
        (b'[{"name": "Olivia", "level": 4}]', [{"name": "Olivia", "level": 4}]),
        (b"[{name: Olivia, 'level': '4'}] ", [{"name": "Olivia", "level": "4"}]),
        (b"// ours\n[ # all\n/* of\nus */ {\"name\" = \"Olivia\"; level => 4.0}]", [{"name": "Olivia", "level": 4.0}]),
        (b"[1,,2;3,]", [1, None, 2, 3, None]),
        (b"[,]", [None, None]),
        (b"\xef\xbb\xbf)]}'\n[tRUE, NULL, NaN, -Infinity, 007, 1x]", [True, None, "NaN", "-Infinity", "007", "1x"]),
        (b'["a\nb\tc", "\\u00e9\\\'\\/", "\\\n"]', ["a\nb\tc", "é'/", "\n"]),
        (b"['\\ud83d\\ude00', 1e2, -0.5,]", ["\U0001f600", 100.0, -0.5, None]),
        ("['Zoë']".encode("latin-1"), ["Zo\ufffd"]),
        (b"{a: 1, a: 2}", {"a": 2}),
        (b"[x y]", None),
        (b'[{"a": 1,}]', None),
        (b'[{"a"}]', None),
        (b"[1] // end", None),
        (b"[1] 2", None),
        (b"[1", None),
        (b"['a]", None),
        (b"[/* a]", None),
        (b'["\\x"]', None),
        (b"[:]", None),
        (b"[" * 100_000, None),
        (b"", None),
        (b" \n", None),
    ],
)  # fmt: skip
def test_json(content: bytes, document: Any) -> None:
    if document is None:
        with pytest.raises(FormatError):
            parse_json(content)
    else:
        assert parse_json(content)[0] == document


def test_where_json_begins_to_be_none_is_named() -> None:
    assert parse_json(b'[{"a": 1}]')[1] == ()
    assert parse_json(b'[\n  // x\n  {"a": 1}]')[1] == (Oddity(OddityKind.NOT_JSON, 2, 3),)
    with pytest.raises(FormatError, match=r"^line 2, column 4: a colon is expected$"):
        parse_json(b"[\n{a 1}]")


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"#c\n! c\n  a = b \\\n   c\nd:e\nf g\n", {"a": "b c", "d": "e", "f": "g"}),
        (b"h\\ i\\=j=k\n\\#l=m\n", {"h i=j": "k", "#l": "m"}),
        (b"a=\\u00e9\\t\\z\r\nb=\xc3\xa9\rc=", {"a": "é\tz", "b": "é", "c": ""}),
        (b"a=\xe9\n", {"a": "é"}),
        (b"a=\\ud83d\\ude00\n", {"a": "\U0001f600"}),
        (b"a=\\u0000\\ud83d\n", {"a": "\ufffd\ufffd"}),
        (b"\\\n#c=d\na=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        (b"\xef\xbb\xbfa=b\n", {"\ufeffa": "b"}),
        (b"a=1\na=2\n", {"a": "2"}),
    ],
)  # fmt: skip
def test_properties(content: bytes, found: dict[str, str]) -> None:
    assert parse_properties(content) == found


def test_numbers_that_are_too_long_for_us_are_no_reason_to_refuse_a_file() -> None:
    for number in ("9" * 5000, "0x" + "f" * 20_000, "1" + ":59" * 3000):
        document, _oddities = parse_yaml(f"a: {number}\nb: 1\n".encode())
        assert (describe(document["a"]), document["b"]) == (None, 1)


@pytest.mark.parametrize(("number", "value"), [(7, 7), (2**31, -(2**31)), (2**32 + 1, 1), (2.9, 2), (-1e300, -(2**31))])
def test_whole_numbers_as_java_has_them(number: float, value: int) -> None:
    assert int_value(number) == value


def test_a_megabyte_on_one_line_takes_no_more_memory_than_that() -> None:
    for content in (b"#\n" + b" " * 2**20 + b"[]", b"['" + b"a" * 2**20 + b"']"):
        tracemalloc.start()
        parse_json(content)
        assert tracemalloc.get_traced_memory()[1] < 32 * 2**20
        tracemalloc.stop()
