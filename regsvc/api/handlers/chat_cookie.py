"""The cookie that binds a chat link to the browser that began it.

It proves no right but this one: to finish what this browser began, to see the account that came of it, and to carry it
into a registration. It names the newest link tokens, because people begin in several tabs.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from regsvc.api.base import ApiHandler
from regsvc.registration.chat.auth_requests import ANSWERED_WITHIN
from regsvc.users.chat_links import UNCLAIMED_FOR

LINK_TOKEN_HEADER: Final = "X-Link-Token"  # noqa: S105 - a name

LINK_COOKIE_NAME: Final = "companion_link"
# A browser takes a cookie of that name from an encrypted answer of this very host alone: no neighbour can plant one.
_SAFE_NAME: Final = f"__Host-{LINK_COOKIE_NAME}"
_KEPT: Final = 4
_LIFETIME: Final = UNCLAIMED_FOR + ANSWERED_WITHIN
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{43}")


def cookie_tokens(handler: ApiHandler) -> tuple[str, ...]:
    """The link tokens that the browser has, newest first."""
    written = handler.get_cookie(_name(handler)) or ""
    return tuple(token for token in written.split(".")[:_KEPT] if _TOKEN.fullmatch(token))


def header_token(handler: ApiHandler) -> str | None:
    """The link token that a front end shows on purpose; None: it shows none."""
    token = handler.request.headers.get(LINK_TOKEN_HEADER, "")
    return token if _TOKEN.fullmatch(token) else None


def shown_tokens(handler: ApiHandler) -> tuple[str, ...]:
    """All of them, the header's first."""
    token = header_token(handler)
    return cookie_tokens(handler) if token is None else (token, *cookie_tokens(handler))


def remember_token(handler: ApiHandler, token: str) -> None:
    """Let the browser have the token of what it just began, in front of those it has."""
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
    """Whether players reach us over HTTPS, be it through a proxy."""
    return handler.services.config.base_url().startswith("https:")
