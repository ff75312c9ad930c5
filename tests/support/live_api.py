"""The API on a real socket, in a thread of the test process."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from http.client import HTTPConnection, HTTPMessage
from typing import Any, ParamSpec, Self, TypeVar

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

from plugin_bridge.authme.config import AuthMeConfig
from regsvc.accounts.chat.linking import ChatLinking
from regsvc.app.routes import ROUTES
from regsvc.auth.api_tokens import ApiTokens
from regsvc.auth.rate_limits import MemoryLimits, StatusRateLimits
from regsvc.auth.sessions import Sessions
from regsvc.config.live import LiveConfig
from regsvc.config.sections import Config
from regsvc.core import clock
from regsvc.core.addresses import Caller, VerifiedSession
from regsvc.core.errors import Forbidden, Unauthorized
from regsvc.core.i18n import load_translations
from regsvc.core.rights import EVERYTHING, Permission
from regsvc.database.engine import ListWorker, Worker
from regsvc.http.call import Rule
from regsvc.http.route import Features, Route
from regsvc.http.server import ApiApplication, make_server
from regsvc.legacy.event_socket import socket_rule
from regsvc.legacy.routes import legacy_routes
from regsvc.notifications.mail.queue import MailQueue
from regsvc.registration.public_config import PublicConfig
from regsvc.registration.questionnaire.questions import Questionnaire
from regsvc.registration.questionnaire.service import Questionnaires
from regsvc.runtime.game_status import GameServers, GameStatus
from regsvc.runtime.metrics import Metrics
from regsvc.runtime.updates import InstalledPlugin, Updates
from regsvc.users.gates import Gates

P = ParamSpec("P")
T = TypeVar("T")

FAR_AWAY = datetime(2100, 1, 1, tzinfo=UTC)
ALICE = VerifiedSession("j1", 1, "Alice", "user", FAR_AWAY, "zh", FAR_AWAY, 0)
OLIVIA = VerifiedSession("j2", 2, "Olivia", "admin", FAR_AWAY, None, FAR_AWAY, 0, EVERYTHING)


class InlineRunner:
    """Runs functions at once, for services that need no database."""

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return work(*args, **kwargs)


class TwoTokens(Sessions):
    """Accepts `alice` as a user's access token and `olivia` as an admin's, and nothing else."""

    def __init__(self) -> None:
        """Needs no database."""

    def authenticate(self, bearer: str | None, *, is_activity: bool = True) -> VerifiedSession:
        try:
            return {"alice": ALICE, "olivia": OLIVIA}[bearer or ""]
        except KeyError:
            raise Unauthorized from None

    def authenticate_admin(
        self, bearer: str | None, caller: Caller, permission: Permission | None = None, *, is_activity: bool = True
    ) -> VerifiedSession:
        session = self.authenticate(bearer)
        if not session.is_admin:
            raise Forbidden
        return session


@dataclass(frozen=True)
class Reply:
    status: int
    headers: HTTPMessage
    content: bytes

    @property
    def json(self) -> dict[str, Any]:
        value = json.loads(self.content)
        assert isinstance(value, dict)
        return value


def make_features(config: Config, authme: AuthMeConfig | None = None) -> Features:
    """Return what the HTTP layer itself uses, and None for every other feature that a route names."""
    unused: Any = None
    live, gates = LiveConfig(config, authme), Gates(authme is not None, lambda: False)
    translations = load_translations(offered=config.server.languages, default=config.server.language)
    questionnaires = Questionnaires(
        Questionnaire((), config.questionnaire.pass_score), config.questionnaire, *[unused] * 10
    )
    chat = ChatLinking(
        None,
        database=unused,
        worker=unused,
        requests=unused,
        links=unused,
        checker=unused,
        codes=unused,
        limits=unused,
        limits_per_client=(),
    )
    mails = MailQueue(unused, "en", is_available=True, wake_all=unused, wake_mails=unused)
    metrics, limits = Metrics(), StatusRateLimits(MemoryLimits(clock.now), live)
    features = Features.of(live, translations, gates, questionnaires, chat, mails, metrics, metrics.http, limits)
    features.update({Worker: InlineRunner(), ListWorker: InlineRunner(), Sessions: TwoTokens(), ApiTokens: unused})
    more = Features.of(
        Updates({}, timedelta(hours=6), clock.now),
        InstalledPlugin(partial(asyncio.to_thread, lambda: None), timedelta(seconds=10), "plugin"),
        GameServers(GameStatus(lambda: None, clock.now), {}),
        PublicConfig(live, translations, gates, questionnaires, mails),
    )
    features.update(more)
    for route in legacy_routes(ROUTES):
        for _name, kind in route.needs:
            features.setdefault(kind, unused)
    return features


class LiveApi:
    """Context manager that runs the API."""

    def __init__(self, features: Features, routes: Iterable[Route] = ROUTES, pages: Sequence[Rule] = ()) -> None:
        """Prepare the API; `pages` are Tornado rules for paths beside it."""
        self._features = features
        self._routes = tuple(routes)
        self._pages = pages
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._is_ready.wait(10)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        assert not self._thread.is_alive()

    def request(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Reply:
        """Send a request on a new connection; a body that is not bytes is sent as JSON."""
        all_headers = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            all_headers.setdefault("Content-Type", "application/json")
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, body, all_headers)
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())
        finally:
            connection.close()
            self._wait_for_loop()

    def raw(self, data: bytes) -> bytes:
        """Send bytes, and return everything received until the server closes the connection."""
        with self.connect() as connection:
            connection.sendall(data)
            response = b"".join(iter(lambda: connection.recv(65536), b""))
        self._wait_for_loop()
        return response

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def call(self, function: Callable[[], object]) -> None:
        """Run a function on the server's event loop, and wait for it."""

        async def on_the_loop() -> None:
            function()

        asyncio.run_coroutine_threadsafe(on_the_loop(), self._loop).result(10)

    def _wait_for_loop(self) -> None:
        """Wait for one iteration of the event loop: the server logs a request after the response is sent."""
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop).result(10)

    def _make_server(self) -> HTTPServer:
        application = ApiApplication(
            self._features,
            {False: tuple(self._routes), True: legacy_routes(self._routes)},
            [socket_rule(self._features.of_class(LiveConfig)), *self._pages],
        )
        return make_server(application, application.live.current)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        server = self._make_server()
        sockets = bind_sockets(0, "127.0.0.1")
        self.port: int = sockets[0].getsockname()[1]
        server.add_sockets(sockets)
        self._is_ready.set()
        await self._stop.wait()
        server.stop()
        await server.close_all_connections()
