"""Base classes of all request handlers: JSON in and out, one shape for refusals, the caller and their language.

A handler parses, calls one service and replies (`regsvc.api.endpoint` reads the request and sends the reply):

    class LogoutHandler(ApiHandler):
        @endpoint()
        async def post(self) -> MessageReply:
            \"\"\"End this session.\"\"\"
            await self.run(self.services.logins.log_out, self.require_session(), self.caller.address)
            return MessageReply(message=self.message("logged_out"))

`prepare` has already refused malformed requests and those without the access that the route requires.
"""

from __future__ import annotations

import contextlib
import logging
import random
import re
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from enum import Enum
from functools import cached_property
from types import TracebackType
from typing import Any, Final, ParamSpec, TypeVar

import msgspec
from msgspec import UNSET
from tornado.httputil import HTTPServerRequest
from tornado.iostream import StreamClosedError
from tornado.web import Application, HTTPError, RequestHandler

from regsvc.api.in_flight import InFlight
from regsvc.api.json_body import convert, convert_query, parse_object
from regsvc.api.services import Services
from regsvc.api.types.messages import Output, Reply, Request, milliseconds_of
from regsvc.core.addresses import limit_key
from regsvc.core.caller import Caller, VerifiedSession
from regsvc.core.errors import (
    Category,
    InternalServerError,
    InvalidField,
    MalformedRequest,
    MethodNotAllowed,
    Refusal,
    Unauthorized,
    UnknownPath,
    UnsupportedMediaType,
)
from regsvc.core.exceptions import describe_exception

log = logging.getLogger(__name__)

WordReason = Callable[[str | None], str | None]
"""Function that puts the reason of a decision into the caller's language, as `ApiHandler.word_reason` does."""
P = ParamSpec("P")
T = TypeVar("T")
AnyRequest = TypeVar("AnyRequest", bound=Request)

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
STRICT_TRANSPORT_SECURITY = "max-age=31536000"
"""Sent where players reach us by https; browsers ignore it elsewhere. Subdomains are not ours to decide on."""

PREFLIGHT_HEADERS = {
    "Access-Control-Allow-Headers": "Authorization, Content-Type, X-Address-Proof, X-Application-Token, X-Link-Token, "
    "X-Request-ID",
    "Access-Control-Max-Age": "600",
}

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_LONGEST_LOGGED_PATH = 200
# Unique, not secret. The system's random numbers take a system call, at which other threads take over the interpreter.
_request_ids = random.Random()  # noqa: S311


class Access(Enum):
    """The access a route requires."""

    PUBLIC = "public"
    PUBLIC_WITH_ANY_TOKEN = "public, and an invalid token counts as none"  # noqa: S105 - not a token
    USER = "user"
    ADMIN = "admin"


PUBLIC_ACCESS = frozenset({Access.PUBLIC, Access.PUBLIC_WITH_ANY_TOKEN})


class ServingApplication(Application):
    """The attributes of the application that handlers use (`regsvc.api.application.ApiApplication`)."""

    services: Services
    in_flight: InFlight
    is_stopping: bool
    """While true, every reply asks the client to reconnect."""

    @property
    @abstractmethod
    def routes(self) -> tuple[Any, ...]:
        """The route table in force (of `regsvc.api.routes.Route`), from which the OpenAPI document is built."""


