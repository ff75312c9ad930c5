"""Linked chat accounts: who claims them, who may know of them, and how they are unlinked."""

from functools import partial

import pytest

from tests.support.authenticator import Authenticator
from tests.support.chat_browser import Browser
from tests.support.chat_stack import ChatStack, make_chat_stack
from tests.support.daemon import Reply
from tests.support.our_tables import our_database, tries_of
from tests.support.peers.oauth_server import OAuthServer
from tests.support.refusals import TRANSLATIONS, assert_refused, assert_refused_as_200
from tests.support.stack import NO_LIMIT, MakeStack, Person, Stack, find_code, has_code
from tests.support.together import at_once

# GET /api/chat/status: anyone may know that an account is linked; only the people concerned may know which.


STATUS = "/api/chat/status"
LINKED, NOT_LINKED = {"success": True, "linked": True}, {"success": True, "linked": False}


def user_of(browser: Browser) -> dict[str, object]:
    """Return the chat status of the browser's user."""
    assert browser.person is not None
    return {
        "id": browser.person.id,
        "username": "alice",
        "discriminator": "0",
        "avatar": None,
        "globalName": None,
    }


def linked_with_token(chat_stack: ChatStack, browser: Browser) -> tuple[Person, str]:
    """A user with the browser's account, and the access token."""
    person = chat_stack.stack.pending("alice")
    token = chat_stack.stack.user_token(person)
    browser.link(person.name, token)
    return person, token


def test_the_owner_and_an_admin_see_the_account(chat_stack: ChatStack) -> None:
    alice = chat_stack.browser()
    person, token = linked_with_token(chat_stack, alice)
    for shown_to in (token, chat_stack.stack.olivia()):
        reply = chat_stack.stack.get(STATUS, {"username": person.name.upper()}, token=shown_to)
        assert reply.json == {**LINKED, "user": user_of(alice)}


def test_others_learn_that_there_is_one(chat_stack: ChatStack) -> None:
    stack, alice = chat_stack.stack, chat_stack.browser()
    person, _token = linked_with_token(chat_stack, alice)
    bob = stack.user_token(stack.pending("bob"))
    mallory = chat_stack.browser()
    mallory.link()
    for reply in (
        stack.get(STATUS, {"username": person.name}),
        stack.get(STATUS, {"username": person.name}, token=bob),
        mallory.status(person.name),
    ):
        assert reply.json == LINKED


def test_the_status_says_that_nothing_is_linked(chat_stack: ChatStack) -> None:
    stack = chat_stack.stack
    person = stack.pending("alice")
    token = stack.user_token(person)
    assert stack.get(STATUS, {"username": person.name}, token=token).json == NOT_LINKED
    assert stack.get(STATUS, {"username": "Nobody_Of_That_Name"}).json == NOT_LINKED
    assert stack.get(STATUS, {"username": "x" * 5000}).json == NOT_LINKED


def test_before_registering_the_holder_of_the_token_sees_it(chat_stack: ChatStack) -> None:
    stack, alice = chat_stack.stack, chat_stack.browser()
    alice.begin()
    assert alice.status("Alice").json == NOT_LINKED
    token = alice.link("Alice")
    assert alice.status("Alice").json == {**LINKED, "user": user_of(alice)}
    shown = stack.get(STATUS, {"username": "Alice"}, headers={"X-Link-Token": token})
    assert shown.json == {**LINKED, "user": user_of(alice)}
    assert stack.get(STATUS, {"username": "Alice"}).json == NOT_LINKED


def test_after_registering_too(chat_stack: ChatStack) -> None:
    stack, alice = chat_stack.stack, chat_stack.browser()
    token = alice.link()
    person = stack.pending("alice", linkToken=token)
    assert alice.status(person.name).json == {**LINKED, "user": user_of(alice)}
    chat_stack.age_links(minutes=61)
    assert alice.status(person.name).json == LINKED, "a link token is good for an hour"


