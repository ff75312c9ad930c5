"""Linking of a chat account: authorization request, callback and link.

A player is sent to the provider with our state and returns with the provider's code. `auth_requests` decides which
client may finish which request, `regsvc.users.chat_links` which user gets the account.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from peewee import Database

from regsvc.accounts.password_checker import LoginIdentity, PasswordChecker
from regsvc.auth.rate_limits import MemoryLimits, client_checks
from regsvc.auth.verification_codes import NO_CODE_OR_PROOF, CodeOrProof, VerificationCodes
from regsvc.core.caller import Caller, VerifiedSession
from regsvc.core.clock import epoch_ms
from regsvc.core.errors import (
    BadCredentials,
    Banned,
    ChatDenied,
    ChatLinkRequired,
    ChatNotLinked,
    InvalidCode,
    InvalidField,
    LinkTokenInvalid,
    NotEnabled,
    Overloaded,
    ProofRequired,
    ProviderUnavailable,
    TotpRequired,
    UserNotFound,
)
from regsvc.core.text import name_key
from regsvc.core.units import RateLimit
from regsvc.database.audit import Actor
from regsvc.database.engine import Worker
from regsvc.database.models import BANNED, ChatRequest, User, Verification
from regsvc.registration.chat.auth_requests import AuthorizationRequests, Initiator, new_secret
from regsvc.registration.chat.provider import ChatProvider
from regsvc.registration.registration import RegistrationCondition, RegistrationRequest
from regsvc.users.chat_links import ChatAccount, ChatLinks

_UNUSED_ADDRESS = "@"
"""An address that no user has, so that an unknown name takes the same lookup as a known one."""


@dataclass(frozen=True)
class UnlinkProof:
    """Proof of a request without an access token; the first field that is set counts.

    `totp` goes with the password, where the player has a second factor.
    """

    password: str | None = field(default=None, repr=False)
    totp: str | None = field(default=None, repr=False)
    code_or_proof: CodeOrProof = NO_CODE_OR_PROOF
    link_token: str | None = field(default=None, repr=False)


def _find_user(username: str) -> User | None:
    user: User | None = User.get_or_none(User.username_key == name_key(username))
    return user


def _proven_address(user: User | None) -> str:
    """Return the user's verified address, or `_UNUSED_ADDRESS`."""
    return (None if user is None else user.proven_key) or _UNUSED_ADDRESS


_MAX_CONCURRENT: Final = 32
"""Callbacks waiting for the provider at a time: a hanging provider must not let them pile up."""
_MAX_CODE_LENGTH: Final = 2048


@dataclass(frozen=True)
class LinkStart:
    """The provider's URL for the player, and the token that claims the resulting link. Both are secret."""

    auth_url: str = field(repr=False)
    link_token: str = field(repr=False)


@dataclass(frozen=True)
class AuthorizationResponse:
    """The provider's authorization response (RFC 6749, 4.1.2); `error` is set where there is no code."""

    state: str | None = field(default=None, repr=False)
    code: str | None = field(default=None, repr=False)
    error: str | None = None


@dataclass(frozen=True)
class LinkResult:
    """A linked account; `is_claimed`: whether a user has it already."""

    account: ChatAccount
    is_claimed: bool


@dataclass(frozen=True)
class ChatStatus:
    """Link state of a user; `account` is None for clients that may not see it."""

    is_linked: bool
    account: ChatAccount | None = None


