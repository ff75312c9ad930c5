"""Claiming an unclaimed chat link at a login."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from regsvc.api.base import ApiHandler
from regsvc.api.handlers.chat_cookie import header_token
from regsvc.api.replies import to_reply
from regsvc.api.types.chat import ChatAccountFields, ChatClaimFields
from regsvc.core.errors import Refusal


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