def test_junk_in_the_header_and_the_cookie_shows_nothing(chat_stack: ChatStack) -> None:
    stack, alice = chat_stack.stack, chat_stack.browser()
    token = alice.link()
    for junk in ("", token[:-1], f"{token}A", f"{token},{token}", "A" * 43, "%", "é" * 43):
        headers = {"X-Link-Token": junk.encode().decode("latin-1"), "Cookie": f"companion_link={junk}.."}
        headers["Cookie"] = headers["Cookie"].encode().decode("latin-1")
        if junk == f"{token},{token}":
            headers.pop("Cookie")
        assert stack.get(STATUS, {"username": "Alice"}, headers=headers).json == NOT_LINKED, junk


def test_where_no_platform_is_set_nothing_is_linked(stack: Stack) -> None:
    assert stack.get(STATUS, {"username": "Alice"}).json == NOT_LINKED
    assert_refused(stack.get("/api/chat/auth"), 409, "not_enabled")
    assert_refused(stack.get("/api/chat/callback", {"state": "a", "code": "b"}), 409, "not_enabled")
    assert_refused(stack.post("/api/chat/unlink", {"username": "Alice"}), 409, "not_enabled")
    body = {"email": "alice@example.org", "purpose": "unlink"}
    assert_refused(stack.post("/api/verify/send", body), 409, "not_enabled")


def test_it_refuses(chat_stack: ChatStack) -> None:
    stack = chat_stack.stack
    assert_refused(stack.get(STATUS), 422, "invalid_field", field="username")
    assert_refused(stack.get(STATUS, {"username": "Alice"}, token="garbage"), 401, "unauthorized")


def test_one_client_cannot_ask_without_end(make_stack: MakeStack, provider: OAuthServer) -> None:
    config = {"http": {"status_limit": ["2 per minute"]}}
    few = make_chat_stack(make_stack, provider, config=config).stack
    assert [few.get(STATUS, {"username": "Alice"}).status for _time in range(2)] == [200, 200]
    assert_refused(few.get(STATUS, {"username": "Alice"}), 429, "rate_limited")
    few.restart_with({"http": {"status_limit": NO_LIMIT, "legacy_status": True}})
    assert_refused_as_200(few.get(STATUS), "invalid_field")


# POST /api/register with an unclaimed chat account: claimed by the new user, and by no other, once.


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def strict(request: pytest.FixtureRequest, make_stack: MakeStack, provider: OAuthServer) -> ChatStack:
    """A chat stack that requires a chat account to register."""
    return make_chat_stack(make_stack, provider, request.param, chat={"required": True})


def test_the_config_tells(strict: ChatStack, stack: Stack) -> None:
    payload = strict.stack.get("/api/config").json["config"]
    assert payload["chat"] == payload["discord"] == {"enabled": True, "required": True, "platform": "discord"}
    payload = stack.get("/api/config").json["config"]
    assert payload["chat"] == payload["discord"] == {"enabled": False, "required": False, "platform": None}


def test_the_token_brings_the_account(strict: ChatStack) -> None:
    stack, alice = strict.stack, strict.browser()
    person = stack.newcomer("alice")
    token = alice.link(person.name)
    assert stack.register(person, linkToken=token).status == 201
    assert alice.person is not None
    assert stack.user(person)["chat"] == {"id": alice.person.id, "username": "alice"}
    [linked] = stack.audits(person, "chat.linked")
    assert (linked["operator"], linked["ip"]) == (person.name, "127.0.0.1")
    [link] = strict.links(alice)
    assert link["claimed_account"] == f"discord:{alice.person.id}"


def test_of_several_the_last_one_that_came_back_counts(strict: ChatStack) -> None:
    stack, alice = strict.stack, strict.browser()
    first = alice.person
    alice.link()
    alice.person = strict.person("other")
    alice.link()
    alice.begin()  # and one that never comes back
    person = stack.newcomer("alice")
    body = {"username": person.name, "email": person.email, "code": stack.code_for(person.email)}
    assert alice.post("/api/register", body).status == 201
    assert stack.user(person)["chat"]["username"] == "other"
    assert first is not None
    mallory = strict.browser(first)
    assert mallory.status(person.name).json == {"success": True, "linked": True}


