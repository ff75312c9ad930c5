"""POST /api/verify/send: mails a code, and the reply does not reveal who has an account."""

from typing import Any

import pytest

from tests.support.daemon import Reply
from tests.support.each import assert_each
from tests.support.our_tables import age_code, count_rows, everything_stored, our_database
from tests.support.refusals import TRANSLATIONS, assert_refused, assert_refused_as_200
from tests.support.stack import MakeStack, Person, Stack, find_code

PATH = "/api/verify/send"

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
    return stack.post(PATH, {"email": email, **fields}, headers=headers)


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
    reply = stack.post(PATH + query, {"email": alice.email, **body}, headers=headers)
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
        reply = stack.post(PATH, {**body, "language": "zh"})
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
