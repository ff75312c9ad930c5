"""What the routes of a user's own password carry."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from regsvc.api.types.messages import Email, Password, Reply, Request, Username, Warnings
from regsvc.api.types.registration import Status

LinkToken = Annotated[str, Meta(description="What stands behind the # of the mailed link.", examples=["7.c2VjcmV0"])]


class ChangePasswordRequest(Request, frozen=True, kw_only=True):
    current_password: Password
    new_password: Password


class ChangePasswordReply(Reply, frozen=True, kw_only=True):
    """Every session has ended, the caller's too."""

    warnings: Warnings


class ForgotPasswordRequest(Request, frozen=True, kw_only=True):
    email: Email


class ResetPasswordRequest(Request, frozen=True, kw_only=True):
    token: LinkToken
    new_password: Password


class ResetPasswordReply(Reply, frozen=True, kw_only=True):
    """Whose password it is now."""

    username: Username
    status: Status
    warnings: Warnings
