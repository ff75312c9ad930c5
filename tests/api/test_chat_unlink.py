"""POST /api/chat/unlink: by a token, the password, a mailed code, or before anybody has claimed the link."""

import json
from functools import partial

import pytest

from tests.support.authenticator import Authenticator
from tests.support.chat_browser import Browser
from tests.support.chat_stack import ChatVillage, make_chat_village
from tests.support.daemon import Reply
from tests.support.oauth_server import OAuthServer
from tests.support.our_tables import ago, our_database
from tests.support.refusals import TRANSLATIONS, assert_refused, assert_refused_as_200
from tests.support.stack import MakeVillage, Person, Village, find_code, has_code
from tests.support.together import at_once

PATH = "/api/chat/unlink"


def linked_person(chat_village: ChatVillage, status: str = "pending") -> tuple[Person, Browser]:
    """A user with a chat account, and the browser of this person."""
    village, browser = chat_village.village, chat_village.browser()
    person = village.approved("alice") if status == "approved" else village.pending("alice")
    browser.link(person.name, village.user_token(person))
    return person, browser


def unlink(village: Village, person: Person, token: str | None = None, **proof: str) -> Reply:
    return village.post(PATH, {"username": person.name, **proof}, token=token)


def is_linked(village: Village, person: Person) -> bool:
    linked: bool = village.get("/api/chat/status", {"username": person.name}).json["linked"]
    return linked


def unlink_code(village: Village, person: Person) -> str:
    """Asked for and read in the mail."""
    reply = village.post("/api/verify/send", {"email": person.email, "purpose": "unlink"})
    assert reply.status == 200, reply.text
    letters = [letter for letter in village.smtp.letters_to(person.email) if is_unlink_letter(letter.subject)]
    letter = village.smtp.wait_for(
        person.email, len(letters) + 1, counts=lambda letter: has_code(letter) and is_unlink_letter(letter.subject)
    )
    return find_code(letter.text)


def is_unlink_letter(subject: str) -> bool:
    return "unlink" in subject


# --- Who may ---


def test_the_owner(chat_village: ChatVillage) -> None:
    village = chat_village.village
    person, browser = linked_person(chat_village)
    reply = unlink(village, person, village.user_token(person))
    assert reply.json == {"success": True, "message": TRANSLATIONS.text("message.chat_unlinked", "en")}
    assert not is_linked(village, person)
    assert chat_village.links(browser) == []
    [entry] = village.audits(person, "chat.unlinked")
    assert browser.person is not None
    assert entry["operator"] == person.name
    assert entry["detail"] == {"platform": "discord", "account": browser.person.id}
    assert village.user(person)["chat"] is None


def test_an_admin(chat_village: ChatVillage) -> None:
    village = chat_village.village
    person, _browser = linked_person(chat_village)
    assert unlink(village, person, village.olivia()).status == 200
    assert not is_linked(village, person)
    [entry] = village.audits(person, "chat.unlinked")
    assert (entry["operator"], entry["ip"]) == ("Olivia", "127.0.0.1")


def test_whoever_knows_the_password(chat_village: ChatVillage) -> None:
    village = chat_village.village
    person, _browser = linked_person(chat_village, "approved")
    assert_refused(unlink(village, person, password="wrong"), 401, "bad_credentials")
    assert is_linked(village, person)
    assert unlink(village, person, password=person.password).status == 200
    assert not is_linked(village, person)


def test_a_player_with_a_second_factor_shows_it_with_the_password(chat_village: ChatVillage) -> None:
    village, app = chat_village.village, Authenticator()
    person, _browser = linked_person(chat_village, "approved")
    assert village.authme.set_totp(person.name, app.secret)
    assert_refused(unlink(village, person, password=person.password), 401, "totp_required", field="totp")
    wrong = unlink(village, person, password=person.password, totp=app.wrong_code())
    assert_refused(wrong, 401, "totp_required", field="totp")
    code = app.code()
    assert unlink(village, person, password=person.password, totp=code).status == 200
    login = {"username": person.name, "password": person.password, "totp": code}
    assert_refused(village.post("/api/login", login), 401, "totp_required", field="totp")


def test_whoever_reads_the_mail(chat_village: ChatVillage) -> None:
    village = chat_village.village
    person, _browser = linked_person(chat_village)
    code = unlink_code(village, person)
    assert_refused(unlink(village, person, code="000000"), 422, "invalid_code", field="code")
    assert is_linked(village, person)
    assert unlink(village, person, code=f" {code} ").status == 200
    assert not is_linked(village, person)
    assert_refused(unlink(village, person, code=code), 422, "invalid_code", field="code")