class ChatLinking:
    """Service behind the chat routes."""

    def __init__(
        self,
        provider: ChatProvider | None,
        *,
        database: Database,
        worker: Worker,
        requests: AuthorizationRequests,
        links: ChatLinks,
        checker: PasswordChecker,
        codes: VerificationCodes,
        limits: MemoryLimits,
        limits_per_client: Sequence[RateLimit],
    ) -> None:
        """`provider` None: no platform is configured, and every method but `find_status` raises `NotEnabled`."""
        self._database = database
        self._worker = worker
        self._provider = provider
        self._requests = requests
        self._links = links
        self._checker = checker
        self._codes = codes
        self._limits = limits
        self._limits_per_client = limits_per_client
        self._pending = 0

    async def begin(self, username: str | None, session: VerifiedSession | None, caller: Caller) -> LinkStart:
        """Create an authorization request. Raises `RateLimited`.

        With the owner's own session the link is claimed at once; otherwise it stays unclaimed at first.
        """
        self._require_provider()
        self._limits.hit_all(client_checks("chat.begin", caller.address, self._limits_per_client))
        is_owners = session is not None and (username is None or name_key(username) == name_key(session.username))
        return await self._worker.run(self._begin, session.jti if session is not None and is_owners else None)

    async def finish(self, response: AuthorizationResponse, initiator: Initiator, caller: Caller) -> LinkResult:
        """Finish an authorization request. The state is spent in any case, except when shown by another initiator.

        Raises `InvalidState`, `ChatDenied`, `ProviderUnavailable`, `ChatNotMember`, `ChatAccountTaken`, `InvalidField`
        without a code, `RateLimited` after too many accounts of the user, and `Overloaded`, which leaves the state
        unspent.
        """
        provider = self._require_provider()
        with self._reserve_slot():
            redeemed = await self._worker.run(self._redeem, response.state, initiator)
            verifier = self._requests.pkce_verifier(response.state or "")
            account = await provider.fetch_account(_extract_code(response), verifier)
            return await self._worker.run(self._store, account, redeemed, caller)

    async def find_status(self, username: str, session: VerifiedSession | None, tokens: Sequence[str]) -> ChatStatus:
        """Return as much of the name's status as this session and these link tokens may see.

        An unclaimed link counts as linked for a client with its token, unless the name has a linked account already.
        """
        if self._provider is None:
            return ChatStatus(is_linked=False)
        return await self._worker.run(self._find_status, username, session, tokens)

    async def claim(self, username: str, link_token: str, caller: Caller) -> ChatAccount:
        """Claim an unclaimed link for the user who just logged in.

        Raises `LinkTokenInvalid`, `ChatAccountTaken` and `RateLimited`.
        """
        self._require_provider()
        return await self._worker.run(self._claim, username, link_token, caller)

    async def unlink(self, username: str, proof: UnlinkProof, session: VerifiedSession | None, caller: Caller) -> None:
        """Remove the link of this name, or the unclaimed link of a link token.

        A banned user's link stays: otherwise the same person could register again under another name.

        Raises `ProofRequired`, `BadCredentials`, `TotpRequired`, `RateLimited`, `InvalidCode`, `LinkTokenInvalid`; only
        after sufficient proof `ChatNotLinked` and `Banned`; and for admins `UserNotFound`.
        """
        self._require_provider()
        run = self._worker.run
        if session is not None and (session.is_admin or name_key(session.username) == name_key(username)):
            await run(self._unlink_by_session, username, session, caller)
        elif proof.password is not None:
            identity = await self._checker.check_with_totp(username, proof.password, proof.totp, caller)
            await run(self._unlink_by_password, identity, caller)
        elif proof.code_or_proof != NO_CODE_OR_PROOF:
            row = await run(self._check_code, username, proof.code_or_proof, caller)
            await run(self._unlink_by_code, username, row, proof.code_or_proof, caller)
        elif proof.link_token is not None:
            await run(self._discard, proof.link_token)
        else:
            raise ProofRequired

    def _require_provider(self) -> ChatProvider:
        if self._provider is None:
            raise NotEnabled
        return self._provider

    def _begin(self, session_jti: str | None) -> LinkStart:
        link_token = new_secret()
        with self._database.atomic():
            state = self._requests.create(session_jti, self._links.token_hash(link_token))
        verifier = self._requests.pkce_verifier(state)
        return LinkStart(self._require_provider().authorization_url(state, verifier), link_token)

    def _redeem(self, state: str | None, initiator: Initiator) -> ChatRequest:
        token_hashes = [self._links.token_hash(token) for token in initiator.link_tokens]
        with self._database.atomic():
            return self._requests.redeem(state, token_hashes, initiator.session_jti)

    def _store(self, account: ChatAccount, redeemed: ChatRequest, caller: Caller) -> LinkResult:
        with self._database.atomic():
            user = self._requests.get_initiating_user(redeemed)
            if user is None:
                self._links.require_free(account)
                self._links.create_unclaimed(account, redeemed.token_hash)
            else:
                self._links.link(account, redeemed.token_hash, user, Actor(user.username, caller.address))
        return LinkResult(account, is_claimed=user is not None)

    def _find_status(self, username: str, session: VerifiedSession | None, tokens: Sequence[str]) -> ChatStatus:
        linked = self._links.find_by_name(username)
        if linked is None:
            held = self._links.find_unclaimed(tokens)
            return ChatStatus(held is not None, held)
        user_id, account = linked
        is_whole = session is not None and (session.is_admin or session.user_id == user_id)
        is_whole = is_whole or self._links.is_token_of(user_id, tokens)
        return ChatStatus(True, account if is_whole else None)

    def _claim(self, username: str, link_token: str, caller: Caller) -> ChatAccount:
        with self._database.atomic():
            user = User.get_or_none(User.username_key == name_key(username))
            if user is None:
                raise UserNotFound
            return self._links.claim([link_token], user, Actor(user.username, caller.address))

    def _unlink_by_session(self, username: str, session: VerifiedSession, caller: Caller) -> None:
        with self._database.atomic():
            user = _find_user(username)
            if user is None:
                raise UserNotFound
            self._links.unlink(user, Actor(session.username, caller.address))

    def _unlink_by_password(self, identity: LoginIdentity, caller: Caller) -> None:
        with self._database.atomic():
            user = User.get_or_none(User.id == identity.user_id)
            if user is None:  # only AuthMe knows the name, or the user was deleted since
                raise ChatNotLinked
            if user.token_generation != identity.token_generation:  # the password was changed since it was looked up
                raise BadCredentials
            if not self._checker.use_second_factor(identity, user.id, caller):
                raise TotpRequired
            self._unlink_own(user, caller)

    def _check_code(self, username: str, given: CodeOrProof, caller: Caller) -> Verification:
        return self._codes.check(_proven_address(_find_user(username)), "unlink", given, caller)

    def _unlink_by_code(self, username: str, row: Verification, given: CodeOrProof, caller: Caller) -> None:
        with self._database.atomic():
            user = _find_user(username)
            if user is None or row.email_key != _proven_address(user):  # a code was issued for the unused address
                raise InvalidCode
            self._codes.redeem(row, given, caller)
            self._unlink_own(user, caller)

    def _unlink_own(self, user: User, caller: Caller) -> None:
        if user.status == BANNED:
            raise Banned(user.reason, epoch_ms(user.ban_expires_at) if user.ban_expires_at else None)
        self._links.unlink(user, Actor(user.username, caller.address))

    def _discard(self, link_token: str) -> None:
        with self._database.atomic():
            self._links.discard(link_token)

    @contextmanager
    def _reserve_slot(self) -> Iterator[None]:
        if self._pending >= _MAX_CONCURRENT:
            raise Overloaded
        self._pending += 1
        try:
            yield
        finally:
            self._pending -= 1


