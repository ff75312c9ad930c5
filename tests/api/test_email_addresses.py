"""E-mail addresses: codes, proofs that outlive a questionnaire, and the change of an account's address."""

from collections import Counter
from functools import partial
from typing import Any

import pytest

from tests.support.authme.authme_tables import find_player
from tests.support.crash.brief_outage import file_busy
from tests.support.daemon import Reply
from tests.support.each import assert_each
from tests.support.operators import Operators
from tests.support.our_tables import age_code, count_rows, everything_kept, everything_stored, our_database
from tests.support.peers.smtp import Letter
from tests.support.questions import proof_for
from tests.support.refusals import TRANSLATIONS, assert_refused, assert_refused_as_200
from tests.support.stack import MakeStack, Person, Stack, find_code, find_link_token, has_code
from tests.support.together import at_once

# POST /api/verify/send: mails a code, and the reply does not reveal who has an account.


SEND = "/api/verify/send"

REFUSED = [
    ({"email": "nobody"}, 422, "invalid_email", "email"),
    ({"email": "Alice <alice@example.org>"}, 422, "invalid_email", "email"),
    ({"email": "alice@example.org\r\nBcc: eve@example.org"}, 422, "invalid_email", "email"),
    ({"email": f"{'a' * 65}@example.org"}, 422, "invalid_email", "email"),
    ({"email": f"a@{'long.' * 60}example.org"}, 422, "invalid_email", "email"),
    ({"email": ""}, 422, "invalid_email", "email"),
    ({"email": "alice@[127.0.0.1]"}, 422, "domain_not_allowed", "email"),
    ({}, 422, "invalid_field", "email"),
    ({"email": "alice@example.org", "purpose": "world_domination"}, 422, "invalid_field", "purpose"),
    ({"email": "alice@example.org", "purpose": "unlink"}, 409, "not_enabled", None),
]


def ask(stack: Stack, email: str, client: str | None = None, **fields: object) -> Reply:
    """`client`: the address a proxy on this machine says the request came from."""
    headers = {} if client is None else {"X-Forwarded-For": client}
    return stack.post(SEND, {"email": email, **fields}, headers=headers)


# --- What comes ---


