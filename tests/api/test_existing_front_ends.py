"""A front end of the kind that is there already, in front of us: what it takes for granted holds on every route.

It logs its user out at any 401 or 403, shows "something went wrong" at every other status that is no success, and
everything else verbatim. So whatever the service itself has to say comes with 200.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from regsvc.app.routes import ROUTES
from regsvc.core.errors import REFUSALS, Category
from regsvc.http.route import Access, Route
from tests.support.chat_stack import ChatStack, make_chat_stack
from tests.support.contract import example_body
from tests.support.daemon import Reply
from tests.support.operators import create_olivia
from tests.support.peers.oauth_server import OAuthServer
from tests.support.refusals import assert_refused_as_200
from tests.support.stack import OPERATOR, OPERATORS_PASSWORD, MakeStack, Stack

LEGACY: dict[str, dict[str, Any]] = {"http": {"legacy_status": True}}
PAGE = b"<!doctype html><title>The front end</title>"
LOGGED_OUT = (401, 403)
STREAMS = {"/events"}
ENDS_THE_SESSION = {"/api/logout"}
DISCORD = "/api/team-chat/discord"


@pytest.fixture(scope="module")
def front_end(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("front-end")
    (folder / "index.html").write_bytes(PAGE)
    return folder


@pytest.fixture(scope="module")
def chat(make_stack: MakeStack, provider: OAuthServer, front_end: Path) -> ChatStack:
    """Chat, captchas and the front end's files: whatever a host may have switched on."""
    http: dict[str, Any] = {"legacy_status": True, "web_root": str(front_end)}
    config = {"http": http, "captcha": {"also_for": ["verify_send"]}}
    return make_chat_stack(make_stack, provider, chat={"required": True}, config=config)


@pytest.fixture(scope="module")
def stack(chat: ChatStack) -> Stack:
    return chat.stack


@pytest.fixture(scope="module")
def plain(make_stack: MakeStack) -> Stack:
    """A host that asks for e-mail alone."""
    return make_stack(config=LEGACY)


def routes(*access: Access) -> list[object]:
    chosen = [route for route in ROUTES if route.access in access and route.path not in STREAMS]
    return [pytest.param(route, id=f"{route.method} {route.path}") for route in chosen]


def call(stack: Stack, route: Route, token: str | None, body: Mapping[str, Any]) -> Reply:
    if route.method == "GET":
        query = {name: value for name, value in body.items() if isinstance(value, str)}
        return stack.get(route.path, query, token=token)
    return stack.post(route.path, body, token=token)


# --- Nobody is logged out by a no ---


@pytest.mark.parametrize("route", routes(Access.PUBLIC, Access.USER, Access.ADMIN))
def test_no_refusal_of_a_rule_logs_anybody_out(stack: Stack, route: Route) -> None:
    """An authorized client gets 200 or, for a broken request, a status other than 401 and 403."""
    if route.path in ENDS_THE_SESSION or route.path == DISCORD:  # Discord's own requests, whose 401 it demands
        return
    token = {Access.PUBLIC: None, Access.USER: stack.olivia(), Access.ADMIN: stack.olivia()}[route.access]
    example = example_body(route.path) if route.method == "POST" else {}
    for body in ({}, {"username": "nobody at all"}, example, {**example, "username": "Nobody", "password": "wrong"}):
        reply = call(stack, route, token, body)
        assert reply.status not in LOGGED_OUT, reply.text
        assert reply.status in (200, 201, 303, 404, 503), (reply.status, reply.text)
        if reply.status == 404:
            assert reply.json["code"] == "unknown_path"
        if reply.status == 200 and reply.json.get("success") is False:
            assert reply.json["msg"] == reply.json["message"]


def test_only_a_missing_right_has_a_status_that_logs_out() -> None:
    missing_rights = {
        code
        for code, refusal in REFUSALS.items()
        if refusal.category in (Category.UNAUTHENTICATED, Category.FORBIDDEN) and not refusal.is_business
    }
    assert missing_rights == {"unauthorized", "forbidden", "chat_person_unknown"}


