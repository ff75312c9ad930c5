"""Routes for registration: captchas, codes for e-mail addresses, the registration itself, its status."""

from __future__ import annotations

from base64 import b64encode
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from regsvc.accounts.captcha.captcha import CaptchaProof
from regsvc.accounts.status_lookup import UserStatus
from regsvc.api.base import ApiHandler
from regsvc.api.chat import cookie_tokens
from regsvc.api.messages import (
    Code,
    CodeProof,
    Email,
    EpochMilliseconds,
    InvitationGrant,
    InvitationToken,
    NameQuery,
    Output,
    Password,
    Proof,
    Reply,
    Request,
    Status,
    Username,
    epoch_milliseconds,
    milliseconds_of,
    to_reply,
)
from regsvc.api.route import ACCESS_TOKEN, ADDRESS_PROOF, LINK_COOKIE, PUBLIC, Routes
from regsvc.auth.verification_codes import PROOF_LIFETIME, CodeOrProof
from regsvc.core import errors
from regsvc.registration.registration import RegistrationRequest

ROUTES: Final = Routes()

# --- Captchas ---

CaptchaToken = Annotated[str, Meta(description="The id of a captcha challenge.", examples=["8bKJ4kX6nq3dGkT0m5mZpQ2s"])]


class CaptchaProtectedRequest(Request, frozen=True, kw_only=True):
    """A request that has to answer a captcha if the config requires one (`captcha.requiredFor`)."""

    captcha_token: CaptchaToken | None = None
    captcha_answer: (
        Annotated[str, Meta(description="The answer to the image's question, or the number.", examples=["29"])] | None
    ) = None

    @property
    def captcha(self) -> CaptchaProof:
        return CaptchaProof(self.captcha_token, self.captcha_answer)


class CaptchaWorkReply(Reply, frozen=True, kw_only=True):
    """A challenge without a picture: a number that a client finds by trying.

    It is the one from 0 to `maxNumber` for which SHA-256 of the 16 bytes of `salt` and the number, as 4 bytes with the
    highest first, is `hash`. Its decimal digits are the `captchaAnswer`.
    """

    token: CaptchaToken
    salt: Annotated[str, Meta(description="Hexadecimal digits.", examples=["00112233445566778899aabbccddeeff"])]
    hash: Annotated[
        str,
        Meta(
            description="Hexadecimal digits.",
            examples=["245519264e3aaa1c55ee5d5a13a4692ce59d00ef0ba975eb244d7e5f11558161"],
        ),
    ]
    max_number: Annotated[int, Meta(examples=[250_000])]
    expires_at: EpochMilliseconds
    expires_in_seconds: Annotated[int, Meta(description="Seconds until the challenge expires.", examples=[300])]


class CaptchaReply(Reply, frozen=True, kw_only=True):
    """A challenge as an image. It is used up by a wrong answer, and by the one request that a right answer allows."""

    token: CaptchaToken
    image: Annotated[
        str,
        Meta(
            description="A PNG as a data URL, for the `src` of an image.",
            examples=["data:image/png;base64,iVBORw0KGgo="],
        ),
    ]
    expires_at: EpochMilliseconds
    expires_in_seconds: Annotated[int, Meta(description="Seconds until the challenge expires.", examples=[300])]


CAPTCHA_REFUSALS: Final = (errors.CaptchaRequired, errors.InvalidCaptcha, errors.RateLimited)
"""Additional refusals of routes that may require a captcha."""


@ROUTES.add("GET", "/api/captcha/generate", PUBLIC, errors.RateLimited)
async def make_captcha(call: ApiHandler) -> CaptchaReply:
    """Create a captcha challenge. This works even if the config requires no captchas."""
    challenge = await call.services.captchas.generate(call.caller)
    image = f"data:image/png;base64,{b64encode(challenge.picture).decode('ascii')}"
    return to_reply(CaptchaReply, challenge, image=image)


