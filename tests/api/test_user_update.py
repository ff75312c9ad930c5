"""POST /api/user/update: a new e-mail address, proven by a code and confirmed by the password."""

import pytest

from tests.support.authme.authme_tables import find_player
from tests.support.crash.brief_outage import file_busy
from tests.support.daemon import Reply
from tests.support.operators import Operators
from tests.support.our_tables import everything_kept, our_database
from tests.support.peers.smtp import Letter
from tests.support.questions import proof_for
from tests.support.refusals import TRANSLATIONS, assert_refused
from tests.support.stack import MakeStack, Person, Stack, find_code, find_link_token, has_code
from tests.support.together import at_once

PATH = "/api/user/update"


def ask_for_code(stack: Stack, email: str, **fields: object) -> str:
    """As the front end does before it changes the address; comes back with the code in the mail."""
    letters = sum(map(has_code, stack.smtp.letters_to(email)))
    reply = stack.post("/api/verify/send", {"email": email, "purpose": "change_email", **fields})
    assert reply.status == 200, reply.text
    return find_code(stack.smtp.wait_for(email, letters + 1, counts=has_code).text)


def update(stack: Stack, token: str | None, person: Person, email: str, code: str, **fields: object) -> Reply:
    body = {"email": email, "code": code, "currentPassword": person.password, **fields}
    return stack.post(PATH, body, token=token)


def ready(stack: Stack, person: Person) -> tuple[str, str, str]:
    """Return a token, a new address, and the code that was mailed to it."""
    new = new_address(person)
    return stack.user_token(person), new, ask_for_code(stack, new)


def new_address(person: Person) -> str:
    return f"new.{person.email}"


def has_link(letter: Letter) -> bool:
    return "/set-password#" in letter.text


def email_of(stack: Stack, person: Person) -> str | None:
    email: str | None = stack.user(person)["email"]
    return email


# --- What it does ---


def test_alice_changes_her_address_here_and_in_the_game(stack: Stack) -> None:
    alice = stack.approved("alice")
    token, new, code = ready(stack, alice)
    reply = update(stack, token, alice, new, f" {code} ")
    message = TRANSLATIONS.text("message.email_changed", "en")
    assert (reply.status, reply.json) == (200, {"success": True, "message": message, "email": new, "warnings": []})
    assert email_of(stack, alice) == new
    assert stack.authme.get(alice.name)["email"] == new
    assert stack.sync()["updated"] == 0, "both sides agree already"
    [entry] = stack.audits(alice, "user.email_changed")
    assert (entry["operator"], entry["ip"]) == (alice.name, "127.0.0.1")
    for secret in (alice.password, f"'{code}'", f'"{code}"'):
        assert secret not in everything_kept(stack, alice)


def test_a_proof_takes_the_place_of_the_code(stack: Stack) -> None:
    alice = stack.approved("alice")
    token, new = stack.user_token(alice), new_address(alice)
    checked = {"email": new, "code": ask_for_code(stack, new), "purpose": "change_email"}
    proof = stack.post("/api/verify/check", checked).json["proof"]
    body = {"email": new, "currentPassword": alice.password}
    for other in (proof_for(stack, stack.newcomer("bob")), proof + "0"):
        assert_refused(stack.post(PATH, body | {"proof": other}, token=token), 422, "invalid_code", field="proof")
    assert stack.post(PATH, body | {"proof": proof}, token=token).json["email"] == new == email_of(stack, alice)
    assert_refused(stack.post(PATH, body | {"proof": proof}, token=token), 422, "invalid_code", field="proof")


def test_the_old_address_is_told_and_free_for_the_next(stack: Stack) -> None:
    alice = stack.pending("alice", language="zh")
    token, new, code = ready(stack, alice)
    assert update(stack, token, alice, new, code).status == 200
    notice = stack.smtp.wait_for(alice.email, counts=lambda letter: "邮箱已更改" in letter.subject)
    assert alice.name in notice.text
    assert new not in notice.text, "whose mailbox it is now is nobody else's business"
    carl = stack.newcomer("carl")
    assert stack.register(carl, email=alice.email, code=stack.code_for(alice.email)).status == 201


def test_the_session_stays_and_the_new_address_logs_in(stack: Stack) -> None:
    alice = stack.approved("alice")
    token, new, code = ready(stack, alice)
    assert update(stack, token, alice, new, code).status == 200
    assert stack.get("/api/user/status", {"username": alice.name}, token=token).json["data"]["email"] == new
    assert stack.post("/api/login", {"username": new, "password": alice.password}).status == 200
    old = stack.post("/api/login", {"username": alice.email, "password": alice.password})
    assert_refused(old, 401, "bad_credentials")


