"""Authorization requests (RFC 6749): a client was sent to the chat provider and returns with our state.

A request belongs to its initiator: the browser with the link token in a cookie, or the session whose access token was
shown. A callback from any other client is refused, so that no client can be tricked into finishing another's request,
which would link one person's chat account to another's user.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from peewee import IntegrityError

from regsvc.auth.derived_secrets import DerivedSecrets, is_same_secret
from regsvc.core.clock import Clock
from regsvc.core.errors import InvalidState, Unauthorized
from regsvc.database.bulk import redate
from regsvc.database.models import BANNED, ChatRequest, Session, User

REQUEST_TIMEOUT: Final = timedelta(minutes=10)
MAX_OPEN_REQUESTS: Final = 10_000
"""Open requests of all clients together; a rate limit per client applies before."""
_EVICTED_AT_ONCE: Final = MAX_OPEN_REQUESTS // 100

_SECRET_BYTES: Final = 32
_MAX_STATE_LENGTH: Final = 100


@dataclass(frozen=True)
class Initiator:
    """Credentials of an HTTP request: link tokens, newest first, and the session's `jti`, if any."""

    link_tokens: Sequence[str] = field(default=(), repr=False)
    session_jti: str | None = None


class AuthorizationRequests:
    """Store of authorization requests. Every method works inside the caller's transaction."""

    def __init__(self, secrets: DerivedSecrets, now: Clock) -> None:
        self._secrets = secrets
        self._now = now

    def create(self, session_jti: str | None, token_hash: str) -> str:
        """Create a request and return its state. Beyond `MAX_OPEN_REQUESTS` the oldest are evicted.

        Raises `Unauthorized` if the session was just revoked.
        """
        if self._open().count() >= MAX_OPEN_REQUESTS:
            self._evict_oldest()
        state = new_secret()
        try:
            ChatRequest.create(
                state_hash=self._hash(state), token_hash=token_hash, session=session_jti, created_at=self._now()
            )
        except IntegrityError:  # of the foreign key
            raise Unauthorized from None
        return state

    def pkce_verifier(self, state: str) -> str:
        """Return the PKCE verifier derived from a state; it is not stored."""
        return self._secrets.pkce_verifier(state)

    def redeem(self, state: str | None, token_hashes: Sequence[str], session_jti: str | None) -> ChatRequest:
        """Close the open request with this state and return it. Its state cannot be used again.

        Raises `InvalidState` for an unknown, used or expired state, and for another initiator's, which stays open: else
        anyone who has seen the state could use it up.
        """
        if not state or len(state) > _MAX_STATE_LENGTH:
            raise InvalidState
        request: ChatRequest | None = self._open().where(ChatRequest.state_hash == self._hash(state)).first()
        if request is None or not _is_initiator(request, token_hashes, session_jti):
            raise InvalidState
        if not ChatRequest.delete().where(ChatRequest.id == request.id).execute():
            raise InvalidState
        return request

    def get_initiating_user(self, redeemed: ChatRequest) -> User | None:
        """Return the user whose session initiated the request; None if it was initiated without a session.

        Raises `InvalidState` when the session was revoked or has expired meanwhile.
        """
        if redeemed.session_jti is None:
            return None
        standing = (
            Session.select(Session, User)
            .join(User)
            .where(
                Session.jti == redeemed.session_jti,
                Session.token_generation == User.token_generation,
                Session.expires_at > self._now(),
                User.status != BANNED,
            )
        )
        session = standing.first()
        if session is None:
            raise InvalidState
        user: User = session.user
        return user

    def purge_expired(self) -> int:
        """Delete expired requests and return their number."""
        redate(self._now(), ChatRequest.created_at)
        is_expired = ChatRequest.created_at <= self._now() - REQUEST_TIMEOUT
        return int(ChatRequest.delete().where(is_expired).execute())

    def _evict_oldest(self) -> None:
        """Delete the oldest requests, those without a session first: a flood must neither block new requests nor evict
        those of logged-in users.
        """
        oldest = self._open().order_by(ChatRequest.session.is_null(False), ChatRequest.id).limit(_EVICTED_AT_ONCE)
        ChatRequest.delete().where(ChatRequest.id.in_([request.id for request in oldest])).execute()

    def _open(self) -> Any:
        return ChatRequest.select().where(ChatRequest.created_at > self._now() - REQUEST_TIMEOUT)

    def _hash(self, state: str) -> str:
        return self._secrets.digest("chat state", state)


def new_secret() -> str:
    """Return 43 random characters of base64url."""
    return secrets.token_urlsafe(_SECRET_BYTES)


def _is_initiator(request: ChatRequest, token_hashes: Sequence[str], session_jti: str | None) -> bool:
    if session_jti is not None and request.session_jti == session_jti:
        return True
    return any(is_same_secret(shown, request.token_hash) for shown in token_hashes)
