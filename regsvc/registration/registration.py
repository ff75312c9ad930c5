"""Registration: the request to become a user. Checks run from cheap to expensive."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from msgspec import Meta

from regsvc.accounts.captcha import CAPTCHA_REFUSALS, NO_PROOF, CaptchaProof, CaptchaProtectedRequest, Captchas
from regsvc.accounts.chat.linking import cookie_tokens
from regsvc.accounts.decisions import DecisionResult
from regsvc.accounts.invitations import INVITATION_REFUSALS, InvitationFields, Invitations, InvitationToken
from regsvc.accounts.password_changes import PasswordMails
from regsvc.auth.derived_secrets import ApplicationToken, ApplicationTokens, parse_row_id
from regsvc.auth.hashing import PasswordHashing, StoredPassword
from regsvc.auth.rate_limits import (
    REGISTRATIONS,
    DurableLimits,
    LimitCheck,
    SharedLimits,
    in_total,
    limits_of,
)
from regsvc.auth.verification_codes import (
    NO_CODE_OR_PROOF,
    PROOF_LIFETIME,
    Code,
    CodeOrProof,
    CodeProof,
    VerificationCodes,
)
from regsvc.config.live import LiveConfig
from regsvc.core import errors
from regsvc.core.addresses import Caller
from regsvc.core.clock import Clock
from regsvc.core.email_address import EmailAddress, EmailPolicy, parse_email
from regsvc.core.errors import ChatLinkRequired, InvalidCode, InvalidField, LinkTokenInvalid, RateLimited, Refusal
from regsvc.core.rights import Grant, Permission
from regsvc.core.shapes import Moment, Username
from regsvc.core.text import name_key
from regsvc.core.units import RateLimit
from regsvc.database.audit import AUTOMATIC, Actor
from regsvc.database.bulk import select_rows
from regsvc.database.engine import Worker
from regsvc.database.models import APPROVED, PENDING, REJECTED, User, Verification
from regsvc.http.messages import Email, Password, Reply, Status
from regsvc.http.route import LINK_COOKIE, PUBLIC, Routes, SentAs
from regsvc.notifications.mail.queue import MailQueue
from regsvc.registration.user_creation import UserCreation, new_user
from regsvc.users.chat_links import ChatLinks
from regsvc.users.credential_rules import CredentialRules

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()


@dataclass(frozen=True)
class RegistrationRequest:
    """A request to become a user, as received; None: not given.

    `browser_link_tokens`: link tokens from the browser's cookie, newest first. `invited`: the invitation of the token.
    """

    username: str
    email: str | None
    code_or_proof: CodeOrProof
    password: str | None = field(repr=False)
    platform: str
    language: str
    captcha: CaptchaProof = NO_PROOF
    questionnaire_token: str | None = field(default=None, repr=False)
    application_token: str | None = field(default=None, repr=False)
    """Of a rejected application, in place of code and proof: it was mailed to the same address."""
    link_token: str | None = field(default=None, repr=False)
    browser_link_tokens: tuple[str, ...] = field(default=(), repr=False)
    invitation_token: str | None = field(default=None, repr=False)
    invited: InvitationFields | None = None

    def is_granted(self, grant: Grant) -> bool:
        """Return whether an invitation frees this registration from something."""
        return self.invited is not None and grant in self.invited.grants


class RegisterReply(Reply, frozen=True, kw_only=True):
    """The new user, who is `pending` until an operator has reviewed the registration."""

    username: Username
    email: Email | None
    status: Status
    application_token: ApplicationToken


class RegistrationCondition(ABC):
    """One condition of a registration, where the host wants it. Blocking: for a worker thread."""

    @abstractmethod
    def check(self, request: RegistrationRequest) -> None:
        """Raise the condition's refusal before an attempt at the code is counted. Spends nothing."""

    @abstractmethod
    def redeem(self, request: RegistrationRequest, user: User) -> bool:
        """Spend the proof on the new user, inside the transaction that creates it. Raises as `check` does.

        Returns False where an admin has to review this registration.
        """


