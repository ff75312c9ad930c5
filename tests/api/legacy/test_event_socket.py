"""The WebSocket at `/` of front ends that reload their lists at any message, with the token in the address."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from tests.support.operators import Operators
from tests.support.our_tables import ago, our_database
from tests.support.stack import OPERATOR, OPERATORS_PASSWORD, MakeStack, Person, Stack
from tests.support.watching import ask_until, scrape

pytestmark = pytest.mark.one_database("sqlite")

TIMEOUT = 15
HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}
POLICY_VIOLATION = 1008
GOING_AWAY = 1001


@pytest.fixture(scope="module")
def stack(make_stack: MakeStack) -> Stack:
    return make_stack(config={"http": {"legacy_status": True}, "log": {"level": "debug"}})


@asynccontextmanager
async def connected(stack: Stack, token: str, **headers: str) -> AsyncIterator[WebSocketClientConnection]:
    """A connection as the front ends make it."""
    port = (await call(stack.get, "/api/config")).json["config"]["wsPort"]
    request = HTTPRequest(f"ws://127.0.0.1:{port}/?token={token}", headers=headers)
    client = await asyncio.wait_for(websocket_connect(request), TIMEOUT)
    try:
        yield client
    finally:
        is_open = client.close_code is None
        client.close()
        while is_open and await receive(client) is not None:
            pass  # until the server has closed it, too


async def call(function: Callable[..., Any], *given: Any, **named: Any) -> Any:
    return await asyncio.to_thread(function, *given, **named)


async def next_message(client: WebSocketClientConnection) -> Any:
    """Return the next message as parsed JSON, None at the end."""
    message = await asyncio.wait_for(client.read_message(), TIMEOUT)
    return None if message is None else json.loads(message)


async def receive(client: WebSocketClientConnection) -> Any:
    """Return the next message but those of sync runs, which come by themselves where operators change."""
    while True:
        message = await next_message(client)
        if message is None or message["type"] != "sync_finished":
            return message


async def closed_with(stack: Stack, token: str, **headers: str) -> int | None:
    """Connect, and return the code that the server closes the connection with at once."""
    async with connected(stack, token, **headers) as client:
        assert await receive(client) is None
        return client.close_code


async def test_an_operator_sees_what_happens(stack: Stack) -> None:
    token = await call(stack.olivia)
    async with connected(stack, token) as client:
        assert await receive(client) == {"type": "connected"}
        alice = await call(stack.pending, "alice")
        registered = await receive(client)
        assert (registered["type"], registered["username"]) == ("user_registered", alice.name)
        await client.write_message("whatever a page may say")
        await call(stack.decides, "approve", alice)
        approved = await receive(client)
        assert (approved["type"], approved["username"], approved["by"]) == ("user_approved", alice.name, OPERATOR)


async def test_a_sync_run_is_told_only_if_it_changed_something(stack: Stack) -> None:
    """The pages load their list at every message."""
    token = await call(stack.olivia)
    await call(stack.sync)
    async with connected(stack, token) as client:
        assert await receive(client) == {"type": "connected"}
        await call(stack.sync)
        stack.authme.register("Newcomer", "a-secret-of-the-game")
        await call(stack.sync)
        told = await next_message(client)
        assert (told["type"], told["adopted"]) == ("sync_finished", 1)


async def test_a_page_that_nobody_touches_is_logged_out(make_stack: MakeStack) -> None:
    """It loads its list at every message; only what the operator does is activity."""
    stack = make_stack(config={"http": {"legacy_status": True}, "auth": {"admin_idle": "1 hour"}})
    ours = our_database(stack)

    def pass_minutes(minutes: int) -> str:
        moment = ago(minutes=minutes)
        ours.execute("UPDATE regsvc_session SET last_seen_at = ?", (moment,))
        return moment

    def last_seen() -> str:
        [session] = ours.query("SELECT last_seen_at FROM regsvc_session")
        return str(session["last_seen_at"])

    token = await call(stack.user_token, Person(OPERATOR, "", OPERATORS_PASSWORD))

    async def load_list() -> int:
        query = {"language": "en", "status": "pending"}
        status: int = (await call(stack.get, "/api/admin/users", query, token=token)).status
        return status

    async with connected(stack, token) as client:
        assert await receive(client) == {"type": "connected"}
        moment = pass_minutes(50)
        alice = await call(stack.pending, "alice")
        assert (await receive(client))["username"] == alice.name
        assert await load_list() == 200
        assert (await call(stack.get, "/api/version", token=token)).status == 200  # twice an hour
        assert last_seen() == moment
        body = {"username": alice.name, "action": "reject", "language": "en"}
        assert (await call(stack.post, "/api/admin/user/reject", body, token=token)).status == 200
        assert last_seen() > ago(minutes=1)
        pass_minutes(61)
        assert await load_list() == 401
        while await receive(client) is not None:
            pass
        assert client.close_code == POLICY_VIOLATION


async def test_whoever_is_no_admin_is_closed_out(stack: Stack) -> None:
    bobs = await call(stack.user_token, await call(stack.approved, "bob"))
    for token in ("", "nonsense", "%ff", bobs):
        assert await closed_with(stack, token) == POLICY_VIOLATION


async def test_it_ends_with_the_session(stack: Stack, operators: Operators) -> None:
    oscar = await call(operators.new, "oscar")
    token = await call(stack.user_token, oscar)
    async with connected(stack, token) as client:
        assert await receive(client) == {"type": "connected"}
        assert (await call(stack.post, "/api/logout", token=token)).status == 200
        await call(stack.pending, "alice")
        assert await receive(client) is None
        assert client.close_code == POLICY_VIOLATION
    assert await closed_with(stack, token) == POLICY_VIOLATION


async def test_another_site_cannot_connect(stack: Stack) -> None:
    token = stack.olivia()
    for origin in ("https://evil.example", "null"):
        assert stack.get("/", {"token": token}, headers={**HANDSHAKE, "Origin": origin}).status == 403
    async with connected(stack, token, Origin=stack.daemon.base_url) as client:
        assert await receive(client) == {"type": "connected"}


async def test_no_token_is_logged(stack: Stack) -> None:
    tokens = [stack.olivia(), stack.user_token(stack.approved("bob")), "a-made-up-token"]
    async with connected(stack, tokens[0]) as client:
        assert await receive(client) == {"type": "connected"}
    for token in tokens[1:]:
        await closed_with(stack, token)
    stack.get("/", {"token": tokens[0]}, headers={**HANDSHAKE, "Origin": "https://evil.example"})
    assert stack.daemon.wait_for_log("GET / 403")
    log = "\n".join(stack.daemon.log)
    assert "GET / 101" in log
    assert not [token for token in tokens if token in log or token.rpartition(".")[2] in log]
    assert "token=" not in log


async def test_a_stopping_daemon_does_not_wait_for_it(make_stack: MakeStack) -> None:
    stack = make_stack(config={"http": {"legacy_status": True}})
    async with connected(stack, await call(stack.olivia)) as client:
        assert await receive(client) == {"type": "connected"}
        stopping = asyncio.create_task(call(stack.daemon.stop))
        assert await receive(client) is None
        assert client.close_code == GOING_AWAY
        await stopping


def test_without_legacy_status_there_is_none(make_stack: MakeStack) -> None:
    stack = make_stack()
    assert stack.get("/api/config").json["config"]["wsPort"] is None
    reply = stack.get("/", {"token": stack.olivia()}, headers=HANDSHAKE)
    assert (reply.status, reply.headers["Content-Type"]) == (200, "text/html; charset=utf-8")


async def test_it_counts_as_a_connection_until_it_ends(make_stack: MakeStack) -> None:
    """On a host without the connections of other stories."""
    stack = make_stack(config={"http": {"legacy_status": True}})

    def connections() -> float:
        return scrape(stack.daemon).of("companion_http_connections")

    token = await call(stack.olivia)
    before = await call(ask_until, connections, lambda count: count == 1)  # that of the question itself
    async with connected(stack, token) as client:
        assert await receive(client) == {"type": "connected"}
        assert await call(connections) == before + 1
    await call(ask_until, connections, lambda count: count == before)