@ROUTES.add("GET", "/api/captcha/work", PUBLIC, errors.RateLimited, errors.NotEnabled)
async def make_captcha_work(call: ApiHandler) -> CaptchaWorkReply:
    """Create a captcha challenge without a picture, which a program of the client solves.

    It is answered like a picture's. This works even if the config requires no captchas.
    """
    return to_reply(CaptchaWorkReply, call.services.captchas.generate_work(call.caller))


# --- Registration ---

ApplicationToken = Annotated[
    str,
    Meta(
        description="Opens the application, as the link in the receipt does; keep it secret.",
        examples=["7.x0Tq3L1zV8pG5cH2mB5kTyR3v0cY2mB5kTpJ7Vd0cVbq8"],
    ),
]

ANSWERS_WITH: Final = Meta(
    description="For the owner, while a question of the team waits for the answer, or a rejected application can be "
    "made anew: opens the application."
)
CAN_BE_MAILED: Final = Meta(description="Whether mails about the user, such as decisions, have an address to go to.")
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


RegistrationEmail = Annotated[
    Email, Meta(description="Required with a code; otherwise optional, and nothing is mailed to it.")
]
RejectedToken = Annotated[
    ApplicationToken,
    Meta(description="Of a rejected application with this address: applies again, in place of a code."),
]


class CheckRegistrationRequest(Request, frozen=True, kw_only=True):
    """The part of a registration that has rules, with the proof of the address."""

    username: Username
    email: RegistrationEmail | None = None
    proof: CodeProof | None = None
    application_token: RejectedToken | None = None
    password: Password | None = None
    platform: Literal["java", "bedrock"] = "java"


class CheckRegistrationReply(Reply, frozen=True, kw_only=True):
    """No rule is broken. `username` is the name in the game, for Bedrock players with the prefix."""

    username: Username


class RegisterRequest(CaptchaProtectedRequest, frozen=True, kw_only=True):
    """A registration. `GET /api/config` says which fields are required besides the name."""

    username: Username
    email: RegistrationEmail | None = None
    code: Code | None = None
    proof: CodeProof | None = None
    password: Password | None = None
    platform: Literal["java", "bedrock"] = "java"
    questionnaire: QuestionnaireProof | None = None
    application_token: RejectedToken | None = None
    link_token: Annotated[str, Meta(description="The token of an unclaimed chat link, or use the cookie.")] | None = (
        None
    )
    invitation: InvitationToken | None = None


class InvitationQuery(Request, frozen=True, kw_only=True):
    """The token of an invitation: the part of its link after `#invite=`."""

    invitation: InvitationToken


class InvitationReply(Reply, frozen=True, kw_only=True):
    """The grants of an invitation, and the time until which it can be used."""

    made_by: Annotated[str, Meta(examples=["Olivia"])]
    grants: list[InvitationGrant]
    remaining_uses: Annotated[int, Meta(examples=[3])]
    expires_at: EpochMilliseconds


class RegisterReply(Reply, frozen=True, kw_only=True):
    """The new user, who is `pending` until an operator has reviewed the registration."""

    username: Username
    email: Email | None
    status: Status
    application_token: ApplicationToken


class ReviewStatusReply(Reply, frozen=True, kw_only=True):
    """The status of a registration. Only the owner and admins see more than the first two fields."""

    username: Username
    status: Status
    reason: str | UnsetType | None = UNSET
    email: Email | UnsetType | None = UNSET
    can_be_mailed: Annotated[bool, CAN_BE_MAILED] | UnsetType = UNSET
    reviewed_at: EpochMilliseconds | UnsetType | None = UNSET
    ban_expires_at: EpochMilliseconds | UnsetType | None = UNSET
    reapply_at: Annotated[EpochMilliseconds, REAPPLY_AT] | UnsetType = UNSET
    application_token: Annotated[str, ANSWERS_WITH] | UnsetType = UNSET