@dataclass(frozen=True)
class Registration:
    """Registration: turns requests into users."""

    worker: Worker
    live: LiveConfig
    rules: CredentialRules
    email_policy: EmailPolicy
    captchas: Captchas
    conditions: Sequence[RegistrationCondition]
    """Conditions beyond captcha and code, from cheap to expensive."""
    codes: VerificationCodes
    limits: DurableLimits
    hashing: PasswordHashing
    users: UserCreation
    tokens: ApplicationTokens
    invitations: Invitations
    mail_queue: MailQueue
    now: Clock

    async def register(self, request: RegistrationRequest, caller: Caller) -> RegisterReply:
        """Create the user. A refusal leaves everything as it was, except for the attempts at a wrong code.

        A request that is repeated within the hour, because the reply was lost, gets the same answer again.
        """
        request, proven = self._validate(request)
        try:
            if request.invitation_token is not None:
                invited = await self.worker.run(self.invitations.find, request.invitation_token)
                request = replace(request, invited=invited)
            with self.captchas.guard("register", request.captcha, caller):
                code_row = await self.worker.run(self._check, request, proven, caller)
                password = None
                if request.password is not None:
                    password = await self.hashing.hash_in_pool(request.password, request.username)
                registered = await self.worker.run(self._create, request, proven, code_row, password, caller)
        except Refusal as refusal:
            registered_before = await self._find_repeated(request, proven, caller) if refusal.is_business else None
            if registered_before is None:
                raise
            return registered_before
        self.mail_queue.wake_all()
        return registered

    async def check(self, request: RegistrationRequest, caller: Caller) -> str:
        """Return the name as it will be in the game, where no rule about name, address or password is broken.

        For front ends that ask for more afterwards. Raises as `register` does; spends, counts and changes nothing.
        """
        request, proven = self._validate(request, evidence="proof")
        await self.worker.run(self._check_free, request, proven, caller)
        return request.username

    def create_user(self, username: str, email: str | None, password: str, by: Actor) -> DecisionResult:
        """Create an approved user from the command line, operators included. Blocking.

        Needs neither a code nor a review. Raises `InvalidUsername`, `InvalidPassword`, `UsernameTaken` and
        `EmailTaken`.
        """
        self.rules.check_username(username)
        self.rules.check_password(password, username)
        address = parse_email(email) if email else None
        return self.worker.run_here(self._create_approved, username, address, self.hashing.hash(password, username), by)

    async def create_by_admin(
        self, username: str, email: str | None, password: str | None, by: Actor
    ) -> DecisionResult:
        """Create an approved user for an admin; without a password, they set one with a link.

        Raises as `create_user` does, and `ReservedUsername` for names of operators, who would get their rights.
        """
        self.rules.check_username(username)
        await self.worker.run(self.rules.check_not_reserved, username)
        if password is not None:
            self.rules.check_password(password, username)
        address = parse_email(email) if email else None
        stored = None if password is None else await self.hashing.hash_in_pool(password, username)
        return await self.worker.run(self._create_approved, username, address, stored, by)

    def _validate(
        self, request: RegistrationRequest, *, evidence: str = "code"
    ) -> tuple[RegistrationRequest, EmailAddress | None]:
        """Return the request with the name as the game has it, the address as it is stored and the password to
        keep; and the address that its code or proof has to prove, None where no code is required.

        `evidence` names the field that is refused where both are missing.

        Raises `RegistrationClosed`, `InvalidUsername`, `InvalidEmail`, `DomainNotAllowed`, `InvalidField` (a missing
        address or code, or a Bedrock name where Bedrock players are off), `PasswordRequired` and `InvalidPassword`.
        """
        registration = self.live.current.registration
        if registration.requires_code and request.email is None:
            raise InvalidField("email")
        has_proof = request.code_or_proof != NO_CODE_OR_PROOF or request.application_token is not None
        if registration.requires_code and not has_proof:
            raise InvalidField(evidence)
        name = self.rules.name_in_game(request.username, request.platform)
        self.live.require_open()
        self.rules.check_username(name, request.platform)
        is_given = registration.requires_code or request.email
        address = self.email_policy.parse(request.email or "") if is_given else None
        password = self.rules.password_at_registration(request.password, name)
        email = address.display if address is not None else None
        valid = replace(request, username=name, email=email, password=password)
        return valid, address if registration.requires_code else None

    def _check(self, request: RegistrationRequest, proven: EmailAddress | None, caller: Caller) -> Verification | None:
        """Return the row of the code or proof; None where nothing is proven.

        Raises `ReservedUsername`, the refusals of the conditions and, last, `InvalidCode` or `RateLimited`. Where
        nothing is proven, registrations are limited; refused ones are not counted.
        """
        self.rules.check_not_reserved(request.username)
        for condition in self.conditions:
            condition.check(request)
        if proven is not None:
            return self._require_proven(request, proven, caller)
        if (seconds := self.limits.remaining_seconds(*self._limits_of(caller))) > 0:
            raise RateLimited(seconds)  # so that no password is hashed in vain
        return None

    def _require_proven(
        self, request: RegistrationRequest, proven: EmailAddress, caller: Caller
    ) -> Verification | None:
        """Return the row of the code or proof, None for an application's token. Raises as `_check` does, last."""
        if request.application_token is None:
            return self.codes.check(proven.key, "register", request.code_or_proof, caller)
        self._require_rejected(request.application_token, proven)
        return None

    def _check_free(self, request: RegistrationRequest, proven: EmailAddress | None, caller: Caller) -> None:
        """Raise the refusals of the name, and of the address, to who could register with it.

        Where no address is proven, a program could ask this about every name, without a captcha: it is not told which
        ones are reserved, operators' among them, nor which have players that we do not know yet.
        """
        if proven is not None:
            self._require_proven(request, proven, caller)
            self.rules.check_not_reserved(request.username)
        self.users.require_free(name_key(request.username), proven.key if proven else None)

    def _create(
        self,
        request: RegistrationRequest,
        proven: EmailAddress | None,
        code_row: Verification | None,
        password: StoredPassword | None,
        caller: Caller,
    ) -> RegisterReply:
        registration = self.live.current.registration
        user = new_user(
            request.username,
            password,
            "registered",
            self.now(),
            email=request.email,
            email_key=proven.key if proven else None,
            platform=request.platform,
            language=request.language,
            ip=caller.address,
            invited_by=request.invited.made_by if request.invited else None,
            member_for=request.invited.member_for if request.invited else None,
        )
        approved = None
        with self.users.transaction(user.username_key) as colliding:
            if code_row is not None:
                self.codes.redeem(code_row, request.code_or_proof, caller, at=user.created_at)
            elif proven is not None:
                self._require_rejected(request.application_token or "", proven)  # only once: it ends by what follows
            else:
                self.limits.hit_all(*self._limits_of(caller))
            if request.invited is not None:
                self.invitations.redeem(request.invited)
            self.users.insert(user, colliding, Actor(user.username, caller.address))
            redeemed = [condition.redeem(request, user) for condition in self.conditions]
            needs_review = registration.approval or not all(redeemed)
            if needs_review and not request.is_granted("no_review"):
                self.mail_queue.send(user, "received")
            else:
                approved = self.users.approve(user, AUTOMATIC)
        if approved is not None:
            self.users.reconcile(*approved)
        return self._reply(user)

    def _reply(self, user: User) -> RegisterReply:
        token = self.tokens.token_of(user)
        return RegisterReply(username=user.username, email=user.email, status=user.status, application_token=token)

    def _require_rejected(self, token: str, proven: EmailAddress) -> None:
        """Raise `InvalidCode` unless this is the token of a rejected application with this proven address.

        Inside the transaction no other one can use it until the end.
        """
        ids = [] if (row_id := parse_row_id(token)) is None else [row_id]
        select_rows(User._meta.database, User, [User.id], User.id, ids, for_update=User._meta.database.in_transaction())
        user = self.tokens.find_users([token]).get(token)
        if user is None or user.status != REJECTED or user.proven_key != proven.key:
            raise InvalidCode("proof", field="applicationToken")

    def _limits_of(self, caller: Caller) -> tuple[list[LimitCheck], list[SharedLimits]]:
        """Return the limits of registrations that prove no address, of this client and in total."""
        limits = self.live.current.registration
        of_client = ("registration.client", caller.network_key, limits_of(caller, limits.limits_per_client))
        return [of_client], [in_total(REGISTRATIONS, limits.limits_total, caller.network_key)]

    async def _find_repeated(
        self, request: RegistrationRequest, proven: EmailAddress | None, caller: Caller
    ) -> RegisterReply | None:
        """Return the registration that this request has already made; None if it made none, or was not the same.

        What is spent by now, such as the code, is taken as the proof of who asks. Where no code is required, the
        password is, from the same address.
        """
        user = await self.worker.run(self._find_registered, request, proven, caller)
        if user is None:
            return None
        if request.password is not None and user.password_hash is not None:
            stored = StoredPassword(user.password_hash, user.password_salt, user.password_algorithm)
            with self.hashing.reserve():
                verdict = await self.hashing.verify_in_pool(request.password, stored, user.username)
            if not verdict:
                await self.worker.run(self._count_wrong_password, user)
                return None
        elif proven is None or request.application_token or request.password or user.password_hash is not None:
            return None
        # only now: where nothing is proven, the time until the answer would tell whose address it is
        if (user.email, user.platform) != (request.email, request.platform):
            return None
        return self._reply(user)

    def _find_registered(
        self, request: RegistrationRequest, proven: EmailAddress | None, caller: Caller
    ) -> User | None:
        """Return the user whom this request may have made, whatever its password and, if unproven, its address."""
        spent_at = None
        if request.application_token is not None:  # which is gone by now: the password decides, as without a code
            proven = None
        if proven is not None:  # first: refusals must take as long whether or not there is such a user
            spent_at = self.codes.find_redemption(proven.key, "register", request.code_or_proof, caller)
            if spent_at is None:
                return None
        user: User | None = User.get_or_none(User.username_key == name_key(request.username))
        if user is None or user.origin != "registered" or user.status not in (PENDING, APPROVED):
            return None
        if proven is not None:
            is_its_own = (user.email_key, user.created_at) == (proven.key, spent_at)
        else:
            is_recent = user.created_at > self.now() - PROOF_LIFETIME
            is_reapplied = user.email_key is None or request.application_token is not None
            is_its_own = is_reapplied and user.registration_ip == caller.address and is_recent
        is_open = is_its_own and self.limits.remaining_seconds([_wrong_passwords(user)]) == 0
        return user if is_open else None

    def _count_wrong_password(self, user: User) -> None:
        """Count a wrong password; of several at once, as many more are compared as wait for the hash pool."""
        with suppress(RateLimited):
            self.limits.hit(*_wrong_passwords(user))

    def _create_approved(
        self, username: str, address: EmailAddress | None, password: StoredPassword | None, by: Actor
    ) -> DecisionResult:
        display, key = (address.display, address.key) if address else (None, None)
        user = new_user(username, password, "created", self.now(), email=display, email_key=key)
        with self.users.transaction(user.username_key) as colliding:
            self.users.insert(user, colliding, by)
            approved = self.users.approve(user, by)
        self.users.reconcile(*approved)
        return DecisionResult(user.username, user.status)