# --- Required ---


def test_without_one_nobody_registers(strict: ChatStack) -> None:
    stack, person = strict.stack, strict.stack.newcomer("alice")
    payload = assert_refused(stack.register(person), 422, "chat_link_required", field="linkToken")
    assert payload["discordRequired"] is True
    assert tries_of(stack, person.email) == 0
    assert stack.status(person) is None


def test_a_token_that_is_none_is_none(strict: ChatStack) -> None:
    stack = strict.stack
    for token in ("", "x", "A" * 43, "A" * 5000, strict.browser().begin().link_token):
        reply = stack.register(stack.newcomer("alice"), code="000000", linkToken=token)
        assert_refused(reply, 422, "chat_link_required", field="linkToken")


def test_a_refused_registration_spends_no_link(strict: ChatStack) -> None:
    stack, token = strict.stack, strict.browser().link()
    person = stack.newcomer("alice")
    assert_refused(stack.register(person, linkToken=token, code="000000"), 422, "invalid_code", field="code")
    taken = stack.pending("bob", linkToken=strict.browser().link())
    reply = stack.register(person, linkToken=token, username=taken.name)
    assert_refused(reply, 409, "username_taken", field="username")
    assert stack.register(person, linkToken=token).status == 201


def test_mallory_registers_with_nothing_of_alices(strict: ChatStack) -> None:
    """Mallory knows Alice's name, and uses another browser."""
    stack, alice, mallory = strict.stack, strict.browser(), strict.browser()
    person = stack.newcomer("alice")
    alice.link(person.name)
    mallory.begin(person.name)
    body = {"username": person.name, "email": person.email, "code": stack.code_for(person.email)}
    assert_refused(mallory.post("/api/register", body), 422, "chat_link_required", field="linkToken")
    assert len(strict.links(alice)) == 1


# --- One account, one user ---


def test_an_account_that_was_claimed_meanwhile(strict: ChatStack) -> None:
    stack, account = strict.stack, strict.person()
    early, late = strict.browser(account).link(), strict.browser(account).link()
    stack.pending("alice", linkToken=early)
    bob = stack.newcomer("bob")
    assert_refused(stack.register(bob, linkToken=late), 409, "chat_account_taken")
    assert tries_of(stack, bob.email) == 0


# --- Welcome, not required ---


def test_where_it_is_not_required_it_is_taken_along(chat_stack: ChatStack) -> None:
    stack, alice = chat_stack.stack, chat_stack.browser()
    person = stack.pending("alice", linkToken=alice.link())
    assert stack.user(person)["chat"]["username"] == "alice"
    assert stack.user(stack.pending("bob"))["chat"] is None


def test_one_that_was_shown_and_is_dead_is_told(chat_stack: ChatStack) -> None:
    """A dead link token is refused: otherwise the player would believe that the account is linked."""
    stack, person = chat_stack.stack, chat_stack.stack.newcomer("alice")
    reply = stack.register(person, linkToken="A" * 43)
    assert_refused(reply, 422, "invalid_link_token", field="linkToken")
    assert stack.register(person).status == 201


def test_a_cookie_that_is_dead_bothers_nobody(chat_stack: ChatStack) -> None:
    stack, alice = chat_stack.stack, chat_stack.browser()
    alice.link()
    chat_stack.age_links(minutes=61)
    person = stack.newcomer("alice")
    body = {"username": person.name, "email": person.email, "code": stack.code_for(person.email)}
    assert alice.post("/api/register", body).status == 201


def test_where_no_platform_is_set_a_token_means_nothing(stack: Stack) -> None:
    assert stack.register(stack.newcomer("alice"), linkToken="A" * 43).status == 201


# POST /api/login with a link token: an account that was linked before logging in becomes the user's.


