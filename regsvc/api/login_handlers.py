"""The two logins, and the end of a session."""

from __future__ import annotations

from typing import ClassVar

from regsvc.api.base import ApiHandler
from regsvc.api.requests import LoginRequest, VerifyTokenRequest, epoch_milliseconds
from regsvc.errors import InvalidField, Refusal
from regsvc.records import Audience


class LoginHandler(ApiHandler):
    audience: ClassVar[Audience] = "user"

    async def post(self) -> None:
        request = self.body(LoginRequest)
        for field in ("username", "password"):
            if not getattr(request, field):
                raise InvalidField(field)
        logged_in = await self.services.logins.log_in(request.username, request.password, self.audience, self.caller)
        self.reply(
            token=logged_in.token,
            expiresAt=epoch_milliseconds(logged_in.expires_at),
            username=logged_in.username,
            email=logged_in.email,
            status=logged_in.status,
            isAdmin=logged_in.is_admin,
        )


class AdminLoginHandler(LoginHandler):
    audience: ClassVar[Audience] = "admin"


class LogoutHandler(ApiHandler):
    async def post(self) -> None:
        await self.run(self.services.accounts.log_out, self.require_session(), self.caller.address)
        self.reply(message="logged_out")


class AdminVerifyHandler(ApiHandler):
    """GET looks at the token in the header, as every route does; POST at one in the body."""

    async def get(self) -> None:
        admin = self.require_admin()
        self.reply(valid=True, username=admin.username, expiresAt=epoch_milliseconds(admin.expires_at))

    async def post(self) -> None:
        token = self.body(VerifyTokenRequest).token
        try:
            admin = await self.run(self.services.tokens.authenticate_admin, token, self.caller)
        except Refusal as refusal:
            if refusal.category not in (401, 403):
                raise
            self.reply_with(self.refusal_body(refusal) | {"valid": False})
            return
        self.reply(valid=True, username=admin.username, expiresAt=epoch_milliseconds(admin.expires_at))
