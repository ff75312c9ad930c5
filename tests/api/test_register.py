"""POST /api/register: from a proven address to a pending user."""

from functools import partial
from typing import Any

import pytest

from tests.support.authme.authme_tables import find_player
from tests.support.each import assert_each
from tests.support.our_tables import ago, our_database, tries_of
from tests.support.refusals import TRANSLATIONS, assert_refused
from tests.support.stack import OPERATOR, Person, Stack, find_code
from tests.support.together import at_once

pytestmark = pytest.mark.one_database("mariadb")

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
