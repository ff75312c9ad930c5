"""The way of a chat link through the services as they are wired, with a platform that answers when a test says so."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler

import pytest

from regsvc.accounts.chat import linking
from regsvc.accounts.chat.linking import BeginChatLinkReply, ChatCallbackReply, ChatLinking
from regsvc.accounts.chat.provider import Initiator
from regsvc.core.errors import BadCredentials, InvalidState, Overloaded, ProviderUnavailable, TotpRequired
from regsvc.database.models import ChatLink, ChatRequest
from tests.support.chat_browser import query_of
from tests.support.manual_clock import ManualClock
from tests.support.meanwhile import meanwhile
from tests.support.peers.oauth_platform import ChatPerson, PlatformRequest
from tests.support.peers.oauth_server import OAuthServer, send
from tests.support.services import CALLER, PASSWORD, MakeServices, ServiceHarness

REDIRECT_URL = "http://127.0.0.1:8080/api/chat/callback"


@pytest.fixture
def server() -> Iterator[OAuthServer]:
    with OAuthServer() as server:
        server.platform.redirect_urls.add(REDIRECT_URL)
        yield server


@pytest.fixture
def services(make_services: MakeServices, server: OAuthServer) -> ServiceHarness:
    return make_services(**{f"chat__{key}": value for key, value in server.config().items()})


@pytest.fixture
def chat(services: ServiceHarness) -> ChatLinking:
    chat = services.app.chat
    assert isinstance(chat, ChatLinking)
    return chat


def agree(server: OAuthServer, begun: BeginChatLinkReply, person: ChatPerson) -> tuple[str, str]:
    """Return state and code of the callback for a person who consents."""
    request = PlatformRequest("GET", begun.auth_url, query_of(begun.auth_url), {})
    answer = query_of(server.platform.authorize(request, person).headers["Location"])
    return answer["state"], answer["code"]


async def link(chat: ChatLinking, server: OAuthServer, person: ChatPerson) -> ChatCallbackReply:
    begun = await chat.begin(None, None, CALLER)
    return await chat.finish(*agree(server, begun, person), Initiator([begun.link_token]), CALLER)


def test_the_clock_ends_what_waits_and_the_job_removes_it(
    services: ServiceHarness, chat: ChatLinking, server: OAuthServer, clock: ManualClock
) -> None:
    asyncio.run(link(chat, server, ChatPerson("1", "alice")))
    begun = asyncio.run(chat.begin(None, None, CALLER))
    answer = agree(server, begun, ChatPerson("2", "bob"))
    clock.advance(minutes=10)
    with pytest.raises(InvalidState):
        asyncio.run(chat.finish(*answer, Initiator([begun.link_token]), CALLER))
    services.app.purge_expired()
    assert (ChatRequest.select().count(), ChatLink.select().count()) == (0, 1)
    clock.advance(minutes=50)
    services.app.purge_expired()
    assert ChatLink.select().count() == 0


def test_a_link_that_lasts_through_a_restart(
    services: ServiceHarness, chat: ChatLinking, server: OAuthServer, clock: ManualClock
) -> None:
    begun = asyncio.run(chat.begin(None, None, CALLER))
    answer = agree(server, begun, ChatPerson("1", "alice"))
    services.restart()
    again = services.app.chat
    finished = asyncio.run(again.finish(*answer, Initiator([begun.link_token]), CALLER))
    assert (finished.user.id, finished.claimed) == ("1", False)


def test_a_session_that_ends_while_the_platform_is_asked_links_nothing(
    services: ServiceHarness, chat: ChatLinking, server: OAuthServer
) -> None:
    alice = services.approved("Alice")
    token = services.login("Alice", "the-web-password").token
    session = services.app.worker.run_here(services.app.sessions.authenticate, token)
    begun = asyncio.run(chat.begin("Alice", session, CALLER))

    def log_out_meanwhile(handler: BaseHTTPRequestHandler) -> None:
        services.app.worker.run_here(services.app.logins.log_out, session, CALLER)
        services.app.worker.close_here()
        send(handler, 200, ChatPerson("1", "alice").profile)

    answer = agree(server, begun, ChatPerson("1", "alice"))
    with server.fault("/users/@me", log_out_meanwhile), pytest.raises(InvalidState):
        asyncio.run(chat.finish(*answer, Initiator([begun.link_token]), CALLER))
    assert services.app.chat_links.find_of(alice.id) is None
    assert ChatLink.select().count() == 0


def test_a_password_that_was_right_a_moment_ago_removes_no_link(services: ServiceHarness, chat: ChatLinking) -> None:
    """Nor does a code of the second factor that another request has used."""
    services.register("Alice")
    run, checker = services.app.worker.run_here, services.app.checker
    identity = replace(run(checker.find_identity, "Alice", CALLER), totp_step=5)
    assert run(checker.use_second_factor, identity, services.user("Alice").id, CALLER)
    with pytest.raises(TotpRequired):
        run(chat._unlink_by_password, identity, CALLER)
    reset_it = partial(services.set_password, "Alice", "newer-password")
    with meanwhile(services.app.hashing, "verify_in_pool", reset_it), pytest.raises(BadCredentials):
        asyncio.run(chat.unlink("Alice", None, CALLER, password=PASSWORD))


def test_a_decision_meanwhile_makes_no_password_wrong(
    services: ServiceHarness, chat: ChatLinking, server: OAuthServer
) -> None:
    alice = services.approved("Alice")
    begun = asyncio.run(chat.begin(None, None, CALLER))
    consent = agree(server, begun, ChatPerson("1", "alice"))
    asyncio.run(chat.finish(*consent, Initiator([begun.link_token]), CALLER))
    asyncio.run(chat.claim("Alice", begun.link_token, CALLER))

    def ban_and_unban() -> None:
        services.decide("ban", "Alice")
        services.decide("unban", "Alice")

    with meanwhile(services.app.hashing, "verify_in_pool", ban_and_unban):
        asyncio.run(chat.unlink("Alice", None, CALLER, password=PASSWORD))
    assert services.app.chat_links.find_of(alice.id) is None


async def test_only_so_many_wait_for_the_platform_at_a_time(
    services: ServiceHarness, chat: ChatLinking, server: OAuthServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more is told to come back, and may: the state is not spent."""
    monkeypatch.setattr(linking, "_MAX_CONCURRENT", 2)
    arrived, may_go_on = threading.Semaphore(0), threading.Event()

    def keep_waiting(handler: BaseHTTPRequestHandler) -> None:
        arrived.release()
        may_go_on.wait(10)
        send(handler, 500, {})

    with server.fault("/token", keep_waiting):
        waiting = [asyncio.create_task(link(chat, server, ChatPerson(str(n), "alice"))) for n in range(2)]
        for _task in waiting:
            assert await asyncio.to_thread(arrived.acquire, timeout=10)
        begun = await chat.begin(None, None, CALLER)
        answer = agree(server, begun, ChatPerson("3", "bob"))
        with pytest.raises(Overloaded):
            await chat.finish(*answer, Initiator([begun.link_token]), CALLER)
        may_go_on.set()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [ProviderUnavailable, ProviderUnavailable]
        server.mend("/token")
        assert (await chat.finish(*answer, Initiator([begun.link_token]), CALLER)).user.username == "bob"
