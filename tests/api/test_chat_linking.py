"""The way to the chat platform and back: who can link an account, and what leaves no link."""

import re
from collections.abc import Callable
from functools import partial
from http.cookies import Morsel, SimpleCookie

import pytest

from tests.support.chat_browser import BROWSERS_ACCEPT, Browser, query_of
from tests.support.chat_stack import CALLBACK_PATH, ChatStack, make_chat_stack
from tests.support.daemon import Reply
from tests.support.our_tables import everything_stored
from tests.support.peers.oauth_platform import CLIENT_ID
from tests.support.peers.oauth_server import Fault, OAuthServer
from tests.support.peers.provider_faults import ANYWHERE, PROFILES, SILENCES, TOKENS
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack
from tests.support.together import at_once

# GET /api/chat/auth: leads to the chat platform, with everything that binds the callback to this browser.


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


# GET /api/chat/callback: the platform sends the player back, and either a link is made or nothing changes.


def is_linked(chat_stack: ChatStack, browser: Browser) -> bool:
    return bool(chat_stack.links(browser))


# --- Outcome ---


def test_the_account_waits_to_be_claimed(chat_stack: ChatStack) -> None:
    alice = chat_stack.browser(chat_stack.person("alice.chat", global_name="Alice ✿", avatar="8342729096ea"))
    reply = alice.open_callback(alice.consent(alice.begin("Alice").auth_url))
    assert reply.status == 200
    assert reply.json == {
        "success": True,
        "message": "Your chat account alice.chat is confirmed. Now continue your registration, or log in.",
        "linked": True,
        "claimed": False,
        "user": {
            "id": alice.person.id if alice.person else None,
            "username": "alice.chat",
            "discriminator": "0",
            "avatar": "8342729096ea",
            "globalName": "Alice ✿",
        },
    }
    [link] = chat_stack.links(alice)
    assert (link["user_id"], link["claimed_account"]) == (None, None)


def test_begun_by_the_owner_it_is_hers_at_once(chat_stack: ChatStack) -> None:
    stack, alice = chat_stack.stack, chat_stack.browser()
    person = stack.pending("alice")
    token = stack.user_token(person)
    reply = alice.open_callback(alice.consent(alice.begin(person.name.upper(), token).auth_url))
    assert (reply.status, reply.json["claimed"]) == (200, True)
    assert reply.json["message"] == "Your chat account alice is linked."
    assert alice.person is not None
    [linked] = stack.audits(person, "chat.linked")
    assert (linked["operator"], linked["detail"]) == (
        person.name,
        {"platform": "discord", "account": alice.person.id},
    )
    listed = stack.user(person)
    assert listed["chat"] == {"id": alice.person.id, "username": "alice"}
    assert listed["discordId"] == alice.person.id


def test_begun_by_somebody_else_it_is_nobodys(chat_stack: ChatStack) -> None:
    """The token's owner decides, not the name."""
    stack, bob = chat_stack.stack, chat_stack.browser()
    person = stack.pending("bob")
    bob.link("Alice", stack.user_token(person))
    [link] = chat_stack.links(bob)
    assert link["user_id"] is None


def test_the_owner_links_another_account_instead(chat_stack: ChatStack) -> None:
    stack, person = chat_stack.stack, chat_stack.stack.pending("alice")
    token = stack.user_token(person)
    first, second = chat_stack.browser(), chat_stack.browser()
    first.link(token=token)
    second.link(token=token)
    second.link(token=token)
    assert not is_linked(chat_stack, first)
    assert is_linked(chat_stack, second)
    assert len(stack.audits(person, "chat.linked")) == 2, "the same account again is no news"
    [unlinked] = stack.audits(person, "chat.unlinked")
    assert unlinked["detail"]["why"] == "linked another"


def test_nothing_that_the_platform_gave_is_kept(chat_stack: ChatStack) -> None:
    alice = chat_stack.browser()
    begun = alice.begin()
    callback = alice.consent(begun.auth_url)
    assert alice.open_callback(callback).status == 200
    platform = chat_stack.provider.platform
    payload = "\n".join(chat_stack.stack.daemon.log) + everything_stored(chat_stack.stack)
    given = [*platform.tokens, query_of(callback)["code"], begun.query["state"], begun.link_token]
    assert len(given) > 3
    assert not [secret for secret in given if secret in payload]


def test_two_tabs_of_one_browser_may_finish_in_any_order(chat_stack: ChatStack) -> None:
    alice = chat_stack.browser()
    first, second = alice.begin(), alice.begin()
    assert alice.open_callback(alice.consent(first.auth_url)).status == 200
    assert alice.open_callback(alice.consent(second.auth_url)).status == 200


