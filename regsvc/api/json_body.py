"""From the bytes of a body to a typed request, strictly.

What two JSON readers might understand differently is refused: a duplicate key or an odd number may be read
one way by a proxy that checks requests, and another way by us.
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
_LARGEST_INTEGER = 2**63 - 1
_INTEGER = re.compile("-?[0-9]{1,19}")
_PATH_OF_ERROR = re.compile(r" - at (?:`key` in )?`\$\.?(?P<path>[^`]*)`\Z")
_MISSING_FIELD = re.compile(r"missing required field `(?P<name>[^`]+)`")


def parse_object(body: bytes) -> dict[str, object]:
    """The JSON object in a body; no body is an empty one. Raises MalformedBody."""
    if not body:
        return {}
    try:
        value = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=_object_without_duplicates,
            parse_constant=_refuse,
            parse_int=_bounded_integer,
            parse_float=_finite_number,
        )
    except (ValueError, RecursionError):
        # The cause holds the body, which may hold a password.
        raise MalformedBody from None
    if not isinstance(value, dict):
        raise MalformedBody
    _check_texts_and_depth(value, depth=1)
    return value


def convert(fields: Mapping[str, object], request_type: type[T]) -> T:
    """The fields as a request type; raises InvalidField with the name of the first field that does not fit."""
    return _convert(fields, request_type, strict=True)


def convert_query(texts: Mapping[str, str], query_type: type[Query]) -> Query:
    """The same for a query, whose numbers and booleans are texts."""
    for name in _integer_fields(query_type) & texts.keys():
        if not _INTEGER.fullmatch(texts[name]):  # msgspec would take "1e1", "1.0" and "null" as well
            raise InvalidField(name)
    return _convert(texts, query_type, strict=False)


def _convert(fields: Mapping[str, object], request_type: type[T], *, strict: bool) -> T:
    try:
        return msgspec.convert(fields, request_type, strict=strict)
    except msgspec.ValidationError as error:
        field = _field_of(str(error))
    raise InvalidField(field)


@cache
def _integer_fields(query_type: type[msgspec.Struct]) -> frozenset[str]:
    """The names of the fields that are integers, whether or not they may be missing."""
    info = msgspec.inspect.type_info(query_type)
    assert isinstance(info, msgspec.inspect.StructType)
    return frozenset(field.encode_name for field in info.fields if _is_integer(field.type))


def _is_integer(kind: msgspec.inspect.Type) -> bool:
    if isinstance(kind, msgspec.inspect.Metadata):
        return _is_integer(kind.type)
    if isinstance(kind, msgspec.inspect.UnionType):
        return any(map(_is_integer, kind.types))
    return isinstance(kind, msgspec.inspect.IntType)


def _object_without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise MalformedBody
    return fields


def _refuse(constant: str) -> NoReturn:
    """`NaN`, `Infinity` and `-Infinity` are Python's, not JSON's."""
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
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, dict | list):
        if depth > MAX_DEPTH:
            raise MalformedBody
        for key in value if isinstance(value, dict) else ():
            _check_text(key)
        for member in value.values() if isinstance(value, dict) else value:
            _check_texts_and_depth(member, depth + 1)


def _check_text(text: str) -> None:
    """Half a surrogate pair cannot be stored, and a NUL ends a text early in some places only."""
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise MalformedBody


def _field_of(message: str) -> str:
    """The field a msgspec message is about.

    `questionnaire.token` is a field inside a field; an element of a list goes by the name of the list.
    """
    at = _PATH_OF_ERROR.search(message)
    path = at["path"].partition("[")[0] if at else ""
    missing = _MISSING_FIELD.search(message)
    return ".".join(part for part in (path, missing["name"] if missing else "") if part)
