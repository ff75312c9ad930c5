"""Routes to log in as a user or an admin, to log out, and to verify an admin's token."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import UNSET, Meta, UnsetType

from regsvc.api.base import ApiHandler, to_reply
from regsvc.api.endpoint import endpoint
from regsvc.api.handlers.captcha import CAPTCHA_REFUSALS, CaptchaProtectedRequest
from regsvc.api.handlers.chat import ChatClaimFields, LinkToken, claim_at_login
from regsvc.api.handlers.registration import Status
from regsvc.api.types.messages import (
    Email,
    EpochMilliseconds,
    MessageReply,
    Password,
    Reply,
    Request,
    Username,
    milliseconds_of,
)
from regsvc.core import errors
from regsvc.core.caller import Audience, VerifiedSession
from regsvc.core.errors import Category, Refusal

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


LOGIN_REFUSALS: Final = (
    errors.BadCredentials,
    errors.TotpRequired,
    errors.Banned,
    *CAPTCHA_REFUSALS,
    errors.AuthMeUnavailable,
)


class LoginHandler(ApiHandler):
    @endpoint(*LOGIN_REFUSALS)
    async def post(self, request: LoginRequest) -> LoginReply:
        """Log in as a user. Pending and rejected users can log in, too, to see their status."""
        return await self.log_in(request, "user")

    async def log_in(self, request: LoginRequest, audience: Audience | None) -> LoginReply:
        logged_in = await self.services.logins.log_in(
            request.username, request.password, audience, self.caller, totp=request.totp, captcha=request.captcha
        )
        chat = await claim_at_login(self, logged_in.username, request.link_token)
        return to_reply(LoginReply, logged_in, chat=chat)


class AdminLoginHandler(LoginHandler):
    @endpoint(*LOGIN_REFUSALS, errors.NotOperator, errors.TotpSetupRequired)
    async def post(self, request: LoginRequest) -> LoginReply:
        """Log in as an admin, an approved user who is an operator of the game server."""
        return await self.log_in(request, "admin")


class LogoutHandler(ApiHandler):
    @endpoint()
    async def post(self) -> MessageReply:
        """Log out and end this session."""
        await self.run(self.services.logins.log_out, self.require_session(), self.caller.address)
        return MessageReply(message=self.message("logged_out"))


class AdminVerifyHandler(ApiHandler):
    @endpoint()
    async def get(self) -> ValidTokenReply:
        """Verify that the token in the header is an admin's. Any other token is refused, as on every admin route."""
        return _valid(self.require_admin())

    @endpoint()
    async def post(self, request: VerifyTokenRequest) -> ValidTokenReply | InvalidTokenReply:
        """Verify whether the token in the body is an admin's."""
        try:
            return _valid(await self.run(self.services.sessions.authenticate_admin, request.token, self.caller))
        except Refusal as refusal:
            if refusal.category not in (Category.UNAUTHENTICATED, Category.FORBIDDEN):
                raise
            message = self.services.translations.refusal(refusal, self.language)
            return InvalidTokenReply(code=refusal.code, message=message)


def _valid(admin: VerifiedSession) -> ValidTokenReply:
    return ValidTokenReply(username=admin.username, expires_at=milliseconds_of(admin.expires_at))
