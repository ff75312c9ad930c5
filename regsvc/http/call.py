"""The handler of all API paths: JSON in and out, one shape for refusals, the caller and their language.

`Call` is the call that a route's function (`regsvc.http.route`) is given:

    @ROUTES.add("POST", "/api/logout", USER)
    async def log_out(call: Call, logins: Logins) -> MessageReply:
        \"\"\"End this session.\"\"\"
        await call.run(logins.log_out, call.require_session(), call.caller)
        return MessageReply(message=call.message("logged_out"))

`prepare` has already refused malformed requests and those without the access that the route requires.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import logging
import random
import re
import time
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from http import HTTPStatus
from types import TracebackType
from typing import Any, ClassVar, Final, ParamSpec, TypeVar

import msgspec
from msgspec import UNSET
from tornado.httputil import HTTPHeaders, HTTPServerRequest, format_timestamp
from tornado.iostream import StreamClosedError
from tornado.web import Application, HTTPError, RequestHandler

from regsvc.auth.api_tokens import API_TOKEN_PREFIX, ApiTokens
from regsvc.auth.entitlement import Principal
from regsvc.auth.rate_limits import StatusRateLimits
from regsvc.auth.sessions import Sessions
from regsvc.config.live import LiveConfig
from regsvc.config.sections import Config
from regsvc.core.addresses import Caller, VerifiedSession, limit_key
from regsvc.core.errors import (
    Category,
    InternalServerError,
    MalformedRequest,
    MethodNotAllowed,
    Refusal,
    Unauthorized,
    UnknownPath,
    UnsupportedMediaType,
)
from regsvc.core.exceptions import describe_exception
from regsvc.core.i18n import Translations, negotiate_language
from regsvc.core.shapes import encode_output
from regsvc.database.audit import Actor
from regsvc.database.engine import ListWorker, Worker
from regsvc.http.hops import HopWatch
from regsvc.http.kept_replies import KEY_HEADER, ONLY_REPLAY_HEADER, Attempt, KeptReplies
from regsvc.http.messages import Reply, convert, convert_query, parse_object
from regsvc.http.metrics import HttpMetrics
from regsvc.http.route import Access, Features, Route

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
Rule = tuple[Any, ...]

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
STRICT_TRANSPORT_SECURITY = "max-age=31536000"
"""Sent where players reach us by https; browsers ignore it elsewhere. Subdomains are not ours to decide on."""

NOTHING_ALLOWED: Final = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"
"""Content security policy of what is no page."""

PREFLIGHT_HEADERS = {
    "Access-Control-Allow-Headers": f"Authorization, Content-Type, {KEY_HEADER}, X-Address-Proof, "
    f"X-Application-Token, X-Link-Token, {ONLY_REPLAY_HEADER}, X-Request-ID",
    "Access-Control-Max-Age": "600",
}

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_COMPRESSED: Final = range(1000, 200_000)
"""How many bytes of a reply to the team are compressed: lists. The largest takes 3 ms of the event loop.

