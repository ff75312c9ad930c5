"""A user's own password: changed, forgotten, set by a mailed link."""

from __future__ import annotations

from regsvc.api.base import ApiHandler
from regsvc.api.endpoint import endpoint
from regsvc.api.types.messages import Told
from regsvc.api.types.passwords import (
    ChangePasswordRequest,
    ForgotPasswordRequest,
    PasswordChanged,
    PasswordSet,
    ResetPasswordRequest,
)
from regsvc.core import errors


class ChangePasswordHandler(ApiHandler):
    @endpoint(errors.WrongPassword, errors.InvalidPassword, errors.RateLimited, errors.PlayersAway)
    async def post(self, request: ChangePasswordRequest) -> PasswordChanged:
        """Change one's own password; every session ends."""
        decided = await self.services.password_changes.change_own(
            self.require_session(), request.current_password, request.new_password, self.caller
        )
        return PasswordChanged(message=self.say("password_changed"), warnings=list(decided.warnings))


class ForgotPasswordHandler(ApiHandler):
    @endpoint(errors.InvalidEmail, errors.DomainNotAllowed, errors.RateLimited, errors.MailUnavailable)
    async def post(self, request: ForgotPasswordRequest) -> Told:
        """Mail a link that sets a new password. The answer does not tell whether the address has an account."""
        await self.services.password_changes.forgot(request.email, self.caller)
        return Told(message=self.say("forgot_sent"))


class ResetPasswordHandler(ApiHandler):
    @endpoint(errors.ResetTokenInvalid, errors.InvalidPassword)
    async def post(self, request: ResetPasswordRequest) -> PasswordSet:
        """Set a password with the token of a mailed link; every session ends."""
        decided = await self.services.password_changes.reset(request.token, request.new_password, self.caller)
        assert decided.status is not None  # who set a password is there
        return PasswordSet(
            message=self.say("password_set"),
            username=decided.username,
            status=decided.status,
            warnings=list(decided.warnings),
        )
