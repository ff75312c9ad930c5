"""POST /api/discord/unlink: `/api/chat/unlink` as older front ends call it."""

from tests.support.chat_stack import make_chat_village
from tests.support.oauth_server import OAuthServer
from tests.support.refusals import assert_refused
from tests.support.stack import MakeVillage, Village


def test_the_owners_token_and_the_name_are_enough(make_village: MakeVillage, provider: OAuthServer) -> None:
    old = make_chat_village(make_village, provider)
    village, alice = old.village, old.browser()
    person = village.pending("alice")
    token = village.user_token(person)
    alice.link(person.name, token)
    body = {"username": person.name, "language": "en"}
    assert_refused(village.post("/api/discord/unlink", body), 401, "proof_required")
    assert village.post("/api/discord/unlink", body, token=token).status == 200
    assert old.links(alice) == []


def test_it_refuses_where_no_platform_is_set(village: Village) -> None:
    assert_refused(village.post("/api/discord/unlink", {"username": "Alice"}), 409, "not_enabled")