def log_in(stack: Stack, person: Person, path: str = "/api/login", **fields: str) -> Reply:
    return stack.post(path, {"username": person.name, "password": person.password, **fields})


def id_of(browser: Browser) -> str:
    assert browser.person is not None
    return browser.person.id


def test_the_link_becomes_the_users(chat_stack: ChatStack) -> None:
    stack, alice = chat_stack.stack, chat_stack.browser()
    person = stack.approved("alice")
    reply = log_in(stack, person, linkToken=alice.link(person.name))
    assert reply.status == 200
    assert reply.json["chat"]["linked"] is True
    assert reply.json["chat"]["user"]["id"] == id_of(alice)
    assert stack.user(person)["chat"]["id"] == id_of(alice)
    [linked] = stack.audits(person, "chat.linked")
    assert linked["operator"] == person.name


def test_the_header_counts_too_and_admins_may(chat_stack: ChatStack) -> None:
    stack, olivia = chat_stack.stack, chat_stack.browser()
    body = {"username": "Olivia", "password": "olivias-secret"}
    reply = stack.post("/api/admin/login", body, headers={"X-Link-Token": olivia.link()})
    assert reply.json["chat"]["user"]["id"] == id_of(olivia)


def test_who_shows_nothing_is_told_nothing(chat_stack: ChatStack) -> None:
    stack = chat_stack.stack
    assert "chat" not in log_in(stack, stack.pending("alice")).json


def test_no_cookie_claims_anything(chat_stack: ChatStack) -> None:
    """A shared browser may hold another person's link."""
    stack, shared = chat_stack.stack, chat_stack.browser()
    shared.link()
    person = stack.pending("bob")
    reply = shared.post("/api/login", {"username": person.name, "password": person.password})
    assert "chat" not in reply.json
    assert stack.user(person)["chat"] is None


def test_a_link_that_is_dead_does_not_undo_the_login_but_is_told(chat_stack: ChatStack) -> None:
    stack, person = chat_stack.stack, chat_stack.stack.pending("alice")
    token = chat_stack.browser().link()
    chat_stack.age_links(minutes=61)
    reply = log_in(stack, person, linkToken=token, language="zh")
    assert reply.status == 200
    assert reply.json["token"]
    message = TRANSLATIONS.text("refusal.invalid_link_token", "zh")
    assert reply.json["chat"] == {"linked": False, "code": "invalid_link_token", "message": message}


def test_an_account_that_is_anothers_is_told(chat_stack: ChatStack) -> None:
    stack, account = chat_stack.stack, chat_stack.person()
    late = chat_stack.browser(account).link()
    stack.pending("alice", linkToken=chat_stack.browser(account).link())
    bob = stack.pending("bob")
    reply = log_in(stack, bob, linkToken=late)
    assert (reply.status, reply.json["chat"]["code"]) == (200, "chat_account_taken")
    assert stack.user(bob)["chat"] is None


def test_a_wrong_password_claims_nothing(chat_stack: ChatStack) -> None:
    stack, alice = chat_stack.stack, chat_stack.browser()
    person = stack.approved("alice")
    token = alice.link()
    refused = stack.post("/api/login", {"username": person.name, "password": "wrong", "linkToken": token})
    assert_refused(refused, 401, "bad_credentials")
    stack.decides("ban", person)
    assert_refused(log_in(stack, person, linkToken=token), 403, "banned")
    assert [link["user_id"] for link in chat_stack.links(alice)] == [None]


def test_where_no_platform_is_set_the_token_is_told_to_be_useless(stack: Stack) -> None:
    reply = log_in(stack, stack.pending("alice"), linkToken="A" * 43)
    assert (reply.status, reply.json["chat"]["code"]) == (200, "not_enabled")


# POST /api/chat/unlink: by a token, the password, a mailed code, or before anybody has claimed the link.


UNLINK = "/api/chat/unlink"


@pytest.fixture(scope="module")
def linking(chat_stack: ChatStack) -> Stack:
    return chat_stack.stack


