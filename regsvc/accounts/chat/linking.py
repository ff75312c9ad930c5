"""Linking of a chat account: authorization request, callback and link.

A player is sent to the provider with our state and returns with the provider's code. `auth_requests` decides which
client may finish which request, `regsvc.users.chat_links` which user gets the account.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlencode, urlsplit

from msgspec import UNSET, Meta, UnsetType, structs
from peewee import Database

from regsvc.accounts.chat.provider import REQUEST_TIMEOUT, AuthorizationRequests, ChatProvider, Initiator, new_secret
from regsvc.accounts.password_checker import LoginIdentity, PasswordChecker
from regsvc.auth.rate_limits import MemoryLimits, client_checks
from regsvc.auth.verification_codes import NO_CODE_OR_PROOF, CodeOrProof, CodeProof, VerificationCodes
from regsvc.core import errors
from regsvc.core.addresses import Caller, VerifiedSession
from regsvc.core.clock import epoch_ms
from regsvc.core.errors import (
    Banned,
    ChatDenied,
    ChatNotLinked,
    InvalidCode,
    InvalidField,
    NotEnabled,
    Overloaded,
    ProofRequired,
    ProviderUnavailable,
    Refusal,
    TotpRequired,
    UserNotFound,
)
from regsvc.core.shapes import Output, Username
from regsvc.core.text import name_key
from regsvc.core.units import RateLimit
from regsvc.database.audit import Actor
from regsvc.database.engine import Worker
from regsvc.database.models import BANNED, ChatRequest, User, Verification
from regsvc.http.messages import MessageReply, NameQuery, Password, Reply, to_reply
from regsvc.http.route import ACCESS_TOKEN, LINK_COOKIE, LINK_COOKIE_NAME, LINK_TOKEN, LINK_TOKEN_HEADER, PUBLIC, Routes
from regsvc.users.chat_links import CLAIM_TIMEOUT, ChatAccount, ChatLinks

if TYPE_CHECKING:
    from regsvc.http.call import Call

ROUTES: Final = Routes()

_UNUSED_ADDRESS = "@"
"""An address that no user has, so that an unknown name takes the same lookup as a known one."""


def _find_user(username: str) -> User | None:
    user: User | None = User.get_or_none(User.username_key == name_key(username))
    return user


def _proven_address(user: User | None) -> str:
    """Return the user's verified address, or `_UNUSED_ADDRESS`."""
    return (None if user is None else user.proven_key) or _UNUSED_ADDRESS


_MAX_CONCURRENT: Final = 32
"""Callbacks waiting for the provider at a time: a hanging provider must not let them pile up."""
_MAX_CODE_LENGTH: Final = 2048


class BeginChatLinkReply(Reply, frozen=True, kw_only=True):
    """The page to send the player to, and the token that claims the link. The token is also set as a cookie."""

    auth_url: Annotated[
        str, Meta(description="A page of the chat platform.", examples=["https://discord.com/oauth2/authorize?…"])
    ]
    link_token: LinkToken


