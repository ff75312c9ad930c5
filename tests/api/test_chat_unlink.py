"""POST /api/chat/unlink: by a token, the password, a mailed code, or before anybody has claimed the link."""

from functools import partial

import pytest

from tests.support.authenticator import Authenticator
from tests.support.chat_browser import Browser
from tests.support.chat_stack import ChatStack, make_chat_stack
from tests.support.daemon import Reply
from tests.support.our_tables import our_database
from tests.support.peers.oauth_server import OAuthServer
from tests.support.refusals import TRANSLATIONS, assert_refused
from tests.support.stack import MakeStack, Person, Stack, find_code, has_code
from tests.support.together import at_once

PATH = "/api/chat/unlink"


@pytest.fixture(scope="module")
def stack(chat_stack: ChatStack) -> Stack:
    return chat_stack.stack


def linked_person(chat_stack: ChatStack, status: str = "pending") -> tuple[Person, Browser]:
    """A user with a chat account, and the browser of this person."""
    stack, browser = chat_stack.stack, chat_stack.browser()
    person = stack.approved("alice") if status == "approved" else stack.pending("alice")
    browser.link(person.name, stack.user_token(person))
    return person, browser


def unlink(stack: Stack, person: Person, token: str | None = None, **proof: str) -> Reply:
    return stack.post(PATH, {"username": person.name, **proof}, token=token)


def is_linked(stack: Stack, person: Person) -> bool:
    linked: bool = stack.get("/api/chat/status", {"username": person.name}).json["linked"]
    return linked


def unlink_code(stack: Stack, person: Person) -> str:
    """ScoringRequest for and read in the mail."""
    reply = stack.post("/api/verify/send", {"email": person.email, "purpose": "unlink"})
    assert reply.status == 200, reply.text
    letters = [letter for letter in stack.smtp.letters_to(person.email) if is_unlink_letter(letter.subject)]
    letter = stack.smtp.wait_for(
        person.email, len(letters) + 1, counts=lambda letter: has_code(letter) and is_unlink_letter(letter.subject)
    )
    return find_code(letter.text)


def is_unlink_letter(subject: str) -> bool:
    return "unlink" in subject


# --- Who may ---


def test_the_owner(chat_stack: ChatStack, stack: Stack) -> None:
    person, browser = linked_person(chat_stack)
    reply = unlink(stack, person, stack.user_token(person))
    assert reply.json == {"success": True, "message": TRANSLATIONS.text("message.chat_unlinked", "en")}
    assert not is_linked(stack, person)
    assert chat_stack.links(browser) == []
    [entry] = stack.audits(person, "chat.unlinked")
    assert browser.person is not None
    assert entry["operator"] == person.name
    assert entry["detail"] == {"platform": "discord", "account": browser.person.id}
    assert stack.user(person)["chat"] is None


def test_an_admin(chat_stack: ChatStack, stack: Stack) -> None:
    person, _browser = linked_person(chat_stack)
    assert unlink(stack, person, stack.olivia()).status == 200
    assert not is_linked(stack, person)
    [entry] = stack.audits(person, "chat.unlinked")
    assert (entry["operator"], entry["ip"]) == ("Olivia", "127.0.0.1")


def test_whoever_knows_the_password(chat_stack: ChatStack, stack: Stack) -> None:
    person, _browser = linked_person(chat_stack, "approved")
    assert_refused(unlink(stack, person, password="wrong"), 401, "bad_credentials")
    assert is_linked(stack, person)
    assert unlink(stack, person, password=person.password).status == 200
    assert not is_linked(stack, person)


def test_a_player_with_a_second_factor_shows_it_with_the_password(chat_stack: ChatStack) -> None:
    stack, app = chat_stack.stack, Authenticator()
    person, _browser = linked_person(chat_stack, "approved")
    assert stack.authme.set_totp(person.name, app.secret)
    assert_refused(unlink(stack, person, password=person.password), 401, "totp_required", field="totp")
    wrong = unlink(stack, person, password=person.password, totp=app.wrong_code())
    assert_refused(wrong, 401, "totp_required", field="totp")
    code = app.code()
    assert unlink(stack, person, password=person.password, totp=code).status == 200
    login = {"username": person.name, "password": person.password, "totp": code}
    assert_refused(stack.post("/api/login", login), 401, "totp_required", field="totp")


