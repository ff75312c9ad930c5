"""Routes to link a chat account, and the cookie that binds a link to a browser.

The cookie allows the browser that started a link to complete it, to see the linked chat account, and to use it in a
registration, and nothing else. It holds several link tokens, newest first, because people start links in several tabs.
"""

from __future__ import annotations

import re
from datetime import timedelta
from http import HTTPStatus
from typing import Annotated, Final
from urllib.parse import urlencode, urlsplit

from msgspec import UNSET, Meta, UnsetType

from regsvc.api.base import ApiHandler
from regsvc.api.messages import CodeProof, MessageReply, NameQuery, Output, Password, Reply, Request, Username, to_reply
from regsvc.api.route import ACCESS_TOKEN, LINK_COOKIE, LINK_TOKEN, PUBLIC, Routes
from regsvc.auth.verification_codes import CodeOrProof
from regsvc.core import errors
from regsvc.core.errors import Refusal
from regsvc.registration.chat.auth_requests import REQUEST_TIMEOUT, Initiator
from regsvc.registration.chat.linking import AuthorizationResponse, UnlinkProof
from regsvc.users.chat_links import CLAIM_TIMEOUT

ROUTES: Final = Routes()

LinkToken = Annotated[
    str,
    Meta(
        description="Claims the chat link that was started with it.",
        examples=["0pJ7Vd0cVbq8yR3v0cY2mB5kT1nX4wZ6aE9sG7hL2uQ"],
    ),
]
IsLinked = Annotated[bool, Meta(description="Whether a chat account is linked.", examples=[True])]


class BeginChatLinkQuery(Request, frozen=True, kw_only=True):
    """The user to link; it only matters together with that user's own access token."""

    username: Username | None = None


class BeginChatLinkReply(Reply, frozen=True, kw_only=True):
    """The page to send the player to, and the token that claims the link. The token is also set as a cookie."""

    auth_url: Annotated[
        str, Meta(description="A page of the chat platform.", examples=["https://discord.com/oauth2/authorize?…"])
    ]
    link_token: LinkToken


class ChatCallbackQuery(Request, frozen=True, kw_only=True):
    """The parameters with which the chat platform redirects the player back (RFC 6749)."""

    state: Annotated[str, Meta(description="The `state` of the `authUrl`.")] | None = None
    code: Annotated[str, Meta(description="The authorization code.")] | None = None
    error: Annotated[str, Meta(description="Why there is no code.", examples=["access_denied"])] | None = None


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


class UnlinkChatRequest(Request, frozen=True, kw_only=True):
    """The name, and one of the proofs unless the access token is the user's or an admin's."""

    username: Username
    password: Password | None = None
    totp: Annotated[str, Meta(description="Needed with the password if the player has a second factor.")] | None = None
    code: Annotated[str, Meta(description="Mailed with the purpose `unlink`.", examples=["123456"])] | None = None
    proof: CodeProof | None = None
    link_token: LinkToken | None = None


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

LINK_TOKEN_HEADER: Final = "X-Link-Token"  # noqa: S105 - a name

LINK_COOKIE_NAME: Final = "companion_link"
# Browsers accept a `__Host-` cookie only over HTTPS and from this exact host, so no sibling domain can set it.
_SAFE_NAME: Final = f"__Host-{LINK_COOKIE_NAME}"
_KEPT: Final = 4
_LIFETIME: Final = CLAIM_TIMEOUT + REQUEST_TIMEOUT
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{43}")


def cookie_tokens(call: ApiHandler) -> tuple[str, ...]:
    """Return the link tokens in the browser's cookie, newest first."""
    written = call.get_cookie(_cookie_name(call)) or ""
    return tuple(filter(_TOKEN.fullmatch, written.split(".")[:_KEPT]))


def header_token(call: ApiHandler) -> str | None:
    """Return the link token in the `X-Link-Token` header, or None."""
    token = call.request.headers.get(LINK_TOKEN_HEADER, "")
    return token if _TOKEN.fullmatch(token) else None


def presented_link_tokens(call: ApiHandler) -> tuple[str, ...]:
    """Return the link tokens of the header and the cookie, in this order."""
    token = header_token(call)
    return cookie_tokens(call) if token is None else (token, *cookie_tokens(call))


def remember_token(call: ApiHandler, token: str) -> None:
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


def _cookie_name(call: ApiHandler) -> str:
    """Return the safe name where players reach the service over HTTPS, directly or through a proxy."""
    return _SAFE_NAME if call.services.config.base_url().startswith("https:") else LINK_COOKIE_NAME


