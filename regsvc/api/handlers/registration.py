"""Routes for registration: request a verification code, register, look up the status."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from regsvc.accounts.status_lookup import UserStatus
from regsvc.api.base import ApiHandler, to_reply
from regsvc.api.endpoint import ACCESS_TOKEN, ADDRESS_PROOF, LINK_COOKIE, endpoint
from regsvc.api.handlers.captcha import CAPTCHA_REFUSALS, CaptchaProtectedRequest
from regsvc.api.handlers.chat_cookie import cookie_tokens
from regsvc.api.types.messages import (
    Email,
    EpochMilliseconds,
    Output,
    Password,
    Reply,
    Request,
    Username,
    milliseconds_of,
)
from regsvc.auth.verification_codes import CodeOrProof
from regsvc.core import errors
from regsvc.registration.registration import Application

Status = Annotated[
    str, Meta(extra_json_schema={"enum": ["pending", "approved", "rejected", "banned"]}, examples=["approved"])
]
Platform = Annotated[str, Meta(extra_json_schema={"enum": ["java", "bedrock"]}, examples=["java"])]
Code = Annotated[str, Meta(description="The mailed verification code.", examples=["123456"])]

Proof = Annotated[
    str,
    Meta(
        description="What `POST /api/verify/check` gave in exchange for a code.",
        examples=["7.x0Tq3L1zV8pG5cH2mB5kTyR3v0cY2mB5kTpJ7Vd0cVbq8.1790003600"],
    ),
]

CodeProof = Annotated[Proof, Meta(description="In place of the code.")]

ApplicationToken = Annotated[
    str,
    Meta(
        description="Opens the application, as the link in the receipt does; keep it secret.",
        examples=["7.x0Tq3L1zV8pG5cH2mB5kTyR3v0cY2mB5kTpJ7Vd0cVbq8"],
    ),
]

REAPPLY_AT: Final = Meta(description="When the name of a rejected user can be registered again, until then.")


class SendCodeRequest(CaptchaProtectedRequest, frozen=True, kw_only=True):
    """The address to mail a code to, and the purpose of the code."""

    email: Email
    purpose: Literal["register", "change_email", "unlink"] = "register"


class SendCodeReply(Reply, frozen=True, kw_only=True):
    """The code was mailed. The reply does not depend on whether the address has an account."""

    remaining_seconds: Annotated[int, Meta(description="Seconds until the next code may be requested.", examples=[60])]
    expires_in_seconds: Annotated[int, Meta(description="Seconds until the code expires.", examples=[300])]


class CheckCodeRequest(Request, frozen=True, kw_only=True):
    """A code, with the address it was mailed to and the purpose it was requested for."""

    email: Email
    code: Code
    purpose: Literal["register", "change_email", "unlink"] = "register"


class CheckCodeReply(Reply, frozen=True, kw_only=True):
    """The code is right. The proof stands for it, as long as a long questionnaire may take."""

    proof: Proof
    expires_in_seconds: Annotated[int, Meta(description="Seconds until the proof expires.", examples=[3600])]


class QuestionnaireProof(msgspec.Struct, rename="camel", frozen=True):
    """The token of a passed questionnaire."""

    token: Annotated[str, Meta(examples=["pJ7Vd0cVbq8yR3v0cY2mB5kT"])]


class RegisterRequest(CaptchaProtectedRequest, frozen=True, kw_only=True):
    """A registration. `GET /api/config` says which fields are required besides the name."""

    username: Username
    email: (
        Annotated[Email, Meta(description="Required with a code; otherwise optional, and nothing is mailed to it.")]
        | None
    ) = None
    code: Code | None = None
    proof: CodeProof | None = None
    password: Password | None = None
    platform: Literal["java", "bedrock"] = "java"
    questionnaire: QuestionnaireProof | None = None
    link_token: Annotated[str, Meta(description="The token of an unclaimed chat link, or use the cookie.")] | None = (
        None
    )


class RegisterReply(Reply, frozen=True, kw_only=True):
    """The new user, who is `pending` until an operator has reviewed the registration."""

    username: Username
    email: Email | None
    status: Status
    application_token: ApplicationToken


class StatusQuery(Request, frozen=True, kw_only=True):
    """The user whose status is looked up."""

    username: Username


class UserStatusFields(Output, frozen=True, kw_only=True):
    """The status of a user. Only the owner and admins see more than the first two fields."""

    username: Username | UnsetType = UNSET
    status: Status | UnsetType = UNSET
    reason: str | UnsetType | None = UNSET
    email: Email | UnsetType | None = UNSET
    reviewed_at: EpochMilliseconds | UnsetType | None = UNSET
    ban_expires_at: EpochMilliseconds | UnsetType | None = UNSET
    reapply_at: Annotated[EpochMilliseconds, REAPPLY_AT] | UnsetType = UNSET


class ReviewStatusReply(Reply, frozen=True, kw_only=True):
    """The status of a registration. Only the owner and admins see more than the first two fields."""

    username: Username
    status: Status
    reason: str | UnsetType | None = UNSET
    email: Email | UnsetType | None = UNSET
    reviewed_at: EpochMilliseconds | UnsetType | None = UNSET
    ban_expires_at: EpochMilliseconds | UnsetType | None = UNSET
    reapply_at: Annotated[EpochMilliseconds, REAPPLY_AT] | UnsetType = UNSET


class NameStatusFields(UserStatusFields, frozen=True, kw_only=True):
    """State of a name: whether it is registered, and the fields that the caller may see."""

    registered: Annotated[bool, Meta(examples=[True])]


class UserStatusReply(Reply, frozen=True, kw_only=True):
    data: NameStatusFields


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