def test_whoever_reads_the_mail(chat_stack: ChatStack, stack: Stack) -> None:
    person, _browser = linked_person(chat_stack)
    code = unlink_code(stack, person)
    assert_refused(unlink(stack, person, code="000000"), 422, "invalid_code", field="code")
    assert is_linked(stack, person)
    assert unlink(stack, person, code=f" {code} ").status == 200
    assert not is_linked(stack, person)
    assert_refused(unlink(stack, person, code=code), 422, "invalid_code", field="code")


def test_a_proof_takes_the_place_of_the_code(chat_stack: ChatStack, stack: Stack) -> None:
    person, _browser = linked_person(chat_stack)
    checked = {"email": person.email, "code": unlink_code(stack, person), "purpose": "unlink"}
    proof = stack.post("/api/verify/check", checked).json["proof"]
    nobody = stack.newcomer("nobody")
    assert_refused(unlink(stack, nobody, proof=proof), 422, "invalid_code", field="proof")
    assert unlink(stack, person, proof=proof).status == 200
    assert not is_linked(stack, person)


def test_whoever_holds_a_link_that_nobody_has_claimed(chat_stack: ChatStack) -> None:
    stack, browser = chat_stack.stack, chat_stack.browser()
    token = browser.link("Alice")
    person = stack.newcomer("alice")
    assert unlink(stack, person, linkToken=token).status == 200
    assert chat_stack.links(browser) == []
    assert_refused(unlink(stack, person, linkToken=token), 422, "invalid_link_token", field="linkToken")


def test_nobody_else(chat_stack: ChatStack, stack: Stack) -> None:
    person, _browser = linked_person(chat_stack)
    bob = stack.user_token(stack.pending("bob"))
    assert_refused(unlink(stack, person), 401, "proof_required")
    assert_refused(unlink(stack, person, bob), 401, "proof_required")
    assert_refused(unlink(stack, person, "garbage"), 401, "unauthorized")
    assert_refused(unlink(stack, person, linkToken="A" * 43), 422, "invalid_link_token", field="linkToken")
    assert is_linked(stack, person)


def test_no_cookie_unlinks_anything(chat_stack: ChatStack) -> None:
    stack, alice = chat_stack.stack, chat_stack.browser()
    alice.link("Alice")
    assert_refused(alice.post(PATH, {"username": "Alice"}), 401, "proof_required")
    person, browser = linked_person(chat_stack)
    assert_refused(browser.post(PATH, {"username": person.name}), 401, "proof_required")
    assert len(chat_stack.links(alice)) == 1
    assert is_linked(stack, person)


# --- What may stand in the way ---


def test_nothing_is_linked(stack: Stack) -> None:
    """Neither for a user, nor for a name that only the game knows."""
    person, steve = stack.pending("alice"), stack.newcomer("steve")
    stack.authme.register(steve.name, steve.password)
    for token in (stack.user_token(person), stack.olivia()):
        assert_refused(unlink(stack, person, token), 409, "chat_not_linked")
    for known in (person, steve):
        assert_refused(unlink(stack, known, password=known.password), 409, "chat_not_linked")


def test_a_name_that_nobody_has(chat_stack: ChatStack) -> None:
    stack, nobody = chat_stack.stack, chat_stack.stack.newcomer("nobody")
    assert_refused(unlink(stack, nobody, stack.olivia()), 404, "user_not_found", field="username")
    assert_refused(unlink(stack, nobody, password="secret"), 401, "bad_credentials")
    assert_refused(unlink(stack, nobody, code="123456"), 422, "invalid_code", field="code")
    assert_refused(stack.post(PATH, {}), 422, "invalid_field", field="username")


def test_a_banned_user_keeps_it(chat_stack: ChatStack, stack: Stack) -> None:
    """Otherwise the same person could return under another name; an admin may unlink."""
    person, _browser = linked_person(chat_stack, "approved")
    code = unlink_code(stack, person)
    stack.decides("ban", person, reason="griefing")
    for proof in ({"password": person.password}, {"code": code}):
        payload = assert_refused(unlink(stack, person, **proof), 403, "banned")
        assert payload["reason"] == "griefing"
    assert is_linked(stack, person)
    assert unlink(stack, person, stack.olivia()).status == 200