@ROUTES.add("GET", "/api/chat/auth", PUBLIC, errors.NotEnabled, errors.RateLimited, credentials=(ACCESS_TOKEN,))
async def begin_chat_link(call: ApiHandler, query: BeginChatLinkQuery) -> BeginChatLinkReply:
    """Start to link a chat account. No access token is required.

    With the owner's access token, the link belongs to them as soon as it is completed. Otherwise it can be claimed
    for one hour by a registration or a login that sends the link token. Only the browser or session that started
    the link can complete it.
    """
    begun = await call.services.chat.begin(query.username, call.session, call.caller)
    remember_token(call, begun.link_token)
    return to_reply(BeginChatLinkReply, begun)


def _is_browser(call: ApiHandler) -> bool:
    """Return whether a person will see the response; programs accept JSON or anything."""
    return "text/html" in call.request.headers.get("Accept", "").lower()


def _redirect(call: ApiHandler, outcome: str) -> None:
    call.clear_header("Content-Type")
    call.set_header("Location", page_address(call.services.config.base_url(), outcome))
    call.set_status(HTTPStatus.SEE_OTHER)


def _redirect_refusal(call: ApiHandler, refusal: Refusal) -> bool:
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
async def finish_chat_link(call: ApiHandler, query: ChatCallbackQuery) -> ChatCallbackReply | None:
    """Complete the link: the chat platform redirects the player here.

    Only the client that started the link can complete it. It is recognized by the cookie, the `X-Link-Token`
    header, or the access token that the link was started with.
    """
    answer = AuthorizationResponse(query.state, query.code, query.error)
    initiator = Initiator(presented_link_tokens(call), call.session.jti if call.session else None)
    finished = await call.services.chat.finish(answer, initiator, call.caller)
    if _is_browser(call):
        _redirect(call, LINKED if finished.is_claimed else WAITING)
        call.finish()
        return None
    key = "chat_linked" if finished.is_claimed else "chat_linked_unclaimed"
    return ChatCallbackReply(
        message=call.message(key, account=finished.account.username),
        claimed=finished.is_claimed,
        user=to_reply(ChatAccountFields, finished.account),
    )


@ROUTES.add("GET", "/api/chat/status", PUBLIC, errors.RateLimited, credentials=(ACCESS_TOKEN, LINK_TOKEN, LINK_COOKIE))
async def show_chat_status(call: ApiHandler, query: NameQuery) -> ChatStatusReply:
    """Show whether a chat account is linked, and which one.

    A client that sends the token of an unclaimed link, in the cookie or in the `X-Link-Token` header, sees that
    link.
    """
    call.services.status_limits.hit(call.address)
    status = await call.services.chat.find_status(query.username, call.session, presented_link_tokens(call))
    if status.account is None:
        return ChatStatusReply(linked=status.is_linked)
    return ChatStatusReply(linked=status.is_linked, user=to_reply(ChatAccountFields, status.account))


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
async def unlink_chat(call: ApiHandler, request: UnlinkChatRequest) -> MessageReply:
    """Unlink a chat account, or discard a link that is not claimed yet."""
    given = CodeOrProof(request.code, request.proof)
    proof = UnlinkProof(request.password, request.totp, given, request.link_token)
    await call.services.chat.unlink(request.username, proof, call.session, call.caller)
    return MessageReply(message=call.message("chat_unlinked"))


def page_address(base_url: str, outcome: str) -> str:
    """Return the page to redirect a browser to; `outcome` is `LINKED`, `WAITING`, or a refusal's fault or code."""
    return f"{urlsplit(base_url).path.rstrip('/')}{PATH}?{urlencode({'outcome': outcome})}"


async def claim_at_login(call: ApiHandler, username: str, link_token: str | None) -> ChatClaimFields | UnsetType:
    """Claim the link of the token in the body, else in the header; returns UNSET if there is no token.

    The browser's cookie is ignored here, because it may hold another person's link. A link that cannot be claimed does
    not fail the login; the result says why.
    """
    token = link_token or header_token(call)
    if token is None:
        return UNSET
    try:
        account = await call.services.chat.claim(username, token, call.caller)
    except Refusal as refusal:
        message = call.services.translations.refusal(refusal, call.language)
        return ChatClaimFields(linked=False, code=refusal.code, message=message)
    return ChatClaimFields(linked=True, user=to_reply(ChatAccountFields, account))
