"""POST /api/application/email: an address that nothing proves is corrected while the application waits."""

from dataclasses import dataclass
from functools import partial

import pytest

from tests.support.captchas import post_with_guesses
from tests.support.daemon import Reply
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import NO_LIMIT, MakeStack, Person, Stack
from tests.support.together import at_once

PATH = "/api/application/email"
NO_CODES: dict[str, dict[str, object]] = {
    "registration": {"methods": ["captcha"], "limits_per_client": NO_LIMIT, "limits_total": NO_LIMIT},
    "captcha": {"answers_per_client": NO_LIMIT, "pictures_per_client": NO_LIMIT},
}


@pytest.fixture(scope="module")
def host(make_stack: MakeStack) -> Stack:
    """A host that requires no codes."""
    return make_stack("sqlite", config=NO_CODES)


def applied(host: Stack, name: str = "alice") -> tuple[Person, str]:
    person = host.newcomer(name)
    body = {"username": person.name, "password": person.password, "email": f"typo.{person.email}"}
    reply = post_with_guesses(host, "/api/register", body)
    assert reply.status == 201, reply.text
    return person, reply.json["applicationToken"]


def correct(host: Stack, token: str, email: object) -> Reply:
    return host.post(PATH, {"email": email}, headers={"X-Application-Token": token})


@dataclass
class TokenHolder:
    """A client that sends the token of an application with every request."""

    host: Stack
    token: str

    def get(self, path: str) -> Reply:
        return self.host.get(path)

    def post(self, path: str, body: object = None) -> Reply:
        return self.host.post(path, body, headers={"X-Application-Token": self.token})


def look(host: Stack, token: str) -> Reply:
    return host.get("/api/application", headers={"X-Application-Token": token})


def test_alice_corrects_her_address(host: Stack) -> None:
    alice, token = applied(host)
    reply = correct(host, token, alice.email)
    assert (reply.status, reply.json["email"]) == (200, alice.email)
    newer = reply.json["applicationToken"]
    assert_refused(look(host, token), 404, "application_not_found")
    assert look(host, newer).json["email"] == alice.email
    [entry] = host.audits(alice, "user.email_changed")
    assert (entry["operator"], entry["detail"], entry["ip"]) == (alice.name, {"why": "corrected"}, "127.0.0.1")
    [row] = our_database(host).query("SELECT * FROM regsvc_user WHERE username_key = ?", (alice.key,))
    assert (row["email_key"], row["is_email_verified"]) == (None, 0), "it is still a note"
    assert host.smtp.letters_to(alice.email) == host.smtp.receipts == []


@pytest.mark.parametrize(
    ("email", "code"),
    [("nobody", "invalid_email"), ("a@[127.0.0.1]", "domain_not_allowed"), (None, "invalid_field")],
)
def test_what_is_refused(host: Stack, email: object, code: str) -> None:
    _alice, token = applied(host)
    assert correct(host, token, email).json["code"] == code
    assert look(host, token).status == 200


def test_only_while_the_application_waits(host: Stack) -> None:
    bob, token = applied(host, "bob")
    host.decides("reject", bob)
    assert_refused(correct(host, token, bob.email), 409, "wrong_status")
    assert_refused(correct(host, f"{token}x", bob.email), 404, "application_not_found")


def test_a_proven_address_is_not_corrected(stack: Stack) -> None:
    alice = stack.newcomer("alice")
    token = stack.register(alice).json["applicationToken"]
    assert_refused(correct(stack, token, f"new.{alice.email}"), 409, "not_enabled")
    assert look(stack, token).json["email"] == alice.email


def test_captchas_and_limits_are_those_of_codes(make_stack: MakeStack) -> None:
    config = {
        **NO_CODES,
        "captcha": {**NO_CODES["captcha"], "also_for": ["verify_send"]},
        "verification": {"limits_per_address": ["1 per hour"]},
    }
    host = make_stack("sqlite", config=config)
    alice, token = applied(host)
    assert_refused(correct(host, token, alice.email), 422, "captcha_required", field="captchaToken")
    corrected = post_with_guesses(TokenHolder(host, token), PATH, {"email": alice.email})
    assert corrected.status == 200, corrected.text
    again = TokenHolder(host, corrected.json["applicationToken"])
    assert post_with_guesses(again, PATH, {"email": alice.email}).status == 429


@pytest.mark.every_database
def test_of_many_corrections_with_one_token_one_counts(make_stack: MakeStack) -> None:
    host = make_stack("mariadb", config=NO_CODES)
    for _attempt in range(5):
        alice, token = applied(host)
        replies = at_once([partial(correct, host, token, f"{number}.{alice.email}") for number in range(4)])
        assert sorted(reply.status for reply in replies) == [200, 404, 404, 404]
        [corrected] = [reply.json for reply in replies if reply.status == 200]
        assert look(host, corrected["applicationToken"]).json["email"] == corrected["email"]
