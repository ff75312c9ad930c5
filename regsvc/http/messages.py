"""Base types and common fields of all requests and replies, camelCase on the wire.

The types validate requests, serialize replies and become the OpenAPI document (`regsvc.http.openapi`). They check the
form of a field; whether a name, e-mail address or password is acceptable is decided by the services.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Final, NoReturn, TypeVar, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from regsvc.core.errors import InvalidField, MalformedBody
from regsvc.core.shapes import Output, Username
from regsvc.core.text import clean_name

PageNumber = Annotated[int, Meta(ge=1, le=2**31 - 1, description="The page number, from 1.", examples=[1])]
PageSize = Annotated[int, Meta(ge=1, le=100, description="The number of entries per page.", examples=[20])]
Language = Annotated[str, Meta(description="A language tag.", examples=["en"])]
Email = Annotated[str, Meta(description="An e-mail address.", examples=["alice@example.org"])]
Password = Annotated[str, Meta(extra_json_schema={"format": "password"}, examples=["correct-horse"])]
Status = Annotated[
    str, Meta(extra_json_schema={"enum": ["pending", "approved", "rejected", "banned"]}, examples=["approved"])
]
Platform = Annotated[str, Meta(extra_json_schema={"enum": ["java", "bedrock"]}, examples=["java"])]


class Request(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """Base of all bodies and queries. Unknown fields are ignored; `language` is the one to answer in.

    Fields of the type `Username` are clean (`clean_name`), whatever the client sent.
    """

    language: Annotated[str, Meta(description="The language to answer in.", examples=["en"])] | None = None

    def __post_init__(self) -> None:
        for field in name_fields(type(self)):
            value = getattr(self, field)
            if isinstance(value, str):
                msgspec.structs.force_setattr(self, field, clean_name(value))
            elif isinstance(value, list):
                msgspec.structs.force_setattr(self, field, [clean_name(name) for name in value])

    def __repr__(self) -> str:
        """Omit the values: they may be passwords, codes or tokens."""
        return f"<{type(self).__name__}>"


@cache
def name_fields(request_type: type[Request]) -> tuple[str, ...]:
    """Return the fields of the type `Username`, optional ones and lists included."""
    info = msgspec.inspect.type_info(request_type)
    assert isinstance(info, msgspec.inspect.StructType)
    return tuple(field.name for field in info.fields if _is_name(field.type))


def _is_name(kind: msgspec.inspect.Type) -> bool:
    if isinstance(kind, msgspec.inspect.Metadata):
        return bool((kind.extra or {}).get("is_name")) or _is_name(kind.type)
    if isinstance(kind, msgspec.inspect.UnionType):
        return any(map(_is_name, kind.types))
    return isinstance(kind, msgspec.inspect.ListType) and _is_name(kind.item_type)


class NameQuery(Request, frozen=True, kw_only=True):
    """The user's name, in any case."""

    username: Username


class Reply(Output, frozen=True, kw_only=True):
    """Base of all successful replies. `message` is in the caller's language."""

    success: Annotated[bool, Meta(extra_json_schema={"const": True}, examples=[True])] = True
    message: Annotated[str, Meta(description="For people, in their language.", examples=["Done."])] | UnsetType = UNSET


class MessageReply(Reply, frozen=True, kw_only=True):
    """A success without further data."""

    message: Annotated[str, Meta(description="For people, in their language.", examples=["Done."])]


class Pagination(Output, frozen=True, kw_only=True):
    """The position of a page. `totalCount` and `totalPages` are null if counting would take too long."""

    current_page: Annotated[int, Meta(examples=[1])] | None
    page_size: Annotated[int, Meta(examples=[20])]
    total_count: Annotated[int, Meta(examples=[1])] | None
    total_pages: Annotated[int, Meta(examples=[1])] | None
    has_next: Annotated[bool, Meta(examples=[False])]
    has_prev: Annotated[bool, Meta(examples=[False])]


Plain = TypeVar("Plain", bound=Output)

_ENVELOPE: Final = frozenset(Reply.__struct_fields__)


def to_reply(kind: type[Plain], record: object, **overrides: object) -> Plain:
    """Return a reply type filled from the record's attributes, and the types within it from theirs.

    Tuples become lists. `overrides` has the fields that the record lacks, or that differ in the reply. What a record
    has beyond the reply, which it may extend, is not sent. `success` and `message` never come from the record.
    """
    fields = dict(overrides)
    for name, inner in _record_fields(kind):
        if name not in overrides:
            fields[name] = _to_field(getattr(record, name), inner)
    return kind(**fields)


def _to_field(value: object, inner: type[Output] | None) -> object:
    if isinstance(value, tuple | list):
        return [_to_field(member, inner) for member in value]
    if value is None or value is UNSET or inner is None or type(value) is inner:
        return value
    return to_reply(inner, value)


@cache
def _record_fields(kind: type[Output]) -> tuple[tuple[str, type[Output] | None], ...]:
    """Return the fields that a record fills, each with the type of reply within it, if there is one."""
    fields = msgspec.structs.fields(kind)
    return tuple((field.name, _find_output(field.type)) for field in fields if field.name not in _ENVELOPE)


def _find_output(annotation: Any) -> type[Output] | None:
    if isinstance(annotation, type) and issubclass(annotation, Output):
        return annotation
    return next(filter(None, map(_find_output, get_args(annotation))), None)


Count = Annotated[int, Meta(ge=0, examples=[1])]


def make_pagination(page: int | None, size: int, total: int | None, *, has_next: bool) -> Pagination:
    """Return the position of a page of this size.

    `page`: None if it was reached by a cursor. `total`: of the entries; None: not counted.
    """
    return Pagination(
        current_page=page,
        page_size=size,
        total_count=total,
        total_pages=None if total is None else -(-total // size),
        has_next=has_next,
        has_prev=page != 1,
    )


# --- Strict conversion of bodies and queries to typed requests ---
# JSON that two parsers might read differently is refused: a proxy that checks requests might read a duplicate key or
# an odd number one way, and this service another way.


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
    """Parse the JSON object in a body; an empty body counts as `{}`. Raises MalformedBody.

    A byte order mark before it is ignored, as RFC 8259 allows: .NET and PowerShell write one.
    """
    body = body.removeprefix(codecs.BOM_UTF8)
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


def convert_query(query: Mapping[str, Sequence[str]], query_type: type[Query]) -> Query:
    """Convert a query to a request type, parsing its numbers and booleans from text; raises InvalidField."""
    texts = {}
    for name, values in query.items():
        if name in query_type.__struct_encode_fields__:
            if len(values) > 1:
                raise InvalidField(name)
            texts[name] = values[0]
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
