"""The cookie that binds a chat link to the browser that started it.

It allows this browser to complete the link, to see the linked chat account, and to use it in a registration, and
nothing else. It holds several link tokens, newest first, because people start links in several tabs.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from regsvc.api.base import ApiHandler
from regsvc.registration.chat.auth_requests import REQUEST_TIMEOUT
from regsvc.users.chat_links import CLAIM_TIMEOUT

LINK_TOKEN_HEADER: Final = "X-Link-Token"  # noqa: S105 - a name

LINK_COOKIE_NAME: Final = "companion_link"
# Browsers accept a `__Host-` cookie only over HTTPS and from this exact host, so no sibling domain can set it.
_SAFE_NAME: Final = f"__Host-{LINK_COOKIE_NAME}"
_KEPT: Final = 4
_LIFETIME: Final = CLAIM_TIMEOUT + REQUEST_TIMEOUT
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{43}")


def cookie_tokens(handler: ApiHandler) -> tuple[str, ...]:
    """Return the link tokens in the browser's cookie, newest first."""
    written = handler.get_cookie(_name(handler)) or ""
    return tuple(token for token in written.split(".")[:_KEPT] if _TOKEN.fullmatch(token))


def header_token(handler: ApiHandler) -> str | None:
    """Return the link token in the `X-Link-Token` header, or None."""
    token = handler.request.headers.get(LINK_TOKEN_HEADER, "")
    return token if _TOKEN.fullmatch(token) else None


def presented_link_tokens(handler: ApiHandler) -> tuple[str, ...]:
    """Return the link tokens of the header and the cookie, in this order."""
    token = header_token(handler)
    return cookie_tokens(handler) if token is None else (token, *cookie_tokens(handler))


def remember_token(handler: ApiHandler, token: str) -> None:
    """Set the cookie, with a new token in front of the existing ones."""
    handler.set_cookie(
        _name(handler),
        ".".join((token, *cookie_tokens(handler))[:_KEPT]),
        max_age=_LIFETIME // timedelta(seconds=1),
        path="/",
        httponly=True,
        samesite="Lax",
        secure=_is_encrypted(handler),
    )


def _name(handler: ApiHandler) -> str:
    return _SAFE_NAME if _is_encrypted(handler) else LINK_COOKIE_NAME


def _is_encrypted(handler: ApiHandler) -> bool:
    """Return whether players reach the service over HTTPS, directly or through a proxy."""
    return handler.services.config.base_url().startswith("https:")