Only there: as the token is no cookie, no other site can make a browser ask for them, and watch their lengths.
"""
_FAST: Final = 4  # of 9
_LONGEST_LOGGED_PATH = 200

OF_EVERY_CALL: Final[frozenset[type]] = frozenset(
    (LiveConfig, Translations, Worker, ListWorker, Sessions, ApiTokens, StatusRateLimits, HttpMetrics)
)
"""Features that each call takes, whatever its route."""


class ServingApplication(Application):
    """A Tornado application that has what every handler uses: features, routes, the requests that are in flight."""

    def __init__(self, features: Features, tables: Mapping[bool, tuple[Route, ...]], pages: Sequence[Rule]) -> None:
        """`tables` are the route tables without and with `http.legacy_status`, `pages` Tornado's rules beside them.

        Raises `MissingFeature`.
        """
        super().__init__(list(pages), default_handler_class=Call, default_handler_args={"routes": {}})
        self.features = features
        self.live, self.translations = features.of_class(LiveConfig), features.of_class(Translations)
        self.worker, self.list_worker = features.of_class(Worker), features.of_class(ListWorker)
        self.sessions, self.api_tokens = features.of_class(Sessions), features.of_class(ApiTokens)
        self.status_limits, self.metrics = features.of_class(StatusRateLimits), features.of_class(HttpMetrics)
        self.hops = HopWatch(self.live)
        self.kept_replies = KeptReplies()
        self.is_stopping = False
        """While true, every reply asks the client to reconnect."""
        self.ready_replies: dict[tuple[str, str], tuple[tuple[object, ...], bytes]] = {}
        """By path and language, what a reply was made of, and the reply."""
        self._tables = tables
        self._in_flight: set[object] = set()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    @property
    def routes(self) -> tuple[Route, ...]:
        """The route table in force."""
        return self._tables[self.live.current.http.legacy_status]

    def begin(self, handler: object) -> None:
        """Count a request as in flight: a graceful shutdown waits for its answer."""
        self._in_flight.add(handler)
        self._is_idle.clear()

    def end(self, handler: object) -> None:
        """Stop counting a request, which may have ended before."""
        self._in_flight.discard(handler)
        if not self._in_flight:
            self._is_idle.set()

    async def wait_until_idle(self) -> None:
        await self._is_idle.wait()


class BaseHandler(RequestHandler):
    """Base of API handlers and pages: security headers, a request id, quiet logs."""

    application: ServingApplication
    content_type: ClassVar[str] = "text/html; charset=UTF-8"
    content_security_policy: ClassVar[str] = ""
    """That of all replies; "": none."""

    def __init__(self, application: ServingApplication, request: HTTPServerRequest, **kwargs: Any) -> None:
        self.live, self.translations = application.live, application.translations
        given = request.headers.get("X-Request-ID", "")
        # A new one is not secret. The system's random numbers take a system call, at which other threads take over the
        # interpreter.
        self.request_id = given if _REQUEST_ID.fullmatch(given) else f"{random.getrandbits(128):032x}"
        """The client's `X-Request-ID` if it is safe to log, else a new id."""
        super().__init__(application, request, **kwargs)
        application.begin(self)

    @property
    def config(self) -> Config:
        """The config in force now."""
        return self.live.current

    def on_finish(self) -> None:
        self.application.end(self)

    def on_connection_close(self) -> None:
        """Stop counting the request as in flight: the client has disconnected."""
        self.application.end(self)

    def clear(self) -> None:
        """Begin a reply anew, as Tornado does, but past its checks: nothing here is text of which we know nothing."""
        headers = self._headers = HTTPHeaders()
        headers["Content-Type"], headers["Date"] = self.content_type, _http_date(int(time.time()))
        for name, value in SECURITY_HEADERS.items():
            headers[name] = value
        headers["X-Request-ID"] = self.request_id
        if self.config.server.base_url.startswith("https:"):
            headers["Strict-Transport-Security"] = STRICT_TRANSPORT_SECURITY
        if self.application.is_stopping:
            headers["Connection"] = "close"
        if self.content_security_policy:
            headers["Content-Security-Policy"] = self.content_security_policy
        self.set_default_headers()
        self._write_buffer = []
        self.set_status(HTTPStatus.OK)

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


_http_date = lru_cache(maxsize=1)(format_timestamp)


def accepts_gzip(request: HTTPServerRequest) -> bool:
    """Return whether the client accepts gzip."""
    codings = request.headers.get("Accept-Encoding", "")
    return re.search(r"\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))", codings, re.IGNORECASE) is not None


def printable_path(request: HTTPServerRequest) -> str:
    """Return the path in a form that is safe to log: without the query, on one line, truncated."""
    return request.path[:_LONGEST_LOGGED_PATH].encode("ascii", "backslashreplace").decode()


