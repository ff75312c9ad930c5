"""Routes for a user's second factor: set it up, replace its recovery codes, switch it off."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from regsvc.api.base import ApiHandler
from regsvc.api.endpoint import endpoint
from regsvc.api.handlers.users import Totp
from regsvc.api.types.messages import Password, Reply, Request
from regsvc.core import errors

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


class SecondFactorHandler(ApiHandler):
    @endpoint(errors.AuthMeUnavailable)
    async def get(self) -> SecondFactorReply:
        """Tell whether you have a second factor, set up here or in the game, and how many recovery codes are left."""
        state = await self.run(self.services.second_factor.describe, self.require_session())
        return SecondFactorReply(
            enabled=state.is_enabled,
            in_game=state.is_in_game,
            required=state.is_required,
            recovery_codes_left=state.recovery_codes_left,
        )


class BeginSecondFactorHandler(ApiHandler):
    @endpoint(*_PASSWORD_REFUSALS, errors.TotpAlreadyOn)
    async def post(self, request: BeginSecondFactorRequest) -> BeginSecondFactorReply:
        """Make the secret of a new second factor. It does not count until `confirm`; an earlier one is void."""
        setup = self.services.second_factor
        entry = await setup.begin(self.require_session(), request.current_password, self.caller)
        return BeginSecondFactorReply(secret=entry.secret, uri=entry.uri, image=entry.image)


class ConfirmSecondFactorHandler(ApiHandler):
    @endpoint(*_PASSWORD_REFUSALS, errors.TotpAlreadyOn, errors.TotpNotOn, errors.InvalidTotp)
    async def post(self, request: ConfirmSecondFactorRequest) -> ConfirmSecondFactorReply:
        """Switch the second factor on, here and for the player in the game. Ends all your other sessions."""
        setup = self.services.second_factor
        enabled = await setup.confirm(self.require_session(), request.current_password, request.totp, self.caller)
        return ConfirmSecondFactorReply(
            message=self.message("totp_enabled"),
            recovery_codes=enabled.recovery_codes,
            in_game=enabled.is_in_game,
        )


class RecoveryCodesHandler(ApiHandler):
    @endpoint(*_PASSWORD_REFUSALS, errors.TotpRequired, errors.TotpNotOn)
    async def post(self, request: SecondFactorRequest) -> RecoveryCodesReply:
        """Replace your recovery codes."""
        setup = self.services.second_factor
        codes = await setup.replace_recovery_codes(
            self.require_session(), request.current_password, request.totp, self.caller
        )
        return RecoveryCodesReply(message=self.message("recovery_codes_replaced"), recovery_codes=codes)


class SwitchOffSecondFactorHandler(ApiHandler):
    @endpoint(*_PASSWORD_REFUSALS, errors.TotpRequired, errors.TotpNotOn)
    async def post(self, request: SecondFactorRequest) -> SwitchOffSecondFactorReply:
        """Switch your second factor off, here and in the game. Ends all your other sessions, and an admin's own."""
        setup = self.services.second_factor
        in_game = await setup.switch_off(self.require_session(), request.current_password, request.totp, self.caller)
        return SwitchOffSecondFactorReply(message=self.message("totp_disabled"), in_game=in_game)