def _shown(account: ChatAccount | None) -> ChatAccountFields | UnsetType:
    return UNSET if account is None else to_reply(ChatAccountFields, account)


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

    async def begin(self, username: str | None, session: VerifiedSession | None, caller: Caller) -> BeginChatLinkReply:
        """Create an authorization request. Raises `RateLimited`.

        With the owner's own session the link is claimed at once; otherwise it stays unclaimed at first.
        """
        self._require_provider()
        self._limits.hit_all(client_checks("chat.begin", caller.address, self._limits_per_client, is_hop=caller.is_hop))
        is_owners = session is not None and (username is None or name_key(username) == name_key(session.username))
        return await self._worker.run(self._begin, session.jti if session is not None and is_owners else None)

    async def finish(
        self, state: str | None, code: str | None, initiator: Initiator, caller: Caller, *, error: str | None = None
    ) -> ChatCallbackReply:
        """Finish an authorization request with the provider's response (RFC 6749, 4.1.2): a code, or an error.

        The state is spent in any case, except when shown by another initiator.

        Raises `InvalidState`, `ChatDenied`, `ProviderUnavailable`, `ChatNotMember`, `ChatAccountTaken`, `InvalidField`
        without a code, `RateLimited` after too many accounts of the user, and `Overloaded`, which leaves the state
        unspent.
        """
        provider = self._require_provider()
        with self._reserve_slot():
            redeemed = await self._worker.run(self._redeem, state, initiator)
            verifier = self._requests.pkce_verifier(state or "")
            account = await provider.fetch_account(_require_code(code, error), verifier)
            return await self._worker.run(self._store, account, redeemed, caller)

    async def find_status(
        self, username: str, session: VerifiedSession | None, tokens: Sequence[str]
    ) -> ChatStatusReply:
        """Return as much of the name's status as this session and these link tokens may see.

        An unclaimed link counts as linked for a client with its token, unless the name has a linked account already.
        """
        if self._provider is None:
            return ChatStatusReply(linked=False)
        return await self._worker.run(self._find_status, username, session, tokens)

    async def claim(self, username: str, link_token: str, caller: Caller) -> ChatAccount:
        """Claim an unclaimed link for the user who just logged in.

        Raises `LinkTokenInvalid`, `ChatAccountTaken` and `RateLimited`.
        """
        self._require_provider()
        return await self._worker.run(self._claim, username, link_token, caller)

    async def unlink(
        self,
        username: str,
        session: VerifiedSession | None,
        caller: Caller,
        *,
        password: str | None = None,
        totp: str | None = None,
        code_or_proof: CodeOrProof = NO_CODE_OR_PROOF,
        link_token: str | None = None,
    ) -> None:
        """Remove the link of this name, or the unclaimed link of a link token.

        Without an access token, the first proof that is given counts. `totp` goes with the password, where the player
        has a second factor.

        A banned user's link stays: otherwise the same person could register again under another name.

        Raises `ProofRequired`, `BadCredentials`, `TotpRequired`, `RateLimited`, `InvalidCode`, `LinkTokenInvalid`; only
        after sufficient proof `ChatNotLinked` and `Banned`; and for admins `UserNotFound`.
        """
        self._require_provider()
        run = self._worker.run
        if session is not None and (session.is_admin or name_key(session.username) == name_key(username)):
            await run(self._unlink_by_session, username, session, caller)
        elif password is not None:
            is_done = False
            while not is_done:  # as long as the limits of attempts allow
                identity = await self._checker.check_with_totp(username, password, totp, caller)
                is_done = await run(self._unlink_by_password, identity, caller)
        elif code_or_proof != NO_CODE_OR_PROOF:
            row = await run(self._check_code, username, code_or_proof, caller)
            await run(self._unlink_by_code, username, row, code_or_proof, caller)
        elif link_token is not None:
            await run(self._discard, link_token)
        else:
            raise ProofRequired

    def _require_provider(self) -> ChatProvider:
        if self._provider is None:
            raise NotEnabled
        return self._provider

    def _begin(self, session_jti: str | None) -> BeginChatLinkReply:
        link_token = new_secret()
        with self._database.atomic():
            state = self._requests.create(session_jti, self._links.token_hash(link_token))
        verifier = self._requests.pkce_verifier(state)
        auth_url = self._require_provider().authorization_url(state, verifier)
        return BeginChatLinkReply(auth_url=auth_url, link_token=link_token)

    def _redeem(self, state: str | None, initiator: Initiator) -> ChatRequest:
        token_hashes = [self._links.token_hash(token) for token in initiator.link_tokens]
        with self._database.atomic():
            return self._requests.redeem(state, token_hashes, initiator.session_jti)

    def _store(self, account: ChatAccount, redeemed: ChatRequest, caller: Caller) -> ChatCallbackReply:
        with self._database.atomic():
            user = self._requests.get_initiating_user(redeemed)
            if user is None:
                self._links.require_free(account)
                self._links.create_unclaimed(account, redeemed.token_hash)
            else:
                self._links.link(account, redeemed.token_hash, user, Actor(user.username, caller.address))
        return ChatCallbackReply(claimed=user is not None, user=to_reply(ChatAccountFields, account))

    def _find_status(self, username: str, session: VerifiedSession | None, tokens: Sequence[str]) -> ChatStatusReply:
        linked = self._links.find_by_name(username)
        if linked is None:
            account = self._links.find_unclaimed(tokens)
            return ChatStatusReply(linked=account is not None, user=_shown(account))
        user_id, account = linked
        is_whole = session is not None and (session.is_admin or session.user_id == user_id)
        is_whole = is_whole or self._links.is_token_of(user_id, tokens)
        return ChatStatusReply(linked=True, user=_shown(account if is_whole else None))

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

    def _unlink_by_password(self, identity: LoginIdentity, caller: Caller) -> bool:
        """Unlink after a right password; returns False where it is to be checked again, as at a login."""
        with self._database.atomic():
            user = User.get_or_none(User.id == identity.user_id)
            if user is None:  # only AuthMe knows the name, or the user was deleted since
                raise ChatNotLinked
            if user.token_generation != identity.token_generation:
                return False
            if not self._checker.use_second_factor(identity, user.id, caller):
                raise TotpRequired
            self._unlink_own(user, caller)
            return True

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


