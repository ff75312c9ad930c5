"""Routes to log in and out, and for the proofs that a login asks for: passwords and second factors."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import UNSET, Meta, UnsetType

from regsvc.api.base import ApiHandler
from regsvc.api.chat import ChatClaimFields, LinkToken, claim_at_login
from regsvc.api.messages import (
    Email,
    EpochMilliseconds,
    MessageReply,
    Password,
    Reply,
    Request,
    Status,
    Totp,
    Username,
    Warnings,
    milliseconds_of,
    to_reply,
)
from regsvc.api.registration import CAPTCHA_REFUSALS, CaptchaProtectedRequest
from regsvc.api.route import ADMIN, PUBLIC, USER, Routes
from regsvc.core import errors
from regsvc.core.caller import Audience, VerifiedSession
from regsvc.core.rights import Permission

ROUTES: Final = Routes()

Permissions = Annotated[
    list[Annotated[str, Meta(extra_json_schema={"enum": [it.value for it in Permission]}, examples=["users.read"])]],
    Meta(description="What the user may do on `/api/admin`; empty for players."),
]
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
    is_admin: Annotated[bool, Meta(description="Whether the user can log in at /admin.", examples=[False])]
    permissions: Permissions
    chat: Annotated[ChatClaimFields, Meta(description="Present if a link token was sent.")] | UnsetType = UNSET


class ValidTokenReply(Reply, frozen=True, kw_only=True):
    """The token is currently valid on admin routes."""

    valid: Annotated[bool, Meta(extra_json_schema={"const": True}, examples=[True])] = True
    username: Username
    expires_at: EpochMilliseconds
    permissions: Permissions


LOGIN_REFUSALS: Final = (
    errors.BadCredentials,
    errors.TotpRequired,
    errors.Banned,
    *CAPTCHA_REFUSALS,
    errors.AuthMeUnavailable,
)


@ROUTES.add("POST", "/api/login", PUBLIC, *LOGIN_REFUSALS)
async def log_in(call: ApiHandler, request: LoginRequest) -> LoginReply:
    """Log in as a user. Pending and rejected users can log in, too, to see their status."""
    return await log_in_to(call, request, "user")


async def log_in_to(call: ApiHandler, request: LoginRequest, audience: Audience | None) -> LoginReply:
    logged_in = await call.services.logins.log_in(
        request.username, request.password, audience, call.caller, totp=request.totp, captcha=request.captcha
    )
    chat = await claim_at_login(call, logged_in.username, request.link_token)
    return to_reply(LoginReply, logged_in, chat=chat, permissions=sorted(logged_in.rights.permissions))


@ROUTES.add("POST", "/api/admin/login", PUBLIC, *LOGIN_REFUSALS, errors.NotOperator, errors.TotpSetupRequired)
async def log_in_as_admin(call: ApiHandler, request: LoginRequest) -> LoginReply:
    """Log in as a member of the team: an approved user who is an operator of the game server, or has a role."""
    return await log_in_to(call, request, "admin")


@ROUTES.add("POST", "/api/logout", USER)
async def log_out(call: ApiHandler) -> MessageReply:
    """Log out and end this session."""
    await call.run(call.services.logins.log_out, call.require_session(), call.caller)
    return MessageReply(message=call.message("logged_out"))


@ROUTES.add("GET", "/api/admin/verify", ADMIN)
async def verify_admin(call: ApiHandler) -> ValidTokenReply:
    """Verify that the token in the header is an admin's. Any other token is refused, as on every admin route."""
    return valid_token(call.require_admin())


def valid_token(admin: VerifiedSession) -> ValidTokenReply:
    return ValidTokenReply(
        username=admin.username,
        expires_at=milliseconds_of(admin.expires_at),
        permissions=sorted(admin.rights.permissions),
    )


# --- Passwords ---

PasswordLinkToken = Annotated[str, Meta(description="The part of the link after the #.", examples=["7.c2VjcmV0"])]