def test_a_front_end_elsewhere_finishes_with_what_it_was_given(chat_stack: ChatStack) -> None:
    """It has no cookie of ours: it shows the link token, or the access token it began with."""
    stack, alice = chat_stack.stack, chat_stack.browser()
    begun = alice.begin()
    alice.cookies.clear()
    assert alice.open_callback(alice.consent(begun.auth_url), link_token=begun.link_token).status == 200
    token = stack.user_token(stack.pending("alice"))
    begun = alice.begin(token=token)
    alice.cookies.clear()
    assert alice.open_callback(alice.consent(begun.auth_url), token=token).json["claimed"] is True


@pytest.mark.parametrize("auth_method", ["client_secret_basic", "client_secret_post"])
def test_a_custom_platform(make_stack: MakeStack, auth_method: str) -> None:
    with OAuthServer() as provider:
        provider.platform.auth_method = auth_method
        keys = {
            "token_auth": "header" if auth_method == "client_secret_basic" else "body",
            "id_field": "id",
            "name_field": "global_name",
        }
        custom = make_chat_stack(make_stack, provider, platform="custom", chat=keys)
        alice = custom.browser(custom.person("alice", global_name="Alice \u202e\r\n the  Great" + "!" * 300))
        reply = alice.open_callback(alice.consent(alice.begin().auth_url))
        assert reply.status == 200, reply.text
        assert reply.json["user"]["username"].startswith("Alice the Great!!!")
        assert len(reply.json["user"]["username"]) == 255
        assert custom.stack.get("/api/config").json["config"]["chat"]["platform"] == "custom"


# --- Only for the client that started ---


def test_a_state_is_good_once_when_it_comes_many_times_at_once(chat_stack: ChatStack) -> None:
    alice = chat_stack.browser()
    callback = alice.consent(alice.begin().auth_url)
    replies = at_once([partial(alice.open_callback, callback)] * 8)
    assert sorted(reply.status for reply in replies) == [200] + [422] * 7
    assert len(chat_stack.links(alice)) == 1


def test_mallory_sends_alice_her_own_address_of_the_platform(chat_stack: ChatStack) -> None:
    """Alice's account must not end up behind a link token that Mallory knows."""
    mallory, alice = chat_stack.browser(), chat_stack.browser()
    trap = mallory.begin()
    callback = alice.consent(trap.auth_url)
    assert_refused(alice.open_callback(callback), 422, "invalid_state", field="state")
    alice.begin()  # a cookie of her own makes no difference
    assert_refused(alice.open_callback(callback), 422, "invalid_state", field="state")
    assert not is_linked(chat_stack, alice)


def test_mallory_sends_alice_a_prepared_callback(chat_stack: ChatStack) -> None:
    """Mallory's chat account must not be linked to Alice, whether or not Alice is logged in."""
    stack, mallory, alice = chat_stack.stack, chat_stack.browser(), chat_stack.browser()
    person = stack.pending("alice")
    token = stack.user_token(person)
    trap = mallory.consent(mallory.begin().auth_url)
    alice.begin(token=token)
    assert_refused(alice.open_callback(trap), 422, "invalid_state", field="state")
    assert_refused(alice.open_callback(trap, token=token), 422, "invalid_state", field="state")
    assert not is_linked(chat_stack, mallory)
    assert alice.status(person.name, token).json == {"success": True, "linked": False}
    assert mallory.open_callback(trap).status == 200, "whoever cannot use a state cannot spoil it"


def test_mallory_swaps_the_codes(chat_stack: ChatStack) -> None:
    """Mallory's code with Alice's state: the PKCE verifier belongs to the state, so the platform refuses."""
    mallory, alice = chat_stack.browser(), chat_stack.browser()
    stolen = query_of(mallory.consent(mallory.begin().auth_url))["code"]
    state = query_of(alice.consent(alice.begin().auth_url))["state"]
    reply = alice.get(CALLBACK_PATH, {"code": stolen, "state": state})
    assert_refused(reply, 503, "provider_away")
    assert not is_linked(chat_stack, mallory)
    assert not is_linked(chat_stack, alice)


# --- One account, one user ---


def test_an_account_that_is_somebodys_is_refused_early(chat_stack: ChatStack) -> None:
    stack, alice = chat_stack.stack, chat_stack.browser()
    alice.link(token=stack.user_token(stack.pending("alice")))
    again = chat_stack.browser(alice.person)
    callback = again.consent(again.begin().auth_url)
    assert_refused(again.open_callback(callback), 409, "chat_account_taken")
    bobs = stack.user_token(stack.pending("bob"))
    assert_refused(
        again.open_callback(again.consent(again.begin(token=bobs).auth_url)),
        409,
        "chat_account_taken",
    )
    assert len(chat_stack.links(alice)) == 1