def test_whoever_holds_a_link_that_nobody_has_claimed(chat_village: ChatVillage) -> None:
    village, browser = chat_village.village, chat_village.browser()
    token = browser.link("Alice")
    person = village.newcomer("alice")
    assert unlink(village, person, linkToken=token).status == 200
    assert chat_village.links(browser) == []
    assert_refused(unlink(village, person, linkToken=token), 422, "invalid_link_token", field="linkToken")


def test_the_token_of_a_claimed_link_proves_nothing_any_more(chat_village: ChatVillage) -> None:
    village, browser = chat_village.village, chat_village.browser()
    token = browser.link()
    person = village.pending("alice", linkToken=token)
    assert_refused(unlink(village, person, linkToken=token), 422, "invalid_link_token", field="linkToken")
    assert is_linked(village, person)


def test_nobody_else(chat_village: ChatVillage) -> None:
    village = chat_village.village
    person, _browser = linked_person(chat_village)
    bob = village.user_token(village.pending("bob"))
    assert_refused(unlink(village, person), 401, "proof_required")
    assert_refused(unlink(village, person, bob), 401, "proof_required")
    assert_refused(unlink(village, person, "garbage"), 401, "unauthorized")
    assert_refused(unlink(village, person, linkToken="A" * 43), 422, "invalid_link_token", field="linkToken")
    assert is_linked(village, person)


def test_no_cookie_unlinks_anything(chat_village: ChatVillage) -> None:
    village, alice = chat_village.village, chat_village.browser()
    alice.link("Alice")
    assert_refused(alice.post(PATH, {"username": "Alice"}), 401, "proof_required")
    person, browser = linked_person(chat_village)
    assert_refused(browser.post(PATH, {"username": person.name}), 401, "proof_required")
    assert len(chat_village.links(alice)) == 1
    assert is_linked(village, person)


# --- What may stand in the way ---


def test_nothing_is_linked(chat_village: ChatVillage) -> None:
    village = chat_village.village
    person = village.pending("alice")
    assert_refused(unlink(village, person, village.user_token(person)), 409, "chat_not_linked")
    assert_refused(unlink(village, person, village.olivia()), 409, "chat_not_linked")
    assert_refused(unlink(village, person, password=person.password), 409, "chat_not_linked")


def test_a_name_that_only_the_game_knows(chat_village: ChatVillage) -> None:
    village = chat_village.village
    stranger = village.newcomer("steve")
    village.authme.register(stranger.name, stranger.password)
    assert_refused(unlink(village, stranger, password=stranger.password), 409, "chat_not_linked")


def test_a_name_that_nobody_has(chat_village: ChatVillage) -> None:
    village, nobody = chat_village.village, chat_village.village.newcomer("nobody")
    assert_refused(unlink(village, nobody, village.olivia()), 404, "user_not_found", field="username")
    assert_refused(unlink(village, nobody, password="secret"), 401, "bad_credentials")
    assert_refused(unlink(village, nobody, code="123456"), 422, "invalid_code", field="code")
    assert_refused(village.post(PATH, {}), 422, "invalid_field", field="username")


def test_a_banned_user_keeps_it(chat_village: ChatVillage) -> None:
    """Else the same person would come back under another name; an admin may."""
    village = chat_village.village
    person, _browser = linked_person(chat_village, "approved")
    code = unlink_code(village, person)
    village.decides("ban", person, reason="griefing")
    for proof in ({"password": person.password}, {"code": code}):
        told = assert_refused(unlink(village, person, **proof), 403, "banned")
        assert told["reason"] == "griefing"
    assert is_linked(village, person)
    assert unlink(village, person, village.olivia()).status == 200


def test_many_at_once_unlink_once(chat_village: ChatVillage) -> None:
    village = chat_village.village
    person, _browser = linked_person(chat_village)
    token = village.user_token(person)
    replies = at_once([partial(unlink, village, person, token)] * 6)
    assert sorted(reply.status for reply in replies) == [200] + [409] * 5
    assert len(village.audits(person, "chat.unlinked")) == 1


def test_one_code_is_good_once_at_once(chat_village: ChatVillage) -> None:
    village = chat_village.village
    person, _browser = linked_person(chat_village)
    code = unlink_code(village, person)
    replies = at_once([partial(unlink, village, person, code=code)] * 4)
    assert sorted(reply.status for reply in replies) == [200, 422, 422, 422]


def test_wrong_passwords_count_as_failed_logins(make_village: MakeVillage, provider: OAuthServer) -> None:
    strict = make_chat_village(make_village, provider, config={"auth": {"login_limits": ["3 per minute"]}})
    village = strict.village
    person = village.pending("alice")
    for _try in range(2):
        assert_refused(unlink(village, person, password="wrong"), 401, "bad_credentials")
    assert_refused(village.login(person, "wrong"), 401, "bad_credentials")
    assert_refused(unlink(village, person, password=person.password), 429, "rate_limited")


