"""The questionnaire: its questions, answers, scores, and registrations that need it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.authme.authme_database import DatabaseKind
from tests.support.command_line import companion
from tests.support.daemon import Reply, to_json
from tests.support.each import assert_each
from tests.support.our_tables import everything_stored, our_database
from tests.support.peers.scorer import KEY, ScoringReply, ScoringService, score_reply
from tests.support.questions import (
    BUILD,
    FIGHT,
    PASSING,
    SUBMIT,
    TALK,
    UNSCORED,
    WORDS,
    applies,
    asking,
    proof_for,
    submit,
    token_for,
)
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Person, Stack
from tests.support.together import at_once

# GET /api/questionnaire/config: the questions, without the scoring.


CONFIG = "/api/questionnaire/config"


@pytest.fixture(scope="module")
def demanding_stack(make_stack: MakeStack, tmp_path_factory: pytest.TempPathFactory) -> Stack:
    return make_stack(config=asking(tmp_path_factory.mktemp("questions"), pass_score=55))


def questions(stack: Stack, language: str | None = None, **headers: str) -> list[str]:
    reply = stack.get(CONFIG, {"language": language} if language else None, headers=headers)
    assert reply.status == 200
    return [question["question"] for question in reply.json["data"]["questions"]]


def test_all_that_a_form_needs_is_told(demanding_stack: Stack) -> None:
    assert demanding_stack.get(CONFIG).json == {
        "success": True,
        "data": {
            "enabled": True,
            "passScore": 55,
            "questions": [
                {
                    "id": 1,
                    "question": "What do you do?",
                    "language": "en",
                    "type": "single_choice",
                    "required": True,
                    "input": {"minSelections": 1, "maxSelections": 1},
                    "options": [{"id": 0, "text": "Talk"}, {"id": 1, "text": "Fight"}],
                },
                {
                    "id": 7,
                    "question": "Which are allowed?",
                    "language": None,
                    "type": "multiple_choice",
                    "required": False,
                    "input": {"minSelections": 1, "maxSelections": 2},
                    "options": [
                        {"id": 0, "text": "Building"},
                        {"id": 1, "text": "Cheating"},
                        {"id": 2, "text": "Singing"},
                    ],
                },
                {
                    "id": 9,
                    "question": "Why here?",
                    "language": "en",
                    "type": "text",
                    "required": False,
                    "input": {"minLength": 5, "maxLength": 20, "multiline": True, "placeholder": "A sentence"},
                    "options": [],
                },
            ],
        },
    }


@pytest.mark.parametrize("language", ["en", "zh", "de"])
def test_neither_scores_nor_rules_are_told(demanding_stack: Stack, language: str) -> None:
    payload = demanding_stack.get(CONFIG, {"language": language}).text
    for secret in ('score"', "the secret rule", "50", "-10", "-30", "maxScore", "scoring"):
        assert secret not in payload.replace('passScore"', "")


@pytest.mark.parametrize(
    ("language", "accept", "asked"),
    [
        ("en", "zh", ["What do you do?", "Which are allowed?", "Why here?"]),
        ("zh-CN", "", ["你会怎么做？", "Which are allowed?", "为什么来这里？"]),
        ("de", "", ["Was tust du?", "Which are allowed?", "Why here?"]),
        ("fr", "zh", ["What do you do?", "Which are allowed?", "Why here?"]),
        ("", "fr, de;q=0.8, en;q=0.3", ["Was tust du?", "Which are allowed?", "Why here?"]),
        ("", "fr", ["What do you do?", "Which are allowed?", "Why here?"]),
    ],
)
def test_it_asks_in_the_language_of_the_player_as_far_as_the_host_wrote_it(
    demanding_stack: Stack, language: str, accept: str, asked: list[str]
) -> None:
    assert questions(demanding_stack, language or None, **{"Accept-Language": accept}) == asked


def test_the_language_of_each_question_is_told(demanding_stack: Stack) -> None:
    """Screen readers speak it so, also where the page is in another one."""
    asked = demanding_stack.get(CONFIG, {"language": "de"}).json["data"]["questions"]
    assert [question["language"] for question in asked] == ["de", None, "en"]


def test_the_public_config_tells_of_it(demanding_stack: Stack) -> None:
    payload = demanding_stack.get("/api/config").json["config"]["questionnaire"]
    assert payload == {"enabled": True, "passScore": 55, "hasTextQuestions": True}


def test_a_player_may_see_it_whoever_he_is(demanding_stack: Stack) -> None:
    assert demanding_stack.get(CONFIG, token=demanding_stack.olivia()).status == 200


def test_where_it_is_off_that_is_told(stack: Stack) -> None:
    assert stack.get(CONFIG).json == {"success": True, "data": {"enabled": False, "passScore": 60, "questions": []}}


def test_the_sample_is_asked_as_it_is(make_stack: MakeStack) -> None:
    sample = Path(__file__).resolve().parents[2] / "conf" / "questionnaire.toml"
    stack = make_stack(config={"questionnaire": {"file": str(sample)}})
    asked = stack.get(CONFIG, {"language": "zh"}).json["data"]["questions"]
    assert [question["id"] for question in asked] == [1, 2, 3, 4]
    assert not to_json(asked).isascii()


# POST /api/questionnaire/submit: every rule holds on the server, whatever the form let through.


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


# POST /api/register where a questionnaire is asked: no step is skipped, nothing is believed, nothing is burnt.


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


# POST /api/admin/user/points: a person reads the text answers, and the score follows.


POINTS = "/api/admin/user/points"


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
    assert host.user(alice)["questionnaireUnread"] == 2

    assert host.decide("points", alice, questionId=9, points=25).status == 200

    read = result(host, alice)
    assert (read["score"], read["isPassed"], read["requiresReview"]) == (75, True, True)
    assert read["summary"].startswith("75 of ")
    assert "Answers to review: 1" in read["summary"]
    assert host.user(alice)["questionnaireUnread"] == 1

    assert host.decide("points", alice, questionId=11, points=0).status == 200  # read, but it brings none

    read = result(host, alice)
    assert (read["score"], read["requiresReview"]) == (75, False)
    assert host.user(alice)["questionnaireUnread"] == 0
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
            POINTS, {"username": alice.name, "questionId": 9, "points": points % 30}, token=olivia
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