def linked_person(chat_stack: ChatStack, status: str = "pending") -> tuple[Person, Browser]:
    """A user with a chat account, and the browser of this person."""
    linking, browser = chat_stack.stack, chat_stack.browser()
    person = linking.approved("alice") if status == "approved" else linking.pending("alice")
    browser.link(person.name, linking.user_token(person))
    return person, browser


def unlink(linking: Stack, person: Person, token: str | None = None, **proof: str) -> Reply:
    return linking.post(UNLINK, {"username": person.name, **proof}, token=token)


def is_linked(linking: Stack, person: Person) -> bool:
    linked: bool = linking.get("/api/chat/status", {"username": person.name}).json["linked"]
    return linked


def unlink_code(linking: Stack, person: Person) -> str:
    """ScoringRequest for and read in the mail."""
    letters = [letter for letter in linking.smtp.letters_to(person.email) if is_unlink_letter(letter.subject)]
    reply = linking.post("/api/verify/send", {"email": person.email, "purpose": "unlink"})
    assert reply.status == 200, reply.text
    letter = linking.smtp.wait_for(
        person.email, len(letters) + 1, counts=lambda letter: has_code(letter) and is_unlink_letter(letter.subject)
    )
    return find_code(letter.text)


def is_unlink_letter(subject: str) -> bool:
    return "unlink" in subject


# --- Who may ---


def test_the_owner(chat_stack: ChatStack, linking: Stack) -> None:
    person, browser = linked_person(chat_stack)
    reply = unlink(linking, person, linking.user_token(person))
    assert reply.json == {"success": True, "message": TRANSLATIONS.text("message.chat_unlinked", "en")}
    assert not is_linked(linking, person)
    assert chat_stack.links(browser) == []
    [entry] = linking.audits(person, "chat.unlinked")
    assert browser.person is not None
    assert entry["operator"] == person.name
    assert entry["detail"] == {"platform": "discord", "account": browser.person.id}
    assert linking.user(person)["chat"] is None


def test_an_admin(chat_stack: ChatStack, linking: Stack) -> None:
    person, _browser = linked_person(chat_stack)
    assert unlink(linking, person, linking.olivia()).status == 200
    assert not is_linked(linking, person)
    [entry] = linking.audits(person, "chat.unlinked")
    assert (entry["operator"], entry["ip"]) == ("Olivia", "127.0.0.1")


def test_whoever_knows_the_password(chat_stack: ChatStack, linking: Stack) -> None:
    person, _browser = linked_person(chat_stack, "approved")
    assert_refused(unlink(linking, person, password="wrong"), 401, "bad_credentials")
    assert is_linked(linking, person)
    assert unlink(linking, person, password=person.password).status == 200
    assert not is_linked(linking, person)


def test_a_player_with_a_second_factor_shows_it_with_the_password(chat_stack: ChatStack) -> None:
    linking, app = chat_stack.stack, Authenticator()
    person, _browser = linked_person(chat_stack, "approved")
    assert linking.authme.set_totp(person.name, app.secret)
    assert_refused(unlink(linking, person, password=person.password), 401, "totp_required", field="totp")
    wrong = unlink(linking, person, password=person.password, totp=app.wrong_code())
    assert_refused(wrong, 401, "totp_required", field="totp")
    code = app.code()
    assert unlink(linking, person, password=person.password, totp=code).status == 200
    login = {"username": person.name, "password": person.password, "totp": code}
    assert_refused(linking.post("/api/login", login), 401, "totp_required", field="totp")


def test_whoever_reads_the_mail(chat_stack: ChatStack, linking: Stack) -> None:
    person, _browser = linked_person(chat_stack)
    code = unlink_code(linking, person)
    assert_refused(unlink(linking, person, code="000000"), 422, "invalid_code", field="code")
    assert is_linked(linking, person)
    assert unlink(linking, person, code=f" {code} ").status == 200
    assert not is_linked(linking, person)
    assert_refused(unlink(linking, person, code=code), 422, "invalid_code", field="code")