class BaseHandler(RequestHandler):
    """Base of API handlers and pages: security headers, a request id, quiet logs."""

    application: ServingApplication

    def __init__(self, application: ServingApplication, request: HTTPServerRequest, **kwargs: Any) -> None:
        super().__init__(application, request, **kwargs)
        application.in_flight.add(self)

    def on_finish(self) -> None:
        self.application.in_flight.discard(self)

    def on_connection_close(self) -> None:
        """Stop counting the request as in flight: the client has disconnected."""
        self.application.in_flight.discard(self)

    @property
    def services(self) -> Services:
        return self.application.services

    @cached_property
    def request_id(self) -> str:
        """The client's `X-Request-ID` if it is safe to log, else a new id."""
        headers = self.request.headers
        if "X-Request-ID" in headers and _REQUEST_ID.fullmatch(headers["X-Request-ID"]):
            return headers["X-Request-ID"]
        return f"{_request_ids.getrandbits(128):032x}"

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        for name, value in SECURITY_HEADERS.items():
            self.set_header(name, value)
        self.set_header("X-Request-ID", self.request_id)
        if self.services.config.server.base_url.startswith("https:"):
            self.set_header("Strict-Transport-Security", STRICT_TRANSPORT_SECURITY)
        if self.application.is_stopping:
            self.set_header("Connection", "close")

    def finish_with(self, content: bytes) -> None:
        """Finish with a body that many replies share; no copy of it waits for a client that reads slowly."""
        self.set_header("Content-Length", str(len(content)))
        self.flush()  # the headers, to which Tornado would join the body
        self.finish(content)

    def compute_etag(self) -> None:
        """Disable Tornado's ETags: replies are `no-store`, so there is nothing to compare."""

    def log_exception(
        self, typ: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Log one line for a bug. Refusals and disconnected clients are not bugs."""
        if value is not None and not isinstance(value, Refusal | HTTPError | StreamClosedError):
            where = f"{self.request.method} {printable_path(self.request)}"
            log.error("bug in %s, request=%s: %s", where, self.request_id, describe_exception(value))


def printable_path(request: HTTPServerRequest) -> str:
    """Return the path in a form that is safe to log: without the query, on one line, truncated."""
    return request.path[:_LONGEST_LOGGED_PATH].encode("ascii", "backslashreplace").decode()


class ApiHandler(BaseHandler):
    """Base of all handlers under `/api`; on its own it answers unknown paths."""

    _session: VerifiedSession | None = None

    def initialize(self, access: Mapping[str, Access]) -> None:
        """Set up the handler; `access` maps each method of this path to the access it requires."""
        self._access = access

    @classmethod
    def sends_as_200(cls, refusal: type[Refusal]) -> bool:
        """Return whether refusals of this kind have status 200 under `http.legacy_status`."""
        return refusal.is_business

    # --- For handlers ---

    def body(self, request_type: type[AnyRequest]) -> AnyRequest:
        """Convert the body to a request type; raises InvalidField."""
        return convert(self._fields, request_type)

    def query(self, query_type: type[AnyRequest]) -> AnyRequest:
        """Convert the query to a request type; empty values count as missing. Raises InvalidField."""
        names = query_type.__struct_encode_fields__
        known = {name: values for name, values in self._query.items() if name in names}
        for name, values in known.items():
            if len(values) > 1:
                raise InvalidField(name)
        return convert_query({name: values[0] for name, values in known.items()}, query_type)

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking function on a worker thread; return its result or raise its exception."""
        return await self.services.worker.run(function, *args, **kwargs)

    @property
    def session(self) -> VerifiedSession | None:
        """The session of the request's access token, or None if it carried none."""
        return self._session

    def require_session(self) -> VerifiedSession:
        """Return the session; raises Unauthorized if there is none, which happens on public routes only."""
        if self._session is None:
            raise Unauthorized
        return self._session

    def require_admin(self) -> VerifiedSession:
        """Return the session on an admin route.

        Raises RuntimeError on any other route, where admin rights were not checked: that is a bug.
        """
        if self._route_access is not Access.ADMIN or self._session is None:
            raise RuntimeError("the route table does not keep this path for admins")
        return self._session

    @cached_property
    def language(self) -> str:
        """The language to answer in: the request's, else the user's, else the browser's, else the host's.

        Cached, but computed again once the user is known.
        """
        return self.negotiate_language(self.services.translations.pick)

    def negotiate_language(self, pick: Callable[[str | None, str | None, str], str]) -> str:
        """Pick one of the languages of other texts; `pick` is like `regsvc.core.i18n.languages.negotiate_language`."""
        requested = self._requested_language() or (self._session.language if self._session else None)
        accepted = self.request.headers.get("Accept-Language")
        return pick(requested, accepted, self.services.config.server.language)

    @cached_property
    def caller(self) -> Caller:
        """The client's address, rate limit key, language and request id. Cached like `language`."""
        address = self.request.remote_ip or ""
        return Caller(address, limit_key(address), self.language, self.request_id)

    def text(self, key: str, /, **facts: object) -> str:
        """Return a translated text in the caller's language, for keys such as `message.approved`."""
        return self.services.translations.text(key, self.language, **facts)

    def word_reason(self, stored: str | None) -> str | None:
        """Return the reason of a decision in the caller's language, unless it is in an operator's own words."""
        return self.services.translations.reason(stored, self.language)

    def message(self, key: str, /, **facts: object) -> str:
        """Return the translated text `message.<key>` for a reply, with the facts filled in."""
        return self.text(f"message.{key}", **facts)

    def send(self, reply: Reply, status: int = 200) -> None:
        """Send a successful reply and finish the request."""
        if self._is_legacy and reply.message is not UNSET:
            text = msgspec.json.encode(msgspec.to_builtins(reply) | {"msg": reply.message})
        else:
            text = msgspec.json.encode(reply)
        self._write_json(status, text)
        self.finish()

    def refusal_body(self, refusal: Refusal) -> dict[str, object]:
        """Return a refusal as a JSON object."""
        body = {
            "success": False,
            "code": refusal.code,
            "message": self.services.translations.refusal(refusal, self.language),
        }
        facts = self.services.translations.facts_of(refusal, self.language)
        return body | ({"field": refusal.field} if refusal.field else {}) | facts

    # --- Tornado's hooks ---

    def check_etag_header(self) -> bool:
        """Skip Tornado's comparison: there is no ETag."""
        return False

    async def prepare(self) -> None:
        self._check_request()
        if self.request.method != "OPTIONS":
            await self._authorize()
            if self._session is not None:
                for cached in ("language", "caller"):  # computed before the user, and so their language, was known
                    self.__dict__.pop(cached, None)
            _ = self._fields  # refuses a malformed body, but only after missing rights

    def head(self) -> Awaitable[None] | None:
        return self.get()

    def options(self) -> None:
        for name, value in PREFLIGHT_HEADERS.items():
            self.set_header(name, value)
        self.set_header("Access-Control-Allow-Methods", ", ".join(self._allowed_methods))
        self.set_status(204)

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("Content-Type", "application/json; charset=utf-8")
        if self.services.config.http.allowed_origins:
            self.set_header("Vary", "Origin")
        if self._is_origin_allowed:
            self.set_header("Access-Control-Allow-Origin", self.request.headers["Origin"])
            self.set_header("Access-Control-Expose-Headers", "X-Request-ID, Retry-After")

    def write_error(self, status_code: int, **kwargs: object) -> None:
        """Turn any exception of a handler, Tornado's own included, into a refusal."""
        exc_info = kwargs.get("exc_info")
        self.write_refusal(self._refusal_for(exc_info[1] if isinstance(exc_info, tuple) else None))
        self.finish()

    def write_refusal(self, refusal: Refusal) -> None:
        """Write the refusal's status, headers and body, without finishing the request."""
        self.services.metrics.count_refusal(refusal.code)
        if refusal.retry_after is not None:
            self.set_header("Retry-After", str(refusal.retry_after))
        if isinstance(refusal, MethodNotAllowed):
            self.set_header("Allow", ", ".join(refusal.allowed))
        if refusal.category is Category.UNAUTHENTICATED:
            self.set_header("WWW-Authenticate", "Bearer")
        is_sent_as_200 = self._is_legacy and self.sends_as_200(type(refusal))
        body = self.refusal_body(refusal)
        if self._is_legacy:
            body["msg"] = body["message"]
        self._write_json(200 if is_sent_as_200 else refusal.category, msgspec.json.encode(body))

    def _write_json(self, status: int, text: bytes) -> None:
        self.set_status(status)
        self.set_header("Content-Length", str(len(text)))
        self.write(text)

    def _refusal_for(self, error: BaseException | None) -> Refusal:
        if isinstance(error, Refusal):
            return error
        if isinstance(error, HTTPError):  # Tornado rejects a method or a form body before `prepare` runs
            try:
                self._check_request()
            except Refusal as refusal:
                return refusal
            return MalformedRequest()
        return InternalServerError(request_id=self.request_id)

    @property
    def _is_legacy(self) -> bool:
        return self.services.config.http.legacy_status

    # --- Checks ---

    def _check_request(self) -> None:
        """Refuse everything that can be refused without knowing the user."""
        if not self._access:
            raise UnknownPath
        is_preflight = self.request.method == "OPTIONS" and self._is_origin_allowed
        if self._route_access is None and not is_preflight:
            raise MethodNotAllowed(self._allowed_methods)
        if self.request.body and not self._is_body_json:
            raise UnsupportedMediaType
        _ = self._query

    async def _authorize(self) -> None:
        try:
            await self._verify_token()
        except Unauthorized:
            if self._route_access is not Access.PUBLIC_WITH_ANY_TOKEN:
                raise

    async def _verify_token(self) -> None:
        bearer = self._bearer
        sessions = self.services.sessions
        if bearer is None:
            if self._route_access not in PUBLIC_ACCESS:
                raise Unauthorized
        elif self._route_access is Access.ADMIN:
            self._session = await self.run(sessions.authenticate_admin, bearer, self.caller)
        else:
            self._session = await self.run(sessions.authenticate, bearer)

    @property
    def _route_access(self) -> Access | None:
        method = self.request.method
        return self._access.get("GET" if method == "HEAD" else str(method))

    @property
    def _allowed_methods(self) -> list[str]:
        return sorted({*self._access, *(["HEAD"] if "GET" in self._access else [])})

    @property
    def _is_origin_allowed(self) -> bool:
        headers = self.request.headers
        return "Origin" in headers and headers["Origin"] in self.services.config.http.allowed_origins

    @property
    def _is_body_json(self) -> bool:
        media_type = self.request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        encoding = self.request.headers.get("Content-Encoding", "identity").strip().lower()
        return media_type == "application/json" and encoding == "identity"

    @property
    def _bearer(self) -> str | None:
        """The access token, or None. Schemes other than Bearer are meant for a proxy in front of this service."""
        credentials = [text.partition(" ") for text in self.request.headers.get_list("Authorization")]
        bearers = [token.strip() for scheme, _space, token in credentials if scheme.lower() == "bearer"]
        if len(bearers) > 1:
            raise Unauthorized
        return bearers[0] if bearers else None

    @cached_property
    def _fields(self) -> dict[str, object]:
        return parse_object(self.request.body)

    @cached_property
    def _query(self) -> dict[str, list[str]]:
        """The query's non-empty values by name; raises MalformedRequest for invalid UTF-8 and NUL."""
        try:
            texts = {
                name: [value.decode("utf-8") for value in values if value]
                for name, values in self.request.query_arguments.items()
            }
        except UnicodeDecodeError:
            raise MalformedRequest from None
        if any("\0" in value for values in texts.values() for value in values):
            raise MalformedRequest
        return {name: values for name, values in texts.items() if values}

    def _requested_language(self) -> str | None:
        # A body or query that is refused cannot choose the language of its refusal.
        with contextlib.suppress(Refusal):
            language = self._fields.get("language")
            if isinstance(language, str) and language:
                return language
        with contextlib.suppress(Refusal):
            return self._query.get("language", [None])[0]
        return None


Plain = TypeVar("Plain", bound=Output)


_ENVELOPE: Final = frozenset(Reply.__struct_fields__)


def to_reply(kind: type[Plain], record: object, **overrides: object) -> Plain:
    """Return a reply type filled from the record's attributes; times become epoch milliseconds, tuples lists.

    `overrides` has the fields that the record lacks, or that differ in the reply. `success` and `message` never come
    from the record.
    """
    names = (name for name in kind.__struct_fields__ if name not in overrides and name not in _ENVELOPE)
    return kind(**overrides, **{name: _plain(getattr(record, name)) for name in names})


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return milliseconds_of(value)
    return list(value) if isinstance(value, tuple) else value
