"""A user's own password: changed, forgotten, set by a mailed link."""

from __future__ import annotations

from regsvc.api.base import ApiHandler
from regsvc.api.requests import ChangePasswordRequest, ForgotPasswordRequest, ResetPasswordRequest


class ChangePasswordHandler(ApiHandler):
    async def post(self) -> None:
        request, session = self.body(ChangePasswordRequest), self.require_session()
        decided = await self.services.password_changes.change_own(
            session, request.current_password, request.new_password, self.caller
        )
        self.reply(message="password_changed", warnings=list(decided.warnings))


class ForgotPasswordHandler(ApiHandler):
    async def post(self) -> None:
        await self.services.password_changes.forgot(self.body(ForgotPasswordRequest).email, self.caller)
        self.reply(message="forgot_sent")


class ResetPasswordHandler(ApiHandler):
    async def post(self) -> None:
        request = self.body(ResetPasswordRequest)
        decided = await self.services.password_changes.reset(request.token, request.new_password, self.caller)
        self.reply(
            message="password_set", username=decided.username, status=decided.status, warnings=list(decided.warnings)
        )
