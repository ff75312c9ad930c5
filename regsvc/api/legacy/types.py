"""Requests and replies that differ under `http.legacy_status`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from regsvc.api.types.admin import UserFields
from regsvc.api.types.captcha import CaptchaProtectedRequest
from regsvc.api.types.messages import (
    Email,
    EpochMilliseconds,
    Output,
    Pagination,
    Password,
    Reply,
    Request,
    Username,
    Warnings,
)
from regsvc.api.types.registration import Code, Status
from regsvc.api.types.server import GameServerFields, OnlinePlayersFields


class SessionKeptReply(Reply, frozen=True, kw_only=True):
    """The password was changed. All other sessions have ended."""

    warnings: Warnings


class SendAnyCodeRequest(CaptchaProtectedRequest, frozen=True, kw_only=True):
    """The address to mail a code to. Without a purpose it is `change_email` for a user who is logged in."""

    email: Email
    purpose: Literal["register", "change_email", "unlink"] | None = None


class UpdateEmailRequest(Request, frozen=True, kw_only=True):
    """The e-mail address, and if it is a new one the code that was mailed to it."""

    email: Email
    code: Code = ""
    current_password: Password | None = None


class UserWithIdFields(UserFields, frozen=True, kw_only=True):
    """A user as shown to admins; `id` is what `userId` may be in decisions."""

    id: Username


class UsersWithIdReply(Reply, frozen=True, kw_only=True):
    """A page of users; `nextCursor` is null on the last page."""

    users: list[UserWithIdFields]
    next_cursor: str | None
    pagination: Pagination


class PlainAuditFields(Output, frozen=True, kw_only=True):
    """An action by `operator` on `target`. `detail` is the reason, or empty."""

    id: Annotated[int, Meta(examples=[1])]
    action: Annotated[str, Meta(examples=["approve"])]
    operator: Annotated[str, Meta(examples=["Olivia"])]
    target: Annotated[str, Meta(examples=["Alice"])]
    detail: Annotated[str, Meta(examples=["Welcome"])]
    ip: Annotated[str, Meta(examples=["192.0.2.1"])] | None
    timestamp: EpochMilliseconds


class PlainAuditsReply(Reply, frozen=True, kw_only=True):
    """The newest audit entries, for front ends that page and filter themselves."""

    audits: list[PlainAuditFields]


class OnlinePlayerFields(Output, frozen=True, kw_only=True):
    """A player online; `uuid` is empty if the server did not send it."""

    name: Username
    uuid: Annotated[str, Meta(examples=["4566e69f-c907-48ee-8d71-d7ba5aa00d20"])]


class ListedPlayersFields(OnlinePlayersFields, frozen=True, kw_only=True):
    """The number of players online; null while the server does not answer."""

    names: list[OnlinePlayerFields] | UnsetType = msgspec.field(default=UNSET, name="list")  # type: ignore[assignment]


class ServerWithPlayersFields(GameServerFields, frozen=True, kw_only=True):
    """The game server's last answer. While it does not answer, `online` is false and the rest null."""

    players: ListedPlayersFields


class ServerWithPlayersReply(Reply, frozen=True, kw_only=True):
    data: ServerWithPlayersFields


class WhitelistReply(Reply, frozen=True, kw_only=True):
    """Whether a name is registered, and its status."""

    found: Annotated[bool, Meta(examples=[True])]
    username: Username | UnsetType = UNSET
    status: Status | Literal["not_registered"]
