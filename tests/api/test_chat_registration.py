"""POST /api/register with a chat account that was linked before: claimed with the user, by nobody else, once."""

from functools import partial

import pytest

from tests.support.chat_stack import ChatVillage, make_chat_village
from tests.support.oauth_server import OAuthServer
from tests.support.our_tables import tries_of
from tests.support.refusals import assert_refused, assert_refused_as_200
from tests.support.stack import MakeVillage, Village
from tests.support.together import at_once


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def strict(request: pytest.FixtureRequest, make_village: MakeVillage, provider: OAuthServer) -> ChatVillage:
    """A chat village where nobody registers without a chat account."""
    return make_chat_village(make_village, provider, request.param, chat={"required": True})


def test_the_config_tells(strict: ChatVillage, village: Village) -> None:
    told = strict.village.get("/api/config").json["config"]
    assert told["chat"] == told["discord"] == {"enabled": True, "required": True, "platform": "discord"}
    told = village.get("/api/config").json["config"]
    assert told["chat"] == told["discord"] == {"enabled": False, "required": False, "platform": None}


def test_the_token_brings_the_account(strict: ChatVillage) -> None:
    village, alice = strict.village, strict.browser()
    person = village.newcomer("alice")
    token = alice.link(person.name)
    assert village.register(person, linkToken=token).status == 201
    assert alice.person is not None
    assert village.user(person)["chat"] == {"id": alice.person.id, "username": "alice"}
    [linked] = village.audits(person, "chat.linked")
    assert (linked["operator"], linked["ip"]) == (person.name, "127.0.0.1")
    [link] = strict.links(alice)
    assert link["claimed_account"] == f"discord:{alice.person.id}"


def test_the_browsers_cookie_brings_it_too(strict: ChatVillage) -> None:
    village, alice = strict.village, strict.browser()
    person = village.newcomer("alice")
    alice.link(person.name)
    body = {"username": person.name, "email": person.email, "code": village.code_for(person.email)}
    assert alice.post("/api/register", body).status == 201
    assert alice.status(person.name).json["user"]["username"] == "alice"


def test_of_several_the_last_one_that_came_back_counts(strict: ChatVillage) -> None:
    village, alice = strict.village, strict.browser()
    first = alice.person
    alice.link()
    alice.person = strict.person("other")
    alice.link()
    alice.begin()  # and one that never comes back
    person = village.newcomer("alice")
    body = {"username": person.name, "email": person.email, "code": village.code_for(person.email)}
    assert alice.post("/api/register", body).status == 201
    assert village.user(person)["chat"]["username"] == "other"
    assert first is not None
    mallory = strict.browser(first)
    assert mallory.status(person.name).json == {"success": True, "linked": True}


# --- Required ---


def test_without_one_nobody_registers(strict: ChatVillage) -> None:
    village, person = strict.village, strict.village.newcomer("alice")
    told = assert_refused(village.register(person), 422, "chat_link_required", field="linkToken")
    assert told["discordRequired"] is True
    assert tries_of(village, person.email) == 0
    assert village.status(person) is None


@pytest.mark.parametrize("token", ["", "x", "A" * 43, "A" * 5000])
def test_a_token_that_is_none_is_none(strict: ChatVillage, token: str) -> None:
    village = strict.village
    reply = village.register(village.newcomer("alice"), linkToken=token)
    assert_refused(reply, 422, "chat_link_required", field="linkToken")


def test_one_that_was_only_begun_is_none(strict: ChatVillage) -> None:
    village = strict.village
    reply = village.register(village.newcomer("alice"), linkToken=strict.browser().begin().link_token)
    assert_refused(reply, 422, "chat_link_required", field="linkToken")


def test_an_unclaimed_link_dies_after_an_hour(strict: ChatVillage) -> None:
    village, alice = strict.village, strict.browser()
    token = alice.link()
    strict.age_links(minutes=61)
    reply = village.register(village.newcomer("alice"), linkToken=token)
    assert_refused(reply, 422, "chat_link_required", field="linkToken")
    token = alice.link()
    strict.age_links(minutes=59)
    assert village.register(village.newcomer("alice"), linkToken=token).status == 201


def test_a_token_is_good_once(strict: ChatVillage) -> None:
    village, token = strict.village, strict.browser().link()
    assert village.register(village.newcomer("alice"), linkToken=token).status == 201
    reply = village.register(village.newcomer("bob"), linkToken=token)
    assert_refused(reply, 422, "chat_link_required", field="linkToken")


def test_a_refused_registration_spends_no_link(strict: ChatVillage) -> None:
    village, token = strict.village, strict.browser().link()
    person = village.newcomer("alice")
    assert_refused(village.register(person, linkToken=token, code="000000"), 422, "invalid_code", field="code")
    taken = village.pending("bob", linkToken=strict.browser().link())
    reply = village.register(person, linkToken=token, username=taken.name)
    assert_refused(reply, 409, "username_taken", field="username")
    assert village.register(person, linkToken=token).status == 201