def test_a_proof_takes_the_place_of_the_code(chat_stack: ChatStack, linking: Stack) -> None:
    person, _browser = linked_person(chat_stack)
    checked = {"email": person.email, "code": unlink_code(linking, person), "purpose": "unlink"}
    proof = linking.post("/api/verify/check", checked).json["proof"]
    nobody = linking.newcomer("nobody")
    assert_refused(unlink(linking, nobody, proof=proof), 422, "invalid_code", field="proof")
    assert unlink(linking, person, proof=proof).status == 200
    assert not is_linked(linking, person)


def test_whoever_holds_a_link_that_nobody_has_claimed(chat_stack: ChatStack) -> None:
    linking, browser = chat_stack.stack, chat_stack.browser()
    token = browser.link("Alice")
    person = linking.newcomer("alice")
    assert unlink(linking, person, linkToken=token).status == 200
    assert chat_stack.links(browser) == []
    assert_refused(unlink(linking, person, linkToken=token), 422, "invalid_link_token", field="linkToken")


def test_nobody_else(chat_stack: ChatStack, linking: Stack) -> None:
    person, _browser = linked_person(chat_stack)
    bob = linking.user_token(linking.pending("bob"))
    assert_refused(unlink(linking, person), 401, "proof_required")
    assert_refused(unlink(linking, person, bob), 401, "proof_required")
    assert_refused(unlink(linking, person, "garbage"), 401, "unauthorized")
    assert_refused(unlink(linking, person, linkToken="A" * 43), 422, "invalid_link_token", field="linkToken")
    assert is_linked(linking, person)


def test_no_cookie_unlinks_anything(chat_stack: ChatStack) -> None:
    linking, alice = chat_stack.stack, chat_stack.browser()
    alice.link("Alice")
    assert_refused(alice.post(UNLINK, {"username": "Alice"}), 401, "proof_required")
    person, browser = linked_person(chat_stack)
    assert_refused(browser.post(UNLINK, {"username": person.name}), 401, "proof_required")
    assert len(chat_stack.links(alice)) == 1
    assert is_linked(linking, person)


# --- What may stand in the way ---


def test_nothing_is_linked_that_could_be_unlinked(linking: Stack) -> None:
    """Neither for a user, nor for a name that only the game knows."""
    person, steve = linking.pending("alice"), linking.newcomer("steve")
    linking.authme.register(steve.name, steve.password)
    for token in (linking.user_token(person), linking.olivia()):
        assert_refused(unlink(linking, person, token), 409, "chat_not_linked")
    for known in (person, steve):
        assert_refused(unlink(linking, known, password=known.password), 409, "chat_not_linked")


def test_a_name_that_nobody_has(chat_stack: ChatStack) -> None:
    linking, nobody = chat_stack.stack, chat_stack.stack.newcomer("nobody")
    assert_refused(unlink(linking, nobody, linking.olivia()), 404, "user_not_found", field="username")
    assert_refused(unlink(linking, nobody, password="secret"), 401, "bad_credentials")
    assert_refused(unlink(linking, nobody, code="123456"), 422, "invalid_code", field="code")
    assert_refused(linking.post(UNLINK, {}), 422, "invalid_field", field="username")


def test_a_banned_user_keeps_it(chat_stack: ChatStack, linking: Stack) -> None:
    """Otherwise the same person could return under another name; an admin may unlink."""
    person, _browser = linked_person(chat_stack, "approved")
    code = unlink_code(linking, person)
    linking.decides("ban", person, reason="griefing")
    for proof in ({"password": person.password}, {"code": code}):
        payload = assert_refused(unlink(linking, person, **proof), 403, "banned")
        assert payload["reason"] == "griefing"
    assert is_linked(linking, person)
    assert unlink(linking, person, linking.olivia()).status == 200


