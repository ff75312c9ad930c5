"""What applicants change while they wait: answers to the form and to the team, and the address."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from regsvc.core.text import MAX_ANSWER
from tests.api.test_decisions import answer, applied, ask, questions_of
from tests.support.captchas import post_with_guesses
from tests.support.daemon import Reply
from tests.support.event_listener import EventListener
from tests.support.our_tables import our_database
from tests.support.questions import BUILD, FIGHT, PASSING, TALK, WORDS, applies, asking, token_for
from tests.support.refusals import assert_refused
from tests.support.stack import NO_LIMIT, MakeStack, Person, Stack
from tests.support.together import at_once

# POST /api/application/answer: what is refused, and what is kept nevertheless.


def test_an_answer_after_the_decision_is_kept_once(stack: Stack) -> None:
    alice, token = applied(stack, "alice")
    ask(stack, alice)
    stack.decides("reject", alice)
    assert_refused(answer(stack, token, "Too late?"), 409, "answer_too_late")
    again = stack.post("/api/application/answer", {"text": "Again"}, headers={"X-Application-Token": token})
    assert_refused(again, 409, "nothing_asked")
    assert questions_of(stack, alice) == [("Which Bob?", "Too late?")]
    stack.decides("reopen", alice)
    assert stack.user(alice)["waitingFor"] == "review"


def test_a_long_answer_in_any_script_is_taken(stack: Stack) -> None:
    alice, token = applied(stack, "alice")
    ask(stack, alice)
    assert_refused(answer(stack, token, "\U0001f600" * (MAX_ANSWER + 1)), 422, "answer_too_long", field="text")
    assert answer(stack, token, "\U0001f600" * MAX_ANSWER).status == 200


# POST /api/application/answers: answers are changed until the decision, by the questionnaire's own rules.


ANSWERS = "/api/application/answers"


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def formal_host(
    request: pytest.FixtureRequest, make_stack: MakeStack, tmp_path_factory: pytest.TempPathFactory
) -> Stack:
    return make_stack(request.param, config=asking(tmp_path_factory.mktemp("questions")))


def applied_with_answers(formal_host: Stack, name: str, answers: object = PASSING) -> tuple[Person, str]:
    """Register a new person with these answers; return them and the token of the application."""
    person = formal_host.newcomer(name)
    reply = applies(formal_host, person, token_for(formal_host, answers))
    assert reply.status == 201, reply.text
    return person, reply.json["applicationToken"]


def change(formal_host: Stack, token: str, answers: object, **fields: object) -> Reply:
    return formal_host.post(ANSWERS, {"answers": answers, **fields}, headers={"X-Application-Token": token})


def given(formal_host: Stack, token: str) -> dict[int, Any]:
    """Return the answers of the application, by question."""
    facts = formal_host.get("/api/application", headers={"X-Application-Token": token}).json
    return {answer["questionId"]: answer["answer"] for answer in facts["answers"]}


@pytest.mark.every_database
def test_alice_adds_what_she_forgot_and_the_moderator_reads_it(formal_host: Stack) -> None:
    alice, token = applied_with_answers(formal_host, "alice")
    with EventListener(formal_host.daemon, formal_host.olivia()) as queue:
        reply = change(formal_host, token, PASSING | WORDS)
        assert (reply.status, reply.json["message"]) == (200, "Your answers were saved.")
        [event] = queue.expect_events("user_answers_changed")
        assert (event.data["username"], event.data["status"]) == (alice.name, "pending")
    assert [answer["selectedOptionIds"] for answer in reply.json["answers"]] == [[0], [0], []]
    assert given(formal_host, token) == {1: "Talk", 7: "Building", 9: "I like it."}
    user = formal_host.get("/api/admin/user", {"username": alice.name}, token=formal_host.olivia()).json["user"]
    assert user["questionnaire"]["answers"][2]["answers"] == ["I like it."]
    [entry] = formal_host.audits(alice, "user.answers_changed")
    assert (entry["operator"], entry["ip"]) == (alice.name, "127.0.0.1")
    assert change(formal_host, token, PASSING).status == 200, "again"


def test_answers_that_fail_leave_the_earlier_ones_and_start_the_wait(formal_host: Stack) -> None:
    alice, token = applied_with_answers(formal_host, "alice")
    reply = change(formal_host, token, FIGHT)
    assert_refused(reply, 422, "questionnaire_failed", field="questionnaire")
    assert (reply.json["fault"], reply.json["score"], reply.json["passScore"]) == ("kept", 0, 60)
    assert reply.json["remainingSeconds"] == 300
    assert given(formal_host, token) == {1: "Talk", 7: "Building", 9: ""}
    assert_refused(change(formal_host, token, PASSING), 429, "rate_limited")
    _bob, bobs = applied_elsewhere(formal_host, "bob")
    assert change(formal_host, bobs, PASSING | WORDS).status == 200, "others do not wait"
    assert formal_host.audits(alice, "user.answers_changed") == []


def applied_elsewhere(formal_host: Stack, name: str) -> tuple[Person, str]:
    """Register with a result from another client: failed answers make those without a proof wait."""
    person = formal_host.newcomer(name)
    reply = applies(formal_host, person, token_for(formal_host, PASSING, "198.51.100.77"))
    assert reply.status == 201, reply.text
    return person, reply.json["applicationToken"]


@pytest.mark.parametrize("answers", [{}, {"1": {"selectedOptionIds": [9]}}, TALK | {"9": {"textAnswer": "x"}}])
def test_answers_that_break_a_rule_are_refused(formal_host: Stack, answers: object) -> None:
    _alice, token = applied_elsewhere(formal_host, "alice")
    assert change(formal_host, token, answers).json["code"] == "invalid_answer"
    assert given(formal_host, token)[1] == "Talk"


def test_after_the_decision_nothing_is_changed(formal_host: Stack) -> None:
    bob, token = applied_elsewhere(formal_host, "bob")
    formal_host.decides("approve", bob)
    assert_refused(change(formal_host, token, PASSING | WORDS), 409, "wrong_status")
    assert given(formal_host, token)[9] == ""


def test_only_the_token_in_the_header_opens_it(formal_host: Stack) -> None:
    _alice, token = applied_elsewhere(formal_host, "alice")
    assert_refused(change(formal_host, f"{token}x", PASSING), 404, "application_not_found")
    assert_refused(formal_host.post(f"{ANSWERS}?token={token}", {"answers": PASSING}), 404, "application_not_found")
    assert_refused(change(formal_host, token, None), 422, "invalid_field", field="answers")


def test_without_questions_there_is_nothing_to_change(stack: Stack) -> None:
    reply = stack.register(stack.newcomer("alice"))
    assert_refused(change(stack, reply.json["applicationToken"], BUILD), 409, "not_enabled")


# POST /api/application/email: an address that nothing proves is corrected while the application waits.


EMAIL = "/api/application/email"
NO_CODES: dict[str, dict[str, object]] = {
    "registration": {"methods": ["captcha"], "limits_per_client": NO_LIMIT, "limits_total": NO_LIMIT},
    "captcha": {"answers_per_client": NO_LIMIT, "pictures_per_client": NO_LIMIT},
}


@pytest.fixture(scope="module")
def host(make_stack: MakeStack) -> Stack:
    """A host that requires no codes."""
    return make_stack("sqlite", config=NO_CODES)


def applied_without_code(host: Stack, name: str = "alice") -> tuple[Person, str]:
    person = host.newcomer(name)
    body = {"username": person.name, "password": person.password, "email": f"typo.{person.email}"}
    reply = post_with_guesses(host, "/api/register", body)
    assert reply.status == 201, reply.text
    return person, reply.json["applicationToken"]


def correct(host: Stack, token: str, email: object) -> Reply:
    return host.post(EMAIL, {"email": email}, headers={"X-Application-Token": token})


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
    alice, token = applied_without_code(host)
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
def test_what_is_refused_in_an_address(host: Stack, email: object, code: str) -> None:
    _alice, token = applied_without_code(host)
    assert correct(host, token, email).json["code"] == code
    assert look(host, token).status == 200


def test_only_while_the_application_waits(host: Stack) -> None:
    bob, token = applied_without_code(host, "bob")
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
    alice, token = applied_without_code(host)
    assert_refused(correct(host, token, alice.email), 422, "captcha_required", field="captchaToken")
    corrected = post_with_guesses(TokenHolder(host, token), EMAIL, {"email": alice.email})
    assert corrected.status == 200, corrected.text
    again = TokenHolder(host, corrected.json["applicationToken"])
    assert post_with_guesses(again, EMAIL, {"email": alice.email}).status == 429


@pytest.mark.every_database
def test_of_many_corrections_with_one_token_one_counts(make_stack: MakeStack) -> None:
    host = make_stack("mariadb", config=NO_CODES)
    for _attempt in range(5):
        alice, token = applied_without_code(host)
        replies = at_once([partial(correct, host, token, f"{number}.{alice.email}") for number in range(4)])
        assert sorted(reply.status for reply in replies) == [200, 404, 404, 404]
        [corrected] = [reply.json for reply in replies if reply.status == 200]
        assert look(host, corrected["applicationToken"]).json["email"] == corrected["email"]
