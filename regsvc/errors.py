"""Every refusal, named.

A rule *raises* a refusal where it notices the reason; the transaction around it rolls back, and the HTTP
layer turns the refusal's category into a status and its code into words (`translations/*.toml`, key
`refusal.<code>`).
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from enum import IntEnum
from typing import ClassVar


class Category(IntEnum):
    """What kind of "no" it is; the number is the HTTP status."""

    MALFORMED = 400
    UNAUTHENTICATED = 401
    FORBIDDEN = 403
    NOT_FOUND = 404
    METHOD = 405
    CONFLICT = 409
    TOO_LARGE = 413
    UNSUPPORTED = 415
    INVALID = 422
    LIMITED = 429
    INTERNAL = 500
    AWAY = 503


BUSINESS_CATEGORIES = frozenset({Category.CONFLICT, Category.INVALID, Category.LIMITED})

REFUSALS: dict[str, type[Refusal]] = {}
"""Every refusal by its code."""


class Refusal(Exception):
    """A "no" that the caller is told about, in words of his language.

    `code` is stable and machine-readable, `field` names the part of the request it is about (None: no
    single one) and `facts` hold what a client may need. Facts are given in snake case and kept under their
    names in JSON: `Refusal(remaining_seconds=5).facts == {"remainingSeconds": 5}`. They are public: never a
    secret.
    """

    code: ClassVar[str] = ""
    category: ClassVar[Category]
    field: str | None = None

    is_business: ClassVar[bool] = False
    """True for an answer of the service itself, sent with status 200 under `http.legacy_status`. Requests
    that are broken, lack the right, or meet something that is away keep their status."""

    retry_after: int | None = None
    """Seconds after which asking again makes sense; None: unknown or pointless."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "is_business" not in cls.__dict__:
            cls.is_business = cls.category in BUSINESS_CATEGORIES
        if REFUSALS.setdefault(cls.code, cls) is not cls:
            raise TypeError(f"two refusals with the code {cls.code!r}")

    def __init__(self, *, field: str | None = None, retry_after: int | None = None, **facts: object) -> None:
        super().__init__(self.code)
        if field is not None:
            self.field = field
        if retry_after is not None:
            self.retry_after = retry_after
        self.facts = {_camel(name): value for name, value in facts.items() if value is not None}


def _camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match.group(1).upper(), name)


# --- The request itself ---


class MalformedBody(Refusal):
    """Not JSON, not an object, or JSON that two readers would understand differently."""

    code = "malformed_body"
    category = Category.MALFORMED


class MalformedRequest(Refusal):
    """A query, header or framing that cannot be read (the body is not the matter)."""

    code = "malformed_request"
    category = Category.MALFORMED


class InvalidField(Refusal):
    """A field of the body or query is missing, has the wrong type or is out of bounds."""

    code = "invalid_field"
    category = Category.INVALID

    def __init__(self, field: str) -> None:
        super().__init__(field=field)


class UnsupportedMediaType(Refusal):
    code = "unsupported_media_type"
    category = Category.UNSUPPORTED


class BodyTooLarge(Refusal):
    code = "body_too_large"
    category = Category.TOO_LARGE

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes=max_bytes)


class UnknownPath(Refusal):
    code = "unknown_path"
    category = Category.NOT_FOUND


class MethodNotAllowed(Refusal):
    """`allowed`: the methods the path does answer, as sent in the Allow header."""

    code = "method_not_allowed"
    category = Category.METHOD

    def __init__(self, allowed: list[str]) -> None:
        super().__init__(allowed=allowed)
        self.allowed = allowed


# --- Who asks ---


class Unauthorized(Refusal):
    """No access token, or one that is expired, revoked or not ours."""

    code = "unauthorized"
    category = Category.UNAUTHENTICATED


class Forbidden(Refusal):
    """A valid access token that does not carry the right."""

    code = "forbidden"
    category = Category.FORBIDDEN


class BadCredentials(Refusal):
    """Unknown name or wrong password: one answer for both."""

    code = "bad_credentials"
    category = Category.UNAUTHENTICATED
    is_business = True


class TotpRequired(Refusal):
    """The password was right; the player's second factor is missing, wrong or spent."""

    code = "totp_required"
    category = Category.UNAUTHENTICATED
    field = "totp"
    is_business = True


class NotOperator(Refusal):
    """The credentials were right, but they are not those of an approved operator."""

    code = "not_operator"
    category = Category.FORBIDDEN
    is_business = True


class Banned(Refusal):
    """Told only after a right password. `expires_at`: epoch milliseconds, None for a ban without end."""

    code = "banned"
    category = Category.FORBIDDEN
    is_business = True

    def __init__(self, reason: str | None = None, expires_at: int | None = None) -> None:
        super().__init__(reason=reason, ban_expires_at=expires_at)


class UserNotFound(Refusal):
    code = "user_not_found"
    category = Category.NOT_FOUND
    field = "username"
    is_business = True


# --- What is asked for breaks a rule ---
# A `fault` says which rule; its words are the key `fault.<code>.<fault>`.