def test_many_at_once_unlink_once(chat_stack: ChatStack, linking: Stack) -> None:
    person, _browser = linked_person(chat_stack)
    token = linking.user_token(person)
    replies = at_once([partial(unlink, linking, person, token)] * 6)
    assert sorted(reply.status for reply in replies) == [200] + [409] * 5
    assert len(linking.audits(person, "chat.unlinked")) == 1


def test_wrong_passwords_count_as_failed_logins(make_stack: MakeStack, provider: OAuthServer) -> None:
    strict = make_chat_stack(make_stack, provider, config={"auth": {"login_limits": ["3 per minute"]}})
    linking = strict.stack
    person = linking.pending("alice")
    for _try in range(2):
        assert_refused(unlink(linking, person, password="wrong"), 401, "bad_credentials")
    assert_refused(linking.login(person, "wrong"), 401, "bad_credentials")
    assert_refused(unlink(linking, person, password=person.password), 429, "rate_limited")


# --- The code ---


def test_a_code_is_bound_to_its_purpose_and_its_user(chat_stack: ChatStack, linking: Stack) -> None:
    person, _browser = linked_person(chat_stack)
    other, _others = linked_person(chat_stack)
    code = unlink_code(linking, other)
    assert_refused(unlink(linking, person, code=code), 422, "invalid_code", field="code")
    for_registering = linking.code_for(linking.newcomer("carl").email)
    assert_refused(unlink(linking, person, code=for_registering), 422, "invalid_code", field="code")
    assert is_linked(linking, person)


def test_the_mail_says_what_the_code_does(chat_stack: ChatStack, linking: Stack) -> None:
    person, _browser = linked_person(chat_stack)
    body = {"email": person.email.upper(), "purpose": "unlink", "language": "zh"}
    assert linking.post("/api/verify/send", body).status == 200
    letter = linking.smtp.wait_for(person.email, 1, counts=lambda letter: "解除" in letter.subject)
    assert person.name in letter.text
    assert has_code(letter)


def test_nobody_learns_who_has_something_to_unlink(chat_stack: ChatStack, linking: Stack) -> None:
    """The reply and the rows written are always the same; only linked users get a mail."""
    linked, _browser = linked_person(chat_stack)
    unlinked, newcomer = linking.pending("bob"), linking.newcomer("steve")
    answers = {
        linking.post("/api/verify/send", {"email": person.email, "purpose": "unlink"}).text
        for person in (linked, unlinked, newcomer)
    }
    assert len(answers) == 1
    linking.smtp.wait_for(linked.email, 1, counts=lambda letter: is_unlink_letter(letter.subject))
    for person in (unlinked, newcomer):
        letters = linking.smtp.letters_to(person.email)
        linking.post("/api/verify/send", {"email": person.email})
        linking.smtp.wait_for(person.email, len(letters) + 1)  # an address gets its mails in order
        assert not [letter for letter in linking.smtp.letters_to(person.email) if is_unlink_letter(letter.subject)]
        entries = our_database(linking).query(
            "SELECT template, outcome FROM regsvc_outbox WHERE recipient_key = ? AND template = 'unlink_code'",
            (person.email,),
        )
        assert entries == [{"template": "unlink_code", "outcome": "dropped"}]


# R3
def test_nor_does_what_is_left_of_the_mails_in_total(make_stack: MakeStack, provider: OAuthServer) -> None:
    """Six of nine mails are for networks that had some already."""
    limits = {"limits_total": ["9 per day"]}
    linking = make_chat_stack(make_stack, provider, config={"verification": limits}).stack

    def ask(client: str, purpose: str = "register") -> int:
        body = {"email": linking.newcomer("nobody").email, "purpose": purpose}
        return linking.post("/api/verify/send", body, headers={"X-Forwarded-For": client}).status

    assert [ask("192.0.2.1") for _mail in range(4)] + [ask("192.0.2.2")] == [200] * 5
    assert ask("192.0.2.2", "unlink") == 200
    assert ask("192.0.2.2") == 429, "as if the address had something to unlink"