def _require_code(code: str | None, error: str | None) -> str:
    """Return the authorization code. Raises the refusal for the provider's error."""
    if error == "access_denied":
        raise ChatDenied
    if error is not None:
        raise ProviderUnavailable
    if not code or len(code) > _MAX_CODE_LENGTH:
        raise InvalidField("code")
    return code


LinkToken = Annotated[
    str,
    Meta(
        description="Claims the chat link that was started with it.",
        examples=["0pJ7Vd0cVbq8yR3v0cY2mB5kT1nX4wZ6aE9sG7hL2uQ"],
    ),
]

IsLinked = Annotated[bool, Meta(description="Whether a chat account is linked.", examples=[True])]


class ChatAccountFields(Output, frozen=True, kw_only=True):
    """An account on the chat platform, as of the time when it was linked."""

    id: Annotated[str, Meta(examples=["80351110224678912"])]
    username: Annotated[str, Meta(examples=["alice"])]
    discriminator: Annotated[str, Meta(description="`0` if the platform has none.", examples=["0"])]
    avatar: Annotated[str, Meta(description="The platform's value; a hash on Discord.")] | None
    global_name: Annotated[str, Meta(examples=["Alice"])] | None


class ChatCallbackReply(Reply, frozen=True, kw_only=True):
    """The proven account. If `claimed` is false, it waits for a registration or a login with the link token."""

    linked: IsLinked = True
    claimed: Annotated[bool, Meta(examples=[False])]
    user: ChatAccountFields


class ChatStatusReply(Reply, frozen=True, kw_only=True):
    """The status of a link. Only the owner, admins and clients with the link token see `user`."""

    linked: IsLinked
    user: ChatAccountFields | UnsetType = UNSET


class ChatClaimFields(Output, frozen=True, kw_only=True):
    """The result of claiming a link at a login; `code` and `message` say why it could not be claimed."""

    linked: IsLinked
    user: ChatAccountFields | UnsetType = UNSET
    code: Annotated[str, Meta(examples=["invalid_link_token"])] | UnsetType = UNSET
    message: Annotated[str, Meta(examples=["This chat link was already used or is too old."])] | UnsetType = UNSET


PATH: Final = "/chat-linked"

LINKED: Final = "linked"
"""Outcome: the chat account is linked to a user."""

WAITING: Final = "waiting"
"""Outcome: the chat account is proven and waits to be claimed by a registration or a login."""