class ChangePasswordRequest(Request, frozen=True, kw_only=True):
    current_password: Password
    new_password: Password


class ChangePasswordReply(Reply, frozen=True, kw_only=True):
    """The password was changed, and sessions have ended."""

    warnings: Warnings


class ForgotPasswordRequest(CaptchaProtectedRequest, frozen=True, kw_only=True):
    email: Email


class ResetPasswordRequest(Request, frozen=True, kw_only=True):
    token: PasswordLinkToken
    new_password: Password


class ResetPasswordReply(Reply, frozen=True, kw_only=True):
    """The user whose password was set."""

    username: Username
    status: Status
    warnings: Warnings


CHANGE_REFUSALS: Final = (errors.WrongPassword, errors.InvalidPassword, errors.RateLimited, errors.AuthMeUnavailable)


@ROUTES.add("POST", "/api/user/password", USER, *CHANGE_REFUSALS)
async def change_password(call: ApiHandler, request: ChangePasswordRequest) -> ChangePasswordReply:
    """Change your own password. This ends all of your sessions."""
    decided = await call.services.password_changes.change_own(
        call.require_session(), request.current_password, request.new_password, call.caller
    )
    return to_reply(ChangePasswordReply, decided, message=call.message("password_changed"))


FORGOT_REFUSALS: Final = (
    errors.InvalidEmail,
    errors.DomainNotAllowed,
    *CAPTCHA_REFUSALS,
    errors.MailUnavailable,
)


@ROUTES.add("POST", "/api/password/forgot", PUBLIC, *FORGOT_REFUSALS)
async def forgot_password(call: ApiHandler, request: ForgotPasswordRequest) -> MessageReply:
    """Mail a link to set a new password. The response does not reveal whether the address has an account."""
    await call.services.password_mails.forgot(request.email, call.caller, request.captcha)
    return MessageReply(message=call.message("forgot_sent"))


@ROUTES.add("POST", "/api/password/reset", PUBLIC, errors.ResetTokenInvalid, errors.InvalidPassword)
async def reset_password(call: ApiHandler, request: ResetPasswordRequest) -> ResetPasswordReply:
    """Set a password with the token of a link. This ends all of the user's sessions."""
    decided = await call.services.password_changes.reset(request.token, request.new_password, call.caller)
    assert decided.status is not None  # only deleted users have none
    return ResetPasswordReply(
        message=call.message("password_set"),
        username=decided.username,
        status=decided.status,
        warnings=list(decided.warnings),
    )


# --- Second factors ---

RecoveryCodeList = Annotated[
    list[str],
    Meta(description="Each stands in for a code once. They are in this reply only.", examples=[["0417 9920 3186"]]),
]
IsInGame = Annotated[bool, Meta(description="Whether AuthMe asks for the same codes in the game.", examples=[True])]


class SecondFactorReply(Reply, frozen=True, kw_only=True):
    """The second factor of the user. `required`: without it, the user cannot log in as an admin."""

    enabled: Annotated[bool, Meta(description="Whether a login needs a code.", examples=[True])]
    in_game: Annotated[bool, Meta(description="Whether AuthMe asks for one in the game.", examples=[True])]
    required: bool
    recovery_codes_left: Annotated[int, Meta(ge=0, examples=[10])]


class BeginSecondFactorRequest(Request, frozen=True, kw_only=True):
    current_password: Password


class BeginSecondFactorReply(Reply, frozen=True, kw_only=True):
    """A new secret for an authenticator app, as text and as a QR code. It counts once a code confirms it."""

    secret: Annotated[str, Meta(description="In Base32.", examples=["JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"])]
    uri: Annotated[str, Meta(examples=["otpauth://totp/Server:Alice?secret=JBSWY3DP&issuer=Server"])]
    image: Annotated[str, Meta(description="The QR code.", examples=["data:image/png;base64,…"])]


