"""GET /api/discord/auth: `/api/chat/auth` as older front ends call it."""

from tests.support.chat_stack import ChatVillage, make_chat_village
from tests.support.oauth_server import OAuthServer
from tests.support.refusals import assert_refused
from tests.support.stack import MakeVillage, Village


def test_a_whole_registration_as_older_front_ends_do_it(make_village: MakeVillage, provider: OAuthServer) -> None:
    """They know the user's name and nothing of link tokens, and ask until `linked` and `user` are there."""
    config = {"http": {"legacy_status": True}}
    old: ChatVillage = make_chat_village(make_village, provider, chat={"required": True}, config=config)
    village, alice = old.village, old.browser()
    alice.name = "discord"
    person = village.newcomer("alice")
    body = {
        "username": person.name,
        "email": person.email,
        "code": village.code_for(person.email),
        "language": "en",
    }
    told = alice.post("/api/register", body).json
    assert (told["success"], told["discordRequired"]) == (False, True)
    begun = alice.begin(person.name)
    assert alice.status(person.name).json["linked"] is False
    assert alice.come_back(alice.consent(begun.auth_url), accept="text/html").status == 303
    told = alice.status(person.name).json
    assert told["linked"] is True
    assert told["user"]["username"] == "alice"
    told = alice.post("/api/register", body).json
    assert told["success"] is True, told


def test_it_refuses_where_no_platform_is_set(village: Village) -> None:
    assert_refused(village.get("/api/discord/auth"), 409, "not_enabled")
