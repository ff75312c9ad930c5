"""POST /api/application/answers: answers are changed until the decision, by the questionnaire's own rules."""

from typing import Any

import pytest

from tests.support.daemon import Reply
from tests.support.event_listener import EventListener
from tests.support.questions import BUILD, FIGHT, PASSING, TALK, WORDS, applies, asking, token_for
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Person, Stack

PATH = "/api/application/answers"


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def host(request: pytest.FixtureRequest, make_stack: MakeStack, tmp_path_factory: pytest.TempPathFactory) -> Stack:
    return make_stack(request.param, config=asking(tmp_path_factory.mktemp("questions")))


def applied(host: Stack, name: str, answers: object = PASSING) -> tuple[Person, str]:
    """Register a new person with these answers; return them and the token of the application."""
    person = host.newcomer(name)
    reply = applies(host, person, token_for(host, answers))
    assert reply.status == 201, reply.text
    return person, reply.json["applicationToken"]


def change(host: Stack, token: str, answers: object, **fields: object) -> Reply:
    return host.post(PATH, {"answers": answers, **fields}, headers={"X-Application-Token": token})


def given(host: Stack, token: str) -> dict[int, Any]:
    """Return the answers of the application, by question."""
    facts = host.get("/api/application", headers={"X-Application-Token": token}).json
    return {answer["questionId"]: answer["answer"] for answer in facts["answers"]}


@pytest.mark.every_database
def test_alice_adds_what_she_forgot_and_the_moderator_reads_it(host: Stack) -> None:
    alice, token = applied(host, "alice")
    with EventListener(host.daemon, host.olivia()) as queue:
        reply = change(host, token, PASSING | WORDS)
        assert (reply.status, reply.json["message"]) == (200, "Your answers were saved.")
        [event] = queue.expect_events("user_answers_changed")
        assert (event.data["username"], event.data["status"]) == (alice.name, "pending")
    assert [answer["selectedOptionIds"] for answer in reply.json["answers"]] == [[0], [0], []]
    assert given(host, token) == {1: "Talk", 7: "Building", 9: "I like it."}
    user = host.get("/api/admin/user", {"username": alice.name}, token=host.olivia()).json["user"]
    assert user["questionnaire"]["answers"][2]["answers"] == ["I like it."]
    [entry] = host.audits(alice, "user.answers_changed")
    assert (entry["operator"], entry["ip"]) == (alice.name, "127.0.0.1")
    assert change(host, token, PASSING).status == 200, "again"


def test_answers_that_fail_leave_the_earlier_ones_and_start_the_wait(host: Stack) -> None:
    alice, token = applied(host, "alice")
    reply = change(host, token, FIGHT)
    assert_refused(reply, 422, "questionnaire_failed", field="questionnaire")
    assert (reply.json["fault"], reply.json["score"], reply.json["passScore"]) == ("kept", 0, 60)
    assert reply.json["remainingSeconds"] == 300
    assert given(host, token) == {1: "Talk", 7: "Building", 9: ""}
    assert_refused(change(host, token, PASSING), 429, "rate_limited")
    _bob, bobs = applied_elsewhere(host, "bob")
    assert change(host, bobs, PASSING | WORDS).status == 200, "others do not wait"
    assert host.audits(alice, "user.answers_changed") == []


def applied_elsewhere(host: Stack, name: str) -> tuple[Person, str]:
    """Register with a result from another client: failed answers make those without a proof wait."""
    person = host.newcomer(name)
    reply = applies(host, person, token_for(host, PASSING, "198.51.100.77"))
    assert reply.status == 201, reply.text
    return person, reply.json["applicationToken"]


@pytest.mark.parametrize("answers", [{}, {"1": {"selectedOptionIds": [9]}}, TALK | {"9": {"textAnswer": "x"}}])
def test_answers_that_break_a_rule_are_refused(host: Stack, answers: object) -> None:
    _alice, token = applied_elsewhere(host, "alice")
    assert change(host, token, answers).json["code"] == "invalid_answer"
    assert given(host, token)[1] == "Talk"


def test_after_the_decision_nothing_is_changed(host: Stack) -> None:
    bob, token = applied_elsewhere(host, "bob")
    host.decides("approve", bob)
    assert_refused(change(host, token, PASSING | WORDS), 409, "wrong_status")
    assert given(host, token)[9] == ""


def test_only_the_token_in_the_header_opens_it(host: Stack) -> None:
    _alice, token = applied_elsewhere(host, "alice")
    assert_refused(change(host, f"{token}x", PASSING), 404, "application_not_found")
    assert_refused(host.post(f"{PATH}?token={token}", {"answers": PASSING}), 404, "application_not_found")
    assert_refused(change(host, token, None), 422, "invalid_field", field="answers")


def test_without_questions_there_is_nothing_to_change(stack: Stack) -> None:
    reply = stack.register(stack.newcomer("alice"))
    assert_refused(change(stack, reply.json["applicationToken"], BUILD), 409, "not_enabled")
