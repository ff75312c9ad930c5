"""POST /api/login with a link token: an account that was linked before logging in becomes the user's."""

import pytest

from tests.support.chat_browser import Browser
from tests.support.chat_stack import ChatVillage
from tests.support.daemon import Reply
from tests.support.refusals import TRANSLATIONS, assert_refused
from tests.support.stack import Person, Village


def log_in(village: Village, person: Person, path: str = "/api/login", **fields: str) -> Reply:
    return village.post(path, {"username": person.name, "password": person.password, **fields})


def id_of(browser: Browser) -> str:
    assert browser.person is not None
    return browser.person.id


def test_the_link_becomes_the_users(chat_village: ChatVillage) -> None:
    village, alice = chat_village.village, chat_village.browser()
    person = village.approved("alice")
    reply = log_in(village, person, linkToken=alice.link(person.name))
    assert reply.status == 200
    assert reply.json["chat"]["linked"] is True
    assert reply.json["chat"]["user"]["id"] == id_of(alice)
    assert village.user(person)["chat"]["id"] == id_of(alice)
    [linked] = village.audits(person, "chat.linked")
    assert linked["operator"] == person.name


def test_the_header_counts_too_and_admins_may(chat_village: ChatVillage) -> None:
    village, olivia = chat_village.village, chat_village.browser()
    body = {"username": "Olivia", "password": "olivias-secret"}
    reply = village.post("/api/admin/login", body, headers={"X-Link-Token": olivia.link()})
    assert reply.json["chat"]["user"]["id"] == id_of(olivia)


def test_who_shows_nothing_is_told_nothing(chat_village: ChatVillage) -> None:
    village = chat_village.village
    assert "chat" not in log_in(village, village.pending("alice")).json


def test_no_cookie_claims_anything(chat_village: ChatVillage) -> None:
    """Somebody else's link may be in the browser that people share."""
    village, shared = chat_village.village, chat_village.browser()
    shared.link()
    person = village.pending("bob")
    reply = shared.post("/api/login", {"username": person.name, "password": person.password})
    assert "chat" not in reply.json
    assert village.user(person)["chat"] is None


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_link_that_is_dead_does_not_undo_the_login_but_is_told(chat_village: ChatVillage, language: str) -> None:
    village, person = chat_village.village, chat_village.village.pending("alice")
    token = chat_village.browser().link()
    chat_village.age_links(minutes=61)
    reply = log_in(village, person, linkToken=token, language=language)
    assert reply.status == 200
    assert reply.json["token"]
    assert reply.json["chat"] == {
        "linked": False,
        "code": "invalid_link_token",
        "message": TRANSLATIONS.text("refusal.invalid_link_token", language),
    }


def test_an_account_that_is_anothers_is_told(chat_village: ChatVillage) -> None:
    village, account = chat_village.village, chat_village.person()
    late = chat_village.browser(account).link()
    village.pending("alice", linkToken=chat_village.browser(account).link())
    bob = village.pending("bob")
    reply = log_in(village, bob, linkToken=late)
    assert (reply.status, reply.json["chat"]["code"]) == (200, "chat_account_taken")
    assert village.user(bob)["chat"] is None


def test_a_wrong_password_claims_nothing(chat_village: ChatVillage) -> None:
    village, alice = chat_village.village, chat_village.browser()
    person = village.approved("alice")
    token = alice.link()
    refused = village.post("/api/login", {"username": person.name, "password": "wrong", "linkToken": token})
    assert_refused(refused, 401, "bad_credentials")
    village.decides("ban", person)
    assert_refused(log_in(village, person, linkToken=token), 403, "banned")
    assert [link["user_id"] for link in chat_village.links(alice)] == [None]


def test_where_no_platform_is_set_the_token_is_told_to_be_useless(village: Village) -> None:
    reply = log_in(village, village.pending("alice"), linkToken="A" * 43)
    assert (reply.status, reply.json["chat"]["code"]) == (200, "not_enabled")
