"""Types of the login routes."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from regsvc.api.types.captcha import CaptchaProtectedRequest
from regsvc.api.types.chat import ChatClaimFields, LinkToken
from regsvc.api.types.messages import Email, EpochMilliseconds, Password, Reply, Request, Username
from regsvc.api.types.registration import Status

AccessToken = Annotated[str, Meta(description="Sent as `Authorization: Bearer …`.", examples=["eyJhbGciOi…"])]


class LoginRequest(CaptchaProtectedRequest, frozen=True, kw_only=True):
    """`username` may be an e-mail address; `totp` is a code of the authenticator app, or a recovery code."""

    username: Annotated[Username, Meta(description="The name or the e-mail address.", min_length=1, examples=["Alice"])]
    password: Annotated[Password, Meta(min_length=1)]
    totp: Annotated[str, Meta(examples=["123456"])] | None = None
    link_token: LinkToken | None = None


class LoginReply(Reply, frozen=True, kw_only=True):
    """An access token, and the user it belongs to."""

    token: AccessToken
    expires_at: EpochMilliseconds
    username: Username
    email: Email | None
    status: Status
    is_admin: Annotated[bool, Meta(description="Whether the user can log in as an admin.", examples=[False])]
    chat: Annotated[ChatClaimFields, Meta(description="Present if a link token was sent.")] | UnsetType = UNSET


class VerifyTokenRequest(Request, frozen=True, kw_only=True):
    """A token to verify, for front ends that send it in the body."""

    token: AccessToken


class ValidTokenReply(Reply, frozen=True, kw_only=True):
    """The token is currently valid on admin routes."""

    valid: Annotated[bool, Meta(extra_json_schema={"const": True}, examples=[True])] = True
    username: Username
    expires_at: EpochMilliseconds


class InvalidTokenReply(Reply, frozen=True, kw_only=True):
    """The reason why the token is not valid on admin routes."""

    success: Annotated[bool, Meta(extra_json_schema={"const": False}, examples=[False])] = False
    valid: Annotated[bool, Meta(extra_json_schema={"const": False}, examples=[False])] = False
    code: Annotated[str, Meta(examples=["unauthorized"])]
    message: Annotated[str, Meta(examples=["Please log in."])]
