"""Every refusal that a client can get: raised by the rule that is broken, turned into a reply by the HTTP layer.

The transaction around it rolls back. The category is the status; the texts are `refusal.<code>` in
`translations/*.toml`, or `fault.<code>.<fault>` where a `fault` says which rule was broken.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import ClassVar


class Category(IntEnum):
    """The kind of refusal; the number is the HTTP status."""

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
    HEADERS = 431
    INTERNAL = 500
    UNAVAILABLE = 503


_BUSINESS_CATEGORIES = frozenset({Category.CONFLICT, Category.INVALID, Category.LIMITED})

REFUSALS: dict[str, type[Refusal]] = {}
"""Every refusal by its code."""


class Refusal(Exception):
    """A negative answer for the client, in the client's language.

    `code` is stable and machine-readable, `field` names the field of the request that it is about (None: no
    single one) and `facts` hold what a client may need. Facts are passed in snake case and kept under their
    names in JSON: `Refusal(remaining_seconds=5).facts == {"remainingSeconds": 5}`. They are public: never put
    a secret there.
    """

    code: ClassVar[str] = ""
    category: ClassVar[Category]
    field: str | None = None

    is_business: ClassVar[bool] = False
    """True for an answer of the service itself, sent with status 200 under `http.legacy_status`. Requests that
    are malformed, lack the permission, or meet something unavailable keep their status."""

    retry_after: int | None = None
    """Seconds after which a retry makes sense; None: unknown or pointless."""

    def __init_subclass__(
        cls,
        code: str,
        category: Category,
        *,
        field: str | None = None,
        is_business: bool | None = None,
        retry_after: int | None = None,
    ) -> None:
        """`is_business` None: as the category says."""
        super().__init_subclass__()
        cls.code = code
        cls.category = category
        cls.field = field
        cls.is_business = category in _BUSINESS_CATEGORIES if is_business is None else is_business
        cls.retry_after = retry_after
        if REFUSALS.setdefault(code, cls) is not cls:
            raise TypeError(f"two refusals with the code {code!r}")

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


class MalformedBody(Refusal, code="malformed_body", category=Category.MALFORMED):
    """Not JSON, not an object, or JSON that two parsers would understand differently."""


class MalformedRequest(Refusal, code="malformed_request", category=Category.MALFORMED):
    """A query, header or framing that cannot be parsed; bodies have `MalformedBody`."""


class InvalidField(Refusal, code="invalid_field", category=Category.INVALID):
    """A field of the body or query is missing, has the wrong type or is out of bounds."""

    def __init__(self, field: str) -> None:
        super().__init__(field=field)


class UnsupportedMediaType(Refusal, code="unsupported_media_type", category=Category.UNSUPPORTED):
    """The body is of a media type that the route does not accept."""


class BodyTooLarge(Refusal, code="body_too_large", category=Category.TOO_LARGE):
    """The body has more than `maxBytes`."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes=max_bytes)


class HeadersTooLarge(Refusal, code="headers_too_large", category=Category.HEADERS):
    """The headers have more than `maxBytes`, as they do when too many cookies were set."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes=max_bytes)


class UnknownPath(Refusal, code="unknown_path", category=Category.NOT_FOUND):
    """No route has this path."""


class MethodNotAllowed(Refusal, code="method_not_allowed", category=Category.METHOD):
    """The path has no such method; `allowed` are those it has, as in the Allow header."""

    def __init__(self, allowed: list[str]) -> None:
        super().__init__(allowed=allowed)
        self.allowed = allowed


# --- The client's identity and permissions ---


class Unauthorized(Refusal, code="unauthorized", category=Category.UNAUTHENTICATED):
    """No access token, or one that is expired, revoked or not ours."""


class Forbidden(Refusal, code="forbidden", category=Category.FORBIDDEN):
    """A valid access token without the permission."""


class BadCredentials(Refusal, code="bad_credentials", category=Category.UNAUTHENTICATED, is_business=True):
    """Unknown name or wrong password: one answer for both."""


class TotpRequired(Refusal, code="totp_required", category=Category.UNAUTHENTICATED, field="totp", is_business=True):
    """The password was right; the user's second factor is missing, wrong or used already."""


