"""Routes that answer in every possible way, and assertions for all replies, for tests of the HTTP layer."""

import asyncio
import re
import threading
from typing import Any

from regsvc.accounts.decisions import ReviewRequest
from regsvc.accounts.login import LoginRequest
from regsvc.config.host_sections import HttpSection
from regsvc.config.sections import Config
from regsvc.core import errors
from regsvc.core.errors import Refusal
from regsvc.http.call import Call
from regsvc.http.messages import Reply as ReplyType
from regsvc.http.messages import Request
from regsvc.http.route import Access, Routes
from regsvc.users.user_query import UsersQuery
from tests.support.live_api import LiveApi, Reply, make_features

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


class Code(Request, frozen=True, kw_only=True):
    code: str


ROUTES = Routes()


@ROUTES.add("GET", "/api/open", Access.PUBLIC)
async def show_caller(call: Call) -> Caller:
    caller = call.caller
    username = call.session.username if call.session else None
    return Caller(address=caller.address, key=caller.limit_key, language=caller.language, username=username)


@ROUTES.add("POST", "/api/open", Access.PUBLIC, has_large_body=True, status=201)
async def take_login(call: Call, request: LoginRequest) -> Name:
    return Name(message=call.message("approved", username=request.username), username=request.username)


@ROUTES.add("POST", "/api/refuse", Access.PUBLIC)
async def refuse(call: Call, request: Code) -> None:
    raise EXAMPLES[request.code]


@ROUTES.add("GET", "/api/bug", Access.PUBLIC)
async def fail(call: Call) -> None:
    try:
        raise ValueError("INSERT ... hunter2")
    except ValueError as error:
        raise KeyError("hunter2") from error


@ROUTES.add("GET", "/api/slow", Access.PUBLIC)
async def wait_until_gone(call: Call) -> ReplyType:
    """Answer only after the client has disconnected."""
    gone = asyncio.Event()
    call.on_disconnect = gone.set
    begun.set()
    await gone.wait()
    left.set()
    return ReplyType()


@ROUTES.add("GET", "/api/mine", Access.USER)
async def show_name(call: Call) -> Name:
    return Name(username=call.require_session().username)


@ROUTES.add("GET", "/api/admin", Access.ADMIN)
async def show_scoring(call: Call, query: UsersQuery) -> ScoringRequest:
    return ScoringRequest(page=query.page, search=query.search, admin=call.require_admin().username)


@ROUTES.add("POST", "/api/admin", Access.ADMIN)
async def show_targets(call: Call, request: ReviewRequest) -> Targets:
    return Targets(targets=request.targets)


LOGIN = {"username": "Alice", "password": "hunter2"}


def serve(**http: Any) -> LiveApi:
    return LiveApi(make_features(Config(http=HttpSection(**http))), ROUTES)


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
    assert headers["Content-Security-Policy"] == "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"
    assert re.fullmatch("[A-Za-z0-9._-]{1,64}", headers["X-Request-ID"])
    assert "Server" not in headers
    assert "Etag" not in headers
