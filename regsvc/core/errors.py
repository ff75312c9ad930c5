"""Every refusal, named.

A rule *raises* a refusal where it notices the reason; the transaction around it rolls back, and the HTTP
layer turns the refusal's category into a status and its code into words (`translations/*.toml`, key
`refusal.<code>`).
"""

from __future__ import annotations

from regsvc.core.refusal import Category, Refusal

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
    """Told only after a right password. `banExpiresAt` is not there for a ban without end.

    `fault`: "for_a_reason" where `reason` says which.
    """

    code = "banned"
    category = Category.FORBIDDEN
    is_business = True

    def __init__(self, reason: str | None = None, expires_at: int | None = None) -> None:
        super().__init__(fault="for_a_reason" if reason else None, reason=reason, ban_expires_at=expires_at)


class UserNotFound(Refusal):
    code = "user_not_found"
    category = Category.NOT_FOUND
    field = "username"
    is_business = True


class ProofRequired(Refusal):
    """Neither a token that carries the right nor anything else that proves it came with the request."""

    code = "proof_required"
    category = Category.UNAUTHENTICATED
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


class CaptchaRequired(Refusal):
    """This takes a captcha: its token or its answer did not come."""

    code = "captcha_required"
    category = Category.INVALID
    field = "captchaAnswer"


class InvalidCaptcha(Refusal):
    """One answer for a wrong one, and for a challenge that is used, expired, being used or not ours."""

    code = "invalid_captcha"
    category = Category.INVALID
    field = "captchaAnswer"


class InvalidAnswer(Refusal):
    """An answer of the questionnaire breaks a rule.

    `fault`: "required", "wrong_type", "unknown_question", "unknown_option", "repeated_option", "too_few_options",
    "too_many_options" (see the selections), "too_short" or "too_long" (see the lengths).
    """

    code = "invalid_answer"
    category = Category.INVALID
    field = "answers"

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


class QuestionnaireRequired(Refusal):
    """One answer for a questionnaire's token that is missing, unknown, expired or used."""

    code = "questionnaire_required"
    category = Category.INVALID
    field = "questionnaire"


class QuestionnaireFailed(Refusal):
    """The answers behind the token did not pass."""

    code = "questionnaire_failed"
    category = Category.INVALID
    field = "questionnaire"


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


class InvalidState(Refusal):
    """The answer of a chat provider that nobody here asked for: its state is foreign, used, expired or missing."""

    code = "invalid_state"
    category = Category.INVALID
    field = "state"


class ChatLinkRequired(Refusal):
    """Registering needs a chat account that was linked before; no living link was shown."""

    code = "chat_link_required"
    category = Category.INVALID
    field = "linkToken"

    def __init__(self) -> None:
        super().__init__(discord_required=True)  # what existing front ends look for


class LinkTokenInvalid(Refusal):
    """A link token that is used, expired or not ours."""

    code = "invalid_link_token"
    category = Category.INVALID
    field = "linkToken"


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


class ChatAccountTaken(Refusal):
    """The chat account belongs to another user."""

    code = "chat_account_taken"
    category = Category.CONFLICT


class ChatNotMember(Refusal):
    """`fault`: "not_in_guild", or "lacks_role" in that guild."""

    code = "chat_not_member"
    category = Category.CONFLICT

    def __init__(self, fault: str = "not_in_guild") -> None:
        super().__init__(fault=fault)


class ChatDenied(Refusal):
    """The player did not let the chat provider tell us who he is."""

    code = "chat_denied"
    category = Category.CONFLICT


class ChatNotLinked(Refusal):
    """There is no chat account to unlink."""

    code = "chat_not_linked"
    category = Category.CONFLICT


class MailNotFound(Refusal):
    """No mail has this id, or it was purged."""

    code = "mail_not_found"
    category = Category.NOT_FOUND
    field = "id"


class MailNotResendable(Refusal):
    """A mail that does not go out again. `fault` says why: `waiting` (it has yet to go out), or `pointless`."""

    code = "mail_not_resendable"
    category = Category.CONFLICT
    field = "id"

    def __init__(self, fault: str) -> None:
        super().__init__(fault=fault)


class SyncRunning(Refusal):
    """Another process is still synchronising after the longest wait."""

    code = "sync_running"
    category = Category.CONFLICT
    retry_after = 30


class RateLimited(Refusal):
    """Too many tries; the next may be made in `remainingSeconds`, at least 1."""

    code = "rate_limited"
    category = Category.LIMITED

    def __init__(self, remaining_seconds: int) -> None:
        seconds = max(1, remaining_seconds)
        super().__init__(retry_after=seconds, remaining_seconds=seconds)


class TooManyStreams(Refusal):
    """So many listen to events already, or this admin does in so many places, that no more can be served."""

    code = "too_many_streams"
    category = Category.LIMITED
    retry_after = 30

    def __init__(self) -> None:
        super().__init__(remaining_seconds=30)


# --- Something is away ---


class DatabaseAway(Refusal):
    """Our own database cannot be reached."""

    code = "database_away"
    category = Category.AWAY
    retry_after = 5


class PlayersAway(Refusal):
    """AuthMe's table cannot be read or written, so nobody can tell what a name or a password is worth."""

    code = "players_away"
    category = Category.AWAY
    retry_after = 5


class MailUnavailable(Refusal):
    """E-mail is switched off here."""

    code = "mail_unavailable"
    category = Category.AWAY
    retry_after = 300


class ProviderAway(Refusal):
    """The chat provider did not answer, or with something that is no answer."""

    code = "provider_away"
    category = Category.AWAY
    retry_after = 30


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
