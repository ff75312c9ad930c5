"""Every refusal that a client can get: raised by the rule that is broken, turned into a reply by the HTTP layer.

The transaction around it rolls back. The category is the status; the texts are `refusal.<code>` in
`translations/*.toml`, or `fault.<code>.<fault>` where a `fault` says which rule was broken.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import ClassVar

from regsvc.core.text import MAX_ANSWER


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

    usual_facts: ClassVar[dict[str, object]] = {}
    """Facts by their names in JSON, for those that are not given."""

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

    def __init__(
        self, fault: str | None = None, *, field: str | None = None, retry_after: int | None = None, **facts: object
    ) -> None:
        """`fault` says which rule was broken, where one code stands for several."""
        super().__init__(self.code)
        if field is not None:
            self.field = field
        if retry_after is not None:
            self.retry_after = retry_after
        given = {"fault": fault} | facts if fault is not None else facts
        self.facts = self.usual_facts | {_camel(name): value for name, value in given.items() if value is not None}


def _camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match.group(1).upper(), name)


def _define(
    code: str,
    category: Category,
    description: str,
    *,
    field: str | None = None,
    is_business: bool | None = None,
    retry_after: int | None = None,
    **usual_facts: object,
) -> type[Refusal]:
    """Return a kind of refusal; `description` is its docstring, `usual_facts` are sent unless others are given."""

    class Defined(Refusal, code=code, category=category, field=field, is_business=is_business, retry_after=retry_after):
        pass

    Defined.__name__ = Defined.__qualname__ = "".join(word.capitalize() for word in code.split("_"))
    Defined.__doc__ = description
    Defined.usual_facts = {_camel(name): value for name, value in usual_facts.items()}
    return Defined


# --- The request itself ---


MalformedBody = _define(
    "malformed_body",
    Category.MALFORMED,
    "Not JSON, not an object, or JSON that two parsers would understand differently.",
)
MalformedRequest = _define(
    "malformed_request",
    Category.MALFORMED,
    "A query, header or framing that cannot be parsed; bodies have `MalformedBody`.",
)


class InvalidField(Refusal, code="invalid_field", category=Category.INVALID):
    """A field of the body or query is missing, has the wrong type or is out of bounds."""

    def __init__(self, field: str) -> None:
        super().__init__(field=field)


UnsupportedMediaType = _define(
    "unsupported_media_type", Category.UNSUPPORTED, "The body is of a media type that the route does not accept."
)
BodyTooLarge = _define("body_too_large", Category.TOO_LARGE, "The body has more than `maxBytes`.")
HeadersTooLarge = _define(
    "headers_too_large",
    Category.HEADERS,
    "The headers have more than `maxBytes`, as they do when too many cookies were set.",
)
UnknownPath = _define("unknown_path", Category.NOT_FOUND, "No route has this path.")


class MethodNotAllowed(Refusal, code="method_not_allowed", category=Category.METHOD):
    """The path has no such method; `allowed` are those it has, as in the Allow header."""

    def __init__(self, allowed: list[str]) -> None:
        super().__init__(allowed=allowed)
        self.allowed = allowed


# --- The client's identity and permissions ---


Unauthorized = _define(
    "unauthorized", Category.UNAUTHENTICATED, "No access token, or one that is expired, revoked or not ours."
)
Forbidden = _define("forbidden", Category.FORBIDDEN, "A valid access token without the permission.")
BadCredentials = _define(
    "bad_credentials",
    Category.UNAUTHENTICATED,
    "Unknown name or wrong password: one answer for both.",
    is_business=True,
)
TotpRequired = _define(
    "totp_required",
    Category.UNAUTHENTICATED,
    "The password was right; the user's second factor is missing, wrong or used already.",
    field="totp",
    is_business=True,
)
NotOperator = _define(
    "not_operator",
    Category.FORBIDDEN,
    "The credentials were right, but not those of an approved operator.",
    is_business=True,
)
"""`fault`: "not_approved" for an operator whose account has not been approved."""
TotpSetupRequired = _define(
    "totp_setup_required",
    Category.FORBIDDEN,
    "An operator's credentials were right, but the host requires a second factor, and there is none yet.",
    is_business=True,
)


class Banned(Refusal, code="banned", category=Category.FORBIDDEN, is_business=True):
    """The user is banned; sent only after the right password. A permanent ban has no `banExpiresAt`.

    `fault`: "for_a_reason" where `reason` says which.
    """

    def __init__(self, reason: str | None = None, expires_at: int | None = None) -> None:
        super().__init__(fault="for_a_reason" if reason else None, reason=reason, ban_expires_at=expires_at)


SessionNotFound = _define(
    "session_not_found",
    Category.NOT_FOUND,
    "The user has no such session, or no longer.",
    field="session",
    is_business=True,
)
UserNotFound = _define(
    "user_not_found", Category.NOT_FOUND, "No user has this name.", field="username", is_business=True
)
ApplicationNotFound = _define(
    "application_not_found",
    Category.NOT_FOUND,
    "One answer for a token that is wrong or missing, of a deleted user, or of an earlier address of the user.",
    is_business=True,
)
ProofRequired = _define(
    "proof_required",
    Category.UNAUTHENTICATED,
    "The request came without a token that carries the permission, and without another accepted proof.",
    is_business=True,
)
ChatPersonUnknown = _define(
    "chat_person_unknown",
    Category.FORBIDDEN,
    "The account on a chat platform is linked to no member of the team.",
)
ChatMessageUnknown = _define(
    "chat_message_unknown",
    Category.NOT_FOUND,
    "The message is in another channel than those configured, or about no application that is known.",
)
ChatCodeInvalid = _define(
    "chat_code_invalid",
    Category.NOT_FOUND,
    "The code that links a chat account is wrong, used or older than 10 minutes.",
)

# --- A rule is broken ---


InvalidUsername = _define(
    "invalid_username",
    Category.INVALID,
    '`fault`: "forbidden_characters" (see `regex`), "too_short" or "too_long" (see the lengths).',
    field="username",
    fault="forbidden_characters",
)
ReservedUsername = _define(
    "reserved_username", Category.INVALID, "The host keeps this name for itself.", field="username"
)
InvalidTotp = _define(
    "invalid_totp", Category.INVALID, "The code is not one of the authenticator app that is being set up.", field="totp"
)
InvalidEmail = _define(
    "invalid_email",
    Category.INVALID,
    '`fault`: "syntax", or "alias" where aliases of one mailbox are not accepted.',
    field="email",
    fault="syntax",
)
DomainNotAllowed = _define(
    "domain_not_allowed",
    Category.INVALID,
    "The e-mail's domain is not on the list, is blocked, or is an address in brackets.",
    field="email",
)
InvalidPassword = _define(
    "invalid_password",
    Category.INVALID,
    '`fault`: "forbidden_characters" (see `regex`), "too_short" or "too_long" (see the lengths), "same_as_username" or '
    '"unsafe".',
    field="password",
)
PasswordRequired = _define(
    "password_required", Category.INVALID, "The request needs a password and has none.", field="password"
)
InvalidCode = _define(
    "invalid_code",
    Category.INVALID,
    'One answer for a code that is wrong, used, expired or was never sent. `fault`: "tries_used" once this client has '
    "tried as many wrong ones as a code allows.",
    field="code",
)
"""`fault`: "proof" for a proof that is used, expired, of another address, or not ours; the field is `proof`."""
CaptchaRequired = _define(
    "captcha_required", Category.INVALID, "The captcha's token or its answer is missing.", field="captchaAnswer"
)
InvalidCaptcha = _define(
    "invalid_captcha",
    Category.INVALID,
    "One answer for a wrong solution, and for a challenge that is used, expired, being used or not ours.",
    field="captchaAnswer",
)
InvalidAnswer = _define(
    "invalid_answer", Category.INVALID, "An answer of the questionnaire breaks a rule.", field="answers"
)
"""`fault`: "required", "wrong_type", "unknown_question", "unknown_option", "repeated_option", "too_few_options",
"too_many_options" (see the selections), "too_short" or "too_long" (see the lengths)."""
QuestionnaireRequired = _define(
    "questionnaire_required",
    Category.INVALID,
    "One answer for a questionnaire token that is missing, unknown, expired or used.",
    field="questionnaire",
)
QuestionnaireFailed = _define(
    "questionnaire_failed", Category.INVALID, "The answers behind the token did not pass.", field="questionnaire"
)
"""`fault`: "kept" where `score` is below `passScore`, the earlier answers stay, and the next are accepted in
`remainingSeconds`."""
WrongPassword = _define(
    "wrong_password",
    Category.INVALID,
    "The current password, required to change it, is wrong.",
    field="currentPassword",
)
CurrentPasswordNeeded = _define(
    "current_password_needed",
    Category.INVALID,
    "What is to be made outlives the session: the request needs the password of the account that makes it, and a code "
    "of its second factor if there is one (`totp`).",
    field="currentPassword",
)
CodeRequired = _define(
    "code_required",
    Category.INVALID,
    "The request needs the code that is mailed to the new e-mail address, and has none.",
    field="code",
)
LoginTooOld = _define(
    "login_too_old", Category.INVALID, "The request has no password, and the session began more than `minutes` ago."
)
"""`fault`: "operator" for an operator, whose password is needed however fresh the session is."""
ResetTokenInvalid = _define(
    "invalid_token", Category.INVALID, "A link to set a password is used, expired or not ours.", field="token"
)
InvalidState = _define(
    "invalid_state",
    Category.INVALID,
    "A chat provider's callback whose state is missing, used, expired or was issued to another browser.",
    field="state",
)
ChatLinkRequired = _define(
    "chat_link_required",
    Category.INVALID,
    "Registering needs a chat account that was linked before; the request has no valid link.",
    field="linkToken",
    discord_required=True,
)
LinkTokenInvalid = _define(
    "invalid_link_token", Category.INVALID, "A link token that is used, expired or not ours.", field="linkToken"
)

# --- The current state does not allow it ---


UsernameTaken = _define("username_taken", Category.CONFLICT, "Another user or player has this name.", field="username")


class ReapplyLater(Refusal, code="reapply_later", category=Category.CONFLICT, field="username"):
    """The name is that of a rejected user, and can be registered again in `remainingSeconds`, at `reapplyAt`.

    `field` is "email" where it is the proven address that can apply again then (`registration.reapply_holds`).
    """

    def __init__(self, remaining_seconds: int, reapply_at: int, *, field: str = "username") -> None:
        seconds = max(1, remaining_seconds)
        fault = "address" if field == "email" else None
        super().__init__(fault, field=field, retry_after=seconds, remaining_seconds=seconds, reapply_at=reapply_at)


EmailTaken = _define(
    "email_taken",
    Category.CONFLICT,
    "Another user has this e-mail address; `fault` is `banned` where a banned one has another of the same mailbox.",
    field="email",
)
RegistrationClosed = _define("registration_closed", Category.CONFLICT, "The host does not accept registrations.")
TotpAlreadyOn = _define(
    "totp_already_on", Category.CONFLICT, "The user has a second factor, set up here or in the game."
)
TotpNotOn = _define("totp_not_on", Category.CONFLICT, "The user has no second factor, or has not begun to set one up.")


class WrongStatus(Refusal, code="wrong_status", category=Category.CONFLICT):
    """The transition is not allowed from the user's `status`, or another admin was faster."""

    def __init__(self, status: str) -> None:
        super().__init__(status=status)