def _extract_code(response: AuthorizationResponse) -> str:
    """Return the authorization code. Raises the refusal for the provider's error."""
    if response.error == "access_denied":
        raise ChatDenied
    if response.error is not None:
        raise ProviderUnavailable
    if not response.code or len(response.code) > _MAX_CODE_LENGTH:
        raise InvalidField("code")
    return response.code


class ChatStep(RegistrationCondition):
    """Step that claims a chat link for the new user.

    Where none is required, one in the browser's cookie is claimed too. A login sends its token explicitly: on a shared
    computer the cookie may hold another person's.
    """

    def __init__(self, links: ChatLinks, *, is_required: bool) -> None:
        self._links = links
        self._is_required = is_required

    def check(self, request: RegistrationRequest) -> None:
        """Raise `ChatLinkRequired`, `LinkTokenInvalid` for an expired token in the request, and `ChatAccountTaken`."""
        account = self._links.find_unclaimed(_tokens(request))
        if account is None:
            self._refuse_missing(request)
        else:
            self._links.require_free(account)

    def redeem(self, request: RegistrationRequest, user: User) -> bool:
        """Claim the link for the new user. Raises as `check` does."""
        try:
            self._links.claim(_tokens(request), user, Actor(user.username, user.registration_ip))
        except LinkTokenInvalid:
            self._refuse_missing(request)
        return True

    def _refuse_missing(self, request: RegistrationRequest) -> None:
        if self._is_required:
            raise ChatLinkRequired
        if request.link_token is not None:
            raise LinkTokenInvalid


def _tokens(request: RegistrationRequest) -> Sequence[str]:
    """Return the token in the request or, without one, the tokens of the browser's cookie."""
    return request.browser_link_tokens if request.link_token is None else [request.link_token]
