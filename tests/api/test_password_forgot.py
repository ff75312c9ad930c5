"""POST /api/password/forgot: mails a link, and the reply does not reveal who has an account."""

import pytest

from tests.support.daemon import Reply
from tests.support.our_tables import count_rows
from tests.support.refusals import TRANSLATIONS, assert_refused
from tests.support.stack import MakeStack, Person, Stack, find_link_token


def forget(stack: Stack, email: str, client: str | None = None, **fields: object) -> Reply:
    headers = {} if client is None else {"X-Forwarded-For": client}
    return stack.post("/api/password/forgot", {"email": email, **fields}, headers=headers)


def test_a_link_is_on_its_way(stack: Stack) -> None:
    alice = stack.approved("alice")
    reply = forget(stack, alice.email)
    assert (reply.status, reply.json) == (
        200,
        {"success": True, "message": TRANSLATIONS.text("message.forgot_sent", "en")},
    )
    letter = stack.smtp.wait_for(alice.email, 3)
    assert letter.subject.startswith("Set a password")
    assert find_link_token(letter.text)
    assert f"{stack.daemon.base_url}/set-password#token=" in letter.text, "behind the #: no log, no Referer"


def test_the_answer_and_the_mail_are_in_the_callers_language(stack: Stack) -> None:
    alice = stack.pending("alice")
    reply = forget(stack, alice.email.upper(), language="zh")
    assert reply.json["message"] == TRANSLATIONS.text("message.forgot_sent", "zh")
    assert "密码" in stack.smtp.wait_for(alice.email, 2).subject


def test_the_link_goes_to_the_address_that_was_proven_not_to_the_one_that_was_typed(stack: Stack) -> None:
    """Mail servers may distinguish ALICE@ from alice@, and the two may belong to different people."""
    alice = stack.pending("alice")
    forget(stack, alice.email.upper())
    assert find_link_token(stack.smtp.wait_for(alice.email, 2).text)
    assert stack.smtp.letters_to(alice.email.upper()) == []


# --- Nobody learns who has an account ---


@pytest.fixture
def residents(stack: Stack) -> dict[str, Person]:
    """One person of each kind, by kind."""
    rejected, banned, unproven = stack.pending("rick"), stack.approved("bert"), stack.newcomer("una")
    stack.decides("reject", rejected)
    stack.decides("ban", banned)
    stack.authme.register(unproven.name, unproven.password, email=unproven.email)
    stack.sync()
    return {
        "free": stack.newcomer("fred"),
        "pending": stack.pending("pete"),
        "approved": stack.approved("ada"),
        "rejected": rejected,
        "banned": banned,
        "unproven": unproven,
    }


UNEQUAL = ("regsvc_link", "regsvc_rate_limit")
"""Tables with a row more or less for any address: links that are issued later, and windows chosen at random."""


# R3
def test_the_answer_and_the_writes_are_the_same_for_every_address(stack: Stack, residents: dict[str, Person]) -> None:
    stack.smtp.hold()  # a link is made when its mail is written
    answers, writes = {}, {}
    for kind, person in residents.items():
        forget(stack, person.email)
        before = count_rows(stack)
        reply = forget(stack, person.email)
        after = count_rows(stack)
        answers[kind] = (reply.status, reply.body)
        writes[kind] = {table: after[table] - before[table] for table in before if table not in UNEQUAL}
    stack.smtp.release()
    assert len(set(answers.values())) == 1, answers
    assert writes["free"]["regsvc_outbox"] == 1
    assert all(written == writes["free"] for written in writes.values()), writes


def test_nobody_is_mailed_at_an_address_without_an_account(stack: Stack) -> None:
    nobody, alice = stack.newcomer("nobody"), stack.pending("alice")
    forget(stack, nobody.email)
    forget(stack, alice.email)
    stack.smtp.wait_for(alice.email, 2)
    assert stack.smtp.letters_to(nobody.email) == []


# --- Refusals ---


def test_it_refuses_no_address(stack: Stack) -> None:
    for email, code in (("a@b\r\nBcc: c@d.example", "invalid_email"), ("alice@[127.0.0.1]", "domain_not_allowed")):
        assert_refused(forget(stack, email, language="zh"), 422, code, field="email", language="zh")
    in_query = stack.post("/api/password/forgot?email=alice@example.org", {})
    assert_refused(in_query, 422, "invalid_field", field="email")


# --- Limits and other hosts ---


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def strict(request: pytest.FixtureRequest, make_stack: MakeStack) -> Stack:
    limits = {"limits_per_address": ["2 per day"], "limits_total_forgot": ["9 per day"]}
    return make_stack(request.param, config={"verification": limits, "http": {"trusted_proxies": ["127.0.0.1"]}})


# R60, R13
def test_a_request_that_mails_nothing_costs_the_others_nothing(strict: Stack) -> None:
    """Here 40 requests of 10 clients, and 12 of one subscriber of IPv6: all for addresses without an account."""
    alice = strict.newcomer("alice")
    for _try in range(2):
        assert forget(strict, alice.email, "192.0.2.1").status == 200
    payload = assert_refused(
        forget(strict, alice.email, "192.0.2.2", language="zh"), 429, "rate_limited", language="zh"
    )
    assert payload["remainingSeconds"] > 86_000
    for number in range(40):
        assert forget(strict, strict.newcomer().email, f"192.0.2.{10 + number % 10}").status == 200
    statuses = [forget(strict, strict.newcomer().email, f"2001:db8:1:{net:x}::1").status for net in range(12)]
    assert statuses == [200] * 4 + [429] * 8, "one network has at most half of the total"
    bob = strict.pending("bob")
    assert forget(strict, bob.email, "192.0.2.99").status == 200
    strict.smtp.wait_for(bob.email, 2)


# R60, R3
def test_mailed_links_have_a_total_of_their_own(strict: Stack) -> None:
    """Nobody learns from it who has an account: if it is used up, known and unknown addresses get the usual answer."""
    users = [strict.pending(f"user{number}") for number in range(10)]
    for number, user in enumerate(users):
        assert forget(strict, user.email, f"198.51.100.{number}").status == 200
    replies = [forget(strict, email, "198.51.100.99") for email in (users[-1].email, strict.newcomer().email)]
    assert [reply.status for reply in replies] == [200, 200]
    assert replies[0].body == replies[1].body
    assert strict.post("/api/verify/send", {"email": users[-1].email}).status == 200
    strict.smtp.wait_for(users[-1].email, 1, counts=lambda letter: "already" in letter.subject)
    letters = strict.smtp.letters_to(users[-1].email)  # an address gets its mails in order
    assert not any(letter.subject.startswith("Set a password") for letter in letters)

    strict.daemon.stop()
    strict.daemon.start()
    assert forget(strict, users[-1].email, "198.51.100.98").status == 429, "the limit of an address holds"
    forget(strict, strict.newcomer().email, "198.51.100.98")
    metrics = strict.daemon.get("/metrics")
    assert b'companion_mail_budget_refusals_total{budget="forgot"} 1.0' in metrics.body


def test_it_says_so_where_e_mail_is_off(make_stack: MakeStack) -> None:
    mute = make_stack(config={"mail": {"backend": "off"}})
    for language in ("en", "zh"):
        reply = forget(mute, "alice@example.org", language=language)
        assert_refused(reply, 503, "mail_unavailable", language=language)
