"""POST /api/register where a questionnaire is asked: no step is skipped, nothing is believed, nothing is burnt."""

from typing import Any

import pytest

from tests.support.our_tables import everything_stored
from tests.support.questions import BUILD, FIGHT, PASSING, TALK, WORDS, applies, asking, token_for
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Stack


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def asking_stack(
    request: pytest.FixtureRequest, make_stack: MakeStack, tmp_path_factory: pytest.TempPathFactory
) -> Stack:
    return make_stack(request.param, config=asking(tmp_path_factory.mktemp("questions")))


def test_a_forged_token_is_none(asking_stack: Stack) -> None:
    token_for(asking_stack)
    alice = asking_stack.newcomer("alice")
    for forged in ("", "1", "1.", "1.AAAA", "x" * 5000, "😀", "99999.deadbeef"):
        refused = applies(asking_stack, alice, forged, code="000000")
        assert_refused(refused, 422, "questionnaire_required", field="questionnaire")


def test_what_the_client_says_of_the_result_is_not_believed(asking_stack: Stack) -> None:
    alice = asking_stack.newcomer("alice")
    claims = {"passed": True, "score": 100, "passScore": 0, "manualReviewRequired": False}
    token = token_for(asking_stack, FIGHT, "192.0.2.2")
    failed = asking_stack.register(alice, questionnaire={"token": token, **claims})
    assert_refused(failed, 422, "questionnaire_failed", field="questionnaire")
    made_up = asking_stack.register(alice, questionnaire={"token": "1.x", **claims}, code="000000", passed=True)
    assert_refused(made_up, 422, "questionnaire_required", field="questionnaire")
    assert asking_stack.status(alice) is None


def test_a_refused_registration_burns_no_result(asking_stack: Stack) -> None:
    bob = asking_stack.newcomer("bob")
    applies(asking_stack, bob, token_for(asking_stack))
    alice, token = asking_stack.newcomer("alice"), token_for(asking_stack)
    code = asking_stack.code_for(alice.email)
    refusals = [
        applies(asking_stack, alice, token, code=code, username="x"),
        applies(asking_stack, alice, token, code=code, username=bob.name),
        applies(asking_stack, alice, token, code=code, password="x"),
        applies(asking_stack, alice, token, code=f"{(int(code) + 1) % 1_000_000:06}"),
    ]
    assert [reply.code for reply in refusals] == [
        "invalid_username",
        "username_taken",
        "invalid_password",
        "invalid_code",
    ]
    assert applies(asking_stack, alice, token, code=code).status == 201


def test_who_applies_again_is_seen_beside_the_earlier_answers(asking_stack: Stack) -> None:
    stack, alice = asking_stack, asking_stack.newcomer("alice")

    def shown() -> dict[str, Any]:
        user: dict[str, Any] = stack.get("/api/admin/user", {"username": alice.name}, token=stack.olivia()).json["user"]
        return user

    assert applies(stack, alice, token_for(stack, TALK | WORDS)).status == 201
    assert shown()["earlierAnswers"] is None
    first = shown()["questionnaire"]["answers"]
    stack.decides("reject", alice, mayReapply=True)
    assert shown()["earlierAnswers"] is None  # they are still those of the application

    applied = applies(stack, alice, token_for(stack, PASSING))

    assert applied.status == 201
    assert shown()["earlierAnswers"] == first
    assert shown()["questionnaire"]["answers"] != first
    stack.decides("approve", alice)
    stack.decides("reopen", alice)
    assert shown()["earlierAnswers"] == first, "those of the approval are still the same"
    assert stack.decide("ask", alice, question="Why?").status == 200
    assert shown()["earlierAnswers"] == first
    headers, now = {"X-Application-Token": applied.json["applicationToken"]}, shown()["questionnaire"]["answers"]
    body = {"answers": TALK | BUILD | WORDS}
    assert stack.post("/api/application/answers", body, headers=headers).status == 200
    assert shown()["earlierAnswers"] == now, "what the question was about"
    assert stack.post("/api/application/answers", {"answers": PASSING}, headers=headers).status == 200
    stack.decides("approve", alice)
    export = stack.get("/api/user/export", token=stack.user_token(alice)).json
    review, *earlier = export["reviews"]  # of this account, not of the rejected one
    assert len(earlier) == 2
    assert [len(answer["answers"]) for answer in review["answers"]] == [1, 1, 0]


def test_the_review_queue_shows_score_and_summary(asking_stack: Stack) -> None:
    alice = asking_stack.newcomer("alice")
    applies(asking_stack, alice, token_for(asking_stack, TALK | WORDS))
    waiting = asking_stack.get("/api/admin/users", {"status": "pending"}, token=asking_stack.olivia())
    [payload] = [user for user in waiting.json["users"] if user["username"] == alice.name]
    assert (payload["questionnaireScore"], payload["questionnairePassed"]) == (50, True)
    assert payload["questionnaireReviewSummary"] == (
        "50 of 100 points; 60 needed.\nAnswers to review: 1, worth up to 30 more points."
    )
    olivia = asking_stack.get("/api/admin/users", {"search": "Olivia"}, token=asking_stack.olivia()).json["users"]
    assert [user["questionnaireScore"] for user in olivia] == [None]
    assert [user["questionnairePassed"] for user in olivia] == [None]
    assert [user["questionnaireReviewSummary"] for user in olivia] == [None]


def test_no_token_is_kept_or_logged(asking_stack: Stack) -> None:
    tokens = [token_for(asking_stack), token_for(asking_stack, FIGHT, "192.0.2.3")]
    applies(asking_stack, asking_stack.newcomer("alice"), tokens[0])
    applies(asking_stack, asking_stack.newcomer("bob"), tokens[1])
    seen = "\n".join([*asking_stack.daemon.log, everything_stored(asking_stack)])
    assert not [token for token in tokens if token.partition(".")[2] in seen]
