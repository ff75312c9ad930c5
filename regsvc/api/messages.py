"""Base types and common fields of all requests and replies, camelCase on the wire.

The types validate requests, serialize replies and become the OpenAPI document (`regsvc.api.openapi`). They check the
form of a field; whether a name, e-mail address or password is acceptable is decided by the services.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Annotated, Any, Final, TypeVar, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from regsvc.core.text import clean_name

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

EpochMilliseconds = Annotated[
    int,
    Meta(
        ge=0,
        le=253_402_300_799_999,  # the end of the year 9999
        description="Milliseconds since 1970-01-01, UTC.",
        examples=[1_790_000_000_000],
    ),
]
PageNumber = Annotated[int, Meta(ge=1, le=2**31 - 1, description="The page number, from 1.", examples=[1])]
PageSize = Annotated[int, Meta(ge=1, le=100, description="The number of entries per page.", examples=[20])]
Language = Annotated[str, Meta(description="A language tag.", examples=["en"])]
Username = Annotated[str, Meta(description="The player's name.", examples=["Alice"], extra={"is_name": True})]
"""In a request, white space at its ends is removed: see `Request`."""
Email = Annotated[str, Meta(description="An e-mail address.", examples=["alice@example.org"])]
Totp = Annotated[
    str,
    Meta(
        description="A code of the authenticator app, or a recovery code, if there is a second factor.",
        examples=["123456"],
    ),
]
Password = Annotated[str, Meta(extra_json_schema={"format": "password"}, examples=["correct-horse"])]
InvitationToken = Annotated[
    str, Meta(description="The part of an invitation's link after `#invite=`.", max_length=100, examples=["7.k3…"])
]
InvitationGrant = Annotated[
    str, Meta(extra_json_schema={"enum": ["no_questionnaire", "no_review"]}, examples=["no_questionnaire"])
]
Status = Annotated[
    str, Meta(extra_json_schema={"enum": ["pending", "approved", "rejected", "banned"]}, examples=["approved"])
]
Platform = Annotated[str, Meta(extra_json_schema={"enum": ["java", "bedrock"]}, examples=["java"])]
Code = Annotated[str, Meta(description="The mailed verification code.", examples=["123456"])]
Proof = Annotated[
    str,
    Meta(
        description="What `POST /api/verify/check` gave in exchange for a code.",
        examples=["7.x0Tq3L1zV8pG5cH2mB5kTyR3v0cY2mB5kTpJ7Vd0cVbq8.1790003600"],
    ),
]
CodeProof = Annotated[Proof, Meta(description="In place of the code.")]
WaitingFor = Annotated[
    str,
    Meta(
        extra_json_schema={"enum": ["review", "applicant"]},
        description="`applicant`: the team asked something and waits for the answer.",
        examples=["review"],
    ),
]
Warnings = Annotated[
    list[str],
    Meta(
        description="The request succeeded, but not everything has taken effect yet. player_pending: AuthMe's table is "
        "busy; the change is saved and will be applied. player_locked: the user may play, but the name's row in "
        "AuthMe's table is another player's, or locked; a locked one opens once a password is set. "
        "still_online_rcon_off: the player seems to be in the game and cannot be kicked. authme_cache_on: AuthMe may "
        "use old data, also an old password, for up to 15 minutes after it last looked the player up. not_mailed: no "
        "mail could be sent, as the user has no address, or gave one without proof.",
        examples=[["player_pending"]],
    ),
]


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


class Output(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """Base of all structs in replies. A field is always present, unless its type includes `UnsetType`."""

    def __repr__(self) -> str:
        """Omit the values: they may be tokens."""
        return f"<{type(self).__name__}>"


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

    Times become epoch milliseconds, tuples lists. `overrides` has the fields that the record lacks, or that differ in
    the reply. `success` and `message` never come from the record.
    """
    fields = dict(overrides)
    for name, inner in _record_fields(kind):
        if name not in overrides:
            fields[name] = _to_field(getattr(record, name), inner)
    return kind(**fields)


def _to_field(value: object, inner: type[Output] | None) -> object:
    if isinstance(value, datetime):
        return milliseconds_of(value)
    if isinstance(value, tuple | list):
        return [_to_field(member, inner) for member in value]
    return value if value is None or inner is None else to_reply(inner, value)


@cache
def _record_fields(kind: type[Output]) -> tuple[tuple[str, type[Output] | None], ...]:
    """Return the fields that a record fills, each with the type of reply within it, if there is one."""
    fields = msgspec.structs.fields(kind)
    return tuple((field.name, _find_output(field.type)) for field in fields if field.name not in _ENVELOPE)


def _find_output(annotation: Any) -> type[Output] | None:
    if isinstance(annotation, type) and issubclass(annotation, Output):
        return annotation
    return next(filter(None, map(_find_output, get_args(annotation))), None)


def to_datetime(milliseconds: int | None) -> datetime | None:
    """Convert epoch milliseconds to a UTC time; None stays None."""
    return None if milliseconds is None else EPOCH + timedelta(milliseconds=milliseconds)


def epoch_milliseconds(at: datetime | None) -> int | None:
    """Convert a time to epoch milliseconds, its form in JSON; None stays None. Raises TypeError for a naive time."""
    return None if at is None else milliseconds_of(at)


def milliseconds_of(at: datetime) -> int:
    """Convert a time to epoch milliseconds; raises TypeError for a naive time."""
    return (at - EPOCH) // timedelta(milliseconds=1)
