"""A user's own account, for front ends that change an e-mail address with a code alone, and stay logged in."""

from __future__ import annotations

import msgspec

from regsvc.accounts.email_changes import EmailChangeRequest
from regsvc.api.base import ApiHandler
from regsvc.api.endpoint import ACCESS_TOKEN, endpoint
from regsvc.api.handlers.passwords import CHANGE_REFUSALS
from regsvc.api.handlers.registration import SEND_CODE_REFUSALS, SendCodeHandler
from regsvc.api.handlers.users import UPDATE_REFUSALS, UpdateUserHandler
from regsvc.api.legacy.types import SendAnyCodeRequest, SessionKeptReply, UpdateEmailRequest
from regsvc.api.replies import to_reply
from regsvc.api.types.passwords import ChangePasswordRequest
from regsvc.api.types.registration import SendCodeReply, SendCodeRequest
from regsvc.api.types.users import UpdateUserReply
from regsvc.auth.address_proofs import CodeOrProof
from regsvc.core import errors
from regsvc.core.email_address import parse_email


class SendAnyCodeHandler(SendCodeHandler):
    @endpoint(*SEND_CODE_REFUSALS, credentials=(ACCESS_TOKEN,))
    async def post(self, request: SendAnyCodeRequest) -> SendCodeReply:
        """Mail a verification code. The response does not reveal whether the address has an account."""
        purpose = request.purpose or ("register" if self.session is None else "change_email")
        return await self.send_code(SendCodeRequest(**{**msgspec.structs.asdict(request), "purpose": purpose}))


class UpdateByCodeHandler(UpdateUserHandler):
    @endpoint(*UPDATE_REFUSALS, errors.CodeRequired, errors.LoginTooOld)
    async def post(self, request: UpdateEmailRequest) -> UpdateUserReply:
        """Change your own e-mail address. The old address is notified.

        Without the password, the login must not be older than 15 minutes.
        """
        code = request.code.strip()
        if code:
            return await self.change_email(
                EmailChangeRequest(request.email, CodeOrProof(code), request.current_password)
            )
        current = await self._current_email()
        if current is None or parse_email(current).key != parse_email(request.email).key:
            raise errors.CodeRequired
        return UpdateUserReply(message=self.message("email_kept"), email=current, warnings=[])

    async def _current_email(self) -> str | None:
        session = self.require_session()
        status = await self.services.statuses.find(session.username, session)
        return None if status is None else status.email


class ChangePasswordHereHandler(ApiHandler):
    @endpoint(*CHANGE_REFUSALS)
    async def post(self, request: ChangePasswordRequest) -> SessionKeptReply:
        """Change your own password. This ends all of your other sessions."""
        decided = await self.services.password_changes.change_own(
            self.require_session(), request.current_password, request.new_password, self.caller, keeps_session=True
        )
        return to_reply(SessionKeptReply, decided, message=self.message("password_changed_here"))
