"""What requests carry: the types that bodies and queries are validated with, camelCase on the wire.

Types say what a field *is*; whether a name, e-mail or password is acceptable is a matter of the rules.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from regsvc.errors import InvalidField

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

EpochMilliseconds = Annotated[int, Meta(ge=0, le=253_402_300_799_999)]  # the last one is the end of the year 9999
MAX_BATCH = 100
Reason = Annotated[str, Meta(max_length=4000)]  # it is mailed, and stands in lists


class Request(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """The base of all bodies and queries. Unknown fields are ignored; `language` is the one to answer in."""

    language: str | None = None

    def __repr__(self) -> str:
        """Without the values: they may be passwords, codes or tokens."""
        return f"<{type(self).__name__}>"


# --- Public routes ---


class SendCodeRequest(Request, frozen=True, kw_only=True):
    email: str
    purpose: Literal["register", "change_email", "unlink"] = "register"
    captcha_token: str | None = None
    captcha_answer: str | None = None


class QuestionnaireProof(msgspec.Struct, rename="camel", frozen=True):
    """The result of a passed questionnaire, by its token."""

    token: str


class RegisterRequest(Request, frozen=True, kw_only=True):
    username: str
    email: str
    code: str
    password: str | None = None
    platform: Literal["java", "bedrock"] = "java"
    captcha_token: str | None = None
    captcha_answer: str | None = None
    questionnaire: QuestionnaireProof | None = None
    link_token: str | None = None


class StatusQuery(Request, frozen=True, kw_only=True):
    username: str


class LoginRequest(Request, frozen=True, kw_only=True):
    """`username` may be an e-mail address; `totp` is the code of an authenticator app."""

    username: str
    password: str
    totp: str | None = None
    captcha_token: str | None = None
    captcha_answer: str | None = None


class ChangePasswordRequest(Request, frozen=True, kw_only=True):
    current_password: str
    new_password: str


class ForgotPasswordRequest(Request, frozen=True, kw_only=True):
    email: str


class ResetPasswordRequest(Request, frozen=True, kw_only=True):
    token: str
    new_password: str


# --- Admin routes ---


class VerifyTokenRequest(Request, frozen=True, kw_only=True):
    token: str


class ReviewRequest(Request, frozen=True, kw_only=True):
    """A transition of one user (`username`) or of many (`usernames`), told to them unless `silent`."""

    username: str | None = None
    usernames: Annotated[list[str], Meta(min_length=1, max_length=MAX_BATCH)] | None = None
    reason: Reason | None = None
    silent: bool = False

    @property
    def is_batch(self) -> bool:
        return self.usernames is not None

    @property
    def targets(self) -> list[str]:
        """The names, each once, in their order; raises InvalidField unless exactly one field is given."""
        if self.usernames is not None and self.username is not None:
            raise InvalidField("usernames")
        if self.usernames is not None:
            return list(dict.fromkeys(self.usernames))
        if self.username is not None:
            return [self.username]
        raise InvalidField("username")


class BanRequest(ReviewRequest, frozen=True, kw_only=True):
    """`expires_at` None: without end. Not given, a ban that stands keeps its end, and a new one has none."""

    expires_at: EpochMilliseconds | msgspec.UnsetType | None = msgspec.UNSET

    @property
    def has_end(self) -> bool:
        """Whether an end, or that there is none, was given."""
        return self.expires_at is not msgspec.UNSET

    @property
    def ends_at(self) -> datetime | None:
        return moment(None if isinstance(self.expires_at, msgspec.UnsetType) else self.expires_at)


class SetPasswordRequest(ReviewRequest, frozen=True, kw_only=True):
    """Without a password, a link to set one is mailed."""

    password: str | None = None


class SyncRequest(Request, frozen=True, kw_only=True):
    """`plan`: only tell what would be done."""

    plan: bool = False


PageNumber = Annotated[int, Meta(ge=1, le=2**31 - 1)]
PageSize = Annotated[int, Meta(ge=1, le=100)]


class UsersQuery(Request, frozen=True, kw_only=True):
    """`page`, `size` and `sort` are None where the caller leaves them to us.

    `after` is the cursor of an earlier reply.
    """

    page: PageNumber | None = None
    size: PageSize | None = None
    search: str = ""
    status: Literal["all", "pending", "approved", "rejected", "banned"] = "all"
    plugin: Literal["synced", "absent", "locked", "conflict", "returned", "pending", "off"] | None = None
    sort: Literal["newest", "oldest", "name"] | None = None
    after: str | None = None


class AuditsQuery(Request, frozen=True, kw_only=True):
    page: PageNumber = 1
    size: PageSize = 20
    action: str | None = None
    operator: str | None = None
    target: str | None = None
    since: EpochMilliseconds | None = msgspec.field(default=None, name="from")
    until: EpochMilliseconds | None = msgspec.field(default=None, name="to")

    @property
    def since_at(self) -> datetime | None:
        return moment(self.since)

    @property
    def until_at(self) -> datetime | None:
        return moment(self.until)


def moment(milliseconds: int | None) -> datetime | None:
    """The UTC time of epoch milliseconds; None stays None."""
    return None if milliseconds is None else EPOCH + timedelta(milliseconds=milliseconds)


def epoch_milliseconds(at: datetime | None) -> int | None:
    """The form times have in JSON; None stays None. Naive times are refused with TypeError."""
    return None if at is None else (at - EPOCH) // timedelta(milliseconds=1)
