"""A chat platform: Authlib's OAuth 2.0 server, which enforces RFC 6749 and RFC 7636.

It knows one client (`CLIENT_ID`), requires its secret, its exact redirect URI and PKCE with S256, redeems each code
once, and serves the profile of a token's owner, as Discord does. `oauth_server` serves it over HTTP.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from authlib.oauth2.rfc6749 import (
    AuthorizationCodeMixin,
    AuthorizationServer,
    ClientMixin,
    OAuth2Error,
    OAuth2Request,
    ResourceProtector,
    TokenMixin,
)
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from authlib.oauth2.rfc6750 import BearerTokenGenerator, BearerTokenValidator
from authlib.oauth2.rfc7636 import CodeChallenge

CLIENT_ID = "companion@loopback"
CLIENT_SECRET = "the secret: of 100% + more"  # with characters that have to be encoded
SCOPES = ["identify", "guilds.members.read"]


@dataclass(frozen=True)
class ChatPerson:
    """A person with an account on the platform. `guilds`: the roles by guild id."""

    id: str
    username: str
    global_name: str | None = None
    avatar: str | None = None
    discriminator: str = "0"
    guilds: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def profile(self) -> dict[str, object]:
        return {
            "id": self.id,
            "username": self.username,
            "discriminator": self.discriminator,
            "avatar": self.avatar,
            "global_name": self.global_name,
            "locale": "en-GB",
        }


@dataclass(frozen=True)
class PlatformReply:
    """A response: JSON, or headers alone."""

    status: int
    told: Any
    headers: Mapping[str, str] = field(default_factory=dict)


class PlatformRequest(OAuth2Request):
    """A request, as Authlib reads it."""

    def __init__(self, method: str, address: str, fields: dict[str, str], headers: Mapping[str, str]) -> None:
        super().__init__(method, address, headers=dict(headers))
        self.payload = BasicOAuth2Payload(fields)
        self._fields = fields

    @property
    def form(self) -> dict[str, str]:
        return self._fields

    @property
    def args(self) -> dict[str, str | None]:
        return dict(self._fields)


class Platform:
    """The platform's state. `redirect_urls` and `auth_method` are those of the client; people are kept by id."""

    def __init__(self) -> None:
        self.people: dict[str, ChatPerson] = {}
        self.redirect_urls: set[str] = set()
        self.auth_method = "client_secret_basic"
        self.codes: dict[str, _Code] = {}
        self.tokens: dict[str, _Token] = {}
        self._rules = _Rules(self)
        self._protector = ResourceProtector()
        self._protector.register_token_validator(_Validator(self.tokens))

    def authorize(self, request: PlatformRequest, person: ChatPerson | None) -> PlatformReply:
        """Return the authorization response; `person` consents at once. None: consent is denied."""
        rules: Any = self._rules
        try:
            grant = rules.get_consent_grant(request, end_user=person)
        except OAuth2Error as error:
            return PlatformReply(400, {"error": error.error, "error_description": error.description})
        return _reply(rules.create_authorization_response(request, grant_user=person, grant=grant))

    def token(self, request: PlatformRequest) -> PlatformReply:
        return _reply(self._rules.create_token_response(request))

    def profile(self, request: PlatformRequest, path: str) -> PlatformReply:
        """Return `/users/@me` or, below it, the membership in a guild."""
        is_profile = path == "/users/@me"
        protector: Any = self._protector
        try:
            token: _Token = protector.validate_request(SCOPES[:1] if is_profile else SCOPES[1:], request)
        except OAuth2Error as error:
            return PlatformReply(error.status_code, {"message": "401: Unauthorized", "code": 0})
        person = token.person
        if is_profile:
            return PlatformReply(200, person.profile)
        guild = path.split("/")[4]
        if guild not in person.guilds:
            return PlatformReply(404, {"message": "Unknown Guild", "code": 10004})
        return PlatformReply(200, {"roles": person.guilds[guild], "nick": None, "user": person.profile})