def test_mallory_registers_with_nothing_of_alices(strict: ChatVillage) -> None:
    """She knows Alice's name, and has a browser of her own."""
    village, alice, mallory = strict.village, strict.browser(), strict.browser()
    person = village.newcomer("alice")
    alice.link(person.name)
    mallory.begin(person.name)
    body = {"username": person.name, "email": person.email, "code": village.code_for(person.email)}
    assert_refused(mallory.post("/api/register", body), 422, "chat_link_required", field="linkToken")
    assert len(strict.links(alice)) == 1


# --- One account, one user ---


def test_two_registrations_race_for_one_account(strict: ChatVillage) -> None:
    """Two links of the same account may wait side by side; one user gets it."""
    village = strict.village
    for _round in range(5):
        account = strict.person()
        tokens = [strict.browser(account).link() for _browser in range(2)]
        people = [village.newcomer(name) for name in ("alice", "bob")]
        codes = [village.code_for(person.email) for person in people]
        calls = [
            partial(village.register, person, code=code, linkToken=token)
            for person, code, token in zip(people, codes, tokens, strict=True)
        ]
        replies = at_once(calls)
        assert sorted(reply.status for reply in replies) == [201, 409]
        [(loser, reply)] = [pair for pair in zip(people, replies, strict=True) if pair[1].status == 409]
        assert_refused(reply, 409, "chat_account_taken")
        assert village.status(loser) is None


def test_two_registrations_race_with_one_token(strict: ChatVillage) -> None:
    village = strict.village
    for _round in range(5):
        token = strict.browser().link()
        people = [village.newcomer(name) for name in ("alice", "bob")]
        calls = [
            partial(village.register, person, code=village.code_for(person.email), linkToken=token) for person in people
        ]
        replies = at_once(calls)
        [loser] = [reply for reply in replies if reply.status != 201]
        if loser.status == 409:  # it saw the token before the winner had spent it, and the account after
            assert_refused(loser, 409, "chat_account_taken")
        else:
            assert_refused(loser, 422, "chat_link_required", field="linkToken")


def test_an_account_that_was_claimed_meanwhile(strict: ChatVillage) -> None:
    village, account = strict.village, strict.person()
    early, late = strict.browser(account).link(), strict.browser(account).link()
    village.pending("alice", linkToken=early)
    bob = village.newcomer("bob")
    assert_refused(village.register(bob, linkToken=late), 409, "chat_account_taken")
    assert tries_of(village, bob.email) == 0


def test_after_a_rejection_the_same_person_comes_under_another_name(strict: ChatVillage) -> None:
    village, alice = strict.village, strict.browser()
    rejected = village.pending("bad", linkToken=alice.link())
    village.decides("reject", rejected)
    person = village.newcomer("good")
    reply = village.register(
        person, linkToken=alice.link(), email=rejected.email, code=village.code_for(rejected.email)
    )
    assert reply.status == 201
    assert village.user(person)["chat"] is not None
    assert village.user(rejected)["chat"] is None


def test_a_ban_cannot_be_evaded_with_the_same_account(strict: ChatVillage) -> None:
    village, eve = strict.village, strict.browser()
    late = strict.browser(eve.person).link()
    banned = village.pending("eve", linkToken=eve.link())
    village.decides("ban", banned)
    assert_refused(village.register(village.newcomer("eve"), linkToken=late), 409, "chat_account_taken")


# --- Welcome, not required ---


def test_where_it_is_not_required_it_is_taken_along(chat_village: ChatVillage) -> None:
    village, alice = chat_village.village, chat_village.browser()
    person = village.pending("alice", linkToken=alice.link())
    assert village.user(person)["chat"]["username"] == "alice"
    assert village.user(village.pending("bob"))["chat"] is None


def test_one_that_was_shown_and_is_dead_is_told(chat_village: ChatVillage) -> None:
    """A player who believes that his account is linked must not learn otherwise from somebody else."""
    village, person = chat_village.village, chat_village.village.newcomer("alice")
    reply = village.register(person, linkToken="A" * 43)
    assert_refused(reply, 422, "invalid_link_token", field="linkToken")
    assert village.register(person).status == 201


def test_a_cookie_that_is_dead_bothers_nobody(chat_village: ChatVillage) -> None:
    village, alice = chat_village.village, chat_village.browser()
    alice.link()
    chat_village.age_links(minutes=61)
    person = village.newcomer("alice")
    body = {"username": person.name, "email": person.email, "code": village.code_for(person.email)}
    assert alice.post("/api/register", body).status == 201


def test_where_no_platform_is_set_a_token_means_nothing(village: Village) -> None:
    assert village.register(village.newcomer("alice"), linkToken="A" * 43).status == 201


def test_legacy_front_ends_know_what_is_asked_for(make_village: MakeVillage, provider: OAuthServer) -> None:
    config = {"http": {"legacy_status": True}}
    legacy = make_chat_village(make_village, provider, chat={"required": True}, config=config)
    reply = legacy.village.register(legacy.village.newcomer("alice"))
    assert assert_refused_as_200(reply, "chat_link_required")["discordRequired"] is True