def test_a_code_is_on_its_way(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    reply = ask(stack, alice.email)
    assert reply.status == 200
    assert reply.json == {
        "success": True,
        "message": TRANSLATIONS.text("message.code_sent", "en"),
        "remainingSeconds": 0,
        "expiresInSeconds": 300,
    }
    letter = stack.smtp.wait_for(alice.email)
    assert stack.register(alice, code=find_code(letter.text)).status == 201


@pytest.mark.parametrize(
    ("body", "query", "headers"),
    [
        ({"language": "zh"}, "", {}),
        ({}, "?language=zh", {}),
        ({}, "", {"Accept-Language": "zh-CN,en;q=0.8"}),
        ({"language": "zh"}, "?language=en", {"Accept-Language": "en"}),
    ],
    ids=["body", "query", "browser", "body first"],
)
def test_the_answer_and_the_mail_are_in_the_callers_language(
    stack: Stack, body: dict[str, str], query: str, headers: dict[str, str]
) -> None:
    alice = stack.newcomer("alice")
    reply = stack.post(SEND + query, {"email": alice.email, **body}, headers=headers)
    assert reply.json["message"] == TRANSLATIONS.text("message.code_sent", "zh")
    assert "验证码" in stack.smtp.wait_for(alice.email).subject


def test_no_request_waits_for_the_mail_server(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    stack.smtp.hold()
    assert ask(stack, alice.email).status == 200
    assert stack.smtp.letters_to(alice.email) == []
    stack.smtp.release()
    stack.smtp.wait_for(alice.email)


# --- Refusals ---


def test_it_refuses(stack: Stack) -> None:
    def check(case: tuple[dict[str, Any], int, str, str | None]) -> None:
        body, status, code, field = case
        reply = stack.post(SEND, {**body, "language": "zh"})
        assert_refused(reply, status, code, field=field, language="zh")

    assert_each(REFUSED, check)


def test_it_refuses_a_language_there_are_no_words_for(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    for language in ("tlh", "", "zh\r\nX-Evil: 1", 7):
        assert_refused(ask(stack, alice.email, language=language), 422, "invalid_field", field="language")
    assert our_database(stack).query("SELECT id FROM regsvc_outbox WHERE recipient = ?", (alice.email,)) == []


# --- Nobody learns who has an account ---


@pytest.fixture
def residents(stack: Stack) -> dict[str, Person]:
    """One person of each kind, by kind."""
    rejected, banned = stack.pending("rick"), stack.approved("bert")
    stack.decides("reject", rejected)
    stack.decides("ban", banned)
    return {
        "free": stack.newcomer("fred"),
        "pending": stack.pending("pete"),
        "approved": stack.approved("ada"),
        "rejected": rejected,
        "banned": banned,
    }


# R3
def test_the_answer_and_the_writes_are_the_same_for_every_address(stack: Stack, residents: dict[str, Person]) -> None:
    answers, writes = {}, {}
    for kind, person in residents.items():
        age_code(stack, person.email, minutes=60)
        before = count_rows(stack)
        reply = ask(stack, person.email)
        after = count_rows(stack)
        answers[kind] = (reply.status, reply.body)
        writes[kind] = {table: after[table] - before[table] for table in before}
    assert len(set(answers.values())) == 1, answers
    free = writes.pop("free")
    assert free["regsvc_outbox"] == free["regsvc_verification"] == 1
    del free["regsvc_rate_limit"]  # a counter is made for an address that was never asked for
    assert all(writes[kind] | {"regsvc_rate_limit": 0} == free | {"regsvc_rate_limit": 0} for kind in writes), writes


@pytest.mark.parametrize(("kind", "letters"), [("pending", 1), ("approved", 2), ("banned", 3)])
def test_who_has_an_account_is_told_so_by_mail(
    stack: Stack, residents: dict[str, Person], kind: str, letters: int
) -> None:
    """`letters`: what came before, a code and the decisions."""
    person = residents[kind]
    ask(stack, person.email)
    notice = stack.smtp.wait_for(person.email, letters + 1)
    assert notice.subject.startswith("You already have an account")
    assert person.name in notice.text


def test_an_address_that_was_rejected_or_that_nobody_proved_gets_a_code(stack: Stack) -> None:
    rick, bob, alice = stack.pending("rick"), stack.newcomer("bob"), stack.newcomer("alice")
    stack.decides("reject", rick)
    stack.authme.register(bob.name, bob.password, email=alice.email)
    stack.sync()
    assert stack.user(bob)["email"] == alice.email
    for email in (rick.email, alice.email):
        assert stack.code_for(email)


# --- Limits ---


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def strict(request: pytest.FixtureRequest, make_stack: MakeStack) -> Stack:
    """A stack with the limits a host starts with, but fewer mails for a client. Its codes are long."""
    limits = {
        "limits_per_address": ["1 per minute", "10 per day"],
        "limits_per_client": ["3 per minute", "100 per day"],
        "code_digits": 10,
        "tries_per_client": ["20 per hour", "60 per day"],
    }
    registration = {"blocked_email_domains": ["spam.example"]}
    return make_stack(request.param, config={"verification": limits, "registration": registration})


def test_an_address_is_mailed_once_a_minute(strict: Stack) -> None:
    alice, bob = strict.newcomer("alice"), strict.newcomer("bob")
    first = ask(strict, alice.email, "192.0.2.1")
    assert (first.status, first.json["remainingSeconds"]) == (200, 60)
    payload = assert_refused(ask(strict, alice.email, "192.0.2.2", language="zh"), 429, "rate_limited", language="zh")
    assert 50 <= payload["remainingSeconds"] <= 60
    assert ask(strict, bob.email, "192.0.2.1").status == 200


def test_a_client_gets_so_many_and_refusals_do_not_count(strict: Stack) -> None:
    for _try in range(5):
        assert_refused(ask(strict, "nobody", "192.0.2.3"), 422, "invalid_email", field="email")
    people = [strict.newcomer("alice") for _person in range(4)]
    for person in people[:3]:
        assert ask(strict, person.email, "192.0.2.3").status == 200
    assert_refused(ask(strict, people[3].email, "192.0.2.3"), 429, "rate_limited")
    assert ask(strict, people[3].email, "192.0.2.4").status == 200, "the refusal did not count for the address"


def test_a_code_stands_nowhere(strict: Stack) -> None:
    alice = strict.newcomer("alice")
    ask(strict, alice.email, "192.0.2.7")
    code = find_code(strict.smtp.wait_for(alice.email).text)
    assert len(code) == 10
    assert strict.register(alice, code=code).status == 201
    assert code not in everything_stored(strict)
    assert code not in "\n".join(strict.daemon.log)


# R62
def test_a_stranger_keeps_nobody_from_registering(strict: Stack) -> None:
    alice = strict.newcomer("alice")
    ask(strict, alice.email, "192.0.2.20")
    code = find_code(strict.smtp.wait_for(alice.email).text)

    def try_code(code: str, client: str) -> int:
        body = {"username": alice.name, "email": alice.email, "password": alice.password, "code": code}
        return strict.post("/api/register", body, headers={"X-Forwarded-For": client}).status

    assert [try_code("0000000000", "203.0.113.66") for _try in range(25)] == [422] * 20 + [429] * 5
    assert [try_code("0000000000", f"2001:db8:2:{net:x}::1") for net in range(25)] == [422] * 20 + [429] * 5
    assert try_code(code, "192.0.2.20") == 201


@pytest.mark.parametrize("domain", ["spam.example", "SPAM.example", "more.spam.example"])
def test_a_blocked_domain_is_refused_with_all_below_it(strict: Stack, domain: str) -> None:
    assert_refused(ask(strict, f"alice@{domain}", "192.0.2.8"), 422, "domain_not_allowed", field="email")


def test_who_waits_as_long_as_the_reply_says_gets_through(make_stack: MakeStack) -> None:
    """Of two limits that refuse, the reply has the longer wait."""
    limits = {"limits_total": ["2 per hour"], "limits_per_address": ["1 per minute"]}
    poor = make_stack(config={"verification": limits})
    alice = poor.newcomer("alice")
    assert ask(poor, alice.email, "198.51.100.1").status == 200
    assert ask(poor, poor.newcomer().email, "198.51.100.2").status == 200
    payload = assert_refused(ask(poor, alice.email, "198.51.100.3"), 429, "rate_limited")
    assert 3500 < payload["remainingSeconds"] <= 3600


DEFAULT_TOTAL = {"limits_total": ["60 per hour", "400 per day"], "limits_per_client": ["10 per minute", "20 per hour"]}


# R60
@pytest.mark.parametrize("kind", ["sqlite", "mariadb"])
def test_a_flood_leaves_mails_to_others(make_stack: MakeStack, kind: str) -> None:
    """A subscriber with a /48 uses all of its networks, then an attacker with six addresses all of them."""
    host = make_stack(kind, config={"verification": DEFAULT_TOTAL})
    subscriber = [ask(host, host.newcomer().email, f"2001:db8:1:{net:x}::1").status for net in range(40)]
    assert subscriber == [200] * 30 + [429] * 10
    attacker = [ask(host, host.newcomer().email, f"203.0.113.{number % 6}").status for number in range(40)]
    assert attacker.count(200) == 10, "all but the reserve"
    for number in range(5):
        alice = host.newcomer("alice")
        assert ask(host, alice.email, f"198.51.100.{number}").status == 200
        host.smtp.wait_for(alice.email)


# --- Other hosts ---


@pytest.fixture(scope="module")
def picky(make_stack: MakeStack) -> Stack:
    """A host that accepts one e-mail domain, without aliases, and whose front end expects 200 for refusals."""
    registration = {"email_domains": ["example.org"], "email_aliases": False}
    return make_stack(config={"registration": registration, "http": {"legacy_status": True}})


@pytest.mark.parametrize(
    ("email", "code"),
    [
        ("alice@example.com", "domain_not_allowed"),
        ("alice@evil.example.org", "domain_not_allowed"),
        ("alice@[127.0.0.1]", "domain_not_allowed"),
        ("alice+game@example.org", "invalid_email"),
        ("alice", "invalid_email"),
    ],
)
def test_a_picky_host_refuses_with_200(picky: Stack, email: str, code: str) -> None:
    assert_refused_as_200(ask(picky, email, language="zh"), code, "zh")
    assert assert_refused_as_200(ask(picky, email), code)["field"] == "email"


def test_nothing_is_mailed_while_registration_is_closed(make_stack: MakeStack) -> None:
    closed = make_stack(config={"registration": {"open": False}})
    assert_refused(ask(closed, "alice@example.org", language="zh"), 409, "registration_closed", language="zh")


def test_it_says_so_where_e_mail_is_off(make_stack: MakeStack) -> None:
    mute = make_stack(config={"mail": {"backend": "off"}})
    assert_refused(ask(mute, "alice@example.org", language="zh"), 503, "mail_unavailable", language="zh")


# POST /api/verify/check: a right code becomes a proof that outlives a long questionnaire.


CHECK = "/api/verify/check"


def test_a_proof_takes_the_place_of_the_code(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    reply = stack.post(CHECK, {"email": alice.email.upper(), "code": f" {stack.code_for(alice.email)} "})
    assert (reply.status, reply.json["expiresInSeconds"]) == (200, 3600)
    proof = reply.json["proof"]
    assert proof not in everything_stored(stack)
    age_code(stack, alice.email, minutes=59)
    body = {"username": alice.name, "email": alice.email, "password": alice.password, "proof": proof}
    assert stack.post("/api/register", body).status == 201
    bob = stack.newcomer("bob")
    again = stack.post("/api/register", body | {"username": bob.name})
    assert_refused(again, 422, "invalid_code", field="proof")


@pytest.mark.parametrize(
    ("fields", "status", "code", "field"),
    [
        ({"email": None}, 422, "invalid_field", "email"),
        ({"code": None}, 422, "invalid_field", "code"),
        ({"purpose": "world_domination"}, 422, "invalid_field", "purpose"),
        ({"email": "nobody"}, 422, "invalid_email", "email"),
        ({"email": "alice@[127.0.0.1]"}, 422, "domain_not_allowed", "email"),
        ({"purpose": "unlink"}, 409, "not_enabled", None),
        ({"email": "never.asked@example.org"}, 422, "invalid_code", "code"),
    ],
)
def test_what_is_refused(stack: Stack, fields: dict[str, object], status: int, code: str, field: str | None) -> None:
    body = {"email": "alice@example.org", "code": "123456", **fields}
    reply = stack.post(CHECK, {name: value for name, value in body.items() if value is not None})
    assert_refused(reply, status, code, field=field)


def test_a_refused_registration_burns_no_proof(stack: Stack) -> None:
    alice, bob = stack.newcomer("alice"), stack.pending("bob")
    body = {"username": alice.name, "email": alice.email, "proof": proof_for(stack, alice)}
    assert_refused(stack.post("/api/register", body | {"username": bob.name}), 409, "username_taken", field="username")
    assert stack.post("/api/register", body).status == 201


@pytest.mark.parametrize("kind", ["sqlite", "mariadb"])
def test_one_proof_makes_one_user_of_many(make_stack: MakeStack, kind: str) -> None:
    stack = make_stack(kind)
    alice = stack.newcomer("alice")
    body = {"email": alice.email, "proof": proof_for(stack, alice)}
    names = [stack.newcomer("rival").name for rival in range(8)]
    replies = at_once([partial(stack.post, "/api/register", body | {"username": name}) for name in names])
    statuses = Counter(reply.status for reply in replies)
    assert statuses[201] == 1, [reply.text for reply in replies]
    assert {reply.code for reply in replies if reply.status != 201} <= {"invalid_code", "email_taken"}


def test_no_host_without_codes_checks_one(make_stack: MakeStack) -> None:
    stack = make_stack(config={"registration": {"methods": ["captcha"]}})
    reply = stack.post(CHECK, {"email": "alice@example.org", "code": "123456"})
    assert_refused(reply, 503, "mail_unavailable")


# POST /api/user/update: a new e-mail address, proven by a code and confirmed by the password.


UPDATE = "/api/user/update"


def ask_for_code(stack: Stack, email: str, **fields: object) -> str:
    """As the front end does before it changes the address; comes back with the code in the mail."""
    letters = sum(map(has_code, stack.smtp.letters_to(email)))
    reply = stack.post("/api/verify/send", {"email": email, "purpose": "change_email", **fields})
    assert reply.status == 200, reply.text
    return find_code(stack.smtp.wait_for(email, letters + 1, counts=has_code).text)


def update(stack: Stack, token: str | None, person: Person, email: str, code: str, **fields: object) -> Reply:
    body = {"email": email, "code": code, "currentPassword": person.password, **fields}
    return stack.post(UPDATE, body, token=token)


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


def test_a_proof_takes_the_place_of_the_code_of_a_change(stack: Stack) -> None:
    alice = stack.approved("alice")
    token, new = stack.user_token(alice), new_address(alice)
    checked = {"email": new, "code": ask_for_code(stack, new), "purpose": "change_email"}
    proof = stack.post("/api/verify/check", checked).json["proof"]
    body = {"email": new, "currentPassword": alice.password}
    for other in (proof_for(stack, stack.newcomer("bob")), proof + "0"):
        assert_refused(stack.post(UPDATE, body | {"proof": other}, token=token), 422, "invalid_code", field="proof")
    assert stack.post(UPDATE, body | {"proof": proof}, token=token).json["email"] == new == email_of(stack, alice)
    assert_refused(stack.post(UPDATE, body | {"proof": proof}, token=token), 422, "invalid_code", field="proof")


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
    assert_refused(stack.post(UPDATE, body, token=token), 422, "invalid_field", field="code")


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
