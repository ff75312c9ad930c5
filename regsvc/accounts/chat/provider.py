"""Chat providers: players prove which chat account is theirs (OAuth 2.0, RFC 6749, with PKCE, RFC 7636).

Discord's addresses are built in; any other provider is described by the config.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import re
import secrets
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from peewee import IntegrityError

from plugin_bridge.text import decode_json, one_line
from regsvc.auth.derived_secrets import DerivedSecrets, is_same_secret
from regsvc.config.sections import ChatSection
from regsvc.core.clock import Clock
from regsvc.core.errors import ChatNotMember, InvalidState, ProviderUnavailable, Refusal, Unauthorized
from regsvc.core.http_response import NoResponse, Response
from regsvc.database.bulk import redate
from regsvc.database.models import BANNED, ChatRequest, Session, User
from regsvc.users.chat_links import ChatAccount

if TYPE_CHECKING:
    from regsvc.core.http_client import HttpClient

log = logging.getLogger(__name__)

CALLBACK_PATH: Final = "/api/chat/callback"

# https://discord.com/developers/docs/topics/oauth2 and …/resources/user
_DISCORD_AUTHORIZE: Final = "https://discord.com/oauth2/authorize"
_DISCORD_TOKEN: Final = "https://discord.com/api/v10/oauth2/token"  # noqa: S105 - an address
_DISCORD_PROFILE: Final = "https://discord.com/api/v10/users/@me"
_DISCORD_SCOPE: Final = "identify"
_DISCORD_MEMBER_SCOPE: Final = "guilds.members.read"

_ACCESS_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,4096}")
_ACCOUNT_ID: Final = re.compile(r"[\x21-\x7e]{1,255}")
_LONGEST_NAME: Final = 255
_LONGEST_DISCRIMINATOR: Final = 16
_ACCEPT: Final = {"Accept": "application/json"}
_ERROR_CODE: Final = re.compile(r"[a-z_]{1,40}")  # RFC 6749 5.2


def with_defaults(chat: ChatSection, base_url: str) -> ChatSection:
    """Return the section with Discord's values in place of empty ones; `chat.platform` must not be empty."""
    chat = replace(
        chat,
        redirect_url=chat.redirect_url or f"{base_url}{CALLBACK_PATH}",
        authorize_url=chat.authorize_url or _DISCORD_AUTHORIZE,
        token_url=chat.token_url or _DISCORD_TOKEN,
        profile_url=chat.profile_url or _DISCORD_PROFILE,
    )
    if chat.platform != "discord":
        return chat
    scopes = f"{_DISCORD_SCOPE} {_DISCORD_MEMBER_SCOPE}" if chat.guild_id else _DISCORD_SCOPE
    return replace(chat, scopes=scopes, id_field="id", name_field="username")


def member_url(chat: ChatSection) -> str:
    """Return the URL of the player's membership in the Discord guild, below the profile."""
    return f"{chat.profile_url}/guilds/{quote(chat.guild_id, safe='')}/member"