def test_many_at_once_unlink_once(chat_stack: ChatStack, stack: Stack) -> None:
    person, _browser = linked_person(chat_stack)
    token = stack.user_token(person)
    replies = at_once([partial(unlink, stack, person, token)] * 6)
    assert sorted(reply.status for reply in replies) == [200] + [409] * 5
    assert len(stack.audits(person, "chat.unlinked")) == 1


def test_wrong_passwords_count_as_failed_logins(make_stack: MakeStack, provider: OAuthServer) -> None:
    strict = make_chat_stack(make_stack, provider, config={"auth": {"login_limits": ["3 per minute"]}})
    stack = strict.stack
    person = stack.pending("alice")
    for _try in range(2):
        assert_refused(unlink(stack, person, password="wrong"), 401, "bad_credentials")
    assert_refused(stack.login(person, "wrong"), 401, "bad_credentials")
    assert_refused(unlink(stack, person, password=person.password), 429, "rate_limited")


# --- The code ---


def test_a_code_is_bound_to_its_purpose_and_its_user(chat_stack: ChatStack, stack: Stack) -> None:
    person, _browser = linked_person(chat_stack)
    other, _others = linked_person(chat_stack)
    code = unlink_code(stack, other)
    assert_refused(unlink(stack, person, code=code), 422, "invalid_code", field="code")
    for_registering = stack.code_for(stack.newcomer("carl").email)
    assert_refused(unlink(stack, person, code=for_registering), 422, "invalid_code", field="code")
    assert is_linked(stack, person)


def test_the_mail_says_what_the_code_does(chat_stack: ChatStack, stack: Stack) -> None:
    person, _browser = linked_person(chat_stack)
    body = {"email": person.email.upper(), "purpose": "unlink", "language": "zh"}
    assert stack.post("/api/verify/send", body).status == 200
    letter = stack.smtp.wait_for(person.email, 1, counts=lambda letter: "解除" in letter.subject)
    assert person.name in letter.text
    assert has_code(letter)


def test_nobody_learns_who_has_something_to_unlink(chat_stack: ChatStack, stack: Stack) -> None:
    """The reply and the rows written are always the same; only linked users get a mail."""
    linked, _browser = linked_person(chat_stack)
    unlinked, newcomer = stack.pending("bob"), stack.newcomer("steve")
    answers = {
        stack.post("/api/verify/send", {"email": person.email, "purpose": "unlink"}).text
        for person in (linked, unlinked, newcomer)
    }
    assert len(answers) == 1
    stack.smtp.wait_for(linked.email, 1, counts=lambda letter: is_unlink_letter(letter.subject))
    for person in (unlinked, newcomer):
        letters = stack.smtp.letters_to(person.email)
        stack.post("/api/verify/send", {"email": person.email})
        stack.smtp.wait_for(person.email, len(letters) + 1)  # an address gets its mails in order
        assert not [letter for letter in stack.smtp.letters_to(person.email) if is_unlink_letter(letter.subject)]
        entries = our_database(stack).query(
            "SELECT template, outcome FROM regsvc_outbox WHERE recipient_key = ? AND template = 'unlink_code'",
            (person.email,),
        )
        assert entries == [{"template": "unlink_code", "outcome": "dropped"}]


# R3
def test_nor_does_what_is_left_of_the_mails_in_total(make_stack: MakeStack, provider: OAuthServer) -> None:
    """Six of nine mails are for networks that had some already."""
    limits = {"limits_total": ["9 per day"]}
    stack = make_chat_stack(make_stack, provider, config={"verification": limits}).stack

    def ask(client: str, purpose: str = "register") -> int:
        body = {"email": stack.newcomer("nobody").email, "purpose": purpose}
        return stack.post("/api/verify/send", body, headers={"X-Forwarded-For": client}).status

    assert [ask("192.0.2.1") for _mail in range(4)] + [ask("192.0.2.2")] == [200] * 5
    assert ask("192.0.2.2", "unlink") == 200
    assert ask("192.0.2.2") == 429, "as if the address had something to unlink"
