"""Immutable data that the HTTP layer passes on to services."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from regsvc.core.addresses import network_key
from regsvc.core.rights import NO_RIGHTS, Rights

Audience = Literal["user", "admin", "token"]


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

    `audience` is what the token was issued for, `rights` what its owner may do with it on admin routes right now,
    `started_at` and `expires_at` are UTC, `language` the user's stored language (None: none stored),
    `token_generation` the user's when the session was verified. Of an API token, `username` is its name with that of
    its maker, as the audit log shows it, and `maker` the maker's; else `maker` is empty.
    """

    jti: str
    user_id: int
    username: str
    audience: Audience
    expires_at: datetime
    language: str | None
    started_at: datetime
    token_generation: int
    rights: Rights = NO_RIGHTS
    maker: str = ""
    token_id: int | None = None
    """Of an API token."""
    has_second_factor: bool = False
    """Whether its login showed one; of an API token, whether its maker had."""

    @property
    def is_admin(self) -> bool:
        """Whether its owner may use any admin route with it right now."""
        return bool(self.rights.permissions)
