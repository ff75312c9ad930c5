"""Asking the chat platform who came back: a real OAuth 2.0 server, and everything it may answer instead."""

import asyncio
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler

import pytest

from regsvc.accounts.chat.provider import ChatProvider, member_url, with_defaults
from regsvc.config.sections import ChatSection
from regsvc.core.errors import ChatNotMember, ProviderUnavailable
from regsvc.users.chat_links import ChatAccount
from tests.support.chat_browser import query_of
from tests.support.peers.oauth_platform import CLIENT_ID, CLIENT_SECRET, ChatPerson, PlatformRequest
from tests.support.peers.oauth_server import OAuthServer, send
from tests.support.peers.provider_faults import ANYWHERE, MEMBERSHIPS, PROFILES, SILENCES, TOKENS, say

REDIRECT_URL = "http://127.0.0.1:8080/api/chat/callback"
VERIFIER = "v" * 43
TOKEN_PATH, PROFILE_PATH, MEMBER_PATH = "/token", "/users/@me", "/users/@me/guilds/900/member"
ALICE = ChatPerson("80351110224678912", "alice", "Alice", "8342729096ea", guilds={"900": ["701"]})
A_MOMENT = timedelta(milliseconds=250)
LONG = timedelta(seconds=20)


@pytest.fixture(scope="module")
def server() -> Iterator[OAuthServer]:
    with OAuthServer() as server:
        server.platform.redirect_urls.add(REDIRECT_URL)
        server.join(ALICE)
        yield server


@pytest.fixture
def described(server: OAuthServer) -> ChatSection:
    return ChatSection(
        platform="discord",
        client_id=CLIENT_ID,
        client_secret=CLIENT_SECRET,
        redirect_url=REDIRECT_URL,
        authorize_url=f"{server.address}/authorize",
        token_url=f"{server.address}{TOKEN_PATH}",
        profile_url=f"{server.address}{PROFILE_PATH}",
        scopes="identify guilds.members.read",
        id_field="id",
        name_field="username",
        guild_id="900",
        role_ids=("700", "701"),
    )


def code_for(server: OAuthServer, provider: ChatProvider, person: ChatPerson = ALICE) -> str:
    """Return the code that the platform issues for a person who consents."""
    address = provider.authorization_url("state", VERIFIER)
    reply = server.platform.authorize(PlatformRequest("GET", address, query_of(address), {}), person)
    assert reply.status == 302, reply.told
    return query_of(reply.headers["Location"])["code"]


def fetch(
    server: OAuthServer, described: ChatSection, timeout: timedelta = LONG, person: ChatPerson = ALICE
) -> ChatAccount:
    """The whole way of a person who agrees."""
    provider = ChatProvider(replace(described, timeout=timeout))
    return asyncio.run(provider.fetch_account(code_for(server, provider, person), VERIFIER))


def test_it_learns_who_somebody_is(server: OAuthServer, described: ChatSection) -> None:
    server.requests.clear()
    account = fetch(server, described)
    assert account == ChatAccount("discord", ALICE.id, "alice", "0", "8342729096ea", "Alice")
    assert server.requests == [TOKEN_PATH, PROFILE_PATH, MEMBER_PATH]


def test_nobody_is_asked_for_more_than_is_needed(server: OAuthServer, described: ChatSection) -> None:
    server.requests.clear()
    fetch(server, replace(described, guild_id="", role_ids=()))
    assert server.requests == [TOKEN_PATH, PROFILE_PATH]