NothingAsked = _define("nothing_asked", Category.CONFLICT, "There is no question that the applicant could answer.")
AnswerTooLate = _define(
    "answer_too_late", Category.CONFLICT, "The application was decided before the answer, which is kept with it."
)
AnswerTooLong = _define(
    "answer_too_long",
    Category.INVALID,
    "The answer has more than `maxLength` characters.",
    field="text",
    max_length=MAX_ANSWER,
)
TooManyNotes = _define(
    "too_many_notes", Category.CONFLICT, "There are as many notes about the user as are possible.", field="username"
)
TooManyQuestions = _define(
    "too_many_questions", Category.CONFLICT, "The applicant was asked as often as is possible.", field="username"
)
ProtectedOperator = _define(
    "protected_operator",
    Category.CONFLICT,
    "Members of the team cannot act on themselves, or on others of the same or a higher rank.",
    field="username",
)
UndoOfOneself = _define("undo_of_oneself", Category.CONFLICT, "Nobody undoes their own decisions.", field="of")
ActorUnknown = _define(
    "actor_unknown", Category.NOT_FOUND, "The audit log knows no such actor.", field="of", is_business=True
)
SinceInFuture = _define("since_in_future", Category.INVALID, "The beginning is still to come.", field="since")
UntilBeforeSince = _define("until_before_since", Category.INVALID, "The end is not after the beginning.", field="until")
AnswersChanged = _define(
    "answers_changed",
    Category.CONFLICT,
    "The applicant has changed their answers since the message that the decision is about.",
)
InvalidMembership = _define(
    "invalid_membership",
    Category.INVALID,
    'An end of a membership that is none. `fault`: "in_the_past", "no_duration", "too_long" (after the year 9999), or '
    '"two_ends" for a time and a duration at once.',
    field="until",
    fault="in_the_past",
)
MembershipNeverEnds = _define(
    "membership_never_ends",
    Category.CONFLICT,
    "The user is of the team, whose memberships do not end.",
    field="username",
)
CannotAskToStay = _define(
    "cannot_ask_to_stay",
    Category.CONFLICT,
    'The user cannot ask to stay now. `fault`: "off" (`membership.renew`), "not_ending", or "asked" before.',
    fault="off",
)
NotAskedToStay = _define(
    "not_asked_to_stay", Category.CONFLICT, "The user has not asked to stay, or it is decided.", field="username"
)
RoleNeedsApproval = _define(
    "role_needs_approval", Category.CONFLICT, "Only approved users can have a role.", field="username"
)
InvitationInvalid = _define("invalid_invitation", Category.INVALID, "The invitation is not ours.", field="invitation")
InvitationRevoked = _define(
    "invitation_revoked",
    Category.CONFLICT,
    "The invitation was revoked, or its maker has lost the right.",
    field="invitation",
)
InvitationExpired = _define("invitation_expired", Category.CONFLICT, "The invitation has expired.", field="invitation")
InvitationUsedUp = _define(
    "invitation_used_up", Category.CONFLICT, "The invitation was used as often as it may be.", field="invitation"
)
NoSuchInvitation = _define(
    "no_such_invitation", Category.NOT_FOUND, "No invitation in force has this id.", field="id", is_business=True
)
TokenNameTaken = _define("token_name_taken", Category.CONFLICT, "An active token has this name.", field="name")
NoSuchToken = _define(
    "no_such_token", Category.NOT_FOUND, "No active token has this name.", field="name", is_business=True
)
PlayerReplaced = _define(
    "player_replaced",
    Category.CONFLICT,
    "The operator to be approved is not the player who has the name in the game now.",
    field="username",
)
PasswordChoiceNeeded = _define(
    "password_choice_needed",
    Category.CONFLICT,
    "The player registered anew in the game: the approval has to say which password counts.",
    field="passwordChoice",
)
"""`fault`: why a choice is not possible: "nothing_to_keep", "nothing_to_take", or "no_address" for the link."""
NotEnabled = _define("not_enabled", Category.CONFLICT, "The route's feature is switched off.")
"""`fault`: "codes" or "phones" for what existing front ends offer, "reset_by_link" where a link is mailed instead."""
ChatAccountTaken = _define("chat_account_taken", Category.CONFLICT, "The chat account belongs to another user.")
ChatNotMember = _define(
    "chat_not_member",
    Category.CONFLICT,
    '`fault`: "not_in_guild", or "lacks_role" in that guild.',
    fault="not_in_guild",
)
ChatDenied = _define(
    "chat_denied", Category.CONFLICT, "The player declined to share their profile at the chat provider."
)
ChatNotLinked = _define("chat_not_linked", Category.CONFLICT, "There is no chat account to unlink.")
MailNotFound = _define("mail_not_found", Category.NOT_FOUND, "No mail has this id, or it was purged.", field="id")
MailNotResendable = _define(
    "mail_not_resendable",
    Category.CONFLICT,
    'The mail cannot be sent again. `fault`: "waiting" (it is still to be sent) or "pointless".',
    field="id",
)
SyncRunning = _define(
    "sync_running", Category.CONFLICT, "Another process is still synchronizing after the longest wait.", retry_after=30
)


