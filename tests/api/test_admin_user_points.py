"""POST /api/admin/user/points: a person reads the text answers, and the score follows."""

from typing import Any

import pytest

from tests.support.command_line import companion
from tests.support.questions import TALK, UNSCORED, WORDS, applies, asking, token_for
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Person, Stack
from tests.support.together import at_once

PATH = "/api/admin/user/points"


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def host(request: pytest.FixtureRequest, make_stack: MakeStack, tmp_path_factory: pytest.TempPathFactory) -> Stack:
    return make_stack(request.param, config=asking(tmp_path_factory.mktemp("points"), UNSCORED, pass_score=60))


def waiting(host: Stack) -> Person:
    alice = host.newcomer("alice")
    told = {"11": {"type": "text", "textAnswer": "Bob"}}
    assert applies(host, alice, token_for(host, TALK | WORDS | told)).status == 201
    return alice


def result(host: Stack, person: Person) -> dict[str, Any]:
    user = host.get("/api/admin/user", {"username": person.name}, token=host.olivia()).json["user"]
    shown: dict[str, Any] = user["questionnaire"]
    return shown


def test_olivia_reads_the_answers_and_the_score_follows(host: Stack) -> None:
    alice = waiting(host)
    assert (result(host, alice)["score"], host.user(alice)["questionnaireRequiresReview"]) == (50, True)

    assert host.decide("points", alice, questionId=9, points=25).status == 200

    read = result(host, alice)
    assert (read["score"], read["isPassed"], read["requiresReview"]) == (75, True, True)
    assert read["summary"].startswith("75 of ")
    assert "Answers to review: 1" in read["summary"]

    assert host.decide("points", alice, questionId=11, points=0).status == 200  # read, but it brings none

    read = result(host, alice)
    assert (read["score"], read["requiresReview"]) == (75, False)
    assert [entry["detail"] for entry in host.audits(alice, "user.answer_judged")] == [
        {"questionId": 11, "points": 0},
        {"questionId": 9, "points": 25},
    ]


def test_points_may_be_changed_until_the_decision(host: Stack) -> None:
    alice = waiting(host)
    host.decide("points", alice, questionId=9, points=30)
    host.decide("points", alice, questionId=9, points=5)
    read = result(host, alice)
    assert (read["score"], read["isPassed"]) == (55, False)
    host.decides("reject", alice)
    assert_refused(host.decide("points", alice, questionId=9, points=30), 409, "wrong_status")
    assert (result(host, alice)["score"], result(host, alice)["requiresReview"]) == (55, False)
    assert host.user(alice)["questionnaireRequiresReview"] is False


def test_what_is_refused(host: Stack) -> None:
    alice = waiting(host)
    for fields, field in (
        ({"questionId": 9, "points": 31}, "points"),
        ({"questionId": 9, "points": -1}, "points"),
        ({"questionId": 1, "points": 5}, "questionId"),  # a choice
        ({"questionId": 99, "points": 5}, "questionId"),
    ):
        assert_refused(host.decide("points", alice, **fields), 422, "invalid_field", field=field)
    assert_refused(
        host.decide("points", host.newcomer(), questionId=9, points=1), 404, "user_not_found", field="username"
    )
    assert result(host, alice)["score"] == 50


def test_forty_at_once_end_in_one_of_their_scores(host: Stack) -> None:
    alice, olivia = waiting(host), host.olivia()
    calls = [
        lambda points=points: host.post(
            PATH, {"username": alice.name, "questionId": 9, "points": points % 30}, token=olivia
        )
        for points in range(40)
    ]
    assert {reply.status for reply in at_once(calls)} == {200}
    read = result(host, alice)
    [judged] = [answer["points"] for answer in read["answers"] if answer["questionId"] == 9]
    assert read["score"] == 50 + judged


def test_the_command_line_judges(host: Stack) -> None:
    alice = waiting(host)
    done = companion("users", "points", alice.name, "9", "12", config=host.daemon.config_file)
    assert (done.status, result(host, alice)["score"]) == (0, 62)