def test_links_mailed_to_the_old_address_are_dead_even_if_it_comes_back(stack: Stack) -> None:
    alice = stack.approved("alice")
    token, new = stack.user_token(alice), new_address(alice)
    stack.post("/api/password/forgot", {"email": alice.email})
    link = find_link_token(stack.smtp.wait_for(alice.email, counts=has_link).text)
    assert update(stack, token, alice, new, ask_for_code(stack, new)).status == 200
    assert update(stack, token, alice, alice.email, ask_for_code(stack, alice.email)).status == 200
    reply = stack.post("/api/password/reset", {"token": link, "newPassword": "thiefs-secret"})
    assert_refused(reply, 422, "invalid_token", field="token")


@pytest.mark.parametrize("status", ["pending", "rejected"])
def test_who_waits_or_was_rejected_may_change_it_too(stack: Stack, status: str) -> None:
    rick = stack.pending("rick")
    if status == "rejected":
        stack.decides("reject", rick)
    token, new, code = ready(stack, rick)
    assert update(stack, token, rick, new, code).status == 200
    assert email_of(stack, rick) == new
    stack.decides("approve", rick)
    assert stack.authme.get(rick.name)["email"] == new


def test_a_player_proves_the_address_he_typed_in_the_game(stack: Stack) -> None:
    bob = stack.newcomer("bob")
    stack.authme.register(bob.name, bob.password, email=bob.email)
    stack.sync()
    stack.decides("approve", bob)
    token = stack.user_token(bob)
    assert update(stack, token, bob, bob.email, ask_for_code(stack, bob.email)).status == 200
    assert stack.post("/api/login", {"username": bob.email, "password": bob.password}).status == 200
    mails = our_database(stack).query("SELECT template FROM regsvc_outbox WHERE recipient_key = ?", (bob.email,))
    assert "email_changed" not in {mail["template"] for mail in mails}, "the same mailbox needs no notice"


def test_an_address_that_was_rejected_is_free(stack: Stack) -> None:
    rick, alice = stack.pending("rick"), stack.approved("alice")
    stack.decides("reject", rick)
    code = ask_for_code(stack, rick.email)
    assert update(stack, stack.user_token(alice), alice, rick.email, code).status == 200
    assert (email_of(stack, alice), email_of(stack, rick)) == (rick.email, None)


def test_an_operator_changes_it_as_everybody_does(stack: Stack, operators: Operators) -> None:
    oscar = operators.new()
    new = new_address(oscar)
    token = stack.admin_token(oscar.name, oscar.password)
    assert update(stack, token, oscar, new, ask_for_code(stack, new)).status == 200
    assert stack.get("/api/admin/verify", token=token).status == 200
    assert stack.authme.get(oscar.name)["email"] == new


# --- What it refuses ---


def test_it_refuses_a_wrong_code_and_spends_nothing(stack: Stack) -> None:
    alice = stack.pending("alice")
    token, new, code = ready(stack, alice)
    wrong = update(stack, token, alice, new, code[::-1] + "0", language="zh")
    assert_refused(wrong, 422, "invalid_code", field="code", language="zh")
    assert update(stack, token, alice, new, code).status == 200


def test_a_code_is_for_one_address_and_one_purpose(stack: Stack) -> None:
    alice = stack.pending("alice")
    token, new = stack.user_token(alice), new_address(alice)
    for_registering, elsewhere = stack.code_for(new), ask_for_code(stack, f"other.{new}")
    for code in (for_registering, elsewhere):
        assert_refused(update(stack, token, alice, new, code), 422, "invalid_code", field="code")
    carl = stack.newcomer("carl")
    assert_refused(stack.register(carl, code=ask_for_code(stack, carl.email)), 422, "invalid_code", field="code")


def test_it_refuses_a_wrong_password_and_spends_no_try(stack: Stack) -> None:
    alice = stack.pending("alice")
    token, new, code = ready(stack, alice)
    reply = update(stack, token, alice, new, code, currentPassword="not-the-password", language="zh")
    assert_refused(reply, 422, "wrong_password", field="currentPassword", language="zh")
    assert update(stack, token, alice, new, code).status == 200, "and the session stays"