def test_a_rejected_record_gives_the_account_away(chat_stack: ChatStack) -> None:
    """The most common reason is a bad name: the same person registers again under another one."""
    stack, alice = chat_stack.stack, chat_stack.browser()
    rejected = stack.pending("bad")
    alice.link(token=stack.user_token(rejected))
    stack.decides("reject", rejected)
    person = stack.pending("good")
    alice.link(token=stack.user_token(person))
    assert stack.user(person)["chat"]["username"] == "alice"
    assert stack.user(rejected)["chat"] is None
    [unlinked] = stack.audits(rejected, "chat.unlinked")
    assert (unlinked["operator"], unlinked["detail"]["why"]) == (person.name, "proven by another")


# --- The platform says no ---


def test_the_player_does_not_agree(chat_stack: ChatStack) -> None:
    alice = chat_stack.refusing_browser()
    callback = alice.consent(alice.begin().auth_url)
    assert query_of(callback)["error"] == "access_denied"
    assert_refused(alice.open_callback(callback), 409, "chat_denied")
    assert_refused(alice.open_callback(callback), 422, "invalid_state", field="state")


@pytest.mark.parametrize(
    ("answer", "status", "code", "field"),
    [
        ({"error": "server_error"}, 503, "provider_away", None),
        ({"error": "temporarily_unavailable", "code": "abc"}, 503, "provider_away", None),
        ({}, 422, "invalid_field", "code"),
        ({"code": "c" * 3000}, 422, "invalid_field", "code"),
        ({"code": "one that nobody gave"}, 503, "provider_away", None),
        ({"code": "line\r\nbreak&grant_type=password"}, 503, "provider_away", None),
    ],
)
def test_an_answer_without_a_good_code(
    chat_stack: ChatStack, answer: dict[str, str], status: int, code: str, field: str | None
) -> None:
    alice = chat_stack.browser()
    state = alice.begin().query["state"]
    assert_refused(alice.get(CALLBACK_PATH, {"state": state, **answer}), status, code, field=field)
    assert_refused(alice.get(CALLBACK_PATH, {"state": state, **answer}), 422, "invalid_state", field="state")
    assert not is_linked(chat_stack, alice)


# --- What a person sees ---


def test_a_browser_is_sent_on_to_our_page(chat_stack: ChatStack) -> None:
    stack, alice = chat_stack.stack, chat_stack.browser()
    callback = alice.consent(alice.begin().auth_url)
    reply = alice.open_callback(callback, accept=BROWSERS_ACCEPT)
    assert (reply.status, reply.headers["Location"], reply.body) == (303, "/chat-linked?outcome=waiting", b"")
    assert "Content-Type" not in reply.headers
    assert "is confirmed" in stack.get(reply.headers["Location"]).text
    again = alice.open_callback(callback, accept=BROWSERS_ACCEPT)
    assert (again.status, again.headers["Location"]) == (303, "/chat-linked?outcome=invalid_state")
    token = stack.user_token(stack.pending("alice"))
    linked = alice.open_callback(alice.consent(alice.begin(token=token).auth_url), accept=BROWSERS_ACCEPT)
    assert linked.headers["Location"] == "/chat-linked?outcome=linked"


def test_a_browser_is_sent_on_even_with_an_address_that_makes_no_sense(chat_stack: ChatStack) -> None:
    headers = {"Accept": BROWSERS_ACCEPT}
    for query in ("", "?state=a&state=b", "?state=%ff", "?error=<script>"):
        reply = chat_stack.stack.get(CALLBACK_PATH + query, headers=headers)
        assert reply.status == 303
        assert reply.headers["Location"].startswith("/chat-linked?outcome=")
        assert "script" not in reply.headers["Location"]
    posted = chat_stack.stack.post(CALLBACK_PATH, {}, headers=headers)
    assert_refused(posted, 405, "method_not_allowed")


def test_our_page_may_lie_below_a_path(make_stack: MakeStack, provider: OAuthServer) -> None:
    config = {"server": {"base_url": "https://play.example.org/companion/"}}
    below = make_chat_stack(make_stack, provider, config=config)
    reply = below.stack.get(CALLBACK_PATH, headers={"Accept": BROWSERS_ACCEPT})
    assert reply.headers["Location"] == "/companion/chat-linked?outcome=invalid_state"


# GET /api/chat/callback with `chat.guild_id` and `chat.role_ids`, which restrict who can link an account.


