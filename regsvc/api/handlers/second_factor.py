"""Routes for a user's second factor: set it up, replace its recovery codes, switch it off."""

from __future__ import annotations

from typing import Final

from regsvc.api.base import ApiHandler
from regsvc.api.endpoint import endpoint
from regsvc.api.types.second_factor import (
    BeginSecondFactorReply,
    BeginSecondFactorRequest,
    ConfirmSecondFactorReply,
    ConfirmSecondFactorRequest,
    RecoveryCodesReply,
    SecondFactorReply,
    SecondFactorRequest,
    SwitchOffSecondFactorReply,
)
from regsvc.core import errors

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
