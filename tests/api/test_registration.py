"""Registration: from a proven address to a pending user, checked before, repeated, and by an admin."""

import re
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.support.authme.authme_tables import find_player
from tests.support.daemon import Reply
from tests.support.each import assert_each
from tests.support.our_tables import ago, count_rows, our_database, tries_of
from tests.support.questions import proof_for
from tests.support.refusals import TRANSLATIONS, assert_refused
from tests.support.stack import OPERATOR, MakeStack, Person, Stack, find_code, find_link_token
from tests.support.together import at_once

# POST /api/register: from a proven address to a pending user.


NAME_RULE = {"regex": "^(?=.{3,16}$)[a-zA-Z0-9_]*$", "minLength": 3, "maxLength": 16}
PASSWORD_RULE = {"regex": "^[!-~]*$", "minLength": 5, "maxLength": 30}

REFUSED: list[tuple[dict[str, Any], str, str, dict[str, Any]]] = [
    ({"username": "al"}, "invalid_username", "username", {"fault": "too_short", **NAME_RULE}),
    ({"username": "a" * 17}, "invalid_username", "username", {"fault": "too_long", **NAME_RULE}),
    ({"username": "al ice"}, "invalid_username", "username", {"fault": "forbidden_characters", **NAME_RULE}),
    ({"username": "ａｌｉｃｅ"}, "invalid_username", "username", {"fault": "forbidden_characters"}),
    ({"username": "Olivia"}, "reserved_username", "username", {}),
    ({"username": "oLIVIA"}, "reserved_username", "username", {}),
    ({"username": "Sync"}, "reserved_username", "username", {}),  # the audit log's names for the program itself
    ({"username": "sql"}, "reserved_username", "username", {}),
    ({"username": "registration"}, "reserved_username", "username", {}),
    ({"email": "nobody"}, "invalid_email", "email", {"fault": "syntax"}),
    ({"email": "alice@[127.0.0.1]"}, "domain_not_allowed", "email", {}),
    ({"password": "abcd"}, "invalid_password", "password", {"fault": "too_short", **PASSWORD_RULE}),
    ({"password": "x" * 31}, "invalid_password", "password", {"fault": "too_long", **PASSWORD_RULE}),
    ({"password": "pass word"}, "invalid_password", "password", {"fault": "forbidden_characters"}),
    (
        {"username": "Alice_ever", "password": "aLICE_EVER"},
        "invalid_password",
        "password",
        {"fault": "same_as_username"},
    ),
    ({"password": "password"}, "invalid_password", "password", {"fault": "unsafe"}),
    ({"platform": "bedrock"}, "invalid_field", "platform", {}),
    ({"platform": "amiga"}, "invalid_field", "platform", {}),
    ({"questionnaire": {}}, "invalid_field", "questionnaire.token", {}),
]


# --- Who gets in ---


def test_alice_waits_for_her_review(stack: Stack) -> None:
    """Unknown fields of the request are ignored."""
    alice = stack.newcomer("alice")
    reply = stack.register(alice, status="approved", isAdmin=True, captchaToken="x")
    assert reply.status == 201
    assert reply.json == {
        "success": True,
        "applicationToken": reply.json["applicationToken"],
        "message": TRANSLATIONS.text("message.registered_pending", "en", username=alice.name),
        "username": alice.name,
        "email": alice.email,
        "status": "pending",
    }
    [entry] = stack.audits(alice, "user.registered")
    assert (entry["operator"], entry["ip"]) == (alice.name, "127.0.0.1")
    assert find_player(stack.table, alice.key) is None


