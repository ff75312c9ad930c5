"""Bodies of any shape from chat platforms: what they post, and what they reply.

Whoever signed or sent them, they are refused or ignored by name, and never end as an internal error; nor do they keep
what comes later from being received.
"""

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import Iterator
from copy import deepcopy
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from nacl.signing import SigningKey

from regsvc.accounts.chat.provider import ChatProvider
from regsvc.config.host_sections import TeamChat
from regsvc.config.sections import ChatSection
from regsvc.core import clock as real_clock
from regsvc.core.errors import ChatNotMember, MalformedBody, ProviderUnavailable, Unauthorized
from regsvc.database.models import TeamChatMessage
from regsvc.doctor.facts.host import find_chat_problems
from regsvc.notifications.delivery import Drop, PermanentFailure, TemporaryFailure
from regsvc.team_chat.discord import Discord
from regsvc.team_chat.onebot import OneBot, OneBotConnection
from regsvc.team_chat.platform import MessageContent, MessageGone, Platform
from regsvc.team_chat.telegram import Telegram
from tests.support.manual_clock import ManualClock
from tests.support.peers import onebot as onebot_peer
from tests.support.peers.http_peer import HttpPeer, body_of
from tests.support.services import OLIVIA, MakeServices, ServiceHarness

NAMED = (Drop, TemporaryFailure, PermanentFailure, MessageGone)
EXAMPLES = max(15, int(os.environ.get("COMPANION_FUZZ_REQUESTS", "0")) // 50)  # `make fuzz` tries 400
FUZZ = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
NAMES = ["id", "type", "user", "data", "message", "components", "component", "value", "result", "from", "chat", "text"]
ODD: list[Any] = [None, True, [], {}, [None], {"id": None}, 0, -1, 0.5, 1e308, 2**53, 2**63, 10**40]
ODD += ["", "0", "\x00", "٣", "9" * 400, "x" * 5000, "../..", [[]], [{}], [{"components": {"a": 1}}]]
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), inner),
    max_leaves=6,
)


def list_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in a JSON value, the whole first."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from list_paths(inner, (*path, key))


@st.composite
def altered(draw: st.DrawFn, valid: Any) -> Any:
    """Return a valid value in which up to three others are replaced by anything, or are missing."""
    made = deepcopy(valid)
    for _number in range(draw(st.integers(0, 3))):
        path = draw(st.sampled_from(sorted(list_paths(made), key=repr)))
        if not path:
            return draw(ANYTHING)
        parent = made
        for key in path[:-1]:
            parent = parent[key]
        if draw(st.booleans()):
            parent[path[-1]] = deepcopy(draw(st.sampled_from(ODD) | ANYTHING))
        else:
            del parent[path[-1]]
    return made


class AnyReply(HttpPeer):
    """Replies what it was told to, by the end of the path; else the valid replies."""

    def __init__(self) -> None:
        super().__init__()
        self.replies: dict[str, Any] = {}
        self.status = 200
        self.headers: dict[str, str] = {}

    def _handler_class(self) -> type[BaseHTTPRequestHandler]:
        handler = super()._handler_class()
        handler.do_PATCH = lambda request: self.respond(request)  # type: ignore[attr-defined]
        return handler

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        body_of(handler)  # what is left unread resets the connection
        found: Any = next((reply for end, reply in self.replies.items() if handler.path.endswith(end)), {})
        body = found if isinstance(found, bytes) else json.dumps(found).encode()
        handler.send_response_only(self.status)
        for name, value in {**self.headers, "Content-Length": str(len(body))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)


@pytest.fixture
def peer() -> Iterator[AnyReply]:
    with AnyReply() as made:
        yield made


@pytest.fixture
def key() -> SigningKey:
    return SigningKey(b"k" * 32)