class RateLimited(Refusal, code="rate_limited", category=Category.LIMITED):
    """Too many attempts; the next may be made in `remainingSeconds`, at least 1.

    `captchaHelps`: true where it may be made at once with a solved captcha. `fault`: "app_codes" where it may be made
    at once with a recovery code; "code_sent" where an earlier request of this client is why, whose mail has a code
    that is valid for up to `expiresInSeconds`.
    """

    def __init__(
        self,
        remaining_seconds: int,
        *,
        captcha_helps: bool = False,
        fault: str | None = None,
        expires_in_seconds: int | None = None,
    ) -> None:
        seconds = max(1, remaining_seconds)
        helps = captcha_helps or None
        super().__init__(
            retry_after=seconds,
            remaining_seconds=seconds,
            captcha_helps=helps,
            fault=fault,
            expires_in_seconds=expires_in_seconds,
        )


TooManyStreams = _define(
    "too_many_streams",
    Category.LIMITED,
    "No further event stream can be served, to this admin or to any.",
    retry_after=30,
    remaining_seconds=30,
)

# --- Something is unavailable ---


DatabaseUnavailable = _define(
    "database_away",
    Category.UNAVAILABLE,
    'Our own database cannot be reached or, with the `fault` "unwritable", not written: its disk is full or read-only.',
    retry_after=5,
)
AuthMeUnavailable = _define(
    "players_away",
    Category.UNAVAILABLE,
    "AuthMe's table cannot be read or written, so neither names nor passwords can be checked.",
    retry_after=5,
)
MailUnavailable = _define("mail_unavailable", Category.UNAVAILABLE, "E-mail is switched off here.", retry_after=300)
ProviderUnavailable = _define(
    "provider_away", Category.UNAVAILABLE, "The chat provider gave no usable response.", retry_after=30
)
Overloaded = _define(
    "overloaded",
    Category.UNAVAILABLE,
    "A bounded queue is full, such as that of passwords to hash, or too many requests are sent at a time.",
    retry_after=2,
)
Busy = _define(
    "busy",
    Category.UNAVAILABLE,
    "A transaction lost against others on the same rows each time it was repeated. Nothing was changed.",
    retry_after=1,
)
InternalServerError = _define(
    "internal",
    Category.INTERNAL,
    "The reply to a bug: to every exception that is not a `Refusal`.",
)