@pytest.mark.parametrize(
    "change",
    [
        {"client_secret": "another"},
        {"client_id": "another"},
        {"redirect_url": "http://127.0.0.1:8080/elsewhere"},
        {"token_auth": "body"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_the_platform_insists_on_what_it_was_told(
    server: OAuthServer, described: ChatSection, change: dict[str, str]
) -> None:
    code = code_for(server, ChatProvider(described))
    wrong = ChatProvider(replace(described, **change))  # type: ignore[arg-type]
    with pytest.raises(ProviderUnavailable):
        asyncio.run(wrong.fetch_account(code, VERIFIER))


def test_a_code_is_good_for_its_verifier_alone_and_once(server: OAuthServer, described: ChatSection) -> None:
    provider = ChatProvider(described)
    code = code_for(server, provider)
    with pytest.raises(ProviderUnavailable):
        asyncio.run(provider.fetch_account(code, "w" * 43))
    asyncio.run(provider.fetch_account(code, VERIFIER))
    with pytest.raises(ProviderUnavailable):
        asyncio.run(provider.fetch_account(code, VERIFIER))


@pytest.mark.parametrize(
    ("person", "fault"),
    [(replace(ALICE, guilds={}), "not_in_guild"), (replace(ALICE, guilds={"900": ["1"]}), "lacks_role")],
)
def test_who_may_not_come_in(server: OAuthServer, described: ChatSection, person: ChatPerson, fault: str) -> None:
    with pytest.raises(ChatNotMember) as refused:
        fetch(server, described, person=person)
    assert refused.value.facts == {"fault": fault}


@pytest.mark.parametrize(
    ("path", "name"),
    [(path, name) for path in (TOKEN_PATH, PROFILE_PATH, MEMBER_PATH) for name in ANYWHERE]
    + [(TOKEN_PATH, name) for name in TOKENS]
    + [(PROFILE_PATH, name) for name in PROFILES]
    + [(MEMBER_PATH, name) for name in MEMBERSHIPS],
)
def test_what_is_no_answer_is_no_account(
    server: OAuthServer, described: ChatSection, path: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    fault = {**ANYWHERE, **TOKENS, **PROFILES, **MEMBERSHIPS}[name]
    with server.fault(path, fault), caplog.at_level(logging.WARNING), pytest.raises(ProviderUnavailable):
        fetch(server, described)
    assert {record.name for record in caplog.records} == {"regsvc.accounts.chat.provider"}, "and nothing of Tornado's"
    assert CLIENT_SECRET not in caplog.text
    assert not [token for token in server.platform.tokens if token in caplog.text]


@pytest.mark.parametrize("name", SILENCES)
@pytest.mark.parametrize("path", [TOKEN_PATH, PROFILE_PATH, MEMBER_PATH])
def test_nobody_waits_longer_than_the_config_says(
    server: OAuthServer, described: ChatSection, path: str, name: str
) -> None:
    begin = time.monotonic()
    with server.fault(path, SILENCES[name](server)), pytest.raises(ProviderUnavailable):
        fetch(server, described, A_MOMENT)
    assert time.monotonic() - begin < 30


def test_a_platform_that_is_not_there(server: OAuthServer, described: ChatSection) -> None:
    for token_url in ("http://127.0.0.1:1/token", "https://127.0.0.1:1/token", "http://no.such.host.invalid/token"):
        with pytest.raises(ProviderUnavailable):
            fetch(server, replace(described, token_url=token_url), timedelta(seconds=2))


def test_one_that_speaks_no_tls(server: OAuthServer, described: ChatSection) -> None:
    token_url = described.token_url.replace("http:", "https:")
    with pytest.raises(ProviderUnavailable):
        fetch(server, replace(described, token_url=token_url), timedelta(seconds=5))


@pytest.mark.parametrize("path", [TOKEN_PATH, PROFILE_PATH, MEMBER_PATH])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_credentials_follow_a_redirection(
    server: OAuthServer, described: ChatSection, path: str, status: int
) -> None:
    def move(handler: BaseHTTPRequestHandler) -> None:
        send(handler, status, {}, {"Location": elsewhere.address + path})

    with OAuthServer() as elsewhere, server.fault(path, move), pytest.raises(ProviderUnavailable):
        fetch(server, described)
    assert elsewhere.requests == []


def test_why_the_platform_says_no_is_told_to_the_host(
    server: OAuthServer, described: ChatSection, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ProviderUnavailable):
        fetch(server, replace(described, client_secret="outdated"))
    assert "the chat provider answered 401 about the token (invalid_client)" in caplog.text


def test_what_the_platform_writes_there_does_not_reach_the_log(
    server: OAuthServer, described: ChatSection, caplog: pytest.LogCaptureFixture
) -> None:
    with server.fault(TOKEN_PATH, say(400, {"error": "INJECTED\r\nline"})), pytest.raises(ProviderUnavailable):
        fetch(server, described)
    assert "INJECTED" not in caplog.text


@pytest.mark.parametrize(
    ("told", "id_field", "name_field", "expected"),
    [
        ({"sub": 4711, "name": "Alice"}, "sub", "name", ("4711", "Alice")),
        ({"code": 0, "data": {"id": "7", "user": {"nick": "al"}}}, "data.id", "data.user.nick", ("7", "al")),
        ({"sub": "a@b|c", "name": None}, "sub", "name", ("a@b|c", "a@b|c")),
        ({"sub": "7", "name": " \t\u202ename\u2066 of\r\nmine "}, "sub", "name", ("7", "name of mine")),
        ({"sub": "7", "name": ["x"]}, "sub", "name", ("7", "7")),
    ],
)
def test_any_profile_can_be_read(
    server: OAuthServer,
    described: ChatSection,
    told: dict[str, object],
    id_field: str,
    name_field: str,
    expected: tuple[str, str],
) -> None:
    custom = replace(described, platform="custom", id_field=id_field, name_field=name_field, guild_id="")
    with server.fault(PROFILE_PATH, say(200, told)):
        account = fetch(server, custom)
    assert (account.platform, account.id, account.username) == ("custom", *expected)
    assert (account.discriminator, account.avatar, account.global_name) == ("0", None, None)


def test_discord_needs_nothing_but_the_application() -> None:
    discord = with_defaults(
        ChatSection(platform="discord", client_id="1", client_secret="s", guild_id="90/0"), "https://play.example.org"
    )
    assert discord.redirect_url == "https://play.example.org/api/chat/callback"
    assert discord.authorize_url == "https://discord.com/oauth2/authorize"
    assert discord.token_url == "https://discord.com/api/v10/oauth2/token"
    assert member_url(discord) == "https://discord.com/api/v10/users/@me/guilds/90%2F0/member"
    assert (discord.id_field, discord.name_field, discord.token_auth) == ("id", "username", "header")
    assert "client_secret" not in repr(discord)
