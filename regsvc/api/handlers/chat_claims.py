"""A login that shows a link token: the unclaimed chat link becomes the user's."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from regsvc.api.base import ApiHandler
from regsvc.api.handlers.chat_cookie import header_token
from regsvc.api.replies import to_reply
from regsvc.api.types.chat import ChatAccountFields, ChatClaimFields
from regsvc.core.errors import Refusal


async def claim_at_login(handler: ApiHandler, username: str, link_token: str | None) -> ChatClaimFields | UnsetType:
    """What became of the token in the body, else in the header; UNSET where none was shown.

    The browser's cookie does not count here: another person's link may be in it. A link that cannot be claimed does
    not undo the login, but it is told.
    """
    token = link_token or header_token(handler)
    if token is None:
        return UNSET
    try:
        account = await handler.services.chat.claim(username, token, handler.caller)
    except Refusal as refusal:
        words = handler.services.translations.refusal(refusal, handler.language)
        return ChatClaimFields(linked=False, code=refusal.code, message=words)
    return ChatClaimFields(linked=True, user=to_reply(ChatAccountFields, account))