@pytest.fixture
def services(make_services: MakeServices, peer: AnyReply, key: SigningKey) -> ServiceHarness:
    """A team on three platforms; on each, account 61 is Rita's, and message 1 is about Alice."""
    public = key.verify_key.encode().hex()
    chats = [
        {"platform": "discord", "token": "t", "public_key": public, "channel": "41", "api_url": peer.address},
        {"platform": "telegram", "token": "666:t", "channel": "-42", "api_url": peer.address},
        {"platform": "onebot", "token": onebot_peer.TOKEN, "channel": "43"},
    ]
    made = make_services(team_chat=chats, server__base_url="https://play.example.org")
    rita = made.approved("Rita")
    made.app.team_roles.give("Rita", "reviewer", OLIVIA)
    made.register("Alice")
    columns = {"user_id": made.user("Alice").id, "username_key": "alice", "shown": "", "version": "", "is_open": True}
    for number, name in enumerate(("discord:41", "telegram:-42", "onebot:43"), 1):
        TeamChatMessage.create(id=number, chat=name, remote_id="9", changed_at=made.clock(), **columns)
        platform = name.partition(":")[0]
        made.app.team_accounts.redeem(made.app.team_accounts.issue_code(rita.id), platform, "61", "rita")
    return made


def errors_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    caplog.clear()
    return found


PERSON = {"id": "61", "username": "rita", "global_name": "Rita"}
INTERACTION = {
    "id": "1",
    "application_id": "2",
    "type": 3,
    "token": "t",
    "channel_id": "41",
    "guild_id": "7",
    "locale": "de",
    "member": {"user": PERSON, "roles": [], "permissions": "0"},
    "message": {"id": "9"},
    "data": {"custom_id": "reject:1:", "component_type": 2},
}
FIELD = {"type": 4, "custom_id": "text", "value": "Too young"}
FORMS = [
    {"custom_id": custom_id, "components": [row]}
    for custom_id in ("reject:1:", "ask:1:", "link:0:")
    for row in ({"type": 18, "component": FIELD}, {"type": 1, "components": [FIELD]})
]
INTERACTIONS = [INTERACTION, {"id": "1", "type": 1}, *({**INTERACTION, "type": 5, "data": form} for form in FORMS)]