def _reply(answer: Any) -> PlatformReply:
    status, told, headers = answer
    return PlatformReply(status, told, dict(headers))


@dataclass(frozen=True)
class _Client(ClientMixin):
    """The registered client. It may send its secret in one way only."""

    redirect_urls: frozenset[str]
    auth_method: str

    def get_client_id(self) -> str:
        return CLIENT_ID

    def get_default_redirect_uri(self) -> str:
        return ""

    def get_allowed_scope(self, scope: Any) -> str:
        return scope or ""

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri in self.redirect_urls

    def check_client_secret(self, client_secret: str) -> bool:
        return secrets.compare_digest(client_secret.encode(), CLIENT_SECRET.encode())

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == self.auth_method

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == "authorization_code"


@dataclass(frozen=True)
class _Code(AuthorizationCodeMixin):
    code: str
    redirect_uri: str
    scope: str
    person: ChatPerson
    code_challenge: str
    code_challenge_method: str

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope


@dataclass(frozen=True)
class _Token(TokenMixin):
    person: ChatPerson
    scope: str

    def get_scope(self) -> str:
        return self.scope

    def is_expired(self) -> bool:
        return False

    def is_revoked(self) -> bool:
        return False


class _Validator(BearerTokenValidator):
    def __init__(self, tokens: Mapping[str, _Token]) -> None:
        super().__init__()
        self._tokens = tokens

    def authenticate_token(self, token_string: str) -> Any:
        return self._tokens.get(token_string)


class _S256Alone(CodeChallenge):
    """Requires PKCE of every client; Authlib does not require it of clients with a secret."""

    def validate_code_challenge(self, grant: Any, redirect_uri: str) -> None:
        asked = grant.request.payload.data
        if asked.get("code_challenge_method") != "S256" or not asked.get("code_challenge"):
            raise OAuth2Error("PKCE with S256 is required")
        super().validate_code_challenge(grant, redirect_uri)


class _Rules(AuthorizationServer):
    """Authlib's server on the platform's state, without a web framework."""

    def __init__(self, platform: Platform) -> None:
        super().__init__(scopes_supported=SCOPES)
        self.platform = platform
        self.register_grant(_Grant, [_S256Alone(required=True)])
        self.register_token_generator("default", BearerTokenGenerator(lambda **_about: secrets.token_urlsafe(24)))

    def query_client(self, client_id: str) -> Any:
        if client_id != CLIENT_ID:
            return None
        return _Client(frozenset(self.platform.redirect_urls), self.platform.auth_method)

    def save_token(self, token: Mapping[str, Any], request: Any) -> None:
        self.platform.tokens[token["access_token"]] = _Token(request.user, token.get("scope", ""))

    def create_oauth2_request(self, request: Any) -> Any:
        return request

    def handle_response(self, status: int, body: Any, headers: Any) -> Any:
        return status, body, headers

    def send_signal(self, name: str, *args: object, **kwargs: object) -> None:
        """Send no signal: there are no listeners."""


class _Grant(AuthorizationCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ("client_secret_basic", "client_secret_post")

    @property
    def platform(self) -> Platform:
        rules: Any = self.server
        platform: Platform = rules.platform
        return platform

    def save_authorization_code(self, code: str, request: Any) -> None:
        asked = request.payload.data
        self.platform.codes[code] = _Code(
            code=code,
            redirect_uri=asked["redirect_uri"],
            scope=asked.get("scope", ""),
            person=request.user,
            code_challenge=asked["code_challenge"],
            code_challenge_method=asked["code_challenge_method"],
        )

    def query_authorization_code(self, code: str, client: Any) -> Any:
        return self.platform.codes.get(code)

    def delete_authorization_code(self, authorization_code: Any) -> None:
        del self.platform.codes[authorization_code.code]

    def authenticate_user(self, authorization_code: Any) -> Any:
        return authorization_code.person