@dataclass(frozen=True)
class ChatProvider:
    """Client of a provider. For the event loop; tokens and codes are not stored."""

    chat: ChatSection
    """A section `with_defaults`; its timeout is for all requests about one player together."""

    def authorization_url(self, state: str, verifier: str) -> str:
        """Return the URL for the player's browser, which returns with the state and a code."""
        chat = self.chat
        asked = {
            "response_type": "code",
            "client_id": chat.client_id,
            "redirect_uri": chat.redirect_url,
            "state": state,
            "code_challenge": code_challenge(verifier),
            "code_challenge_method": "S256",
        } | ({"scope": chat.scopes} if chat.scopes else {})
        parts = urlsplit(chat.authorize_url)
        query = urlencode([*parse_qsl(parts.query, keep_blank_values=True), *asked.items()], quote_via=quote)
        return urlunsplit(parts._replace(query=query, fragment=""))

    async def fetch_account(self, code: str, verifier: str) -> ChatAccount:
        """Return the account that the code stands for.

        Raises `ProviderUnavailable` for every unusable response, and `ChatNotMember` without the guild or the role.
        """
        from regsvc.core.http_client import HttpClient

        chat = self.chat
        with HttpClient(chat.timeout) as http:
            headers = {"Authorization": f"Bearer {await self._redeem(http, code, verifier)}", **_ACCEPT}
            account = _read_account(chat, await _read("profile", http.get(chat.profile_url, headers)))
            if chat.guild_id:
                self._check_membership(await _read("membership", http.get(member_url(chat), headers)))
        return account

    async def _redeem(self, http: HttpClient, code: str, verifier: str) -> str:
        """Exchange the code for an access token, which is not kept."""
        chat = self.chat
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": chat.redirect_url,
            "code_verifier": verifier,
        }
        headers = {**_ACCEPT, "Content-Type": "application/x-www-form-urlencoded"}
        if chat.token_auth == "body":  # noqa: S105 - a mode
            form |= {"client_id": chat.client_id, "client_secret": chat.client_secret}
        else:
            headers["Authorization"] = _basic(chat.client_id, chat.client_secret)
        response = await _read("token", http.post(chat.token_url, headers, urlencode(form).encode()))
        token, kind = response.fields.get("access_token"), response.fields.get("token_type", "bearer")
        if not (response.is_ok and isinstance(token, str) and isinstance(kind, str)):
            raise response.unusable()
        if kind.lower() != "bearer" or not _ACCESS_TOKEN.fullmatch(token):
            raise response.unusable()
        return token

    def _check_membership(self, response: _ProviderResponse) -> None:
        """Raise `ChatNotMember` for an account that is not a member of the guild; Discord responds with 404 for it."""
        if response.status == 404:
            raise ChatNotMember("not_in_guild")
        roles = response.fields.get("roles")
        if not response.is_ok or not isinstance(roles, list):
            raise response.unusable()
        wanted = self.chat.role_ids
        if wanted and not any(role in wanted for role in roles):
            raise ChatNotMember("lacks_role")


@dataclass(frozen=True)
class _ProviderResponse:
    """The provider's response to a request: a status, and the JSON object of its body, empty unless there was one.

    `subject` is what the request was about, for the log.
    """

    subject: str
    status: int
    fields: Mapping[str, Any] = field(repr=False)

    @property
    def is_ok(self) -> bool:
        return self.status == 200

    def unusable(self) -> Refusal:
        """Return the error for a response that lacks what was asked for, and log it for the host."""
        if self.is_ok:
            log.warning("the chat provider's answer about the %s lacks what it should have", self.subject)
        return ProviderUnavailable()


async def _read(subject: str, request: Awaitable[Response]) -> _ProviderResponse:
    """Return the response; only its status and the error code of RFC 6749 are logged.

    Raises `ProviderUnavailable` when none comes in time.
    """
    try:
        response = await request
    except NoResponse as error:
        log.warning("the chat provider gave no answer about the %s: %s", subject, error)
        raise ProviderUnavailable from None
    fields = _parse_object(response.body)
    if response.status != 200:
        code = str(fields.get("error", ""))
        named = f" ({code})" if _ERROR_CODE.fullmatch(code) else ""
        log.warning("the chat provider answered %d about the %s%s", response.status, subject, named)
    return _ProviderResponse(subject, response.status, fields)