@pytest.mark.every_database
def test_interactions_of_discord(
    services: ServiceHarness, clock: ManualClock, key: SigningKey, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = services.app.team_chat.discord
    assert receiver is not None

    @seed(1)
    @FUZZ
    @given(st.sampled_from(INTERACTIONS).flatmap(altered), st.integers(1, 10**18))
    def receive(interaction: Any, number: int) -> None:
        if isinstance(interaction, dict) and interaction.get("id") == "1":
            interaction = {**interaction, "id": str(number)}
        body, timestamp = json.dumps(interaction).encode(), str(int(clock().timestamp()))
        signature = key.sign(timestamp.encode() + body).signature.hex()
        try:
            reply = asyncio.run(receiver.receive(signature, timestamp, body))
        except (MalformedBody, Unauthorized):
            return
        assert reply["type"] in (1, 4, 5, 9)
        assert errors_of(caplog) == []

    receive()


GROUP = {"id": -42, "type": "supergroup"}
SAID = {"message_id": 5, "date": 1767225600, "from": {"id": 61, "first_name": "Rita", "language_code": "de"}}
PROMPT = {"message_id": 4, "date": 0, "from": {"id": 666}, "chat": GROUP, "text": "…\n\nreject:2:"}
ABOUT = {"message_id": 9, "date": 0, "chat": GROUP}
UPDATES = [
    {"message": {**SAID, "chat": {"id": 61, "type": "private"}, "text": "/link ABCDEFGH"}},
    {"message": {**SAID, "chat": GROUP, "text": "/link ABCDEFGH"}},
    {"message": {**SAID, "chat": GROUP, "text": "No", "reply_to_message": PROMPT}},
    {"callback_query": {"id": "7", "from": SAID["from"], "message": ABOUT, "data": "ask:2:"}},
    {"callback_query": {"id": "7", "from": SAID["from"], "message": ABOUT, "data": "test:2:"}},
]


@pytest.mark.every_database
def test_updates_of_telegram(services: ServiceHarness, peer: AnyReply, caplog: pytest.LogCaptureFixture) -> None:
    [receiver] = services.app.team_chat.telegram
    peer.replies["sendMessage"] = {"ok": True, "result": {"message_id": 1}}
    peer.replies["answerCallbackQuery"] = {"ok": True, "result": True}

    with asyncio.Runner() as runner:

        @seed(1)
        @FUZZ
        @given(st.sampled_from(UPDATES).flatmap(altered), st.sampled_from(UPDATES), ANYTHING)
        def receive(odd: Any, last: Any, whole: Any) -> None:
            receiver._offset = 0
            for updates in ([odd, {"update_id": 1, **last}], [odd], whole or 0):
                if isinstance(odd, dict):
                    odd.setdefault("update_id", 2)
                peer.replies["getUpdates"] = {"ok": True, "result": updates}
                try:
                    runner.run(receiver._poll())
                except NAMED:
                    assert updates is not odd
                else:
                    assert receiver._offset >= 2
            assert errors_of(caplog) == []

        receive()


MESSAGE = {
    "time": 1767225600,
    "self_id": 10001,
    "post_type": "message",
    "message_type": "group",
    "sub_type": "normal",
    "group_id": 43,
    "message_id": 5,
    "user_id": 61,
    "message": [{"type": "reply", "data": {"id": "9"}}, {"type": "text", "data": {"text": "reject 3 No"}}],
    "raw_message": "…",
    "sender": {"user_id": 61, "nickname": "Rita", "card": "", "role": "member"},
}
EVENTS = [
    MESSAGE,
    {**MESSAGE, "message": "[CQ:reply,id=9]approve"},
    {**MESSAGE, "message": [{"type": "text", "data": {"text": "/link ABCDEFGH"}}]},
    {**MESSAGE, "message_type": "private", "message": [{"type": "text", "data": {"text": "/link ABCDEFGH"}}]},
]


@pytest.mark.every_database
def test_events_and_replies_of_onebot(services: ServiceHarness, caplog: pytest.LogCaptureFixture) -> None:
    [receiver], platform = (
        services.app.team_chat.onebot,
        services.app.team_chat.platforms["onebot:43"],
    )
    reply: dict[str, Any] = {}

    async def send(text: str) -> None:
        receiver.receive(connection, json.dumps({**reply, "echo": json.loads(text)["echo"]}))

    connection = OneBotConnection("10001", "universal", send, lambda: None)
    receiver._open.append(connection)
    valid = {"status": "ok", "retcode": 0, "data": {"message_id": 7, "shut_up_timestamp": 0}}

    async def act(event: Any, delivery: int) -> None:
        receiver.receive(connection, json.dumps(event))
        while receiver._tasks:
            await asyncio.gather(*receiver._tasks)
        for work in (use(platform), receiver._find_problem("10001", "43")):
            with contextlib.suppress(*NAMED):
                await work

    with asyncio.Runner() as runner:

        @seed(1)
        @FUZZ
        @given(st.sampled_from(EVENTS).flatmap(altered), altered(valid), st.integers(1, 10**9))
        def receive(event: Any, answered: Any, number: int) -> None:
            reply.clear()
            reply.update(answered if isinstance(answered, dict) else valid)
            if isinstance(event, dict) and event.get("message_id") == 5:
                event = {**event, "message_id": number}
            runner.run(act(event, number))
            assert errors_of(caplog) == []

        receive()


CONTENT = MessageContent(1, "Alice wants to join.", (), "", "")


async def use(platform: Platform) -> None:
    """Post, change and write messages; each may fail by name."""
    works = [platform.post(CONTENT, 7), platform.edit("9", CONTENT), platform.write_to("61", "Hello")]
    for work in works:
        try:
            found = await work
            assert found is None or (isinstance(found, str) and len(found) <= 64)
        except NAMED:
            pass


STATUSES = st.sampled_from([200, 200, 200, 400, 403, 404, 429, 500])
WAITS = st.sampled_from(["", "1.5", "-1", "nan", "inf", "1e300", "soon", "9" * 400])
DATES = st.sampled_from(["", "Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:28:00", "Wed, 99 Oct 9999", "x"])
HEADERS = st.builds(
    lambda wait, date: {
        "Retry-After": wait,
        "X-RateLimit-Remaining": "0",
        "X-RateLimit-Reset-After": wait,
        "Date": date,
    },
    WAITS,
    DATES,
)
ON_DISCORD = {
    "/applications/@me": {
        "id": "1",
        "bot": {"id": "2"},
        "verify_key": "00",
        "interactions_endpoint_url": None,
    },
    "/channels/41": {"id": "41", "guild_id": "7", "permission_overwrites": [{"id": "7", "allow": "0", "deny": "1024"}]},
    "/members/2": {"user": {"id": "2"}, "roles": ["8"]},
    "/roles": [{"id": "7", "permissions": "1024"}, {"id": "8", "permissions": "2048"}],
    "/messages": {"id": "9", "code": 0},
    "/messages/9": {"id": "9"},
    "/users/@me/channels": {"id": "77", "type": 1},
}
ON_TELEGRAM = {
    f"/{method}": {"ok": True, "result": result}
    for method, result in {
        "getMe": {"id": 666, "is_bot": True},
        "getWebhookInfo": {"url": ""},
        "getChat": {"id": -42, "type": "supergroup"},
        "getChatMember": {"status": "member"},
        "sendMessage": {"message_id": 5},
        "editMessageText": {"message_id": 5},
    }.items()
}
REFUSAL = {"ok": False, "error_code": 429, "description": "Too Many Requests", "parameters": {"retry_after": 600}}
ON_TELEGRAM_REFUSED = dict.fromkeys(ON_TELEGRAM, REFUSAL)


@pytest.mark.parametrize(
    "valid", [ON_DISCORD, ON_TELEGRAM, ON_TELEGRAM_REFUSED], ids=["discord", "telegram", "refused"]
)
def test_replies_of_platforms(peer: AnyReply, valid: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """To messages, and to what the doctor asks."""
    monkeypatch.setattr("regsvc.team_chat.telegram._LONGEST_PAUSE", 0)  # a limit is a failure, and not waited for

    def make() -> Platform:
        if valid is ON_DISCORD:
            chat = TeamChat(platform="discord", token="t", channel="41", public_key="00", api_url=peer.address)
            return Discord(chat, peer.address)
        return Telegram(TeamChat(platform="telegram", token="666:t", channel="-42", api_url=peer.address), peer.address)

    @seed(1)
    @FUZZ
    @given(altered(valid), STATUSES, HEADERS)
    def reply(replies: Any, status: int, headers: dict[str, str]) -> None:
        whole = replies if isinstance(replies, dict) else dict.fromkeys(valid, replies)
        peer.replies, peer.status, peer.headers = whole, status, headers
        asyncio.run(use(make()))
        found = find_chat_problems(make(), real_clock.now())
        assert all(isinstance(problem, str) and problem for problem in found)

    reply()


def test_replies_to_the_doctor_about_onebot(peer: AnyReply) -> None:
    platform = OneBot(TeamChat(platform="onebot", token="t", channel="43"), peer.address)

    @seed(1)
    @FUZZ
    @given(altered({"43": ""}) | st.binary(max_size=20), STATUSES)
    def reply(body: Any, status: int) -> None:
        peer.replies, peer.status = {"": body}, status
        assert all(isinstance(problem, str) for problem in find_chat_problems(platform, real_clock.now()))

    reply()


PROVIDED = {
    "/token": {"access_token": "a", "token_type": "Bearer", "error": "invalid_grant"},
    "/me": {"id": "61", "username": "alice", "discriminator": "0", "avatar": None, "global_name": "Alice"},
    "/me/guilds/7/member": {"roles": ["8", "9"]},
}


def test_replies_of_providers_of_chat_accounts(peer: AnyReply) -> None:
    section = ChatSection(
        platform="discord",
        client_id="c",
        client_secret="s",
        redirect_url="https://play.example.org/api/chat/callback",
        token_url=f"{peer.address}/token",
        profile_url=f"{peer.address}/me",
        id_field="id",
        name_field="username",
        guild_id="7",
        role_ids=("8",),
        timeout=timedelta(seconds=20),
    )

    @seed(1)
    @FUZZ
    @given(altered(PROVIDED), STATUSES)
    def reply(replies: Any, status: int) -> None:
        peer.replies = replies if isinstance(replies, dict) else dict.fromkeys(PROVIDED, replies)
        peer.status = status
        try:
            account = asyncio.run(ChatProvider(section).fetch_account("code", "v" * 43))
        except (ProviderUnavailable, ChatNotMember):
            return
        assert (account.platform, bool(account.id), bool(account.username)) == ("discord", True, True)

    reply()
