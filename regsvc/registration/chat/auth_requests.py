"""Authorization requests: somebody was sent to the chat provider, and is to come back with the state that we made up.

A request belongs to whoever began it: to the browser that has the link token in a cookie, and to the session whose
access token was shown. An answer that anybody else brings is refused, so that nobody can be made to finish what
another one began: neither side's chat account ends up with the other.
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
from regsvc.database.models import BANNED, ChatRequest, Session, User

REQUEST_TIMEOUT: Final = timedelta(minutes=10)
MAX_OPEN_REQUESTS: Final = 10_000
"""Requests under way, all clients together; what one client may begin is limited before."""
_EVICTED_AT_ONCE: Final = MAX_OPEN_REQUESTS // 100

_SECRET_BYTES: Final = 32
_MAX_STATE_LENGTH: Final = 100


@dataclass(frozen=True)
class Initiator:
    """What an HTTP request shows of who sent it: link tokens, newest first, and the session's `jti` if there is one."""

    link_tokens: Sequence[str] = field(default=(), repr=False)
    session_jti: str | None = None


@dataclass(frozen=True)
class RedeemedRequest:
    """A request that was answered; its state is good for nothing any more."""

    verifier: str = field(repr=False)
    token_hash: str
    session_jti: str | None


class AuthorizationRequests:
    """The rules of authorization requests; every method works inside the caller's transaction."""

    def __init__(self, secrets: DerivedSecrets, now: Clock) -> None:
        self._secrets = secrets
        self._now = now

    def create(self, session_jti: str | None, token_hash: str) -> str:
        """The state of a new request. Where too many are under way, the oldest of strangers end.

        Raises `Unauthorized` if the session has just ended.
        """
        if self._open().count() >= MAX_OPEN_REQUESTS:
            self._evict_oldest()
        state = new_secret()
        try:
            ChatRequest.create(
                state_hash=self._hash(state), token_hash=token_hash, session=session_jti, created_at=self._now()
            )
        except IntegrityError:  # the foreign key's
            raise Unauthorized from None
        return state

    def pkce_verifier(self, state: str) -> str:
        """The PKCE verifier that belongs to a state; it is stored nowhere."""
        return self._secrets.pkce_verifier(state)

    def redeem(self, state: str | None, token_hashes: Sequence[str], session_jti: str | None) -> RedeemedRequest:
        """The open request of this state, which is over now, whatever comes of it.

        Raises `InvalidState` for one that is unknown, used or expired, and for somebody else's, which stays open.
        """
        if not state or len(state) > _MAX_STATE_LENGTH:
            raise InvalidState
        request = self._open().where(ChatRequest.state_hash == self._hash(state)).first()
        if request is None or not _is_initiator(request, token_hashes, session_jti):
            raise InvalidState
        if not ChatRequest.delete().where(ChatRequest.id == request.id).execute():
            raise InvalidState
        return RedeemedRequest(self.pkce_verifier(state), request.token_hash, request.session_jti)

    def get_initiating_user(self, redeemed: RedeemedRequest) -> User | None:
        """The user whose session began it, while that session stands; None for one that nobody's did.

        Raises `InvalidState` when the session has ended meanwhile.
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
        """Delete the requests that nobody answered in time; how many they were."""
        is_expired = ChatRequest.created_at <= self._now() - REQUEST_TIMEOUT
        return int(ChatRequest.delete().where(is_expired).execute())

    def _evict_oldest(self) -> None:
        """Of those that no session began, first: a flood must neither keep people out nor reach who is logged in."""
        oldest = self._open().order_by(ChatRequest.session.is_null(False), ChatRequest.id).limit(_EVICTED_AT_ONCE)
        ChatRequest.delete().where(ChatRequest.id.in_([request.id for request in oldest])).execute()

    def _open(self) -> Any:
        return ChatRequest.select().where(ChatRequest.created_at > self._now() - REQUEST_TIMEOUT)

    def _hash(self, state: str) -> str:
        return self._secrets.digest("chat state", state)


def new_secret() -> str:
    """43 characters of base64url from the system's random source."""
    return secrets.token_urlsafe(_SECRET_BYTES)


def _is_initiator(request: ChatRequest, token_hashes: Sequence[str], session_jti: str | None) -> bool:
    if session_jti is not None and request.session_jti == session_jti:
        return True
    return any(is_same_secret(shown, request.token_hash) for shown in token_hashes)