def test_a_taken_address_is_told_only_after_a_right_code(stack: Stack) -> None:
    """Bob proved it between the code and its use: only then does Alice learn that it is taken."""
    alice, bob = stack.pending("alice"), stack.newcomer("bob")
    token, code = stack.user_token(alice), ask_for_code(stack, bob.email)
    assert stack.register(bob).status == 201
    wrong = update(stack, token, alice, bob.email, "000000x", language="zh")
    assert_refused(wrong, 422, "invalid_code", field="code", language="zh")
    right = update(stack, token, alice, bob.email, code, language="zh")
    assert_refused(right, 409, "email_taken", field="email", language="zh")
    assert email_of(stack, alice) == alice.email


def test_verify_send_tells_nobody_who_has_an_address(stack: Stack) -> None:
    bob, free = stack.approved("bob"), stack.newcomer("carl")
    codes = sum(map(has_code, stack.smtp.letters_to(bob.email)))
    replies = [
        stack.post("/api/verify/send", {"email": email, "purpose": "change_email"}) for email in (bob.email, free.email)
    ]
    assert replies[0].json == replies[1].json
    letter = stack.smtp.wait_for(bob.email, counts=lambda letter: "already" in letter.subject)
    assert bob.name in letter.text, "whoever has it is told so instead"
    assert sum(map(has_code, stack.smtp.letters_to(bob.email))) == codes


def test_of_two_who_prove_one_address_at_once_one_gets_it(stack: Stack) -> None:
    shared = stack.newcomer("shared").email
    people = [stack.approved("alice") for _person in range(2)]
    tokens = [stack.user_token(person) for person in people]
    code = ask_for_code(stack, shared)
    replies = at_once(
        [
            lambda token=token, person=person: update(stack, token, person, shared, code)  # type: ignore[misc]
            for token, person in zip(tokens, people, strict=True)
        ]
    )
    assert sorted(reply.status for reply in replies) == [200, 422], [reply.text for reply in replies]
    assert sorted(email_of(stack, person) == shared for person in people) == [False, True]


def test_it_refuses_what_is_no_address_and_no_code(stack: Stack) -> None:
    alice = stack.pending("alice")
    token = stack.user_token(alice)
    injected = "alice@example.org\r\nBcc: x@example.org"
    for email, code in ((injected, "invalid_email"), ("alice@[127.0.0.1]", "domain_not_allowed")):
        reply = update(stack, token, alice, email, "123456", language="zh")
        assert_refused(reply, 422, code, field="email", language="zh")
    body = {"email": alice.email, "currentPassword": alice.password}
    assert_refused(stack.post(PATH, body, token=token), 422, "invalid_field", field="code")


# --- The game, which has its own word ---


def test_a_player_who_changed_it_in_the_game_meanwhile_is_reported(stack: Stack) -> None:
    alice = stack.approved("alice")
    token, new, code = ready(stack, alice)
    stack.authme.set_email(alice.name, f"game.{alice.email}")
    assert update(stack, token, alice, new, code).status == 200
    assert email_of(stack, alice) == new, "a proven address keeps its place"
    assert stack.authme.get(alice.name)["email"] == new, "the conflict about the one before is over"
    assert stack.user(alice)["plugin"] == "synced"


def test_the_change_waits_for_a_busy_authme(impatient: Stack) -> None:
    """AuthMe's file is locked after the password check: the change is saved for later, with a warning."""
    alice = impatient.approved("alice")
    token, new, code = ready(impatient, alice)
    with file_busy(impatient, "IMMEDIATE"):
        reply = update(impatient, token, alice, new, code)
    assert (reply.status, reply.json["warnings"]) == (200, ["player_pending"])
    assert impatient.authme.get(alice.name)["email"] == alice.email
    impatient.sync()
    assert impatient.authme.get(alice.name)["email"] == new


def test_while_the_row_cannot_be_read_it_is_refused(impatient: Stack) -> None:
    alice = impatient.approved("alice")
    token, new, code = ready(impatient, alice)
    with file_busy(impatient):
        reply = update(impatient, token, alice, new, code)
    assert_refused(reply, 503, "players_away")
    assert update(impatient, token, alice, new, code).status == 200


# --- Other hosts ---


def test_without_authme_there_is_no_row_to_follow(make_stack: MakeStack) -> None:
    alone = make_stack(config={"authme": {"enabled": False}})
    alice = alone.pending("alice")
    token, new, code = ready(alone, alice)
    assert update(alone, token, alice, new, code).json["email"] == new
    assert find_player(alone.table, alice.key) is None
    rows = our_database(alone).query("SELECT email FROM regsvc_user WHERE username = ?", (alice.name,))
    assert rows == [{"email": new}]