# --- The code ---


def test_a_code_is_bound_to_its_purpose_and_its_user(chat_village: ChatVillage) -> None:
    village = chat_village.village
    person, _browser = linked_person(chat_village)
    other, _others = linked_person(chat_village)
    code = unlink_code(village, other)
    assert_refused(unlink(village, person, code=code), 422, "invalid_code", field="code")
    for_registering = village.code_for(village.newcomer("carl").email)
    assert_refused(unlink(village, person, code=for_registering), 422, "invalid_code", field="code")
    assert is_linked(village, person)


def test_a_code_has_five_tries(chat_village: ChatVillage) -> None:
    village = chat_village.village
    person, _browser = linked_person(chat_village)
    code = unlink_code(village, person)
    for _try in range(5):
        assert_refused(unlink(village, person, code="x"), 422, "invalid_code", field="code")
    assert_refused(unlink(village, person, code=code), 422, "invalid_code", field="code")
    assert is_linked(village, person)


def test_a_code_dies(chat_village: ChatVillage) -> None:
    village = chat_village.village
    person, _browser = linked_person(chat_village)
    code = unlink_code(village, person)
    aged = "UPDATE regsvc_verification SET created_at = ? WHERE email_key = ? AND purpose = 'unlink'"
    our_database(village).execute(aged, (ago(minutes=16), person.email))
    assert_refused(unlink(village, person, code=code), 422, "invalid_code", field="code")


def test_the_mail_says_what_the_code_does(chat_village: ChatVillage) -> None:
    village = chat_village.village
    person, _browser = linked_person(chat_village)
    body = {"email": person.email.upper(), "purpose": "unlink", "language": "zh"}
    assert village.post("/api/verify/send", body).status == 200
    letter = village.smtp.wait_for(person.email, 1, counts=lambda letter: "解除" in letter.subject)
    assert person.name in letter.text
    assert has_code(letter)


def test_nobody_learns_who_has_something_to_unlink(chat_village: ChatVillage) -> None:
    """The answer is the same, and so is what is written; only who has something gets a mail."""
    village = chat_village.village
    linked, _browser = linked_person(chat_village)
    unlinked, stranger = village.pending("bob"), village.newcomer("steve")
    answers = {
        village.post("/api/verify/send", {"email": person.email, "purpose": "unlink"}).text
        for person in (linked, unlinked, stranger)
    }
    assert len(answers) == 1
    village.smtp.wait_for(linked.email, 1, counts=lambda letter: is_unlink_letter(letter.subject))
    for person in (unlinked, stranger):
        letters = village.smtp.letters_to(person.email)
        village.post("/api/verify/send", {"email": person.email})
        village.smtp.wait_for(person.email, len(letters) + 1)  # an address gets its mails in order
        assert not [letter for letter in village.smtp.letters_to(person.email) if is_unlink_letter(letter.subject)]
        entries = our_database(village).query(
            "SELECT template, outcome FROM regsvc_outbox WHERE recipient_key = ? AND template = 'unlink_code'",
            (person.email,),
        )
        assert entries == [{"template": "unlink_code", "outcome": "dropped"}]


# --- Front ends of old, and a host without chat ---


def test_it_refuses_where_no_platform_is_set(village: Village) -> None:
    assert_refused(village.post(PATH, {"username": "Alice"}), 409, "not_enabled")
    body = {"email": "alice@example.org", "purpose": "unlink"}
    assert_refused(village.post("/api/verify/send", body), 409, "not_enabled")


def test_legacy_front_ends_are_not_logged_out(make_village: MakeVillage, provider: OAuthServer) -> None:
    legacy = make_chat_village(make_village, provider, config={"http": {"legacy_status": True}})
    village = legacy.village
    person, _browser = linked_person(legacy, "approved")
    nobody = village.newcomer("nobody")
    assert_refused_as_200(unlink(village, person), "proof_required")
    assert_refused_as_200(unlink(village, person, password="wrong"), "bad_credentials")
    assert_refused_as_200(unlink(village, person, code="1"), "invalid_code")
    assert_refused_as_200(unlink(village, person, linkToken="1"), "invalid_link_token")
    assert_refused_as_200(unlink(village, nobody, village.olivia()), "user_not_found")
    village.decides("ban", person)
    assert_refused_as_200(unlink(village, person, password=person.password), "banned")
    assert unlink(village, person, "garbage").status == 401, "a token that is bad is no matter of business"


@pytest.mark.parametrize("field", ["password", "code", "linkToken", "totp"])
def test_a_proof_of_the_wrong_type(chat_village: ChatVillage, field: str) -> None:
    reply = chat_village.village.post(PATH, json.loads(f'{{"username": "Alice", "{field}": 1}}'))
    assert_refused(reply, 422, "invalid_field", field=field)