# Browsers accept a `__Host-` cookie only over HTTPS and from this exact host, so no sibling domain can set it.
_SAFE_NAME: Final = f"__Host-{LINK_COOKIE_NAME}"

_KEPT: Final = 4

_LIFETIME: Final = CLAIM_TIMEOUT + REQUEST_TIMEOUT

_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{43}")


def cookie_tokens(call: Call) -> tuple[str, ...]:
    """Return the link tokens in the browser's cookie, newest first."""
    written = call.get_cookie(_cookie_name(call)) or ""
    return tuple(filter(_TOKEN.fullmatch, written.split(".")[:_KEPT]))


def header_token(call: Call) -> str | None:
    """Return the link token in the `X-Link-Token` header, or None."""
    token = call.request.headers.get(LINK_TOKEN_HEADER, "")
    return token if _TOKEN.fullmatch(token) else None


def presented_link_tokens(call: Call) -> tuple[str, ...]:
    """Return the link tokens of the header and the cookie, in this order."""
    token = header_token(call)
    return cookie_tokens(call) if token is None else (token, *cookie_tokens(call))


def remember_token(call: Call, token: str) -> None:
    """Set the cookie, with a new token in front of the existing ones."""
    call.set_cookie(
        _cookie_name(call),
        ".".join((token, *cookie_tokens(call))[:_KEPT]),
        max_age=_LIFETIME // timedelta(seconds=1),
        path="/",
        httponly=True,
        samesite="Lax",
        secure=_cookie_name(call) == _SAFE_NAME,
    )


def _cookie_name(call: Call) -> str:
    """Return the safe name where players reach the service over HTTPS, directly or through a proxy."""
    return _SAFE_NAME if call.config.base_url().startswith("https:") else LINK_COOKIE_NAME


@ROUTES.add("GET", "/api/chat/auth", PUBLIC, errors.NotEnabled, errors.RateLimited, credentials=(ACCESS_TOKEN,))
async def begin_chat_link(call: Call, chat: ChatLinking, *, username: Username | None = None) -> BeginChatLinkReply:
    """Start to link a chat account. No access token is required.

    With the owner's access token, the link belongs to them as soon as it is completed. Otherwise it can be claimed
    for one hour by a registration or a login that sends the link token. Only the browser or session that started
    the link can complete it.

    BeginChatLinkQuery: The user to link; it only matters together with that user's own access token.
    """
    begun = await chat.begin(username, call.session, call.caller)
    remember_token(call, begun.link_token)
    return begun


def _is_browser(call: Call) -> bool:
    """Return whether a person will see the response; programs accept JSON or anything."""
    return "text/html" in call.request.headers.get("Accept", "").lower()


def _redirect(call: Call, outcome: str) -> None:
    call.clear_header("Content-Type")
    call.set_header("Location", page_address(call.config.base_url(), outcome))
    call.set_status(HTTPStatus.SEE_OTHER)


def _redirect_refusal(call: Call, refusal: Refusal) -> bool:
    """Redirect a browser to the page that shows the refusal; return False for a program."""
    if _is_browser(call):
        _redirect(call, str(refusal.facts.get("fault", refusal.code)))
        return True
    return False


