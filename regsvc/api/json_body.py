"""Strict conversion of bodies and queries to typed requests.

JSON that two parsers might read differently is refused: a proxy that checks requests might read a duplicate key or
an odd number one way, and this service another way.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import cache
from typing import NoReturn, TypeVar

import msgspec

from regsvc.core.errors import InvalidField, MalformedBody

T = TypeVar("T")
Query = TypeVar("Query", bound=msgspec.Struct)

MAX_DEPTH = 20
MAX_VALUES = 5000
"""Most values in a body: texts, numbers, objects, lists and their members. Each costs the event loop time."""

_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NOT_STORABLE = re.compile("[\0\ud800-\udfff]")
_LARGEST_INTEGER = 2**63 - 1
_INTEGER = re.compile("-?[0-9]{1,19}")
_PATH_OF_ERROR = re.compile(r" - at (?:`key` in )?`\$\.?(?P<path>[^`]*)`\Z")
_MISSING_FIELD = re.compile(r"missing required field `(?P<name>[^`]+)`")


def parse_object(body: bytes) -> dict[str, object]:
    """Parse the JSON object in a body; an empty body counts as `{}`. Raises MalformedBody."""
    if not body:
        return {}
    if _separators(body) >= MAX_VALUES and _separators(_TEXT.sub(b"", body)) >= MAX_VALUES:
        raise MalformedBody  # before it is parsed; texts are only taken out if needed
    try:
        value = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=_object_without_duplicates,
            parse_constant=_refuse,
            parse_int=_bounded_integer,
            parse_float=_finite_number,
        )
    except (ValueError, RecursionError):
        # No cause: it contains the body, and that may contain a password.
        raise MalformedBody from None
    if not isinstance(value, dict):
        raise MalformedBody
    _check_texts_and_depth(value, depth=1)
    return value


def convert(fields: Mapping[str, object], request_type: type[T], *, strict: bool = True) -> T:
    """Convert the fields to a request type; raises InvalidField with the name of the first invalid field."""
    try:
        return msgspec.convert(fields, request_type, strict=strict)
    except msgspec.ValidationError as error:
        field = _field_of(str(error))
    raise InvalidField(field)


def convert_query(texts: Mapping[str, str], query_type: type[Query]) -> Query:
    """Convert a query to a request type, parsing its numbers and booleans from text; raises InvalidField."""
    for name in _integer_fields(query_type) & texts.keys():
        if not _INTEGER.fullmatch(texts[name]):  # msgspec would take "1e1", "1.0" and "null" as well
            raise InvalidField(name)
    return convert(texts, query_type, strict=False)


@cache
def _integer_fields(query_type: type[msgspec.Struct]) -> frozenset[str]:
    """Return the names of the integer fields, optional ones included."""
    info = msgspec.inspect.type_info(query_type)
    assert isinstance(info, msgspec.inspect.StructType)
    return frozenset(field.encode_name for field in info.fields if _is_integer(field.type))


def _is_integer(kind: msgspec.inspect.Type) -> bool:
    if isinstance(kind, msgspec.inspect.Metadata):
        return _is_integer(kind.type)
    if isinstance(kind, msgspec.inspect.UnionType):
        return any(map(_is_integer, kind.types))
    return isinstance(kind, msgspec.inspect.IntType)


def _separators(body: bytes) -> int:
    return body.count(b",") + body.count(b"[") + body.count(b"{")


def _object_without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise MalformedBody
    return fields


def _refuse(constant: str) -> NoReturn:
    """Refuse `NaN`, `Infinity` and `-Infinity`, which Python reads but JSON does not have."""
    raise MalformedBody


def _bounded_integer(digits: str) -> int:
    number = int(digits)
    if abs(number) > _LARGEST_INTEGER:
        raise MalformedBody
    return number


def _finite_number(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise MalformedBody
    return number


def _check_texts_and_depth(value: object, depth: int) -> None:
    """Refuse lone surrogates, which cannot be stored, and NUL, which ends a text early in some places only."""
    if isinstance(value, str):
        if _NOT_STORABLE.search(value):
            raise MalformedBody
    elif isinstance(value, dict | list):
        if depth > MAX_DEPTH:
            raise MalformedBody
        for member in [*value, *value.values()] if isinstance(value, dict) else value:
            _check_texts_and_depth(member, depth + 1)


def _field_of(message: str) -> str:
    """Return the name of the field in a msgspec error message.

    A nested field is dotted (`questionnaire.token`); an element of a list is reported under the name of the list.
    """
    at = _PATH_OF_ERROR.search(message)
    path = at["path"].partition("[")[0] if at else ""
    missing = _MISSING_FIELD.search(message)
    return ".".join(part for part in (path, missing["name"] if missing else "") if part)
