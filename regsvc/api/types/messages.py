"""What all requests and replies have in common; their types stand in `<group>_types.py`, camelCase on the wire.

The types validate requests, serialise replies and become the API's description (`regsvc.api.openapi`). They say what a
field *is*; whether a name, e-mail or password is acceptable is a matter of the rules.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

EpochMilliseconds = Annotated[
    int,
    Meta(
        ge=0,
        le=253_402_300_799_999,  # the end of the year 9999
        description="Milliseconds since the beginning of 1970, UTC.",
        examples=[1_790_000_000_000],
    ),
]
PageNumber = Annotated[int, Meta(ge=1, le=2**31 - 1, description="Which page; the first is 1.", examples=[1])]
PageSize = Annotated[int, Meta(ge=1, le=100, description="How many on a page.", examples=[20])]
Language = Annotated[str, Meta(description="A language tag.", examples=["en"])]
Username = Annotated[str, Meta(description="The player's name.", examples=["Alice"])]
Email = Annotated[str, Meta(description="An e-mail address.", examples=["alice@example.org"])]
Password = Annotated[str, Meta(extra_json_schema={"format": "password"}, examples=["correct-horse"])]
Warnings = Annotated[
    list[str],
    Meta(
        description="What the caller should know: done, but not all the way yet. player_pending: AuthMe's table is "
        "busy; the wish is committed. still_online_rcon_off: the player seems to be in the game, and nobody can throw "
        "him out. authme_cache_on: AuthMe goes by what it remembers for up to a quarter of an hour.",
        examples=[["player_pending"]],
    ),
]


class Request(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """The base of all bodies and queries. Unknown fields are ignored; `language` is the one to answer in."""

    language: Annotated[str, Meta(description="The language to answer in.", examples=["en"])] | None = None

    def __repr__(self) -> str:
        """Without the values: they may be passwords, codes or tokens."""
        return f"<{type(self).__name__}>"


class Output(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """The base of everything in a reply. A field is always there, unless its type names `UnsetType`."""

    def __repr__(self) -> str:
        """Without the values: they may be tokens."""
        return f"<{type(self).__name__}>"


class Reply(Output, frozen=True, kw_only=True):
    """The base of all replies that are no refusals. `message` is in the caller's language."""

    success: Annotated[bool, Meta(extra_json_schema={"const": True}, examples=[True])] = True
    message: Annotated[str, Meta(description="For people, in their language.", examples=["Done."])] | UnsetType = UNSET


class MessageReply(Reply, frozen=True, kw_only=True):
    """Nothing but that it was done."""

    message: Annotated[str, Meta(description="For people, in their language.", examples=["Done."])]


class Pagination(Output, frozen=True, kw_only=True):
    """Where a page lies. `totalCount` and `totalPages` are null where counting would take too long."""

    current_page: Annotated[int, Meta(examples=[1])] | None
    page_size: Annotated[int, Meta(examples=[20])]
    total_count: Annotated[int, Meta(examples=[1])] | None
    total_pages: Annotated[int, Meta(examples=[1])] | None
    has_next: Annotated[bool, Meta(examples=[False])]
    has_prev: Annotated[bool, Meta(examples=[False])]


def to_datetime(milliseconds: int | None) -> datetime | None:
    """The UTC time of epoch milliseconds; None stays None."""
    return None if milliseconds is None else EPOCH + timedelta(milliseconds=milliseconds)


def epoch_milliseconds(at: datetime | None) -> int | None:
    """The form times have in JSON; None stays None. Naive times are refused with TypeError."""
    return None if at is None else milliseconds_of(at)


def milliseconds_of(at: datetime) -> int:
    """The same for a time that is there."""
    return (at - EPOCH) // timedelta(milliseconds=1)
