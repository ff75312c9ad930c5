"""GET /api/chat/auth: leads to the chat platform, with everything that binds the callback to this browser."""

import re
from http.cookies import Morsel, SimpleCookie

from tests.support.chat_stack import ChatStack, make_chat_stack
from tests.support.daemon import Reply
from tests.support.our_tables import everything_stored
from tests.support.peers.oauth_platform import CLIENT_ID
from tests.support.peers.oauth_server import OAuthServer
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack

PATH = "/api/chat/auth"
SECRET = re.compile(r"[A-Za-z0-9_-]{43}")


def cookie_of(reply: Reply) -> Morsel[str]:
    """The one cookie of a reply."""
    [header] = reply.headers.get_all("Set-Cookie", [])
    [morsel] = SimpleCookie(header).values()
    return morsel


def test_the_player_is_sent_to_the_platform(chat_stack: ChatStack) -> None:
    begun = chat_stack.browser().begin("Alice")
    asked = begun.query
    assert begun.auth_url.startswith(f"{chat_stack.provider.address}/authorize?")
    assert SECRET.fullmatch(asked.pop("state"))
    assert SECRET.fullmatch(asked.pop("code_challenge"))
    assert asked == {
        "response_type": "code",
        "client_id": CLIENT_ID,
        "redirect_uri": f"{chat_stack.stack.daemon.base_url}/api/chat/callback",
        "scope": "identify",
        "code_challenge_method": "S256",
    }


def test_every_time_has_secrets_of_its_own(chat_stack: ChatStack) -> None:
    alice = chat_stack.browser()
    begun = [alice.begin("Alice") for _time in range(3)]
    assert len({each.link_token for each in begun}) == 3
    assert len({each.query["state"] for each in begun}) == 3
    assert len({each.query["code_challenge"] for each in begun}) == 3


def test_the_browser_keeps_the_link_token(chat_stack: ChatStack) -> None:
    reply = chat_stack.stack.get(PATH, {"username": "Alice"})
    cookie = cookie_of(reply)
    assert SECRET.fullmatch(reply.json["linkToken"])
    assert (cookie.key, cookie.value) == ("companion_link", reply.json["linkToken"])
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Lax", "/")
    assert cookie["max-age"] == "4200"
    assert not cookie["secure"], "there is no TLS here"
    assert not cookie["domain"]


def test_the_browser_keeps_the_tokens_of_its_last_tabs(chat_stack: ChatStack) -> None:
    alice = chat_stack.browser()
    tokens = [alice.begin().link_token for _tab in range(6)]
    assert alice.cookies["companion_link"].split(".") == tokens[:1:-1]


def test_nothing_of_it_can_be_read_in_the_database(chat_stack: ChatStack) -> None:
    begun = chat_stack.browser().begin("Alice")
    stored = everything_stored(chat_stack.stack)
    assert chat_stack.count_requests()
    for secret in (begun.link_token, begun.query["state"], begun.query["code_challenge"]):
        assert secret not in stored


def test_behind_tls_no_neighbour_can_plant_the_cookie(make_stack: MakeStack, provider: OAuthServer) -> None:
    config = {"server": {"base_url": "https://play.example.org/companion"}}
    secure = make_chat_stack(make_stack, provider, config=config)
    reply = secure.stack.get(PATH)
    cookie = cookie_of(reply)
    assert cookie.key == "__Host-companion_link"
    assert (cookie["secure"], cookie["path"], cookie["domain"]) == (True, "/", "")
    assert "redirect_uri=https%3A%2F%2Fplay.example.org%2Fcompanion%2Fapi%2Fchat%2Fcallback" in reply.json["authUrl"]


def test_a_guild_needs_a_right_of_its_own(make_stack: MakeStack, provider: OAuthServer) -> None:
    gated = make_chat_stack(make_stack, provider, chat={"guild_id": "900"})
    assert gated.browser().begin().query["scope"] == "identify guilds.members.read"


def test_another_platform_is_asked_as_the_config_says(make_stack: MakeStack, provider: OAuthServer) -> None:
    changes = {
        "authorize_url": f"{provider.address}/authorize?tenant=a%26b#top",
        "scopes": "openid profile",
        "redirect_url": "https://front.example.org/linked",
    }
    custom = make_chat_stack(make_stack, provider, platform="custom", chat=changes)
    asked = custom.browser().begin().query
    assert asked["tenant"] == "a&b"
    assert asked["scope"] == "openid profile"
    assert asked["redirect_uri"] == "https://front.example.org/linked"


def test_discord_has_its_usual_addresses(make_stack: MakeStack) -> None:
    chat = {"platform": "discord", "client_id": "4711", "client_secret": "a secret of Discord's making"}
    stack = make_stack(config={"chat": chat})
    assert stack.get(PATH).json["authUrl"].startswith("https://discord.com/oauth2/authorize?response_type=code&")


# --- Refusals ---


def test_one_client_cannot_begin_without_end(make_stack: MakeStack, provider: OAuthServer) -> None:
    few = make_chat_stack(make_stack, provider, chat={"limits_per_client": ["2 per minute"]})
    assert [few.stack.get(PATH).status for _time in range(2)] == [200, 200]
    assert_refused(few.stack.get(PATH), 429, "rate_limited")
    assert few.stack.get(PATH, headers={"X-Forwarded-For": "198.51.100.7"}).status == 200