class NotOperator(Refusal, code="not_operator", category=Category.FORBIDDEN, is_business=True):
    """The credentials were right, but not those of an approved operator.

    `fault`: "not_approved" for an operator whose account has not been approved.
    """

    def __init__(self, *, is_operator: bool = False) -> None:
        super().__init__(fault="not_approved" if is_operator else None)


class TotpSetupRequired(Refusal, code="totp_setup_required", category=Category.FORBIDDEN, is_business=True):
    """An operator's credentials were right, but the host requires a second factor, and there is none yet."""


class Banned(Refusal, code="banned", category=Category.FORBIDDEN, is_business=True):
    """The user is banned; sent only after the right password. A permanent ban has no `banExpiresAt`.

    `fault`: "for_a_reason" where `reason` says which.
    """

    def __init__(self, reason: str | None = None, expires_at: int | None = None) -> None:
        super().__init__(fault="for_a_reason" if reason else None, reason=reason, ban_expires_at=expires_at)


class SessionNotFound(
    Refusal, code="session_not_found", category=Category.NOT_FOUND, field="session", is_business=True
):
    """The user has no such session, or no longer."""


class UserNotFound(Refusal, code="user_not_found", category=Category.NOT_FOUND, field="username", is_business=True):
    """No user has this name."""


class ApplicationNotFound(Refusal, code="application_not_found", category=Category.NOT_FOUND, is_business=True):
    """One answer for a token that is wrong or missing, of a deleted user, or of an earlier address of the user."""


class ProofRequired(Refusal, code="proof_required", category=Category.UNAUTHENTICATED, is_business=True):
    """The request came without a token that carries the permission, and without another accepted proof."""


# --- A rule is broken ---


class InvalidUsername(Refusal, code="invalid_username", category=Category.INVALID, field="username"):
    """`fault`: "forbidden_characters" (see `regex`), "too_short" or "too_long" (see the lengths)."""

    def __init__(
        self,
        fault: str = "forbidden_characters",
        *,
        regex: str | None = None,
        min_length: int | None = None,
        max_length: int | None = None,
    ) -> None:
        super().__init__(fault=fault, regex=regex, min_length=min_length, max_length=max_length)


class ReservedUsername(Refusal, code="reserved_username", category=Category.INVALID, field="username"):
    """The host keeps this name for itself."""


class InvalidTotp(Refusal, code="invalid_totp", category=Category.INVALID, field="totp"):
    """The code is not one of the authenticator app that is being set up."""


class InvalidEmail(Refusal, code="invalid_email", category=Category.INVALID, field="email"):
    """`fault`: "syntax", or "alias" where aliases of one mailbox are not accepted."""

    def __init__(self, fault: str = "syntax") -> None:
        super().__init__(fault=fault)


class DomainNotAllowed(Refusal, code="domain_not_allowed", category=Category.INVALID, field="email"):
    """The e-mail's domain is not on the list, is blocked, or is an address in brackets."""


class InvalidPassword(Refusal, code="invalid_password", category=Category.INVALID, field="password"):
    """`fault`: "forbidden_characters" (see `regex`), "too_short" or "too_long" (see the lengths),
    "same_as_username" or "unsafe".
    """

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


class PasswordRequired(Refusal, code="password_required", category=Category.INVALID, field="password"):
    """The request needs a password and has none."""


class InvalidCode(Refusal, code="invalid_code", category=Category.INVALID, field="code"):
    """One answer for a code that is wrong, used, expired or was never sent, and after too many tries.

    `fault`: "proof" for a proof that is used, expired, of another address, or not ours; the field is `proof`.
    """

    def __init__(self, *, is_proof: bool = False) -> None:
        super().__init__(field="proof" if is_proof else None, fault="proof" if is_proof else None)


class CaptchaRequired(Refusal, code="captcha_required", category=Category.INVALID, field="captchaAnswer"):
    """The captcha's token or its answer is missing."""


class InvalidCaptcha(Refusal, code="invalid_captcha", category=Category.INVALID, field="captchaAnswer"):
    """One answer for a wrong solution, and for a challenge that is used, expired, being used or not ours."""


