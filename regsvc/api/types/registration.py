"""What the routes of registration carry."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from regsvc.api.types.captcha import CaptchaProtectedRequest
from regsvc.api.types.messages import Email, EpochMilliseconds, Output, Password, Reply, Request, Username

Status = Annotated[
    str, Meta(extra_json_schema={"enum": ["pending", "approved", "rejected", "banned"]}, examples=["approved"])
]
Platform = Annotated[str, Meta(extra_json_schema={"enum": ["java", "bedrock"]}, examples=["java"])]
Code = Annotated[str, Meta(description="The digits that were mailed.", examples=["123456"])]


class SendCodeRequest(CaptchaProtectedRequest, frozen=True, kw_only=True):
    """Whom to mail a code, and what it is to prove."""

    email: Email
    purpose: Literal["register", "change_email", "unlink"] = "register"


class SendCodeReply(Reply, frozen=True, kw_only=True):
    """The same for every address, whether or not it has an account."""

    remaining_seconds: Annotated[int, Meta(description="Until the next code may be asked for.", examples=[60])]
    expires_in_seconds: Annotated[int, Meta(description="How long the code is good for.", examples=[300])]


class QuestionnaireProof(msgspec.Struct, rename="camel", frozen=True):
    """The result of a passed questionnaire, by its token."""

    token: Annotated[str, Meta(examples=["pJ7Vd0cVbq8yR3v0cY2mB5kT"])]


class RegisterRequest(CaptchaProtectedRequest, frozen=True, kw_only=True):
    """The request to become a user; which fields beside the first three are needed, `GET /api/config` tells."""

    username: Username
    email: Email
    code: Code
    password: Password | None = None
    platform: Literal["java", "bedrock"] = "java"
    questionnaire: QuestionnaireProof | None = None
    link_token: Annotated[str, Meta(description="Of a chat account linked before; the cookie will do, too.")] | None = (
        None
    )


class RegisterReply(Reply, frozen=True, kw_only=True):
    """The new user; `pending` until an operator has looked."""

    username: Username
    email: Email
    status: Status


class StatusQuery(Request, frozen=True, kw_only=True):
    """Whose status is asked for."""

    username: Username


class UserStatusFields(Output, frozen=True, kw_only=True):
    """Strangers are told the first two; the rest is there for the owner and for admins."""

    username: Username | UnsetType = UNSET
    status: Status | UnsetType = UNSET
    reason: str | UnsetType | None = UNSET
    email: Email | UnsetType | None = UNSET
    reviewed_at: EpochMilliseconds | UnsetType | None = UNSET
    ban_expires_at: EpochMilliseconds | UnsetType | None = UNSET


class ReviewStatusReply(Reply, frozen=True, kw_only=True):
    """What became of a registration."""

    username: Username
    status: Status
    reason: str | UnsetType | None = UNSET
    email: Email | UnsetType | None = UNSET
    reviewed_at: EpochMilliseconds | UnsetType | None = UNSET
    ban_expires_at: EpochMilliseconds | UnsetType | None = UNSET


class NameStatusFields(UserStatusFields, frozen=True, kw_only=True):
    """Whether anybody has the name, and what may be told of him."""

    registered: Annotated[bool, Meta(examples=[True])]


class UserStatusReply(Reply, frozen=True, kw_only=True):
    data: NameStatusFields
