"""Bodies: what counts as a JSON object, and how errors name their field."""

import codecs
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regsvc.accounts import decisions
from regsvc.accounts.decisions import ReviewRequest
from regsvc.core.errors import InvalidField, MalformedBody
from regsvc.core.shapes import to_datetime
from regsvc.http.messages import MAX_DEPTH, MAX_VALUES, convert, convert_query, parse_object
from regsvc.registration.registration import RegisterRequest
from regsvc.users.user_query import UsersQuery

BAN: Any = next(route.request_type for route in decisions.ROUTES if route.answer is decisions.ban)
APPLICATION = {"username": "Alice", "email": "alice@example.org", "code": "123456"}


def nested(depth: int, opening: str = "[", closing: str = "]") -> bytes:
    """An object with lists inside each other, `depth` levels with its own."""
    return f'{{"a": {opening * (depth - 1)}{closing * (depth - 1)}}}'.encode()


def test_no_body_is_an_empty_object() -> None:
    assert parse_object(b"") == {} == parse_object(codecs.BOM_UTF8)


def test_a_byte_order_mark_is_no_part_of_the_object() -> None:
    assert parse_object(codecs.BOM_UTF8 + b'{"a": 1}') == {"a": 1}


def test_an_object_comes_back_as_it_is() -> None:
    body = '{"名字": "Alice 🎲", "n": [1, -2, 1.5, true, null], "o": {}}'.encode()
    assert parse_object(body) == {"名字": "Alice 🎲", "n": [1, -2, 1.5, True, None], "o": {}}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b" ", id="blank"),
        pytest.param(b"username=Alice", id="form"),
        pytest.param(b"{'a': 1}", id="single quotes"),
        pytest.param(b'{"a": 1,}', id="trailing comma"),
        pytest.param(b'{"a": 1} {"a": 2}', id="two objects"),
        pytest.param(b"[]", id="list"),
        pytest.param(b'"text"', id="text"),
        pytest.param(b"7", id="number"),
        pytest.param(b"null", id="null"),
        pytest.param(b'{"a": 1, "a": 1}', id="duplicate key"),
        pytest.param(b'{"a": 1, "\\u0061": 1}', id="duplicate key, escaped"),
        pytest.param(b'{"o": [{"a": 1, "a": 2}]}', id="duplicate key, inside"),
        pytest.param(b'{"a": NaN}', id="NaN"),
        pytest.param(b'{"a": Infinity}', id="infinity"),
        pytest.param(b'{"a": -Infinity}', id="negative infinity"),
        pytest.param(b'{"a": 1e999}', id="a float beyond floats"),
        pytest.param(b'{"a": 9223372036854775808}', id="an integer beyond 64 bits"),
        pytest.param(b'{"a": ' + b"9" * 5000 + b"}", id="an integer beyond Python's limit"),
        pytest.param(b'{"a": "\\ud83d"}', id="half a surrogate pair"),
        pytest.param(b'{"\\udc00": 1}', id="half a surrogate pair, in a key"),
        pytest.param(b'{"a": "x\\u0000"}', id="NUL"),
        pytest.param(b'{"a": ["\\u0000"]}', id="NUL, inside"),
        pytest.param(b'{"\\u0000": 1}', id="NUL, in a key"),
        pytest.param(b'{"a": "\x00"}', id="raw NUL"),
        pytest.param(b'{"a": "\n"}', id="raw line break"),
        pytest.param(b'{"a": "\xff"}', id="no UTF-8"),
        pytest.param(b'{"a": "\xed\xa0\x80"}', id="a surrogate in UTF-8"),
        pytest.param(b'\xef\xbb\xbf\xef\xbb\xbf{"a": 1}', id="two byte order marks"),
        pytest.param('{"a": 1}'.encode("utf-16"), id="UTF-16"),
        pytest.param(nested(MAX_DEPTH + 1), id="too deep"),
        pytest.param(nested(30_000), id="deep enough to exhaust the stack"),
        pytest.param(b'{"a":' * 6_000, id="deep and never closed"),
    ],
)
def test_it_refuses_what_readers_may_disagree_about(body: bytes) -> None:
    with pytest.raises(MalformedBody) as refusal:
        parse_object(body)
    assert refusal.value.__cause__ is None  # it would quote the body


@pytest.mark.parametrize("value", ["1", '""', "[]", "{}", '{"a": 1}'])
def test_it_refuses_more_values_than_the_loop_has_time_for(value: str) -> None:
    with pytest.raises(MalformedBody):
        parse_object(f'{{"a": [{", ".join([value] * MAX_VALUES)}]}}'.encode())


def test_separators_in_texts_are_no_values() -> None:
    text = '\\",[{' * MAX_VALUES
    assert parse_object(json.dumps({"a": text, text: "b"}).encode()) == {"a": text, text: "b"}


def test_it_reads_as_deep_as_allowed() -> None:
    assert "a" in parse_object(nested(MAX_DEPTH))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_an_object_or_a_refusal(body: bytes) -> None:
    try:
        assert isinstance(parse_object(body), dict)
    except MalformedBody:
        return


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])  # beside other tests
@given(st.dictionaries(st.sampled_from(["username", "usernames", "expiresAt", "reason", "silent"]), JSON))
def test_any_object_is_a_request_or_names_its_field(fields: dict[str, object]) -> None:
    assert fault_of(fields) in {None, *fields}


def fault_of(fields: dict[str, object]) -> str | None:
    try:
        convert(fields, BAN)
    except InvalidField as refusal:
        return refusal.field
    return None


def test_the_repr_of_a_request_shows_no_values() -> None:
    assert repr(convert(APPLICATION, RegisterRequest)) == "<RegisterRequest>"


def test_an_end_of_a_ban_is_a_time() -> None:
    request = convert({"username": "Bob", "expiresAt": 1_700_000_000_123}, BAN)
    ends_at = to_datetime(request.expires_at)
    assert ends_at is not None
    assert ends_at.isoformat() == "2023-11-14T22:13:20.123000+00:00"


@pytest.mark.parametrize(
    ("fields", "targets"),
    [({"username": "Bob"}, ["Bob"]), ({"usernames": ["Bob", "Alice", "Bob"]}, ["Bob", "Alice"])],
)
def test_an_action_has_one_target_or_many(fields: dict[str, object], targets: list[str]) -> None:
    assert convert(fields, ReviewRequest).targets == targets


def test_a_query_reads_numbers_from_texts() -> None:
    query = convert_query({"page": ["3"], "search": ["7"]}, UsersQuery)
    assert (query.page, query.search) == (3, "7")


@pytest.mark.parametrize("text", ["1.0", "1e1", "null", " 1", "+1", "0x1", "１", "1_0", "", "9" * 20])
def test_a_number_in_a_query_is_digits_and_nothing_else(text: str) -> None:
    with pytest.raises(InvalidField) as refused:
        convert_query({"page": [text]}, UsersQuery)
    assert refused.value.field == "page"
