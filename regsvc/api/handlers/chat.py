"""Routes to link a chat account: authorization, callback, status, unlink. `/api/discord/…` are aliases."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Final
from urllib.parse import urlencode, urlsplit

from msgspec import UNSET, Meta, UnsetType

from regsvc.api.base import ApiHandler, to_reply
from regsvc.api.endpoint import ACCESS_TOKEN, LINK_COOKIE, LINK_TOKEN, endpoint
from regsvc.api.handlers.chat_cookie import (
    header_token,
    presented_link_tokens,
    remember_token,
)
from regsvc.api.handlers.registration import CodeProof
from regsvc.api.types.messages import MessageReply, Output, Password, Reply, Request, Username
from regsvc.auth.verification_codes import CodeOrProof
from regsvc.core import errors
from regsvc.core.errors import Refusal
from regsvc.registration.chat.auth_requests import Initiator
from regsvc.registration.chat.linking import AuthorizationResponse, UnlinkProof

# Browsers accept a `__Host-` cookie only over HTTPS and from this exact host, so no sibling domain can set it.


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


class ChatStatusQuery(Request, frozen=True, kw_only=True):
    """The user whose chat account is looked up."""

    username: Username


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


class BeginChatLinkHandler(ApiHandler):
    @endpoint(errors.NotEnabled, errors.RateLimited, credentials=(ACCESS_TOKEN,))
    async def get(self, query: BeginChatLinkQuery) -> BeginChatLinkReply:
        """Start to link a chat account. No access token is required.

        With the owner's access token, the link belongs to them as soon as it is completed. Otherwise it can be claimed
        for one hour by a registration or a login that sends the link token. Only the browser or session that started
        the link can complete it.
        """
        begun = await self.services.chat.begin(query.username, self.session, self.caller)
        remember_token(self, begun.link_token)
        return to_reply(BeginChatLinkReply, begun)


class ChatCallbackHandler(ApiHandler):
    @endpoint(
        errors.InvalidState,
        errors.ChatDenied,
        errors.ProviderUnavailable,
        errors.ChatNotMember,
        errors.ChatAccountTaken,
        errors.NotEnabled,
        redirects="A browser (`Accept: text/html`) is redirected to a page that shows the outcome.",
        credentials=(LINK_COOKIE, LINK_TOKEN, ACCESS_TOKEN),
    )
    async def get(self, query: ChatCallbackQuery) -> ChatCallbackReply | None:
        """Complete the link: the chat platform redirects the player here.

        Only the client that started the link can complete it. It is recognized by the cookie, the `X-Link-Token`
        header, or the access token that the link was started with.
        """
        answer = AuthorizationResponse(query.state, query.code, query.error)
        initiator = Initiator(presented_link_tokens(self), self.session.jti if self.session else None)
        finished = await self.services.chat.finish(answer, initiator, self.caller)
        if self._is_browser:
            self._redirect(LINKED if finished.is_claimed else WAITING)
            self.finish()
            return None
        key = "chat_linked" if finished.is_claimed else "chat_linked_unclaimed"
        return ChatCallbackReply(
            message=self.message(key, account=finished.account.username),
            claimed=finished.is_claimed,
            user=to_reply(ChatAccountFields, finished.account),
        )

    def write_refusal(self, refusal: Refusal) -> None:
        if self._is_browser and self.request.method in ("GET", "HEAD"):
            self.services.metrics.count_refusal(refusal.code)
            self._redirect(str(refusal.facts.get("fault", refusal.code)))
        else:
            super().write_refusal(refusal)

    def _redirect(self, outcome: str) -> None:
        self.clear_header("Content-Type")
        self.set_header("Location", page_address(self.services.config.base_url(), outcome))
        self.set_status(HTTPStatus.SEE_OTHER)

    @property
    def _is_browser(self) -> bool:
        """Whether a person will see the response; programs accept JSON or anything."""
        return "text/html" in self.request.headers.get("Accept", "").lower()


class ChatStatusHandler(ApiHandler):
    @endpoint(errors.RateLimited, credentials=(ACCESS_TOKEN, LINK_TOKEN, LINK_COOKIE))
    async def get(self, query: ChatStatusQuery) -> ChatStatusReply:
        """Show whether a chat account is linked, and which one.

        A client that sends the token of an unclaimed link, in the cookie or in the `X-Link-Token` header, sees that
        link.
        """
        self.services.status_limits.hit(self.caller)
        status = await self.services.chat.find_status(query.username, self.session, presented_link_tokens(self))
        if status.account is None:
            return ChatStatusReply(linked=status.is_linked)
        return ChatStatusReply(linked=status.is_linked, user=to_reply(ChatAccountFields, status.account))


class UnlinkChatHandler(ApiHandler):
    @endpoint(
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
    async def post(self, request: UnlinkChatRequest) -> MessageReply:
        """Unlink a chat account, or discard a link that is not claimed yet."""
        given = CodeOrProof(request.code, request.proof)
        proof = UnlinkProof(request.password, request.totp, given, request.link_token)
        await self.services.chat.unlink(request.username, proof, self.session, self.caller)
        return MessageReply(message=self.message("chat_unlinked"))


PATH: Final = "/chat-linked"

LINKED: Final = "linked"
"""Outcome: the chat account is linked to a user."""

WAITING: Final = "waiting"
"""Outcome: the chat account is proven and waits to be claimed by a registration or a login."""


def page_address(base_url: str, outcome: str) -> str:
    """Return the page to redirect a browser to; `outcome` is `LINKED`, `WAITING`, or a refusal's fault or code."""
    return f"{urlsplit(base_url).path.rstrip('/')}{PATH}?{urlencode({'outcome': outcome})}"


async def claim_at_login(handler: ApiHandler, username: str, link_token: str | None) -> ChatClaimFields | UnsetType:
    """Claim the link of the token in the body, else in the header; returns UNSET if there is no token.

    The browser's cookie is ignored here, because it may hold another person's link. A link that cannot be claimed does
    not fail the login; the result says why.
    """
    token = link_token or header_token(handler)
    if token is None:
        return UNSET
    try:
        account = await handler.services.chat.claim(username, token, handler.caller)
    except Refusal as refusal:
        message = handler.services.translations.refusal(refusal, handler.language)
        return ChatClaimFields(linked=False, code=refusal.code, message=message)
    return ChatClaimFields(linked=True, user=to_reply(ChatAccountFields, account))
