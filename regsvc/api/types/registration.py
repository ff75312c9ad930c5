"""Types of the registration routes."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from regsvc.api.types.captcha import CaptchaProtectedRequest
from regsvc.api.types.messages import Email, EpochMilliseconds, Output, Password, Reply, Request, Username

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
