"""GET /api/discord/status: `/api/chat/status` as older front ends call it."""

from tests.support.chat_stack import make_chat_village
from tests.support.oauth_server import OAuthServer
from tests.support.refusals import assert_refused
from tests.support.stack import MakeVillage, Village


def test_the_owner_sees_the_account(make_village: MakeVillage, provider: OAuthServer) -> None:
    old = make_chat_village(make_village, provider)
    village, alice = old.village, old.browser()
    alice.name = "discord"
    person = village.pending("alice")
    token = village.user_token(person)
    alice.link(person.name, token)
    told = village.get("/api/discord/status", {"username": person.name}, token=token).json
    assert (told["linked"], told["user"]["username"]) == (True, "alice")
    assert village.get("/api/discord/status", {"username": person.name}).json == {"success": True, "linked": True}


def test_it_wants_a_name(village: Village) -> None:
    assert village.get("/api/discord/status", {"username": "Alice"}).json == {"success": True, "linked": False}
    assert_refused(village.get("/api/discord/status"), 422, "invalid_field", field="username")