def _wrong_passwords(user: User) -> LimitCheck:
    """Return the limit of wrong passwords of requests that repeat this user's registration."""
    return "registration.repeated", user.username_key, [RateLimit(10, timedelta(hours=1))]


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


@ROUTES.add("POST", "/api/register/check", PUBLIC, *APPLICANT_REFUSALS, errors.RateLimited, has_status_limit=True)
async def check_registration(
    call: Call,
    registration: Registration,
    *,
    username: Username,
    email: RegistrationEmail | None = None,
    proof: CodeProof | None = None,
    application_token: RejectedToken | None = None,
    password: Password | None = None,
    platform: Literal["java", "bedrock"] = "java",
) -> Annotated[Username, SentAs("username", "CheckRegistrationReply")]:
    """Tell at once whether a rule about name, address or password is broken, before more is asked. Uses up nothing.

    Where an address has to be proven, it takes the proof. Where none has, it tells no more about a name than its status
    does: `POST /api/register` may still refuse it as reserved, or as a player's.

    CheckRegistrationRequest: The part of a registration that has rules, with the proof of the address.

    CheckRegistrationReply: No rule is broken. `username` is the name in the game, for Bedrock players with the prefix.
    """
    applicant = RegistrationRequest(
        username=username,
        email=email,
        code_or_proof=CodeOrProof(proof=proof),
        password=password,
        platform=platform,
        language=call.language,
        application_token=application_token,
    )
    return await registration.check(applicant, call.caller)


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
async def register(
    call: Call, registration: Registration, mail_queue: MailQueue, request: RegisterRequest
) -> RegisterReply:
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
    registered = await registration.register(application, call.caller)
    if registered.status == "approved":
        key = "registered_approved"
    else:
        key = "registered_pending" if mail_queue.is_available else "registered_unmailed"
    return msgspec.structs.replace(registered, message=call.message(key, username=registered.username))


