"""Immutable data that the HTTP layer passes on to services."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from regsvc.core.addresses import network_key

Audience = Literal["user", "admin"]


@dataclass(frozen=True, slots=True)
class Caller:
    """The client of a request, as far as the connection and its headers say.

    `address` is the client's address as text (see `client_address`), `limit_key` the key under which rate limits
    count it, `language` one that has translations, `request_id` the id in the reply and in the log.
    """

    address: str
    limit_key: str
    language: str
    request_id: str

    @property
    def network_key(self) -> str:
        """The key of the client's network, where a limit must hold for all its addresses together."""
        return network_key(self.address)


@dataclass(frozen=True, slots=True)
class VerifiedSession:
    """An access token that was verified for this request.

    `audience` is what the token was issued for, `is_admin` whether its owner may use admin routes with it
    right now, `started_at` and `expires_at` are UTC, `language` the user's stored language (None: none stored),
    `token_generation` the user's when the session was verified.
    """

    jti: str
    user_id: int
    username: str
    audience: Audience
    is_admin: bool
    expires_at: datetime
    language: str | None
    started_at: datetime
    token_generation: int