@ROUTES.add(
    "GET",
    "/api/chat/callback",
    PUBLIC,
    errors.InvalidState,
    errors.ChatDenied,
    errors.ProviderUnavailable,
    errors.ChatNotMember,
    errors.ChatAccountTaken,
    errors.RateLimited,
    errors.NotEnabled,
    redirects="A browser (`Accept: text/html`) is redirected to a page that shows the outcome.",
    credentials=(LINK_COOKIE, LINK_TOKEN, ACCESS_TOKEN),
    write_refusal=_redirect_refusal,
)
async def finish_chat_link(
    call: Call,
    chat: ChatLinking,
    *,
    state: Annotated[str, Meta(description="The `state` of the `authUrl`.")] | None = None,
    code: Annotated[str, Meta(description="The authorization code.")] | None = None,
    error: Annotated[str, Meta(description="Why there is no code.", examples=["access_denied"])] | None = None,
) -> ChatCallbackReply | None:
    """Complete the link: the chat platform redirects the player here.

    Only the client that started the link can complete it. It is recognized by the cookie, the `X-Link-Token`
    header, or the access token that the link was started with.

    ChatCallbackQuery: The parameters with which the chat platform redirects the player back (RFC 6749).
    """
    initiator = Initiator(presented_link_tokens(call), call.session.jti if call.session else None)
    finished = await chat.finish(state, code, initiator, call.caller, error=error)
    if _is_browser(call):
        _redirect(call, LINKED if finished.claimed else WAITING)
        call.finish()
        return None
    key = "chat_linked" if finished.claimed else "chat_linked_unclaimed"
    return structs.replace(finished, message=call.message(key, account=finished.user.username))


@ROUTES.add(
    "GET",
    "/api/chat/status",
    PUBLIC,
    errors.RateLimited,
    credentials=(ACCESS_TOKEN, LINK_TOKEN, LINK_COOKIE),
    has_status_limit=True,
)
async def show_chat_status(call: Call, chat: ChatLinking, query: NameQuery) -> ChatStatusReply:
    """Show whether a chat account is linked, and which one.

    A client that sends the token of an unclaimed link, in the cookie or in the `X-Link-Token` header, sees that
    link.
    """
    return await chat.find_status(query.username, call.session, presented_link_tokens(call))


@ROUTES.add(
    "POST",
    "/api/chat/unlink",
    PUBLIC,
    errors.ProofRequired,
    errors.BadCredentials,
    errors.TotpRequired,
    errors.Banned,
    errors.RateLimited,
    errors.InvalidCode,
    errors.LinkTokenInvalid,
    errors.ChatNotLinked,
    errors.UserNotFound,
    errors.NotEnabled,
    errors.AuthMeUnavailable,
    credentials=(ACCESS_TOKEN,),
)
async def unlink_chat(
    call: Call,
    chat: ChatLinking,
    *,
    username: Username,
    password: Password | None = None,
    totp: Annotated[str, Meta(description="Needed with the password if the player has a second factor.")] | None = None,
    code: Annotated[str, Meta(description="Mailed with the purpose `unlink`.", examples=["123456"])] | None = None,
    proof: CodeProof | None = None,
    link_token: LinkToken | None = None,
) -> MessageReply:
    """Unlink a chat account, or discard a link that is not claimed yet.

    UnlinkChatRequest: The name, and one of the proofs unless the access token is the user's or an admin's.
    """
    await chat.unlink(
        username,
        call.session,
        call.caller,
        password=password,
        totp=totp,
        code_or_proof=CodeOrProof(code, proof),
        link_token=link_token,
    )
    return MessageReply(message=call.message("chat_unlinked"))


def page_address(base_url: str, outcome: str) -> str:
    """Return the page to redirect a browser to; `outcome` is `LINKED`, `WAITING`, or a refusal's fault or code."""
    return f"{urlsplit(base_url).path.rstrip('/')}{PATH}?{urlencode({'outcome': outcome})}"


async def claim_at_login(
    call: Call, chat: ChatLinking, username: str, link_token: str | None
) -> ChatClaimFields | UnsetType:
    """Claim the link of the token in the body, else in the header; returns UNSET if there is no token.

    The browser's cookie is ignored here, because it may hold another person's link. A link that cannot be claimed does
    not fail the login; the result says why.
    """
    token = link_token or header_token(call)
    if token is None:
        return UNSET
    try:
        account = await chat.claim(username, token, call.caller)
    except Refusal as refusal:
        message = call.translations.refusal(refusal, call.language)
        return ChatClaimFields(linked=False, code=refusal.code, message=message)
    return ChatClaimFields(linked=True, user=to_reply(ChatAccountFields, account))