class CreateUserReply(Reply, frozen=True, kw_only=True):
    """The user; `link` and its end are null if there is a password."""

    username: Username
    status: Status
    link: Annotated[str | None, Meta(examples=["https://play.example.org/set-password#token=7.c2VjcmV0"])]
    expires_at: Moment | None


@ROUTES.add(
    "POST",
    "/api/admin/user/create",
    Permission.USERS_MANAGE,
    errors.InvalidUsername,
    errors.ReservedUsername,
    errors.UsernameTaken,
    errors.ReapplyLater,
    errors.InvalidEmail,
    errors.EmailTaken,
    errors.InvalidPassword,
    errors.AuthMeUnavailable,
    errors.RateLimited,
)
async def create_user(
    call: Call,
    registration: Registration,
    password_mails: PasswordMails,
    mails: MailQueue,
    *,
    username: Username,
    email: Email | None = None,
    password: Password | None = None,
) -> CreateUserReply:
    """Create an approved user, without e-mail code and review.

    CreateUserRequest: A new user, approved from the start. Without a password, the reply has a link with which they
    set one.
    """
    by = call.principal
    created = await registration.create_by_admin(username, email, password, by.actor)
    mails.wake_all()
    link = None
    if password is None:
        link, _is_for_team = await call.run(password_mails.create_link, created.username, by)
    return CreateUserReply(
        message=call.message("user_created", username=created.username),
        username=created.username,
        status="approved",
        link=None if link is None else link.link,
        expires_at=None if link is None else link.expires_at,
    )


