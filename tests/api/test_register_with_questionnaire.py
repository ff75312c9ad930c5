"""POST /api/register where a questionnaire is asked: no step is skipped, nothing is believed, nothing is burnt."""

from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from tests.support.our_tables import everything_stored, tries_of
from tests.support.questions import FIGHT, PASSING, TALK, WORDS, applies, asking, submit, token_for
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Stack
from tests.support.together import at_once

TOGETHER = 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("questions")


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def asking_stack(request: pytest.FixtureRequest, make_stack: MakeStack, folder: Path) -> Stack:
    return make_stack(request.param, config=asking(folder))


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def trusting_stack(request: pytest.FixtureRequest, make_stack: MakeStack, folder: Path) -> Stack:
    """A host without review."""
    return make_stack(request.param, config=asking(folder) | {"registration": {"approval": False}})


def test_who_passed_registers(asking_stack: Stack) -> None:
    alice = asking_stack.newcomer("alice")
    reply = applies(asking_stack, alice, token_for(asking_stack))
    assert (reply.status, reply.json["status"]) == (201, "pending")


def test_nobody_registers_without_answers(asking_stack: Stack) -> None:
    alice = asking_stack.newcomer("alice")
    assert_refused(asking_stack.register(alice), 422, "questionnaire_required", field="questionnaire")
    assert asking_stack.status(alice) is None


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


def test_a_result_is_good_once(asking_stack: Stack) -> None:
    token = token_for(asking_stack)
    assert applies(asking_stack, asking_stack.newcomer("alice"), token).status == 201
    again = applies(asking_stack, asking_stack.newcomer("bob"), token)
    assert_refused(again, 422, "questionnaire_required", field="questionnaire")


def test_one_result_makes_one_user_of_many(asking_stack: Stack) -> None:
    for _round in range(5):
        token = token_for(asking_stack)
        people = [asking_stack.newcomer("rival") for person in range(TOGETHER)]
        codes = [asking_stack.code_for(person.email) for person in people]
        replies = at_once(
            [
                partial(applies, asking_stack, person, token, code=code)
                for person, code in zip(people, codes, strict=True)
            ]
        )
        payload = Counter((reply.status, reply.code) for reply in replies)
        assert payload == {(201, None): 1, (422, "questionnaire_required"): TOGETHER - 1}
        loser = next(person for person, reply in zip(people, replies, strict=True) if reply.status != 201)
        code = codes[people.index(loser)]
        assert applies(asking_stack, loser, token_for(asking_stack), code=code).status == 201, "the code is whole"


def test_a_missing_result_costs_no_try_of_the_code(asking_stack: Stack) -> None:
    alice = asking_stack.newcomer("alice")
    code = asking_stack.code_for(alice.email)
    for _time in range(7):
        assert asking_stack.register(alice, code="000000").code == "questionnaire_required"
    assert tries_of(asking_stack, alice.email) == 0
    assert applies(asking_stack, alice, token_for(asking_stack), code=code).status == 201


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


def test_an_answer_in_words_is_read_before_its_writer_may_play(trusting_stack: Stack) -> None:
    alice, bob = trusting_stack.newcomer("alice"), trusting_stack.newcomer("bob")
    waiting = applies(trusting_stack, alice, token_for(trusting_stack, TALK | WORDS))
    assert (waiting.status, waiting.json["status"]) == (201, "pending")
    assert applies(trusting_stack, bob, token_for(trusting_stack)).json["status"] == "approved"
    trusting_stack.decides("approve", alice)
    assert trusting_stack.status(alice) == "approved"


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


def test_where_it_is_off_a_token_is_ignored(stack: Stack) -> None:
    assert applies(stack, stack.newcomer("alice"), "1.whatever").status == 201
    assert submit(stack, PASSING).code == "not_enabled"