def test_a_wrong_password_is_no_reason_to_be_logged_out(plain: Stack) -> None:
    bob, banned = plain.approved("bob"), plain.approved("ben")
    plain.decides("ban", banned, reason="griefing")
    token = plain.user_token(bob)
    for path in ("/api/login", "/api/admin/login"):
        assert_refused_as_200(plain.post(path, {"username": bob.name, "password": "wrong"}), "bad_credentials")
        assert_refused_as_200(plain.post(path, {"username": "nobody", "password": "wrong"}), "bad_credentials")
        reply = plain.post(path, {"username": banned.name, "password": banned.password})
        assert assert_refused_as_200(reply, "banned")["reason"] == "griefing"
    reply = plain.post("/api/admin/login", {"username": bob.name, "password": bob.password})
    assert_refused_as_200(reply, "not_operator")
    body = {"currentPassword": "wrong", "newPassword": "another-secret"}
    assert_refused_as_200(plain.post("/api/user/password", body, token=token), "wrong_password")
    assert plain.get("/api/user/status", {"username": bob.name}, token=token).status == 200


# --- What it looks for ---


def test_it_is_told_that_a_chat_link_is_missing(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    body = {"username": alice.name, "email": alice.email, "code": "123456", "language": "en"}
    payload = assert_refused_as_200(stack.post("/api/register", body), "chat_link_required")
    assert payload["discordRequired"] is True
    config = stack.get("/api/config").json["config"]
    assert config["discord"] == config["chat"]
    assert config["discord"]["required"] is True


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_message_is_there_twice_and_the_same(plain: Stack, language: str) -> None:
    """`message` for one generation of front ends, `msg` for the one before."""
    alice = plain.newcomer("alice")
    replies = [
        plain.post("/api/verify/send", {"email": alice.email, "language": language}),
        plain.post("/api/register", {"username": "!", "email": alice.email, "code": "1", "language": language}),
        plain.register(alice, language=language),
        plain.decide("approve", alice, language=language),
        plain.decide("approve", alice, language=language),
        plain.post("/api/admin/sync", {"language": language}, token=plain.olivia()),
    ]
    for reply in replies:
        payload = reply.json
        assert payload["msg"] == payload["message"], payload
        assert any("\u4e00" <= char <= "\u9fff" for char in payload["msg"]) is (language == "zh")


# --- `uuid`, as it calls a user's name ---


def test_a_user_is_named_by_uuid(plain: Stack) -> None:
    alice = plain.pending("alice")
    for decision, status in (("password", "pending"), ("approve", "approved"), ("ban", "banned"), ("delete", None)):
        body = {"uuid": alice.name, "language": "en", "password": "a-new-secret"}
        payload = plain.post(f"/api/admin/user/{decision}", body, token=plain.olivia()).json
        assert (payload["success"], payload["username"]) == (True, alice.name), payload
        assert plain.status(alice) == status


# --- The sync after each approval ---


def test_the_sync_that_follows_an_approval_succeeds_without_authme(make_stack: MakeStack) -> None:
    stack = make_stack(config={**LEGACY, "authme": {"enabled": False}})
    create_olivia(stack)
    token = stack.admin_token(OPERATOR, OPERATORS_PASSWORD)
    alice = stack.pending("alice")
    body = {"uuid": alice.name, "language": "en"}
    assert stack.post("/api/admin/user/approve", body, token=token).json["success"] is True
    for sent in (None, {}, {"language": "zh"}):
        reply = stack.post("/api/admin/sync", sent, token=token)
        assert (reply.status, reply.json["success"], reply.json["enabled"]) == (200, True, False)
        assert reply.json["msg"] == reply.json["message"]
        assert reply.json["report"]["scanned"] == 0