def _parse_object(body: bytes) -> Mapping[str, Any]:
    """Return the JSON object, {} for anything else."""
    try:
        fields = decode_json(body)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def code_challenge(verifier: str) -> str:
    """Return the PKCE challenge of a verifier (RFC 7636, S256)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode("ascii")


def _basic(client_id: str, client_secret: str) -> str:
    """Return the `Authorization` header (RFC 6749, 2.3.1): both values are form-encoded first.

    A space becomes %20, because some servers do not decode +.
    """
    both = f"{quote(client_id, safe='')}:{quote(client_secret, safe='')}"
    return f"Basic {base64.b64encode(both.encode('ascii')).decode('ascii')}"


def _read_account(chat: ChatSection, response: _ProviderResponse) -> ChatAccount:
    """Return the account in a profile. Raises `ProviderUnavailable` for one without a usable id."""
    profile = response.fields
    account_id = _text(_find(profile, chat.id_field))
    if not response.is_ok or account_id is None or not _ACCOUNT_ID.fullmatch(account_id):
        raise response.unusable()
    username = _name(_find(profile, chat.name_field)) or account_id
    if chat.platform != "discord":
        return ChatAccount(chat.platform, account_id, username)
    return ChatAccount(
        platform=chat.platform,
        id=account_id,
        username=username,
        discriminator=(_name(profile.get("discriminator")) or "0")[:_LONGEST_DISCRIMINATOR],
        avatar=_name(profile.get("avatar")),
        global_name=_name(profile.get("global_name")),
    )


def _find(profile: Mapping[str, Any], path: str) -> object:
    """Return the value of a field, or None; dots in the path separate nested fields."""
    value: object = profile
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(value: object) -> str | None:
    """Return an id or name as text; None for values that are neither text nor integer."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= 64:
        return str(value)
    return value if isinstance(value, str) else None


def _name(value: object) -> str | None:
    """Return a name on one line, cut to the column's length, or None."""
    return one_line(_text(value) or "", _LONGEST_NAME) or None


# --- Authorization requests (RFC 6749): a client was sent to the chat provider and returns with our state ---
# A request belongs to its initiator: the browser with the link token in a cookie, or the session whose access token was
# shown. A callback from any other client is refused, so that no client can be tricked into finishing another's request,
# which would link one person's chat account to another's user.


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


@dataclass(frozen=True)
class AuthorizationRequests:
    """Store of authorization requests. Every method works inside the caller's transaction."""

    secrets: DerivedSecrets
    now: Clock

    def create(self, session_jti: str | None, token_hash: str) -> str:
        """Create a request and return its state. Beyond `MAX_OPEN_REQUESTS` the oldest are evicted.

        Raises `Unauthorized` if the session was just revoked.
        """
        if self._open().count() >= MAX_OPEN_REQUESTS:
            self._evict_oldest()
        state = new_secret()
        try:
            ChatRequest.create(
                state_hash=self._hash(state), token_hash=token_hash, session=session_jti, created_at=self.now()
            )
        except IntegrityError:  # of the foreign key
            raise Unauthorized from None
        return state

    def pkce_verifier(self, state: str) -> str:
        """Return the PKCE verifier derived from a state; it is not stored."""
        return self.secrets.pkce_verifier(state)

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
                Session.expires_at > self.now(),
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
        redate(self.now(), ChatRequest.created_at)
        is_expired = ChatRequest.created_at <= self.now() - REQUEST_TIMEOUT
        return int(ChatRequest.delete().where(is_expired).execute())

    def _evict_oldest(self) -> None:
        """Delete the oldest requests, those without a session first: a flood must neither block new requests nor evict
        those of logged-in users.
        """
        oldest = self._open().order_by(ChatRequest.session.is_null(False), ChatRequest.id).limit(_EVICTED_AT_ONCE)
        ChatRequest.delete().where(ChatRequest.id.in_([request.id for request in oldest])).execute()

    def _open(self) -> Any:
        return ChatRequest.select().where(ChatRequest.created_at > self.now() - REQUEST_TIMEOUT)

    def _hash(self, state: str) -> str:
        return self.secrets.digest("chat state", state)


def new_secret() -> str:
    """Return 43 random characters of base64url."""
    return secrets.token_urlsafe(_SECRET_BYTES)


def _is_initiator(request: ChatRequest, token_hashes: Sequence[str], session_jti: str | None) -> bool:
    if session_jti is not None and request.session_jti == session_jti:
        return True
    return any(is_same_secret(shown, request.token_hash) for shown in token_hashes)
