"""POST /api/admin/user/ask and POST /api/application/answer: the team asks, and the applicant answers."""

import pytest

from tests.api.test_admin_user_role import with_role
from tests.support.command_line import companion
from tests.support.daemon import Reply
from tests.support.event_listener import EventListener
from tests.support.refusals import assert_refused
from tests.support.stack import Person, Stack
from tests.support.together import at_once

PATH = "/api/application/answer"


def applied(stack: Stack, name: str) -> tuple[Person, str]:
    """Register a new person; return them and the token of the application."""
    person = stack.newcomer(name)
    reply = stack.register(person)
    assert reply.status == 201, reply.text
    return person, reply.json["applicationToken"]


def ask(stack: Stack, person: Person, question: str = "Which Bob?", token: str | None = None) -> Reply:
    body = {"username": person.name, "question": question}
    return stack.post("/api/admin/user/ask", body, token=token or stack.olivia())


def answer(stack: Stack, token: str, text: str = "The builder.") -> Reply:
    return stack.post(PATH, {"text": text}, headers={"X-Application-Token": token})


def application(stack: Stack, token: str) -> dict[str, object]:
    reply: dict[str, object] = stack.get("/api/application", headers={"X-Application-Token": token}).json
    return reply


def questions_of(stack: Stack, person: Person) -> list[tuple[str, str | None]]:
    """Return what the person was asked and answered, oldest first."""
    user = stack.get("/api/admin/user", {"username": person.name}, token=stack.olivia()).json["user"]
    return [(asked["question"], asked["answer"]) for asked in user["questions"]][::-1]


@pytest.mark.every_database
def test_alice_is_asked_answers_and_is_approved(stack: Stack) -> None:
    alice, token = applied(stack, "alice")
    with EventListener(stack.daemon, stack.olivia()) as queue:
        reply = ask(stack, alice, " Which Bob?\u202e ")
        assert (reply.status, reply.json["status"], "warnings" in reply.json) == (200, "pending", False)
        letter = stack.smtp.wait_for(alice.email, 2)  # after the code
        assert "Which Bob?" in letter.text
        assert f"/application#token={token}" in letter.text
        assert (user := stack.user(alice))["waitingFor"] == "applicant"
        assert user["answeredAt"] is None
        seen = application(stack, token)
        assert (seen["waitingFor"], seen["place"]) == ("applicant", None)
        assert [asked["question"] for asked in seen["questions"]] == ["Which Bob?"]  # type: ignore[attr-defined]

        reply = answer(stack, token, " The builder. ")

        assert (reply.status, reply.json["waitingFor"]) == (200, "review")
        assert reply.json["questions"][0]["answer"] == "The builder."
        names = [event.name for event in queue.expect_events("user_asked", "user_question_answered")]
        assert names == ["user_asked", "user_question_answered"]
    assert (user := stack.user(alice))["waitingFor"] == "review"
    assert user["answeredAt"] is not None
    assert questions_of(stack, alice) == [("Which Bob?", "The builder.")]
    assert [entry["operator"] for entry in stack.audits(alice, "user.question_answered")] == [alice.name]
    stack.decides("approve", alice)
    assert (stack.user(alice)["waitingFor"], application(stack, token)["waitingFor"]) == (None, None)
    export = stack.get("/api/user/export", token=stack.user_token(alice)).json
    [asked] = export["questions"]
    assert asked.keys() == {"question", "askedAt", "answer", "answeredAt"}


def test_what_is_refused(stack: Stack) -> None:
    alice, token = applied(stack, "alice")
    bob = stack.approved("bob")
    assert_refused(answer(stack, token), 409, "nothing_asked")
    assert_refused(ask(stack, bob), 409, "wrong_status")
    assert_refused(ask(stack, alice, " \u202e"), 422, "invalid_field", field="question")
    assert_refused(ask(stack, alice, "x" * 2001), 422, "invalid_field", field="question")
    _rita, rita = with_role(stack, "reviewer")
    assert ask(stack, alice, token=rita).status == 200
    assert_refused(answer(stack, token, "x" * 4001), 422, "answer_too_long", field="text")
    assert_refused(answer(stack, token, "\n"), 422, "invalid_field", field="text")
    assert answer(stack, token).status == 200
    assert_refused(answer(stack, token), 409, "nothing_asked")
    assert_refused(answer(stack, "7.x"), 404, "application_not_found")


def test_another_question_stands_beside_the_first_up_to_twenty(stack: Stack) -> None:
    alice, token = applied(stack, "alice")
    for number in range(20):
        assert ask(stack, alice, f"Question {number}").status == 200
    assert_refused(ask(stack, alice, "One more"), 409, "too_many_questions", field="username")
    assert ask(stack, alice, "Question 19").status == 200, "asked already"
    assert answer(stack, token).status == 200
    assert questions_of(stack, alice)[18:] == [("Question 18", None), ("Question 19", "The builder.")]


@pytest.mark.every_database
def test_forty_who_ask_answer_and_decide_lose_nothing(stack: Stack) -> None:
    alice, token = applied(stack, "alice")
    olivia = stack.olivia()
    assert {reply.status for reply in at_once([lambda: ask(stack, alice, token=olivia)] * 40)} == {200}
    assert questions_of(stack, alice) == [("Which Bob?", None)]
    assert len(stack.audits(alice, "user.asked")) == 1

    replies = at_once([lambda n=n: answer(stack, token, f"Answer {n}") for n in range(40)])  # type: ignore[misc]
    [kept] = [number for number, reply in enumerate(replies) if reply.status == 200]
    assert {reply.json["code"] for reply in replies if reply.status != 200} <= {"nothing_asked", "rate_limited"}
    assert questions_of(stack, alice) == [("Which Bob?", f"Answer {kept}")]

    ask(stack, alice, "And Carla?")
    calls = [lambda: stack.decide("approve", alice), lambda: answer(stack, token), lambda: ask(stack, alice, "Dave?")]
    replies = at_once([calls[number % 3] for number in range(39)])
    assert [reply.status for reply in replies[::3]].count(200) == 1, "one approval"
    assert stack.status(alice) == "approved"
    assert stack.user(alice)["waitingFor"] is None
    accepted = sum(reply.status == 200 or reply.json["code"] == "answer_too_late" for reply in replies[1::3])
    assert sum(told is not None for _asked, told in questions_of(stack, alice)) == 1 + accepted


def test_the_command_line_asks_and_shows(stack: Stack) -> None:
    alice, config = stack.pending("alice"), stack.daemon.config_file
    run = companion("users", "ask", alice.name, "Which Bob?", config=config)
    assert (run.status, stack.user(alice)["waitingFor"]) == (0, "applicant")
    assert "Which Bob?" in companion("users", "show", alice.name, config=config).output