class InvalidUsername(Refusal):
    """`fault`: "forbidden_characters" (see `regex`), "too_short" or "too_long" (see the lengths)."""

    code = "invalid_username"
    category = Category.INVALID
    field = "username"

    def __init__(
        self,
        fault: str = "forbidden_characters",
        *,
        regex: str | None = None,
        min_length: int | None = None,
        max_length: int | None = None,
    ) -> None:
        super().__init__(fault=fault, regex=regex, min_length=min_length, max_length=max_length)


class ReservedUsername(Refusal):
    code = "reserved_username"
    category = Category.INVALID
    field = "username"


class InvalidEmail(Refusal):
    """`fault`: "syntax", or "alias" where aliases of one mailbox are not accepted."""

    code = "invalid_email"
    category = Category.INVALID
    field = "email"

    def __init__(self, fault: str = "syntax") -> None:
        super().__init__(fault=fault)


class DomainNotAllowed(Refusal):
    """The e-mail's domain is not on the list, is blocked, or is an address in brackets."""

    code = "domain_not_allowed"
    category = Category.INVALID
    field = "email"


class InvalidPassword(Refusal):
    """`fault`: "forbidden_characters" (see `regex`), "too_short" or "too_long" (see the lengths),
    "same_as_username" or "unsafe".
    """

    code = "invalid_password"
    category = Category.INVALID
    field = "password"

    def __init__(
        self,
        fault: str,
        *,
        field: str | None = None,
        regex: str | None = None,
        min_length: int | None = None,
        max_length: int | None = None,
    ) -> None:
        super().__init__(field=field, fault=fault, regex=regex, min_length=min_length, max_length=max_length)


class PasswordRequired(Refusal):
    code = "password_required"
    category = Category.INVALID
    field = "password"


class InvalidCode(Refusal):
    """One answer for a wrong, used, expired or never sent code, and after too many tries."""

    code = "invalid_code"
    category = Category.INVALID
    field = "code"


class WrongPassword(Refusal):
    """The current password given to change it is not right."""

    code = "wrong_password"
    category = Category.INVALID
    field = "currentPassword"


class ResetTokenInvalid(Refusal):
    """A mailed link to set a password that is used, expired or not ours."""

    code = "invalid_token"
    category = Category.INVALID
    field = "token"


# --- What is asked for cannot be now ---


class UsernameTaken(Refusal):
    code = "username_taken"
    category = Category.CONFLICT
    field = "username"


class EmailTaken(Refusal):
    code = "email_taken"
    category = Category.CONFLICT
    field = "email"


class RegistrationClosed(Refusal):
    code = "registration_closed"
    category = Category.CONFLICT


class WrongStatus(Refusal):
    """The transition is not allowed from the user's `status`, or another admin was faster."""

    code = "wrong_status"
    category = Category.CONFLICT

    def __init__(self, status: str) -> None:
        super().__init__(status=status)


class ProtectedOperator(Refusal):
    """Nobody acts on himself or on an operator of the same or a higher level."""

    code = "protected_operator"
    category = Category.CONFLICT
    field = "username"


class NotEnabled(Refusal):
    """The route's feature is switched off."""

    code = "not_enabled"
    category = Category.CONFLICT


class SyncRunning(Refusal):
    """Another process is still synchronising after the longest wait."""

    code = "sync_running"
    category = Category.CONFLICT
    retry_after = 30


class RateLimited(Refusal):
    """`remaining_seconds` until the next try may be made; at least 1 is told."""

    code = "rate_limited"
    category = Category.LIMITED

    def __init__(self, remaining_seconds: int) -> None:
        seconds = max(1, remaining_seconds)
        super().__init__(retry_after=seconds, remaining_seconds=seconds)


# --- Something is away ---


class DatabaseAway(Refusal):
    """Our own database cannot be reached."""

    code = "database_away"
    category = Category.AWAY
    retry_after = 5


class PlayersAway(Refusal):
    """AuthMe's table cannot be read or written, so nobody may be told that a name is free."""

    code = "players_away"
    category = Category.AWAY
    retry_after = 5


class MailUnavailable(Refusal):
    """E-mail is switched off here."""

    code = "mail_unavailable"
    category = Category.AWAY
    retry_after = 300


class Overloaded(Refusal):
    """More work waits than we take on, such as passwords to be hashed."""

    code = "overloaded"
    category = Category.AWAY
    retry_after = 2


class InternalFault(Refusal):
    """What a caller is told of a bug. Nobody raises it: it is sent for every exception that is no refusal."""

    code = "internal"
    category = Category.INTERNAL

    def __init__(self, request_id: str) -> None:
        super().__init__(request_id=request_id)


# --- Bugs ---


def describe_bug(error: BaseException) -> str:
    """The types and the frames of an exception and of those that led to it, newest first, on one line.

    Never the messages: those of the database drivers carry the values of the statement, which may be hashes.
    """
    return "; caused by ".join(f"{type(link).__qualname__} at {_frames(link)}" for link in _chain(error))


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _frames(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return " < ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(frames))