@dataclass(frozen=True)
class ChatCondition(RegistrationCondition):
    """Condition that claims a chat link for the new user.

    Where none is required, one in the browser's cookie is claimed too. A login sends its token explicitly: on a shared
    computer the cookie may hold another person's.
    """

    links: ChatLinks
    _: KW_ONLY
    is_required: bool

    def check(self, request: RegistrationRequest) -> None:
        """Raise `ChatLinkRequired`, `LinkTokenInvalid` for an expired token in the request, and `ChatAccountTaken`."""
        account = self.links.find_unclaimed(_tokens(request))
        if account is None:
            self._refuse_missing(request)
        else:
            self.links.require_free(account)

    def redeem(self, request: RegistrationRequest, user: User) -> bool:
        """Claim the link for the new user. Raises as `check` does."""
        try:
            self.links.claim(_tokens(request), user, Actor(user.username, user.registration_ip))
        except LinkTokenInvalid:
            self._refuse_missing(request)
        return True

    def _refuse_missing(self, request: RegistrationRequest) -> None:
        if self.is_required:
            raise ChatLinkRequired
        if request.link_token is not None:
            raise LinkTokenInvalid


def _tokens(request: RegistrationRequest) -> Sequence[str]:
    """Return the token in the request or, without one, the tokens of the browser's cookie."""
    return request.browser_link_tokens if request.link_token is None else [request.link_token]