@pytest.fixture(scope="module")
def gated(make_stack: MakeStack, provider: OAuthServer) -> ChatStack:
    return make_chat_stack(make_stack, provider, chat={"guild_id": "900", "role_ids": ["701", "702"]})


def come_with(gated: ChatStack, guilds: dict[str, list[str]]) -> tuple[Browser, Reply]:
    alice = gated.browser(gated.person(guilds=guilds))
    return alice, alice.open_callback(alice.consent(alice.begin().auth_url))


def test_a_member_with_one_of_the_roles_is_let_in(gated: ChatStack) -> None:
    alice, reply = come_with(gated, {"900": ["1", "702"], "901": []})
    assert reply.status == 200
    assert gated.links(alice)


@pytest.mark.parametrize(
    ("guilds", "fault"),
    [
        ({}, "not_in_guild"),
        ({"901": ["701"]}, "not_in_guild"),
        ({"900": []}, "lacks_role"),
        ({"900": ["7012", "70"]}, "lacks_role"),
    ],
)
def test_everybody_else_is_told_what_lacks(gated: ChatStack, guilds: dict[str, list[str]], fault: str) -> None:
    alice, reply = come_with(gated, guilds)
    assert assert_refused(reply, 409, "chat_not_member")["fault"] == fault
    assert not gated.links(alice)


def test_without_roles_every_member_is_let_in(make_stack: MakeStack, provider: OAuthServer) -> None:
    open_guild = make_chat_stack(make_stack, provider, chat={"guild_id": "900"})
    _alice, reply = come_with(open_guild, {"900": []})
    assert reply.status == 200
    _bob, reply = come_with(open_guild, {})
    assert_refused(reply, 409, "chat_not_member")


# A chat platform that answers nonsense, or not at all: the reply says so, the state is used up, no link remains.


PATHS = ("/token", "/users/@me")
FAULTS = ("internal error", "garbage", "nothing")
"""One of each kind; all of them are in tests/registration/test_chat_provider.py."""


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def hasty(request: pytest.FixtureRequest, make_stack: MakeStack, provider: OAuthServer) -> ChatStack:
    """A chat stack whose daemon waits for the platform for a moment only."""
    return make_chat_stack(make_stack, provider, request.param, chat={"timeout": "2 s"})


def assert_nothing_stays(hasty: ChatStack, path: str, fault: Fault, *, with_unclaimed: bool = True) -> None:
    """The first attempt fails and uses up the state; the next one works, for an unclaimed link and for Alice's."""
    stack = hasty.stack
    token = stack.user_token(stack.pending("alice"))
    for begun_by in (None, token) if with_unclaimed else (token,):
        alice = hasty.browser()
        callback = alice.consent(alice.begin(token=begun_by).auth_url)
        with hasty.provider.fault(path, fault):
            assert_refused(alice.open_callback(callback), 503, "provider_away")
        assert_refused(alice.open_callback(callback), 422, "invalid_state", field="state")
        assert hasty.links(alice) == []
        assert hasty.count_requests() == 0
        alice.link(token=begun_by)
        assert len(hasty.links(alice)) == 1


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", FAULTS)
def test_a_bad_answer_leaves_nothing(hasty: ChatStack, path: str, name: str) -> None:
    assert_nothing_stays(hasty, path, ANYWHERE[name])


def test_silence_leaves_nothing(hasty: ChatStack) -> None:
    assert_nothing_stays(hasty, "/token", SILENCES["never a byte"](hasty.provider), with_unclaimed=False)


def test_answers_that_only_look_like_some_leave_nothing(hasty: ChatStack) -> None:
    assert_nothing_stays(hasty, "/token", TOKENS["a token with a line break"])
    assert_nothing_stays(hasty, "/users/@me", PROFILES["an id with a line break"])


def test_a_platform_that_hangs_holds_nobody_else_up(hasty: ChatStack) -> None:
    waiting = [hasty.browser() for _person in range(8)]
    callbacks = [browser.consent(browser.begin().auth_url) for browser in waiting]
    silence = SILENCES["never a byte"](hasty.provider)

    answered: list[int] = []

    def noted(call: Callable[[], Reply]) -> Reply:
        reply = call()
        answered.append(reply.status)
        return reply

    calls: list[Callable[[], Reply]] = [
        *(partial(browser.open_callback, url) for browser, url in zip(waiting, callbacks, strict=True)),
        partial(hasty.stack.get, "/api/config"),
    ]
    with hasty.provider.fault("/token", silence):
        replies = at_once([partial(noted, call) for call in calls])
    assert [reply.status for reply in replies] == [503] * len(waiting) + [200]
    assert answered[0] == 200, "it was answered before those who wait"
