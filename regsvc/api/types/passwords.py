"""Types of the routes for a user's own password."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from regsvc.api.types.captcha import CaptchaProtectedRequest
from regsvc.api.types.messages import Email, Password, Reply, Request, Username, Warnings
from regsvc.api.types.registration import Status

LinkToken = Annotated[str, Meta(description="The part of the link after the #.", examples=["7.c2VjcmV0"])]


class ChangePasswordRequest(Request, frozen=True, kw_only=True):
    current_password: Password
    new_password: Password


class ChangePasswordReply(Reply, frozen=True, kw_only=True):
    """The password was changed. All sessions have ended, including the current one."""

    warnings: Warnings


class ForgotPasswordRequest(CaptchaProtectedRequest, frozen=True, kw_only=True):
    email: Email


class ResetPasswordRequest(Request, frozen=True, kw_only=True):
    token: LinkToken
    new_password: Password


class ResetPasswordReply(Reply, frozen=True, kw_only=True):
    """The user whose password was set."""

    username: Username
    status: Status
    warnings: Warnings
