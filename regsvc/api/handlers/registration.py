"""Routes for registration: request a verification code, register, look up the status."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, UnsetType

from regsvc.accounts.status_lookup import UserStatus
from regsvc.api.base import ApiHandler
from regsvc.api.endpoint import ACCESS_TOKEN, ADDRESS_PROOF, LINK_COOKIE, endpoint
from regsvc.api.handlers.captcha import CAPTCHA_REFUSALS
from regsvc.api.handlers.chat_cookie import cookie_tokens
from regsvc.api.replies import to_reply
from regsvc.api.types.messages import milliseconds_of
from regsvc.api.types.registration import (
    CheckCodeReply,
    CheckCodeRequest,
    NameStatusFields,
    RegisterReply,
    RegisterRequest,
    ReviewStatusReply,
    SendCodeReply,
    SendCodeRequest,
    StatusQuery,
    UserStatusReply,
)
from regsvc.auth.address_proofs import CodeOrProof
from regsvc.core import errors
from regsvc.registration.steps import Application

PROOF_HEADER: Final = "X-Address-Proof"

SEND_CODE_REFUSALS: Final = (
    errors.InvalidEmail,
    errors.DomainNotAllowed,
    errors.RegistrationClosed,
    errors.NotEnabled,
    *CAPTCHA_REFUSALS,
    errors.MailUnavailable,
)


class SendCodeHandler(ApiHandler):
    @endpoint(*SEND_CODE_REFUSALS)
    async def post(self, request: SendCodeRequest) -> SendCodeReply:
        """Mail a verification code. The response does not reveal whether the address has an account."""
        return await self.send_code(request)

    async def send_code(self, request: SendCodeRequest) -> SendCodeReply:
        if request.language is not None and request.language not in self.services.translations.languages:
            raise errors.InvalidField("language")
        sent = await self.services.verification.send_code(request.email, request.purpose, self.caller, request.captcha)
        return to_reply(SendCodeReply, sent, message=self.message("code_sent"))


class CheckCodeHandler(ApiHandler):
    @endpoint(
        errors.InvalidEmail,
        errors.DomainNotAllowed,
        errors.InvalidCode,
        errors.RateLimited,
        errors.RegistrationClosed,
        errors.NotEnabled,
        errors.MailUnavailable,
    )
    async def post(self, request: CheckCodeRequest) -> CheckCodeReply:
        """Exchange a right code for a proof that lives longer. A wrong code uses up an attempt."""
        verification = self.services.verification
        checked = await verification.check_code(request.email, request.purpose, request.code, self.caller)
        return to_reply(CheckCodeReply, checked)


class RegisterHandler(ApiHandler):
    @endpoint(
        errors.InvalidUsername,
        errors.ReservedUsername,
        errors.InvalidEmail,
        errors.DomainNotAllowed,
        errors.InvalidPassword,
        errors.PasswordRequired,
        *CAPTCHA_REFUSALS,
        errors.InvalidCode,
        errors.QuestionnaireRequired,
        errors.QuestionnaireFailed,
        errors.ChatLinkRequired,
        errors.LinkTokenInvalid,
        errors.ChatAccountTaken,
        errors.RegistrationClosed,
        errors.UsernameTaken,
        errors.ReapplyLater,
        errors.EmailTaken,
        errors.AuthMeUnavailable,
        status=201,
        credentials=(LINK_COOKIE,),
    )
    async def post(self, request: RegisterRequest) -> RegisterReply:
        """Register a user. A refusal changes nothing, except that a wrong code uses up an attempt."""
        application = Application(
            username=request.username,
            email=request.email,
            code_or_proof=CodeOrProof(request.code, request.proof),
            password=request.password,
            platform=request.platform,
            language=self.language,
            captcha=request.captcha,
            questionnaire_token=request.questionnaire.token if request.questionnaire else None,
            link_token=request.link_token,
            browser_link_tokens=cookie_tokens(self),
        )
        registered = await self.services.registration.register(application, self.caller)
        if registered.status == "approved":
            key = "registered_approved"
        else:
            key = "registered_pending" if self.services.mail_queue.is_available else "registered_unmailed"
        return to_reply(RegisterReply, registered, message=self.message(key, username=registered.username))


class StatusHandler(ApiHandler):
    """Base of both status routes."""

    async def find_status(self, username: str) -> UserStatus | None:
        """Return the status of the user with this name, or None; raises `RateLimited`."""
        self.services.status_limits.hit(self.caller)
        return await self.services.statuses.find(username, self.session, self.request.headers.get(PROOF_HEADER))


class ReviewStatusHandler(StatusHandler):
    @endpoint(errors.UserNotFound, errors.RateLimited, credentials=(ACCESS_TOKEN, ADDRESS_PROOF))
    async def get(self, query: StatusQuery) -> ReviewStatusReply:
        """Show the status of a registration. Only its owner and admins see more than the status.

        With the proof of an address, or where none is required, a rejected registration also has the time when its name
        is free again.
        """
        found = await self.find_status(query.username)
        if found is None:
            raise errors.UserNotFound
        if not found.has_details:
            return ReviewStatusReply(username=found.username, status=found.status, reapply_at=_reapply_at(found))
        reason = self.word_reason(found.reason)
        return to_reply(ReviewStatusReply, found, reason=reason, reapply_at=_reapply_at(found))


class UserStatusHandler(StatusHandler):
    @endpoint(errors.RateLimited, credentials=(ACCESS_TOKEN, ADDRESS_PROOF))
    async def get(self, query: StatusQuery) -> UserStatusReply:
        """Show whether a name is registered, and its status. Only the owner and admins see more.

        With the proof of an address, or where none is required, a rejected name also has the time when it is free
        again.
        """
        found = await self.find_status(query.username)
        if found is None:
            return UserStatusReply(data=NameStatusFields(registered=False))
        return UserStatusReply(data=_name_status(found, self.word_reason(found.reason)))


def _name_status(found: UserStatus, reason: str | None) -> NameStatusFields:
    if not found.has_details:
        return NameStatusFields(
            registered=True, username=found.username, status=found.status, reapply_at=_reapply_at(found)
        )
    return to_reply(NameStatusFields, found, registered=True, reason=reason, reapply_at=_reapply_at(found))


def _reapply_at(found: UserStatus) -> int | UnsetType:
    return UNSET if found.reapply_at is None else milliseconds_of(found.reapply_at)
