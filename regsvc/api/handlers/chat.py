"""Linking a chat account: begin, come back, look, unlink. `/api/discord/…` are other names of the same."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode, urlsplit

from regsvc.api.base import ApiHandler
from regsvc.api.endpoint import ACCESS_TOKEN, LINK_COOKIE, LINK_TOKEN, endpoint
from regsvc.api.handlers.chat_cookie import remember_token, shown_tokens
from regsvc.api.replies import to_reply
from regsvc.api.types.chat import (
    BeginChatLinkQuery,
    BeginChatLinkReply,
    ChatAccountFields,
    ChatCallbackQuery,
    ChatCallbackReply,
    ChatStatusQuery,
    ChatStatusReply,
    UnlinkChatRequest,
)
from regsvc.api.types.messages import MessageReply
from regsvc.core import errors
from regsvc.core.errors import Refusal
from regsvc.registration.chat.auth_requests import Initiator
from regsvc.registration.chat.linking import ProviderAnswer
from regsvc.registration.chat.unlinking import UnlinkProof


class BeginChatLinkHandler(ApiHandler):
    @endpoint(errors.NotEnabled, errors.RateLimited, credentials=(ACCESS_TOKEN,))
    async def get(self, query: BeginChatLinkQuery) -> BeginChatLinkReply:
        """Begin to link a chat account. Needs no access token.

        Begun with the owner's access token, the link will be his at once. Otherwise it waits for an hour to be claimed
        by a registration or a login that shows the link token. Only the browser or session that began can finish.
        """
        begun = await self.services.chat.begin(query.username, self.session, self.caller)
        remember_token(self, begun.link_token)
        return BeginChatLinkReply(auth_url=begun.auth_url, link_token=begun.link_token)


class ChatCallbackHandler(ApiHandler):
    @endpoint(
        errors.InvalidState,
        errors.ChatDenied,
        errors.ProviderUnavailable,
        errors.ChatNotMember,
        errors.ChatAccountTaken,
        errors.NotEnabled,
        redirects="A browser (`Accept: text/html`) is sent on to a page that tells what came of it.",
        credentials=(LINK_COOKIE, LINK_TOKEN, ACCESS_TOKEN),
    )
    async def get(self, query: ChatCallbackQuery) -> ChatCallbackReply | None:
        """Where the chat platform sends the player back to.

        Answers only whoever began: by the cookie, the header `X-Link-Token`, or the access token it was begun with.
        """
        answer = ProviderAnswer(query.state, query.code, query.error)
        starter = Initiator(shown_tokens(self), self.session.jti if self.session else None)
        finished = await self.services.chat.finish(answer, starter, self.caller)
        if self._is_browser:
            self._send_on(LINKED if finished.is_claimed else WAITING)
            self.finish()
            return None
        said = "chat_linked" if finished.is_claimed else "chat_linked_unclaimed"
        return ChatCallbackReply(
            message=self.message(said, account=finished.account.username),
            claimed=finished.is_claimed,
            user=to_reply(ChatAccountFields, finished.account),
        )

    def write_refusal(self, refusal: Refusal) -> None:
        if self._is_browser and self.request.method in ("GET", "HEAD"):
            self.services.metrics.count_refusal(refusal.code)
            self._send_on(str(refusal.facts.get("fault", refusal.code)))
        else:
            super().write_refusal(refusal)

    def _send_on(self, outcome: str) -> None:
        self.clear_header("Content-Type")
        self.set_header("Location", page_address(self.services.config.base_url(), outcome))
        self.set_status(HTTPStatus.SEE_OTHER)

    @property
    def _is_browser(self) -> bool:
        """Whether a person looks at the answer; programs ask for JSON, or for anything."""
        return "text/html" in self.request.headers.get("Accept", "").lower()


class ChatStatusHandler(ApiHandler):
    @endpoint(errors.RateLimited, credentials=(ACCESS_TOKEN, LINK_TOKEN, LINK_COOKIE))
    async def get(self, query: ChatStatusQuery) -> ChatStatusReply:
        """Whether a chat account is linked, and which one.

        An unclaimed link counts for whoever shows its token, in the cookie or in the header `X-Link-Token`.
        """
        self.services.status_limits.hit(self.caller)
        status = await self.services.chat.find_status(query.username, self.session, shown_tokens(self))
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
        """Unlink a chat account, or drop one that is linked and not claimed yet."""
        code = None if request.code is None else request.code.strip()
        proof = UnlinkProof(request.password, request.totp, code, request.link_token)
        await self.services.chat.unlink(request.username, proof, self.session, self.caller)
        return MessageReply(message=self.message("chat_unlinked"))


PATH: Final = "/chat-linked"


LINKED: Final = "linked"
"""The account is a user's now."""


WAITING: Final = "waiting"
"""The account is proven and waits for a registration or a login."""


def page_address(base_url: str, outcome: str) -> str:
    """Where a browser is sent to; `outcome` is one of the above, a refusal's fault or its code."""
    return f"{urlsplit(base_url).path.rstrip('/')}{PATH}?{urlencode({'outcome': outcome})}"
