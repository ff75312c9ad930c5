"""Routes for a user's own password: change it, request a reset link, reset it."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from regsvc.api.base import ApiHandler, to_reply
from regsvc.api.endpoint import endpoint
from regsvc.api.handlers.captcha import CAPTCHA_REFUSALS, CaptchaProtectedRequest
from regsvc.api.handlers.registration import Status
from regsvc.api.types.messages import Email, MessageReply, Password, Reply, Request, Username, Warnings
from regsvc.core import errors

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


CHANGE_REFUSALS: Final = (errors.WrongPassword, errors.InvalidPassword, errors.RateLimited, errors.AuthMeUnavailable)


class ChangePasswordHandler(ApiHandler):
    @endpoint(*CHANGE_REFUSALS)
    async def post(self, request: ChangePasswordRequest) -> ChangePasswordReply:
        """Change your own password. This ends all of your sessions."""
        decided = await self.services.password_changes.change_own(
            self.require_session(), request.current_password, request.new_password, self.caller
        )
        return to_reply(ChangePasswordReply, decided, message=self.message("password_changed"))


class ForgotPasswordHandler(ApiHandler):
    @endpoint(errors.InvalidEmail, errors.DomainNotAllowed, *CAPTCHA_REFUSALS, errors.MailUnavailable)
    async def post(self, request: ForgotPasswordRequest) -> MessageReply:
        """Mail a link to set a new password. The response does not reveal whether the address has an account."""
        await self.services.password_mails.forgot(request.email, self.caller, request.captcha)
        return MessageReply(message=self.message("forgot_sent"))


class ResetPasswordHandler(ApiHandler):
    @endpoint(errors.ResetTokenInvalid, errors.InvalidPassword)
    async def post(self, request: ResetPasswordRequest) -> ResetPasswordReply:
        """Set a password with the token of a link. This ends all of the user's sessions."""
        decided = await self.services.password_changes.reset(request.token, request.new_password, self.caller)
        assert decided.status is not None  # only deleted users have none
        return ResetPasswordReply(
            message=self.message("password_set"),
            username=decided.username,
            status=decided.status,
            warnings=list(decided.warnings),
        )