class InvalidAnswer(Refusal, code="invalid_answer", category=Category.INVALID, field="answers"):
    """An answer of the questionnaire breaks a rule.

    `fault`: "required", "wrong_type", "unknown_question", "unknown_option", "repeated_option", "too_few_options",
    "too_many_options" (see the selections), "too_short" or "too_long" (see the lengths).
    """

    def __init__(
        self,
        fault: str,
        question_id: int,
        *,
        min_selections: int | None = None,
        max_selections: int | None = None,
        min_length: int | None = None,
        max_length: int | None = None,
    ) -> None:
        super().__init__(
            fault=fault,
            question_id=question_id,
            min_selections=min_selections,
            max_selections=max_selections,
            min_length=min_length,
            max_length=max_length,
        )


class QuestionnaireRequired(Refusal, code="questionnaire_required", category=Category.INVALID, field="questionnaire"):
    """One answer for a questionnaire token that is missing, unknown, expired or used."""


class QuestionnaireFailed(Refusal, code="questionnaire_failed", category=Category.INVALID, field="questionnaire"):
    """The answers behind the token did not pass.

    `fault`: "kept" where `score` is below `passScore`, the earlier answers stay, and the next are accepted in
    `remainingSeconds`.
    """

    def __init__(
        self, score: int | None = None, pass_score: int | None = None, remaining_seconds: int | None = None
    ) -> None:
        fault = None if score is None else "kept"
        super().__init__(fault=fault, score=score, pass_score=pass_score, remaining_seconds=remaining_seconds)


class WrongPassword(Refusal, code="wrong_password", category=Category.INVALID, field="currentPassword"):
    """The current password, required to change it, is wrong."""


class CodeRequired(Refusal, code="code_required", category=Category.INVALID, field="code"):
    """The request needs the code that is mailed to the new e-mail address, and has none."""


class LoginTooOld(Refusal, code="login_too_old", category=Category.INVALID):
    """The request has no password, and the session began more than `minutes` ago."""

    def __init__(self, minutes: int) -> None:
        super().__init__(minutes=minutes)


class ResetTokenInvalid(Refusal, code="invalid_token", category=Category.INVALID, field="token"):
    """A link to set a password is used, expired or not ours."""


class InvalidState(Refusal, code="invalid_state", category=Category.INVALID, field="state"):
    """A chat provider's callback whose state is missing, used, expired or was issued to another browser."""


class ChatLinkRequired(Refusal, code="chat_link_required", category=Category.INVALID, field="linkToken"):
    """Registering needs a chat account that was linked before; the request has no valid link."""

    def __init__(self) -> None:
        super().__init__(discord_required=True)  # for existing front ends


class LinkTokenInvalid(Refusal, code="invalid_link_token", category=Category.INVALID, field="linkToken"):
    """A link token that is used, expired or not ours."""


# --- The current state does not allow it ---


class UsernameTaken(Refusal, code="username_taken", category=Category.CONFLICT, field="username"):
    """Another user or player has this name."""


class ReapplyLater(Refusal, code="reapply_later", category=Category.CONFLICT, field="username"):
    """The name is that of a rejected user, and can be registered again in `remainingSeconds`, at `reapplyAt`."""

    def __init__(self, remaining_seconds: int, reapply_at: int) -> None:
        seconds = max(1, remaining_seconds)
        super().__init__(retry_after=seconds, remaining_seconds=seconds, reapply_at=reapply_at)


class EmailTaken(Refusal, code="email_taken", category=Category.CONFLICT, field="email"):
    """Another user has this e-mail address."""


class RegistrationClosed(Refusal, code="registration_closed", category=Category.CONFLICT):
    """The host does not accept registrations."""


class TotpAlreadyOn(Refusal, code="totp_already_on", category=Category.CONFLICT):
    """The user has a second factor, set up here or in the game."""


class TotpNotOn(Refusal, code="totp_not_on", category=Category.CONFLICT):
    """The user has no second factor, or has not begun to set one up."""


class WrongStatus(Refusal, code="wrong_status", category=Category.CONFLICT):
    """The transition is not allowed from the user's `status`, or another admin was faster."""

    def __init__(self, status: str) -> None:
        super().__init__(status=status)


class ProtectedOperator(Refusal, code="protected_operator", category=Category.CONFLICT, field="username"):
    """Admins cannot act on themselves or on operators of the same or a higher level."""