class ConfirmSecondFactorRequest(Request, frozen=True, kw_only=True):
    """The password once more, and a code of the app."""

    current_password: Password
    totp: Annotated[str, Meta(examples=["123456"])]


class ConfirmSecondFactorReply(Reply, frozen=True, kw_only=True):
    recovery_codes: RecoveryCodeList
    in_game: IsInGame


class SecondFactorRequest(Request, frozen=True, kw_only=True):
    """The current password, and a code of the app or a recovery code."""

    current_password: Password
    totp: Totp | None = None


class RecoveryCodesReply(Reply, frozen=True, kw_only=True):
    recovery_codes: RecoveryCodeList


class SwitchOffSecondFactorReply(Reply, frozen=True, kw_only=True):
    """`inGame`: the player has set up another one with AuthMe, which logins need from now on."""

    in_game: bool


_PASSWORD_REFUSALS: Final = (errors.WrongPassword, errors.RateLimited, errors.AuthMeUnavailable)


@ROUTES.add("GET", "/api/user/totp", USER, errors.AuthMeUnavailable)
async def show_second_factor(call: ApiHandler) -> SecondFactorReply:
    """Tell whether you have a second factor, set up here or in the game, and how many recovery codes are left."""
    state = await call.run(call.services.second_factor.describe, call.require_session())
    return SecondFactorReply(
        enabled=state.is_enabled,
        in_game=state.is_in_game,
        required=state.is_required,
        recovery_codes_left=state.recovery_codes_left,
    )


@ROUTES.add("POST", "/api/user/totp/begin", USER, *_PASSWORD_REFUSALS, errors.TotpAlreadyOn)
async def begin_second_factor(call: ApiHandler, request: BeginSecondFactorRequest) -> BeginSecondFactorReply:
    """Make the secret of a new second factor. It does not count until `confirm`; an earlier one is void."""
    setup = call.services.second_factor
    entry = await setup.begin(call.require_session(), request.current_password, call.caller)
    return BeginSecondFactorReply(secret=entry.secret, uri=entry.uri, image=entry.image)


@ROUTES.add(
    "POST",
    "/api/user/totp/confirm",
    USER,
    *_PASSWORD_REFUSALS,
    errors.TotpAlreadyOn,
    errors.TotpNotOn,
    errors.InvalidTotp,
)
async def confirm_second_factor(call: ApiHandler, request: ConfirmSecondFactorRequest) -> ConfirmSecondFactorReply:
    """Switch the second factor on, here and for the player in the game. Ends all your other sessions."""
    setup = call.services.second_factor
    enabled = await setup.confirm(call.require_session(), request.current_password, request.totp, call.caller)
    return ConfirmSecondFactorReply(
        message=call.message("totp_enabled"),
        recovery_codes=enabled.recovery_codes,
        in_game=enabled.is_in_game,
    )


@ROUTES.add("POST", "/api/user/totp/recovery-codes", USER, *_PASSWORD_REFUSALS, errors.TotpRequired, errors.TotpNotOn)
async def replace_recovery_codes(call: ApiHandler, request: SecondFactorRequest) -> RecoveryCodesReply:
    """Replace your recovery codes."""
    setup = call.services.second_factor
    codes = await setup.replace_recovery_codes(
        call.require_session(), request.current_password, request.totp, call.caller
    )
    return RecoveryCodesReply(message=call.message("recovery_codes_replaced"), recovery_codes=codes)


@ROUTES.add("POST", "/api/user/totp/off", USER, *_PASSWORD_REFUSALS, errors.TotpRequired, errors.TotpNotOn)
async def switch_off_second_factor(call: ApiHandler, request: SecondFactorRequest) -> SwitchOffSecondFactorReply:
    """Switch your second factor off, here and in the game. Ends all your other sessions, and an admin's own."""
    setup = call.services.second_factor
    in_game = await setup.switch_off(call.require_session(), request.current_password, request.totp, call.caller)
    return SwitchOffSecondFactorReply(message=call.message("totp_disabled"), in_game=in_game)
