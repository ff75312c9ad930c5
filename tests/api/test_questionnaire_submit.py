"""POST /api/questionnaire/submit: every rule holds on the server, whatever the form let through."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.authme.authme_database import DatabaseKind
from tests.support.daemon import Reply
from tests.support.each import assert_each
from tests.support.our_tables import everything_stored, our_database
from tests.support.peers.scorer import KEY, ScoringReply, ScoringService, score_reply
from tests.support.questions import BUILD, FIGHT, PASSING, SUBMIT, TALK, WORDS, asking, proof_for, submit
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Stack

MINUTES = 60_000


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def asking_stack(
    request: pytest.FixtureRequest, make_stack: MakeStack, tmp_path_factory: pytest.TempPathFactory
) -> Stack:
    return make_stack(request.param, config=asking(tmp_path_factory.mktemp("questions")))


def kept(stack: Stack) -> int:
    return len(our_database(stack).query("SELECT id FROM regsvc_questionnaire_result"))


# --- What comes ---


def test_what_came_of_the_answers_is_told(asking_stack: Stack) -> None:
    reply = submit(asking_stack, PASSING)
    assert reply.status == 200
    payload = reply.json
    assert {name: payload[name] for name in ("score", "maxScore", "passScore", "passed", "manualReviewRequired")} == {
        "score": 60,
        "maxScore": 100,
        "passScore": 60,
        "passed": True,
        "manualReviewRequired": False,
    }
    assert payload["expiresAt"] - payload["submittedAt"] == 10 * MINUTES
    assert payload["message"] == "You scored 60 points and passed. You can register now."
    assert "remainingSeconds" not in payload


def test_answers_in_words_wait_for_a_reader(asking_stack: Stack) -> None:
    payload = submit(asking_stack, TALK | WORDS, language="zh").json
    assert (payload["score"], payload["passed"], payload["manualReviewRequired"]) == (50, True, True)
    assert payload["message"].startswith("回答已保存")


def test_too_few_points_do_not_pass_and_the_wait_is_told(asking_stack: Stack) -> None:
    payload = submit(asking_stack, FIGHT | WORDS, "192.0.2.1").json
    assert (payload["score"], payload["passed"], payload["manualReviewRequired"]) == (0, False, False)
    assert payload["message"] == "You scored 0 points; you need 60. Read the rules; you can try again in 5 minutes."
    assert payload["remainingSeconds"] == 300


@pytest.mark.parametrize(
    "answer",
    [
        {"selectedOptionIds": [0]},
        {"type": None, "selectedOptionIds": [0], "textAnswer": None},
        {"type": "single_choice", "selectedOptionIds": [0], "textAnswer": "", "score": 1000},
    ],
)
def test_forms_may_send_more_or_less(asking_stack: Stack, answer: dict[str, Any]) -> None:
    for more in (BUILD, BUILD | {"9": {"type": "text", "selectedOptionIds": [], "textAnswer": " "}}):
        assert submit(asking_stack, {"1": answer} | more, passed=True, score=100).json["score"] == 60


# --- What is refused ---

REFUSED: dict[str, tuple[dict[str, Any], str, int, dict[str, int]]] = {
    "a required question left out": (BUILD, "required", 1, {}),
    "too many options": (TALK | {"7": {"selectedOptionIds": [0, 1, 2]}}, "too_many_options", 7, {"maxSelections": 2}),
    "a question nobody asked": (TALK | {"2": {"selectedOptionIds": [0]}}, "unknown_question", 2, {}),
}


def test_an_answer_that_breaks_a_rule_is_refused(asking_stack: Stack) -> None:
    def check(case: str) -> None:
        answers, fault, question, facts = REFUSED[case]
        before = kept(asking_stack)
        payload = assert_refused(submit(asking_stack, answers), 422, "invalid_answer", field="answers")
        expected = {"fault": fault, "questionId": question, **facts}
        assert {name: payload[name] for name in expected} == expected
        assert kept(asking_stack) == before

    assert_each(REFUSED, check)


def test_what_is_no_answers_at_all_is_refused(asking_stack: Stack) -> None:
    zero = {"selectedOptionIds": [0]}
    faulty: list[object] = [{"selectedOptionIds": wrong} for wrong in (0, ["0"], [True], [0.0])]
    cases: list[object] = [None, [], "1", {"one": zero}, {"01": zero}, {"": zero}, {"9": {"textAnswer": ["Hi"]}}]
    cases += [{"1": answer} for answer in ([0], {"type": 1, **zero}, *faulty)]
    assert_each(cases, lambda case: assert_refused(submit(asking_stack, case), 422, "invalid_field", field="answers"))


ODD = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=50)
ANSWERS = st.dictionaries(
    st.sampled_from(["1", "7", "9"]) | st.text(max_size=5),
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["single_choice", "multiple_choice", "text"]) | ODD,
            "selectedOptionIds": st.lists(st.integers(-1, 3) | ODD, max_size=4) | ODD,
            "textAnswer": st.text(max_size=30) | ODD,
        },
    )
    | ODD,
    max_size=4,
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(answers=ANSWERS, number=st.integers(0, 2**32))
def test_whatever_is_answered_is_no_fault_of_ours(asking_stack: Stack, answers: object, number: int) -> None:
    client = f"2001:db8:{number >> 16:x}:{number & 0xFFFF:x}::1"  # or a failed attempt would hold up the next
    assert submit(asking_stack, answers, client).status in (200, 400, 422, 429)


def test_no_answers_are_refused(asking_stack: Stack) -> None:
    assert_refused(asking_stack.post(SUBMIT), 422, "invalid_field", field="answers")
    assert_refused(submit(asking_stack, {}, language="zh"), 422, "invalid_answer", field="answers", language="zh")


def test_after_a_failed_attempt_the_client_waits(asking_stack: Stack) -> None:
    client = "2001:db8:1::1"
    assert submit(asking_stack, FIGHT, client).json["passed"] is False
    for neighbour in (client, "2001:db8:1::2"):  # of the same subscriber
        payload = assert_refused(submit(asking_stack, PASSING, neighbour), 429, "rate_limited")
        assert 290 <= payload["remainingSeconds"] <= 300
    assert submit(asking_stack, PASSING, "2001:db8:2::1").status == 200


def test_who_proved_an_address_waits_alone(asking_stack: Stack) -> None:
    alice, bob = (proof_for(asking_stack, asking_stack.newcomer(name)) for name in ("alice", "bob"))
    shared = "192.0.2.13"  # of a mobile network
    assert submit(asking_stack, FIGHT, shared, proof=alice).json["passed"] is False
    assert submit(asking_stack, PASSING, shared, proof=bob).json["passed"] is True
    payload = assert_refused(submit(asking_stack, PASSING, "192.0.2.14", proof=alice), 429, "rate_limited")
    assert 290 <= payload["remainingSeconds"] <= 300


def test_leaving_out_the_proof_does_not_save_the_wait(asking_stack: Stack) -> None:
    alice, bob = (proof_for(asking_stack, asking_stack.newcomer(name)) for name in ("alice", "bob"))
    shared = "192.0.2.16"
    for proof in (alice, bob):
        assert submit(asking_stack, FIGHT, shared, proof=proof).json["passed"] is False
    payload = assert_refused(submit(asking_stack, PASSING, shared), 429, "rate_limited")
    assert 290 <= payload["remainingSeconds"] <= 300


def test_a_proof_of_nothing_is_refused(asking_stack: Stack) -> None:
    right = proof_for(asking_stack, asking_stack.newcomer("alice"))
    for forged in ("", "x", "1.x.1", f"{right}0", f"1{right}", right[:-1], f"{right.rpartition('.')[0]}.9999999999"):
        reply = submit(asking_stack, PASSING, "192.0.2.15", proof=forged)
        assert_refused(reply, 422, "invalid_code", field="proof")
    assert submit(asking_stack, PASSING, "192.0.2.15", proof=right).json["passed"] is True


def test_where_it_is_off_that_is_said(stack: Stack) -> None:
    assert_refused(submit(stack, PASSING), 409, "not_enabled")


# --- A service that reads ---


@pytest.fixture(scope="module")
def service() -> Iterator[ScoringService]:
    with ScoringService(score_reply(25, "friendly")) as service:
        yield service


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def scoring_stack(
    request: pytest.FixtureRequest,
    make_stack: MakeStack,
    service: ScoringService,
    tmp_path_factory: pytest.TempPathFactory,
) -> Stack:
    kind: DatabaseKind = request.param
    scorer = {"scorer_url": service.url, "scorer_key": KEY, "scorer_model": "m"}
    return make_stack(kind, config=asking(tmp_path_factory.mktemp("questions"), **scorer))


def ask_the_service(stack: Stack, service: ScoringService, said: ScoringReply) -> Reply:
    service.reply = said
    return submit(stack, TALK | WORDS, "192.0.2.77")


def test_a_service_scores_answers_in_words(scoring_stack: Stack, service: ScoringService) -> None:
    payload = ask_the_service(scoring_stack, service, score_reply(25)).json
    assert (payload["score"], payload["passed"], payload["manualReviewRequired"]) == (75, True, False)
    asked = service.requests[-1]
    assert asked.answer == "I like it."
    assert "the secret rule" in asked.instructions
    assert "friendly" not in str(payload)


def test_the_key_is_told_to_nobody_else(scoring_stack: Stack, service: ScoringService) -> None:
    replies = [
        ask_the_service(scoring_stack, service, said).text for said in (ScoringReply(401, KEY.encode()), score_reply(1))
    ]
    replies += [scoring_stack.get(path).text for path in ("/api/config", "/api/questionnaire/config")]
    assert KEY not in "\n".join([*replies, *scoring_stack.daemon.log, everything_stored(scoring_stack)])


def test_the_id_of_a_question_is_no_line(asking_stack: Stack) -> None:
    answers = {f"{name}\n": answer for name, answer in PASSING.items()}
    assert submit(asking_stack, answers).status == 422