class PlayerReplaced(Refusal, code="player_replaced", category=Category.CONFLICT, field="username"):
    """The operator to be approved is not the player who has the name in the game now."""


class PasswordChoiceNeeded(Refusal, code="password_choice_needed", category=Category.CONFLICT, field="passwordChoice"):
    """The player registered anew in the game: the approval has to say which password counts.

    `fault`: why a choice is not possible: "nothing_to_keep", "nothing_to_take", or "no_address" for the link.
    """

    def __init__(self, fault: str | None = None) -> None:
        super().__init__(fault=fault)


class NotEnabled(Refusal, code="not_enabled", category=Category.CONFLICT):
    """The route's feature is switched off."""


class ChatAccountTaken(Refusal, code="chat_account_taken", category=Category.CONFLICT):
    """The chat account belongs to another user."""


class ChatNotMember(Refusal, code="chat_not_member", category=Category.CONFLICT):
    """`fault`: "not_in_guild", or "lacks_role" in that guild."""

    def __init__(self, fault: str = "not_in_guild") -> None:
        super().__init__(fault=fault)


class ChatDenied(Refusal, code="chat_denied", category=Category.CONFLICT):
    """The player declined to share their profile at the chat provider."""


class ChatNotLinked(Refusal, code="chat_not_linked", category=Category.CONFLICT):
    """There is no chat account to unlink."""


class MailNotFound(Refusal, code="mail_not_found", category=Category.NOT_FOUND, field="id"):
    """No mail has this id, or it was purged."""


class MailNotResendable(Refusal, code="mail_not_resendable", category=Category.CONFLICT, field="id"):
    """The mail cannot be sent again. `fault`: "waiting" (it is still to be sent) or "pointless"."""

    def __init__(self, fault: str) -> None:
        super().__init__(fault=fault)


class SyncRunning(Refusal, code="sync_running", category=Category.CONFLICT, retry_after=30):
    """Another process is still synchronizing after the longest wait."""


class RateLimited(Refusal, code="rate_limited", category=Category.LIMITED):
    """Too many attempts; the next may be made in `remainingSeconds`, at least 1.

    `captchaHelps`: true where it may be made at once with a solved captcha. `fault`: "app_codes" where it may be made
    at once with a recovery code.
    """

    def __init__(self, remaining_seconds: int, *, captcha_helps: bool = False, fault: str | None = None) -> None:
        seconds = max(1, remaining_seconds)
        helps = captcha_helps or None
        super().__init__(retry_after=seconds, remaining_seconds=seconds, captcha_helps=helps, fault=fault)


class TooManyStreams(Refusal, code="too_many_streams", category=Category.LIMITED, retry_after=30):
    """No further event stream can be served, to this admin or to any."""

    def __init__(self) -> None:
        super().__init__(remaining_seconds=30)


# --- Something is unavailable ---


class DatabaseUnavailable(Refusal, code="database_away", category=Category.UNAVAILABLE, retry_after=5):
    """Our own database cannot be reached."""


class AuthMeUnavailable(Refusal, code="players_away", category=Category.UNAVAILABLE, retry_after=5):
    """AuthMe's table cannot be read or written, so neither names nor passwords can be checked."""


class MailUnavailable(Refusal, code="mail_unavailable", category=Category.UNAVAILABLE, retry_after=300):
    """E-mail is switched off here."""


class ProviderUnavailable(Refusal, code="provider_away", category=Category.UNAVAILABLE, retry_after=30):
    """The chat provider gave no usable response."""


class Overloaded(Refusal, code="overloaded", category=Category.UNAVAILABLE, retry_after=2):
    """A bounded queue is full, such as that of passwords to hash, or too many requests are sent at a time."""


class Busy(Refusal, code="busy", category=Category.UNAVAILABLE, retry_after=1):
    """A transaction lost against others on the same rows each time it was repeated. Nothing was changed."""


class InternalServerError(Refusal, code="internal", category=Category.INTERNAL):
    """The reply to a bug. It is never raised, but sent for every exception that is not a `Refusal`."""

    def __init__(self, request_id: str) -> None:
        super().__init__(request_id=request_id)
