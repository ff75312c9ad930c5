"""Routes that answer in every possible way, and assertions for all replies, for tests of the HTTP layer."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Mapping
from typing import Any

from regsvc.api.base import Access, ApiHandler
from regsvc.api.endpoint import endpoint
from regsvc.api.handlers.login import LoginRequest
from regsvc.api.routes import Route
from regsvc.api.types.admin import ReviewRequest, UsersQuery
from regsvc.api.types.messages import Reply as ReplyType
from regsvc.config.sections import Config, HttpSection
from regsvc.core import errors
from regsvc.core.errors import Refusal
from tests.support.live_api import LiveApi, Reply, make_services

EXAMPLES: dict[str, Refusal] = {
    "user_not_found": errors.UserNotFound(),
    "unauthorized": errors.Unauthorized(),
    "forbidden": errors.Forbidden(),
    "bad_credentials": errors.BadCredentials(),
    "banned": errors.Banned("griefing", 4_102_444_800_000),
    "not_operator": errors.NotOperator(),
    "username_taken": errors.UsernameTaken(),
    "invalid_password": errors.InvalidPassword("too_short", min_length=5, max_length=30),
    "wrong_status": errors.WrongStatus("approved"),
    "rate_limited": errors.RateLimited(remaining_seconds=42),
    "database_away": errors.DatabaseUnavailable(retry_after=7),
}

begun = threading.Event()
left = threading.Event()


class Caller(ReplyType, frozen=True, kw_only=True):
    address: str
    key: str
    language: str
    username: str | None


class Name(ReplyType, frozen=True, kw_only=True):
    username: str


class ScoringRequest(ReplyType, frozen=True, kw_only=True):
    page: int | None
    search: str
    admin: str


class Targets(ReplyType, frozen=True, kw_only=True):
    targets: list[str]


class OpenHandler(ApiHandler):
    """GET shows the caller; POST takes the fields of a login."""

    async def get(self) -> None:
        caller = self.caller
        username = self.session.username if self.session else None
        self.send(Caller(address=caller.address, key=caller.limit_key, language=caller.language, username=username))

    @endpoint(status=201)
    async def post(self, request: LoginRequest) -> Name:
        return Name(message=self.message("approved", username=request.username), username=request.username)


class RefusingHandler(ApiHandler):
    async def post(self) -> None:
        raise EXAMPLES[str(self._fields["code"])]


class BuggyHandler(ApiHandler):
    async def get(self) -> None:
        try:
            raise ValueError("INSERT ... hunter2")
        except ValueError as error:
            raise KeyError("hunter2") from error


class SlowHandler(ApiHandler):
    """Answers only after the client has disconnected."""

    def initialize(self, access: Mapping[str, Access]) -> None:
        super().initialize(access)
        self._gone = asyncio.Event()

    async def get(self) -> None:
        begun.set()
        await self._gone.wait()
        self.send(ReplyType())
        left.set()

    def on_connection_close(self) -> None:
        self._gone.set()


class MineHandler(ApiHandler):
    async def get(self) -> None:
        self.send(Name(username=self.require_session().username))


class AdminHandler(ApiHandler):
    @endpoint()
    async def get(self, query: UsersQuery) -> ScoringRequest:
        return ScoringRequest(page=query.page, search=query.search, admin=self.require_admin().username)

    @endpoint()
    async def post(self, request: ReviewRequest) -> Targets:
        return Targets(targets=request.targets)


ROUTES = (
    Route("GET", "/api/open", OpenHandler, Access.PUBLIC),
    Route("POST", "/api/open", OpenHandler, Access.PUBLIC, has_large_body=True),
    Route("POST", "/api/refuse", RefusingHandler, Access.PUBLIC),
    Route("GET", "/api/bug", BuggyHandler, Access.PUBLIC),
    Route("GET", "/api/slow", SlowHandler, Access.PUBLIC),
    Route("GET", "/api/mine", MineHandler, Access.USER),
    Route("GET", "/api/admin", AdminHandler, Access.ADMIN),
    Route("POST", "/api/admin", AdminHandler, Access.ADMIN),
)
LOGIN = {"username": "Alice", "password": "hunter2"}


def serve(**http: Any) -> LiveApi:
    return LiveApi(make_services(Config(http=HttpSection(**http))), ROUTES)


def assert_refused(reply: Reply, status: int, code: str) -> None:
    assert reply.status == status
    assert reply.headers["Content-Type"] == "application/json; charset=utf-8"
    assert reply.json["success"] is False
    assert reply.json["code"] == code
    assert reply.json["message"]
    assert_common_headers(reply.headers)


def assert_common_headers(headers: Any) -> None:
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Frame-Options"] == "DENY"
    assert re.fullmatch("[A-Za-z0-9._-]{1,64}", headers["X-Request-ID"])
    assert "Server" not in headers
    assert "Etag" not in headers