class Call(BaseHandler):
    """Handler of all paths under `/api`, the unknown ones included."""

    content_type = "application/json; charset=utf-8"
    content_security_policy = NOTHING_ALLOWED
    session: VerifiedSession | None = None
    """The session of the request's access token, or None if it carried none."""
    _attempt: Attempt | None = None
    route: Route | None
    """The route of the path and the method; None: there is none."""
    on_disconnect: Callable[[], None] | None = None
    """Called when the client has disconnected before the answer was complete."""

    def initialize(self, routes: Mapping[str, Route]) -> None:
        """Set up the handler; `routes` are those of this path by method."""
        self._routes = routes
        self.route = routes.get("GET" if self.request.method == "HEAD" else str(self.request.method))

    # --- For the functions of routes ---

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking function on a worker thread; return its result or raise its exception."""
        return await self.application.worker.run(function, *args, **kwargs)

    async def run_list(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a list, which may be slow, like `run`, but on the thread that lists have to themselves."""
        return await self.application.list_worker.run(function, *args, **kwargs)

    def require_session(self) -> VerifiedSession:
        """Return the session; raises Unauthorized if there is none, which happens on public routes only."""
        if self.session is None:
            raise Unauthorized
        return self.session

    def require_admin(self) -> VerifiedSession:
        """Return the session on an admin route.

        Raises RuntimeError on any other route, where admin rights were not checked: that is a bug.
        """
        if self.route is None or self.route.access is not Access.ADMIN or self.session is None:
            raise RuntimeError("the route table does not keep this path for admins")
        return self.session

    @property
    def principal(self) -> Principal:
        """The admin, as the one behind a decision; like `require_admin`."""
        admin = self.require_admin()
        is_token = admin.audience == "token"
        name = admin.maker if is_token else admin.username
        ends_at = admin.expires_at if is_token else None
        actor = Actor(admin.username, self.caller.address)
        made_by = Principal(actor, admin.rights, name, ends_at, admin.token_id, admin.has_second_factor)
        if not is_token or self.route is None:
            return made_by  # a session was looked up for this very request, by the same rule
        require = partial(self.application.api_tokens.require_current, admin, self.route.permission)
        return replace(made_by, require_current=require)

    @cached_property
    def language(self) -> str:
        """The language to answer in: the request's, else the user's, else the browser's, else the host's.

        Cached, but computed again once the user is known.
        """
        return self.negotiate_language(self.translations.available)

    def negotiate_language(self, known: Container[str]) -> str:
        """Return the one of these languages to answer in."""
        requested = self.session.language if self.session else None
        with contextlib.suppress(Refusal):  # a body or query that is refused cannot choose its refusal's language
            requested = self.query.get("language", [requested])[0]
        if self.request.body:
            with contextlib.suppress(Refusal):
                language = self._fields.get("language")
                requested = language if isinstance(language, str) and language else requested
        accepted = self.request.headers.get("Accept-Language")
        return negotiate_language(known, requested, accepted, self.config.server.language)

    @cached_property
    def caller(self) -> Caller:
        """The client's address, rate limit key, language and request id. Cached like `language`."""
        address = str(self.request.remote_ip)
        is_hop = self.application.hops.hides_clients(address)
        agent = self.request.headers.get("User-Agent", "")
        return Caller(address, limit_key(address), self.language, self.request_id, is_hop, agent)

    def word_reason(self, stored: str | None) -> str | None:
        """Return the reason of a decision in the caller's language, unless it is in an operator's own words."""
        return self.translations.reason(stored, self.language)

    def message(self, key: str, /, **facts: object) -> str:
        """Return the text `message.<key>` in the caller's language, with the facts filled in."""
        return self.translations.text(f"message.{key}", self.language, **facts)

    def send(self, reply: Reply, status: int = 200) -> bytes:
        """Send a successful reply, finish the request, and return the body."""
        is_doubled = reply.message is not UNSET and self.config.http.legacy_status
        text = encode_output(reply, msg=reply.message) if is_doubled else encode_output(reply)
        self._write_json(status, text)
        self.finish()
        return text

    # --- Tornado's hooks ---

    async def prepare(self) -> None:
        self.check_request()
        if self._attempt_name is not None and await self._send_kept_reply(self._attempt_name):
            return
        if self.request.method != "OPTIONS":
            await self._authorize()
            if self.session is not None:
                for cached in ("language", "caller"):  # computed before the user, and so their language, was known
                    self.__dict__.pop(cached, None)
            if self.request.body:
                _ = self._fields  # refuses a malformed body, but only after missing rights

    async def get(self) -> None:
        """Answer by the function of the route."""
        route = self.route
        assert route is not None  # `prepare` has refused methods without one
        made_of = () if route.made_of is None else route.made_of()
        ready = (route.path, self.language if made_of else "")
        last_made_of, text = self.application.ready_replies.get(ready, ((), b""))
        if made_of and made_of == last_made_of:
            self._write_json(route.status, text)
            self.finish()
            return
        arguments: dict[str, object] = {}
        if route.request_type is not None:
            if route.method == "GET":
                request = convert_query(self.query, route.request_type)
            else:
                request = convert(self._fields, route.request_type)
            arguments = route.arguments_of(request)
        if route.has_status_limit:
            self.application.status_limits.hit(str(self.request.remote_ip))
        returned = await route.answer(self, **arguments)
        reply = route.reply_of(returned)
        if reply is not None:
            text = self.send(reply, route.status)
            if made_of:
                self.application.ready_replies[ready] = (made_of, text)
            if self._attempt is not None:
                self._attempt.keep(route.status, text)

    async def post(self) -> None:
        """Answer as `get` does, and keep the reply where the client has named its attempt."""
        if self._attempt_name is None:
            await self.get()
            return
        if await self._send_kept_reply(self._attempt_name):  # of one that came while this one was being authorized
            return
        kept = self.application.kept_replies
        with kept.record(self._attempt_name, kept.asked_by(self._given)) as self._attempt:
            await self.get()

    def head(self) -> Awaitable[None]:
        return self.get()

    def options(self) -> None:
        for name, value in PREFLIGHT_HEADERS.items():
            self.set_header(name, value)
        self.set_header("Access-Control-Allow-Methods", ", ".join(self._allowed_methods))
        self.set_status(204)

    def set_default_headers(self) -> None:
        allowed_origins = self.config.http.allowed_origins
        if allowed_origins:
            self._headers["Vary"] = "Origin"
        origin = self.request.headers.get("Origin")
        self._is_origin_allowed = origin in allowed_origins
        if origin is not None and self._is_origin_allowed:
            self._headers["Access-Control-Allow-Origin"] = origin
            self._headers["Access-Control-Expose-Headers"] = "X-Request-ID, Retry-After"

    def on_connection_close(self) -> None:
        super().on_connection_close()
        if self.on_disconnect is not None:
            self.on_disconnect()

    def write_error(self, status_code: int, **kwargs: object) -> None:
        """Turn any exception of a handler, Tornado's own included, into a refusal."""
        exc_info = kwargs.get("exc_info")
        self.write_refusal(self._refusal_for(exc_info[1] if isinstance(exc_info, tuple) else None))
        self.finish()

    def write_refusal(self, refusal: Refusal, **facts: object) -> None:
        """Write the refusal's status, headers and body, with further facts, without finishing the request."""
        self.application.metrics.refusals.labels(refusal.code).inc()
        route = self.route
        if route is not None and route.write_refusal is not None and route.write_refusal(self, refusal):
            return
        if refusal.retry_after is not None:
            self.set_header("Retry-After", str(refusal.retry_after))
        if isinstance(refusal, MethodNotAllowed):
            self.set_header("Allow", ", ".join(refusal.allowed))
        if refusal.category is Category.UNAUTHENTICATED:
            self.set_header("WWW-Authenticate", "Bearer")
        is_legacy = self.config.http.legacy_status
        is_softened = refusal.is_business if route is None else route.sends_as_200(type(refusal))
        body: dict[str, object] = {
            "success": False,
            "code": refusal.code,
            "message": self.translations.refusal(refusal, self.language),
        }
        body |= {"field": refusal.field} if refusal.field else {}
        body |= self.translations.facts_of(refusal, self.language) | facts
        if is_legacy:
            body["msg"] = body["message"]
        self._write_json(200 if is_legacy and is_softened else refusal.category, msgspec.json.encode(body))

    def _write_json(self, status: int, text: bytes) -> None:
        self.set_status(status)
        is_long = self.route is not None and self.route.access is Access.ADMIN and len(text) in _COMPRESSED
        if is_long and accepts_gzip(self.request):
            self.set_header("Content-Encoding", "gzip")
            self.set_header("Vary", "Accept-Encoding")
            text = gzip.compress(text, _FAST, mtime=0)
        self.set_header("Content-Length", str(len(text)))
        self.write(text)

    def _refusal_for(self, error: BaseException | None) -> Refusal:
        if isinstance(error, Refusal):
            return error
        if isinstance(error, HTTPError):  # Tornado rejects a method or a form body before `prepare` runs
            try:
                self.check_request()
            except Refusal as refusal:
                return refusal
            return MalformedRequest()
        return InternalServerError(request_id=self.request_id)

    # --- Checks ---

    def check_request(self) -> None:
        """Refuse everything that can be refused without knowing the user."""
        if not self._routes:
            raise UnknownPath
        is_preflight = self.request.method == "OPTIONS" and self._is_origin_allowed
        if self.route is None and not is_preflight:
            raise MethodNotAllowed(self._allowed_methods)
        if self.request.body:
            headers = self.request.headers
            media_type = headers.get("Content-Type", "").partition(";")[0].strip().lower()
            encoding = headers.get("Content-Encoding", "identity").strip().lower()
            if (media_type, encoding) != ("application/json", "identity"):
                raise UnsupportedMediaType
        if self.request.query:
            _ = self.query

    @cached_property
    def _attempt_name(self) -> bytes | None:
        """The name of the attempt that this request belongs to; None without a key. Raises MalformedRequest."""
        headers = self.request.headers
        key = headers.get(KEY_HEADER) if self.request.method == "POST" else None
        if key is None:
            return None
        credentials = (headers.get("Authorization", ""), headers.get("X-Application-Token", ""))
        return self.application.kept_replies.name_of(key, self.request.path, credentials)

    @property
    def attempt_nonce(self) -> str | None:
        """32 hexadecimal digits that stand for the attempt, after a restart as well; None without a key.

        What would else be done twice, once its reply is no longer kept, is found by it.
        """
        if self._attempt_name is None:
            return None
        parts = [self.request.path, *(self.request.headers.get(name, "") for name in (KEY_HEADER, "Authorization"))]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]

    async def _send_kept_reply(self, attempt_name: bytes) -> bool:
        """Send the reply that this attempt has had before, and return whether there was one.

        This comes before the access is checked: the attempt may have ended the session, or used up a token. A client
        that only asks is told when there was none, by the status 204.
        """
        kept, is_question = self.application.kept_replies, ONLY_REPLAY_HEADER in self.request.headers
        sent = await kept.find(attempt_name, None if is_question else kept.asked_by(self._given))
        if sent is not None:
            self._write_json(*sent)
        elif is_question:
            self.set_status(HTTPStatus.NO_CONTENT)
        else:
            return False
        self.finish()
        return True

    async def _authorize(self) -> None:
        """Look for the session of the access token; raises Unauthorized and Forbidden as the route requires."""
        route, sessions = self.route, self.application.sessions
        assert route is not None  # `check_request` has refused methods without one
        if route.access is Access.PROBE:
            return
        try:
            bearers = []  # other schemes than Bearer are meant for a proxy in front of this service
            for credentials in self.request.headers.get_list("Authorization"):
                scheme, _space, token = credentials.partition(" ")
                if scheme.lower() == "bearer":
                    bearers.append(token.strip())
            if len(bearers) > 1 or (not bearers and route.access in (Access.USER, Access.ADMIN)):
                raise Unauthorized
            if bearers and bearers[0].startswith(API_TOKEN_PREFIX):
                if route.access is not Access.ADMIN:
                    raise Unauthorized
                authenticate = self.application.api_tokens.authenticate
                self.session = await self.run(authenticate, bearers[0], self.caller, route.permission)
                self.application.metrics.token_requests.labels(self.session.username).inc()
            elif bearers and route.access is Access.ADMIN:
                verify = partial(sessions.authenticate_admin, permission=route.permission)
                self.session = await self.run(verify, bearers[0], self.caller, is_activity=route.is_activity)
            elif bearers:
                self.session = await self.run(sessions.authenticate, bearers[0], is_activity=route.is_activity)
        except Unauthorized:
            if route.access is not Access.PUBLIC_WITH_ANY_TOKEN:
                raise

    @property
    def _allowed_methods(self) -> list[str]:
        return sorted({*self._routes, *(["HEAD"] if "GET" in self._routes else [])})

    @property
    def _given(self) -> dict[str, object]:
        """The fields of the body; none where it is not even an object, which is refused later, or there is none."""
        with contextlib.suppress(Refusal):
            return self._fields if self.request.body else {}
        return {}

    @cached_property
    def _fields(self) -> dict[str, object]:
        return parse_object(self.request.body)

    @cached_property
    def query(self) -> dict[str, list[str]]:
        """The query's non-empty values by name; raises MalformedRequest for invalid UTF-8 and NUL."""
        texts: dict[str, list[str]] = {}
        for name, values in self.request.query_arguments.items():
            for value in filter(None, values):
                if b"\0" in value:
                    raise MalformedRequest
                try:
                    texts.setdefault(name, []).append(value.decode("utf-8"))
                except UnicodeDecodeError:
                    raise MalformedRequest from None
        return texts