class NameStatusFields(Output, frozen=True, kw_only=True):
    """State of a name: whether it is registered, and the fields that the caller may see."""

    username: Username | UnsetType = UNSET
    status: Status | UnsetType = UNSET
    reason: str | UnsetType | None = UNSET
    email: Email | UnsetType | None = UNSET
    can_be_mailed: Annotated[bool, CAN_BE_MAILED] | UnsetType = UNSET
    reviewed_at: EpochMilliseconds | UnsetType | None = UNSET
    ban_expires_at: EpochMilliseconds | UnsetType | None = UNSET
    reapply_at: Annotated[EpochMilliseconds, REAPPLY_AT] | UnsetType = UNSET
    application_token: Annotated[str, ANSWERS_WITH] | UnsetType = UNSET
    registered: Annotated[bool, Meta(examples=[True])]


class UserStatusReply(Reply, frozen=True, kw_only=True):
    data: NameStatusFields


PROOF_HEADER: Final = "X-Address-Proof"

INVITATION_REFUSALS: Final = (
    errors.InvitationInvalid,
    errors.InvitationRevoked,
    errors.InvitationExpired,
    errors.InvitationUsedUp,
)

SEND_CODE_REFUSALS: Final = (
    errors.InvalidEmail,
    errors.DomainNotAllowed,
    errors.RegistrationClosed,
    errors.NotEnabled,
    *CAPTCHA_REFUSALS,
    errors.MailUnavailable,
)


@ROUTES.add("POST", "/api/verify/send", PUBLIC, *SEND_CODE_REFUSALS)
async def send_code(call: ApiHandler, request: SendCodeRequest) -> SendCodeReply:
    """Mail a verification code. The response does not reveal whether the address has an account."""
    if request.language is not None and request.language not in call.services.translations.languages:
        raise errors.InvalidField("language")
    sent = await call.services.verification.send_code(request.email, request.purpose, call.caller, request.captcha)
    return to_reply(SendCodeReply, sent, message=call.message("code_sent"))


@ROUTES.add(
    "POST",
    "/api/verify/check",
    PUBLIC,
    errors.InvalidEmail,
    errors.DomainNotAllowed,
    errors.InvalidCode,
    errors.RateLimited,
    errors.RegistrationClosed,
    errors.NotEnabled,
    errors.MailUnavailable,
)
async def check_code(call: ApiHandler, request: CheckCodeRequest) -> CheckCodeReply:
    """Exchange a right code for a proof that lives longer. A wrong code uses up an attempt."""
    verification = call.services.verification
    proof = await verification.check_code(request.email, request.purpose, request.code, call.caller)
    return CheckCodeReply(proof=proof, expires_in_seconds=round(PROOF_LIFETIME.total_seconds()))


APPLICANT_REFUSALS: Final = (
    errors.InvalidUsername,
    errors.ReservedUsername,
    errors.InvalidEmail,
    errors.DomainNotAllowed,
    errors.InvalidPassword,
    errors.PasswordRequired,
    errors.InvalidCode,
    errors.RegistrationClosed,
    errors.UsernameTaken,
    errors.ReapplyLater,
    errors.EmailTaken,
    errors.AuthMeUnavailable,
)


@ROUTES.add("POST", "/api/register/check", PUBLIC, *APPLICANT_REFUSALS, errors.RateLimited)
async def check_registration(call: ApiHandler, request: CheckRegistrationRequest) -> CheckRegistrationReply:
    """Tell at once whether a rule about name, address or password is broken, before more is asked. Uses up nothing.

    Where an address has to be proven, it takes the proof. Where none has, it tells no more about a name than its status
    does: `POST /api/register` may still refuse it as reserved, or as a player's.
    """
    call.services.status_limits.hit(call.address)
    applicant = RegistrationRequest(
        username=request.username,
        email=request.email,
        code_or_proof=CodeOrProof(proof=request.proof),
        password=request.password,
        platform=request.platform,
        language=call.language,
        application_token=request.application_token,
    )
    return CheckRegistrationReply(username=await call.services.registration.check(applicant, call.caller))