def test_a_registration_in_chinese_is_answered_and_reviewed_in_chinese(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    reply = stack.register(alice, language="zh")
    assert reply.json["message"] == TRANSLATIONS.text("message.registered_pending", "zh", username=alice.name)
    stack.decides("reject", alice, language="en")
    assert "申请结果" in stack.smtp.wait_for(alice.email, 2).subject


def test_an_address_with_unicode_is_kept_as_it_is_written(stack: Stack) -> None:
    """Two spellings of one mailbox are one: composed or not, upper or lower case, U-label or A-label."""
    zoe = stack.newcomer("zoe")
    written, same = f"Zoë.{zoe.name}@bücher.example", f"zoe\u0308.{zoe.key}@xn--bcher-kva.example"
    stack.post("/api/verify/send", {"email": written})
    letter = stack.smtp.wait_for(f"Zoë.{zoe.name}@xn--bcher-kva.example")
    reply = stack.register(zoe, email=same, code=find_code(letter.text))
    assert (reply.status, reply.json["email"]) == (201, f"zoë.{zoe.key}@bücher.example")


# --- Refusals ---


def test_it_refuses(stack: Stack) -> None:
    def check(case: tuple[dict[str, Any], str, str, dict[str, Any]]) -> None:
        fields, code, field, facts = case
        reply = stack.register(stack.newcomer("alice"), **{"code": "000000", **fields, "language": "zh"})
        payload = assert_refused(reply, 422, code, field=field, language="zh")
        assert facts.items() <= payload.items()

    assert_each(REFUSED, check)


def test_wrong_used_expired_and_never_sent_codes_have_one_answer(stack: Stack) -> None:
    alice, carol, dora, erin = (stack.newcomer(name) for name in ("alice", "carol", "dora", "erin"))
    used, tried_out, expired = (stack.code_for(person.email) for person in (alice, carol, dora))
    assert stack.register(alice, code=used).status == 201
    ours = our_database(stack)
    ours.execute("UPDATE regsvc_verification SET tries = 5 WHERE email_key = ?", (carol.email,))
    ours.execute("UPDATE regsvc_verification SET created_at = ? WHERE email_key = ?", (ago(minutes=16), dora.email))
    stack.code_for(erin.email)
    answers = {
        "used": stack.register(stack.newcomer("anna"), email=alice.email, code=used),
        "too many tries": stack.register(carol, code=tried_out),
        "expired": stack.register(dora, code=expired),
        "wrong": stack.register(erin, code="12345"),
        "never sent": stack.register(stack.newcomer("fay"), code="123456"),
    }
    for reply in answers.values():
        assert_refused(reply, 422, "invalid_code", field="code")
    assert len({reply.body for reply in answers.values()}) == 1


def test_a_refusal_burns_nothing(stack: Stack) -> None:
    bob, alice = stack.pending("bob"), stack.newcomer("alice")
    code = stack.code_for(alice.email)
    assert_refused(stack.register(alice, code=code, username="al"), 422, "invalid_username", field="username")
    assert_refused(stack.register(alice, code=code, password="1"), 422, "invalid_password", field="password")
    assert_refused(stack.register(alice, code=code, username=bob.name), 409, "username_taken", field="username")
    assert tries_of(stack, alice.email) == 0
    assert stack.register(alice, code=code).status == 201


# --- Names ---


@pytest.mark.every_database
def test_a_users_name_is_taken_in_any_case(stack: Stack) -> None:
    bob, eve = stack.pending("bob"), stack.newcomer("eve")
    reply = stack.register(eve, username=bob.name.upper(), language="zh")
    assert_refused(reply, 409, "username_taken", field="username", language="zh")


@pytest.mark.every_database
def test_a_name_that_only_authme_knows_is_taken(stack: Stack) -> None:
    bob, eve = stack.newcomer("bob"), stack.newcomer("eve")
    stack.authme.register(bob.name, bob.password)
    assert_refused(stack.register(eve, username=bob.name.upper()), 409, "username_taken", field="username")
    assert stack.authme.login(bob.name, bob.password), "an application never locks a player out"


def test_an_operators_name_is_reserved_from_the_moment_he_is_one(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    code = stack.code_for(alice.email)
    stack.game.write_operators(OPERATOR, alice.name)
    reply = stack.register(alice, code=code)
    stack.game.write_operators(OPERATOR)
    assert_refused(reply, 422, "reserved_username", field="username")
    assert stack.register(alice, code=code).status == 201


def let_a_day_pass(stack: Stack, person: Person) -> None:
    """Since the decision about this person."""
    changed = our_database(stack).execute(
        "UPDATE regsvc_user SET reviewed_at = ? WHERE username_key = ?", (ago(hours=24, seconds=1), person.key)
    )
    assert changed == 1


def test_a_rejected_record_holds_its_name_for_a_day(stack: Stack) -> None:
    rick, eve = stack.pending("rick"), stack.newcomer("eve")
    stack.decides("reject", rick, reason="say who you are")
    reviewed_at = stack.user(rick)["reviewedAt"]
    for reply in (stack.register(eve, username=rick.name), stack.register(rick)):
        payload = assert_refused(reply, 409, "reapply_later", field="username")
        assert payload["reapplyAt"] == reviewed_at + 24 * 60 * 60 * 1000
        assert 86_300 <= payload["remainingSeconds"] <= 86_400
        assert payload["remainingSeconds"] == int(reply.headers["Retry-After"])
    let_a_day_pass(stack, rick)
    assert stack.register(rick).status == 201
    assert stack.status(rick) == "pending"
    reviews = our_database(stack).query("SELECT reason FROM regsvc_review WHERE username_key = ?", (rick.key,))
    assert reviews == [{"reason": "say who you are"}], "the earlier review stays in the history"
    stack.decides("approve", rick)
    assert stack.authme.login(rick.name, rick.password)


def test_a_foreign_row_stays_locked_when_its_rejected_name_is_asked_for_again(stack: Stack) -> None:
    rick = stack.pending("rick")
    stack.decides("reject", rick)
    stack.authme.register(rick.name, "foreign-password")
    stack.sync()
    assert stack.authme.get(rick.name)["password"].startswith("!locked!")
    let_a_day_pass(stack, rick)

    assert stack.register(rick).status == 201
    stack.sync()
    assert stack.authme.get(rick.name)["password"].startswith("!locked!")
    stack.decides("approve", rick)
    assert not stack.authme.login(rick.name, "foreign-password")
    assert stack.authme.login(rick.name, rick.password)


def test_a_rejected_players_own_row_keeps_the_name(stack: Stack) -> None:
    bob, eve = stack.newcomer("bob"), stack.newcomer("eve")
    stack.authme.register(bob.name, bob.password)
    stack.sync()
    stack.decides("reject", bob)
    assert_refused(stack.register(eve, username=bob.name), 409, "username_taken", field="username")
    let_a_day_pass(stack, bob)
    assert_refused(stack.register(eve, username=bob.name), 409, "username_taken", field="username")


# --- Addresses ---


def test_an_address_that_was_taken_meanwhile_is_told_after_a_right_code(stack: Stack) -> None:
    rick, eve = stack.pending("rick"), stack.newcomer("eve")
    stack.decides("reject", rick)
    code = stack.code_for(rick.email)
    stack.decides("approve", rick)
    wrong = stack.register(eve, email=rick.email, code="wrong", language="zh")
    assert_refused(wrong, 422, "invalid_code", field="code", language="zh")
    right = stack.register(eve, email=rick.email, code=code, language="zh")
    assert_refused(right, 409, "email_taken", field="email", language="zh")
    assert tries_of(stack, rick.email) == 1, "the wrong one alone"


def test_a_rejected_records_address_is_free_at_once(stack: Stack) -> None:
    rick = stack.pending("rick")
    stack.decides("reject", rick, reason="an ugly name")
    again = stack.newcomer("richard")
    assert stack.register(again, email=rick.email, code=stack.code_for(rick.email)).status == 201
    assert (stack.user(rick)["email"], stack.user(again)["email"]) == (None, rick.email)


def test_who_proves_an_address_gets_it_from_a_player_who_never_did(stack: Stack) -> None:
    bob, alice = stack.newcomer("bob"), stack.newcomer("alice")
    stack.authme.register(bob.name, bob.password, email=alice.email)
    stack.sync()
    assert stack.user(bob)["email"] == alice.email
    assert stack.register(alice).status == 201
    assert (stack.user(bob)["email"], stack.user(alice)["email"]) == (None, alice.email)
    assert stack.authme.get(bob.name)["email"] == alice.email, "their row is untouched"
    [entry] = stack.audits(bob, "user.email_changed")
    assert entry["target"] == bob.name
    assert stack.sync()["updated"] == 0, "and it does not take the address back"
    assert stack.user(bob)["email"] is None


# --- Passwords ---


def test_no_secret_of_a_registration_is_kept_or_told(stack: Stack) -> None:
    alice = stack.pending("alice")
    payload = str(stack.user(alice)) + str(stack.audits(alice)) + "\n".join(stack.daemon.log)
    [row] = our_database(stack).query("SELECT * FROM regsvc_user WHERE username_key = ?", (alice.key,))
    assert alice.password not in payload + str(row)
    assert row["password_hash"] not in payload


# --- A lost reply ---


def test_a_registration_whose_reply_was_lost_can_be_repeated(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    code = stack.code_for(alice.email)
    proof = stack.post("/api/verify/check", {"email": alice.email, "code": code}).json["proof"]
    body = {"username": alice.name, "email": alice.email, "password": alice.password}
    first = stack.post("/api/register", {**body, "proof": proof})
    assert first.status == 201
    stack.smtp.wait_for_receipt(alice.email)
    for again in ({"proof": proof}, {"code": code}, {"code": code, "username": alice.name.upper()}):
        assert stack.post("/api/register", {**body, **again}).json == first.json
    anna = stack.newcomer("anna")
    for other in ({"password": "another-secret"}, {"username": anna.name}, {"email": anna.email}, {"password": None}):
        sent = {name: value for name, value in {**body, "proof": proof, **other}.items() if value is not None}
        assert_refused(stack.post("/api/register", sent), 422, "invalid_code", field="proof")
    stack.decides("approve", alice)
    assert stack.post("/api/register", {**body, "proof": proof}).json["status"] == "approved"
    assert len(stack.audits(alice, "user.registered")) == 1
    mails = our_database(stack).query("SELECT template FROM regsvc_outbox WHERE recipient_key = ?", (alice.email,))
    assert sorted(mail["template"] for mail in mails) == ["approved", "received", "verification_code"]


def test_who_repeats_has_as_many_attempts_at_a_code_as_ever(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    code = stack.code_for(alice.email)
    assert stack.register(alice, code=code).status == 201
    for guess in range(1, 6):
        wrong = f"{(int(code) + guess) % 1_000_000:06}"
        assert_refused(stack.register(alice, code=wrong), 422, "invalid_code", field="code")
    assert_refused(stack.register(alice, code=code), 422, "invalid_code", field="code")


def test_passwords_are_not_guessed_by_repeating(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    code = stack.code_for(alice.email)
    assert {reply.status for reply in at_once([partial(stack.register, alice, code=code)] * 20)} == {201}
    assert len(stack.audits(alice, "user.registered")) == 1
    for guess in range(10):
        reply = stack.register(alice, code=code, password=f"guess-{guess}")
        assert_refused(reply, 422, "invalid_code", field="code")
    assert_refused(stack.register(alice, code=code), 422, "invalid_code", field="code")


@pytest.mark.parametrize("change", ["an hour later", "rejected", "deleted and registered by another"])
def test_a_repetition_is_refused(stack: Stack, change: str) -> None:
    alice = stack.newcomer("alice")
    code = stack.code_for(alice.email)
    assert stack.register(alice, code=code).status == 201
    if change == "an hour later":
        age = "UPDATE regsvc_verification SET redeemed_at = ? WHERE email_key = ?"
        our_database(stack).execute(age, (ago(minutes=61), alice.email))
    elif change == "rejected":
        stack.decides("reject", alice)
    else:
        stack.decides("delete", alice)
        anna = stack.newcomer("anna")
        assert stack.register(anna, username=alice.name, password=alice.password).status == 201
    assert_refused(stack.register(alice, code=code), 422, "invalid_code", field="code")


# POST /api/register/check: what is wrong with a name or password is told before more is asked.


PATH = "/api/register/check"


def ask(stack: Stack, person: Person, **fields: object) -> Reply:
    body = {"username": person.name, "email": person.email, "password": person.password}
    return stack.post(PATH, body | fields)


def test_it_refuses_what_the_registration_refuses(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    proof = proof_for(stack, alice)

    def check(case: tuple[dict[str, Any], str, str, dict[str, Any]]) -> None:
        fields, code, field, facts = case
        payload = assert_refused(ask(stack, alice, **{"proof": proof, **fields}), 422, code, field=field)
        assert facts.items() <= payload.items()

    assert_each([case for case in REFUSED if "questionnaire" not in case[0]], check)


def test_alice_finds_a_free_name_and_has_used_up_nothing(stack: Stack) -> None:
    bob, rick, mallory = stack.pending("bob"), stack.pending("rick"), stack.newcomer("mallory")
    stack.decides("reject", rick)
    stack.authme.register(mallory.name, mallory.password)  # whom only the game knows
    alice = stack.newcomer("alice")
    proof = proof_for(stack, alice)
    rows = count_rows(stack)
    for taken in (bob, mallory):
        refused = ask(stack, replace(alice, name=taken.name), proof=proof)
        assert_refused(refused, 409, "username_taken", field="username")
    held = ask(stack, replace(alice, name=rick.name.upper()), proof=proof)
    until = assert_refused(held, 409, "reapply_later", field="username")["reapplyAt"]
    assert until == stack.user(rick)["reviewedAt"] + 24 * 60 * 60 * 1000
    for _time in range(3):
        reply = ask(stack, alice, proof=proof)
        assert (reply.status, reply.json) == (200, {"success": True, "username": alice.name})
    assert count_rows(stack) == rows
    assert stack.register(alice, code=None, proof=proof).status == 201


def test_nobody_is_told_anything_without_a_proof_of_the_address(stack: Stack) -> None:
    """Neither whose a name or an address is, nor which names are reserved."""
    alice, bob, mallory = stack.newcomer("alice"), stack.approved("bob"), stack.newcomer("mallory")
    stack.olivia()
    proof = proof_for(stack, mallory)
    for name in (alice.name, bob.name, "Olivia", "sql"):
        asked = replace(alice, name=name)
        assert_refused(ask(stack, asked), 422, "invalid_field", field="proof")
        for person in (asked, replace(asked, email=bob.email)):
            for wrong in (proof, f"{proof}0", "é"):
                assert_refused(ask(stack, person, proof=wrong), 422, "invalid_code", field="proof")
            assert_refused(ask(stack, person, applicationToken="1.x"), 422, "invalid_code", field="applicationToken")


def test_rick_who_applies_again_is_told_from_when(make_stack: MakeStack) -> None:
    stack = make_stack(config={"registration": {"reapply_holds": "address"}})
    rick, alice = stack.pending("rick"), stack.newcomer("alice")
    stack.decides("reject", rick)
    token = token_in_rejection(stack, rick)
    assert_refused(ask(stack, rick, applicationToken=token), 409, "reapply_later", field="username")
    other_name = replace(rick, name=alice.name)
    assert_refused(ask(stack, other_name, applicationToken=token), 409, "reapply_later", field="email")
    assert_refused(ask(stack, other_name, proof=proof_for(stack, rick)), 409, "reapply_later", field="email")
    assert_refused(ask(stack, alice, applicationToken=token), 422, "invalid_code", field="applicationToken")


# POST /api/register by somebody who was rejected: the token of that application proves the address.


def token_in_rejection(stack: Stack, person: Person) -> str:
    letter = stack.smtp.wait_for(person.email, 1, counts=lambda mail: "/application#token=" in mail.text)
    found = re.search(r"/application#token=(\S+)", letter.text)
    assert found is not None
    return found[1]


def apply_again(stack: Stack, person: Person, token: str, **fields: object) -> Reply:
    body = {"username": person.name, "email": person.email, "password": person.password, "applicationToken": token}
    return stack.post("/api/register", body | fields)


@pytest.mark.every_database
def test_rick_applies_again_with_the_link_of_the_rejection(stack: Stack) -> None:
    """Forty times at once: one application, and its repetitions. The old token opens nothing any more."""
    rick, mallory = stack.pending("rick"), stack.newcomer("mallory")
    stack.decides("reject", rick, mayReapply=True)
    token = token_in_rejection(stack, rick)
    assert_refused(apply_again(stack, mallory, token), 422, "invalid_code", field="applicationToken")
    assert_refused(apply_again(stack, rick, token[:-1] + "!"), 422, "invalid_code", field="applicationToken")
    replies = at_once([lambda: apply_again(stack, rick, token)] * 40)
    made = [reply for reply in replies if reply.status == 201]
    assert made
    assert len({reply.json["applicationToken"] for reply in made}) == 1
    assert {reply.json["code"] for reply in replies if reply.status != 201} <= {"invalid_code", "username_taken"}
    assert stack.user(rick)["status"] == "pending"
    letters = [letter for letter in stack.smtp.letters_to(rick.email) if "received" in letter.text]
    assert len(letters) <= 2
    another = replace(rick, name=mallory.name)
    assert_refused(apply_again(stack, another, token), 422, "invalid_code", field="applicationToken")
    fresh = made[0].json["applicationToken"]  # of an application that waits: it proves nothing
    assert_refused(apply_again(stack, another, fresh), 422, "invalid_code", field="applicationToken")


@pytest.mark.every_database
@pytest.mark.parametrize("holds", ["name", "address"])
def test_who_was_rejected_waits_under_this_name_or_with_this_address(make_stack: MakeStack, holds: str) -> None:
    stack = make_stack(config={"registration": {"reapply_holds": holds}})
    rick, alice = stack.pending("rick"), stack.newcomer("alice")
    stack.decides("reject", rick)
    token = token_in_rejection(stack, rick)
    assert_refused(apply_again(stack, rick, token), 409, "reapply_later", field="username")
    another = replace(rick, name=alice.name)
    if holds == "name":
        assert apply_again(stack, another, token).status == 201
        return
    assert_refused(apply_again(stack, another, token), 409, "reapply_later", field="email")
    assert_refused(stack.register(another), 409, "reapply_later", field="email")
    tagged = replace(another, email=another.email.replace("@", "+again@"))  # which reaches the same mailbox
    assert_refused(stack.register(tagged), 409, "reapply_later", field="email")
    unproven = stack.post("/api/register", {"username": another.name, "email": another.email, "code": "000000"})
    assert_refused(unproven, 422, "invalid_code", field="code")  # which tells nobody else
    mallory = stack.newcomer("mallory")
    stack.authme.register(mallory.name, mallory.password, alice.email)  # typed in the game, which proves nothing
    stack.sync()
    stack.decides("reject", mallory)
    assert stack.register(alice).status == 201


@pytest.mark.every_database
def test_an_address_that_was_typed_in_the_game_is_not_proven(stack: Stack) -> None:
    """The token was read at /account by who typed it there, and mailed to the address of somebody else."""
    alice, mallory = stack.newcomer("alice"), stack.newcomer("mallory")
    stack.authme.register(mallory.name, mallory.password, alice.email)
    stack.sync()
    stack.decides("ask", mallory, question="Who are you?")
    status = stack.get("/api/user/status", {"username": mallory.name}, token=stack.user_token(mallory))
    token = status.json["data"]["applicationToken"]
    stack.decides("reject", mallory, mayReapply=True)
    another = replace(alice, name=stack.newcomer("mallory").name)
    assert_refused(apply_again(stack, another, token), 422, "invalid_code", field="applicationToken")
    assert stack.register(alice).status == 201


# POST /api/admin/user/create: an approved user, with a password or a link to set one.


def test_a_user_with_a_password_plays_at_once(stack: Stack) -> None:
    carl = stack.newcomer("carl")
    body = {"username": carl.name, "email": carl.email, "password": carl.password}
    reply = stack.post("/api/admin/user/create", body, token=stack.olivia())
    assert (reply.status, reply.json["link"], stack.status(carl)) == (200, None, "approved")
    assert stack.login(carl).status == 200
    again = stack.post("/api/admin/user/create", body, token=stack.olivia())
    assert_refused(again, 409, "username_taken", field="username")


def test_a_user_without_one_sets_it_with_the_link(stack: Stack) -> None:
    dora = stack.newcomer("dora")
    reply = stack.post("/api/admin/user/create", {"username": dora.name}, token=stack.olivia())
    token = reply.json["link"].partition("#token=")[2]
    assert stack.post("/api/password/reset", {"token": token, "newPassword": dora.password}).status == 200
    assert stack.login(dora).status == 200


def test_an_operators_name_is_not_given_away(stack: Stack) -> None:
    reply = stack.post("/api/admin/user/create", {"username": OPERATOR.upper()}, token=stack.olivia())
    assert_refused(reply, 422, "reserved_username", field="username")


# The main use case from end to end: Alice registers, Olivia reviews, Alice plays.


@pytest.mark.every_database
def test_bob_gives_only_the_four_documented_fields(stack: Stack) -> None:
    bob = stack.newcomer("bob")
    assert stack.register(bob, password=None).status == 201
    stack.decides("approve", bob)
    assert find_player(stack.table, bob.key) is None
    token = find_link_token(stack.smtp.wait_for(bob.email, 2).text)

    reply = stack.post("/api/password/reset", {"token": token, "newPassword": bob.password})
    assert reply.status == 200, reply.text
    assert stack.authme.login(bob.name, bob.password)
    assert stack.login(bob).status == 200
    again = stack.post("/api/password/reset", {"token": token, "newPassword": bob.password})
    assert (again.status, again.code) == (422, "invalid_token")