@ROUTES.add(
    "POST",
    "/api/register",
    PUBLIC,
    *APPLICANT_REFUSALS,
    *CAPTCHA_REFUSALS,
    errors.QuestionnaireRequired,
    errors.QuestionnaireFailed,
    errors.ChatLinkRequired,
    errors.LinkTokenInvalid,
    errors.ChatAccountTaken,
    errors.EmailTaken,
    *INVITATION_REFUSALS,
    status=201,
    credentials=(LINK_COOKIE,),
)
async def register(call: ApiHandler, request: RegisterRequest) -> RegisterReply:
    """Register a user. A refusal changes nothing, except that a wrong code uses up an attempt.

    The same request within the hour gets the same answer, in case the first was lost.
    """
    application = RegistrationRequest(
        username=request.username,
        email=request.email,
        code_or_proof=CodeOrProof(request.code, request.proof),
        password=request.password,
        platform=request.platform,
        language=call.language,
        captcha=request.captcha,
        questionnaire_token=request.questionnaire.token if request.questionnaire else None,
        application_token=request.application_token,
        link_token=request.link_token,
        browser_link_tokens=cookie_tokens(call),
        invitation_token=request.invitation,
    )
    registered = await call.services.registration.register(application, call.caller)
    if registered.status == "approved":
        key = "registered_approved"
    else:
        key = "registered_pending" if call.services.mail_queue.is_available else "registered_unmailed"
    return to_reply(RegisterReply, registered, message=call.message(key, username=registered.username))


@ROUTES.add("POST", "/api/invitation/check", PUBLIC, *INVITATION_REFUSALS, errors.RateLimited)
async def check_invitation(call: ApiHandler, request: InvitationQuery) -> InvitationReply:
    """Show what an invitation grants, before registering with it. Uses up nothing."""
    call.services.status_limits.hit(call.address)
    found = await call.run(call.services.invitations.find, request.invitation)
    # who has a shell on the host's machine is nobody else's business
    made_by = call.services.config.server.name if "cli:" in found.made_by else found.made_by
    grants, remaining = list(found.grants), found.uses - found.used
    return to_reply(InvitationReply, found, made_by=made_by, grants=grants, remaining_uses=remaining)


async def find_status(call: ApiHandler, username: str) -> UserStatus | None:
    """Return the status of the user with this name, or None; raises `RateLimited`."""
    call.services.status_limits.hit(call.address)
    return await call.services.statuses.find(username, call.session, call.request.headers.get(PROOF_HEADER))


@ROUTES.add(
    "GET",
    "/api/review/status",
    PUBLIC,
    errors.UserNotFound,
    errors.RateLimited,
    credentials=(ACCESS_TOKEN, ADDRESS_PROOF),
)
async def show_review_status(call: ApiHandler, query: NameQuery) -> ReviewStatusReply:
    """Show the status of a registration. Only its owner and admins see more than the status.

    With the proof of an address, or where none is required, a rejected registration also has the time when its name
    is free again.
    """
    found = await find_status(call, query.username)
    if found is None:
        raise errors.UserNotFound
    return ReviewStatusReply(**_visible_fields(call, found))


@ROUTES.add("GET", "/api/user/status", PUBLIC, errors.RateLimited, credentials=(ACCESS_TOKEN, ADDRESS_PROOF))
async def show_user_status(call: ApiHandler, query: NameQuery) -> UserStatusReply:
    """Show whether a name is registered, and its status. Only the owner and admins see more.

    With the proof of an address, or where none is required, a rejected name also has the time when it is free
    again.
    """
    found = await find_status(call, query.username)
    if found is None:
        return UserStatusReply(data=NameStatusFields(registered=False))
    return UserStatusReply(data=NameStatusFields(registered=True, **_visible_fields(call, found)))


def _visible_fields(call: ApiHandler, found: UserStatus) -> dict[str, Any]:
    """Return the fields of a status that the caller may see."""
    fields = {
        "username": found.username,
        "status": found.status,
        "reapply_at": UNSET if found.reapply_at is None else milliseconds_of(found.reapply_at),
    }
    if not found.has_details:
        return fields
    return fields | {
        "reason": call.word_reason(found.reason),
        "email": found.email,
        "can_be_mailed": found.can_be_mailed,
        "reviewed_at": epoch_milliseconds(found.reviewed_at),
        "ban_expires_at": epoch_milliseconds(found.ban_expires_at),
        "application_token": found.application_token or UNSET,
    }
