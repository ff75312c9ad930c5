"""Answering the questionnaire and registering with the result: the services on both databases, without HTTP."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regsvc.auth.verification_codes import CodeOrProof
from regsvc.core.addresses import Caller
from regsvc.core.errors import InvalidAnswer, NotEnabled, QuestionnaireRequired, RateLimited
from regsvc.database.models import RateLimitWindow, StoredQuestionnaire
from regsvc.registration.questionnaire.questions import Answer
from regsvc.registration.questionnaire.service import SubmitQuestionnaireReply, Submitter
from regsvc.registration.registration import RegistrationRequest
from regsvc.users.user_details import AnsweredQuestion
from tests.support.manual_clock import ManualClock
from tests.support.peers.scorer import KEY, NO_REPLY, ScoringReply, ScoringService, score_reply
from tests.support.services import CALLER, PASSWORD, MakeServices, ServiceHarness

pytestmark = pytest.mark.one_database("mariadb")

QUESTIONS = """
[[question]]
id = 1
type = "single_choice"
text = { en = "Which?", zh = "哪一个？" }
[[question.option]]
text = { en = "Right", zh = "对" }
score = 60
[[question.option]]
text = "Nearly"
score = 40
[[question.option]]
text = "Wrong"
"""
TEXT = """
[[question]]
id = 2
type = "text"
required = false
text = "Why?"
max_score = 20
scoring_rule = "Something sensible."
"""
RIGHT, NEARLY, WRONG = ({"1": Answer(selected_option_ids=(place,))} for place in range(3))
WORDS = {"2": Answer(text="Because I like it.")}
SUBMITTER = Submitter(CALLER)
NEIGHBOUR = replace(CALLER, address="198.51.100.8", limit_key="198.51.100.8")


@pytest.fixture
def make_services(make_services: MakeServices, tmp_path: Path) -> MakeServices:
    """Services with a questionnaire of these `questions`; without any there is none."""

    def make(questions: str = QUESTIONS, **given: object) -> ServiceHarness:
        file = tmp_path / "questions.toml"
        file.write_text(questions, encoding="utf-8")
        asked = {"questionnaire__file": str(file)} if questions else {}
        return make_services(**{**asked, **given})

    return make


def submit(
    services: ServiceHarness, answers: Mapping[str, Answer], caller: Caller = CALLER
) -> SubmitQuestionnaireReply:
    return asyncio.run(services.app.questionnaires.submit(answers, Submitter(caller)))


def register(services: ServiceHarness, name: str, token: str | None, **changes: Any) -> str:
    """With a right code, unless the changes say otherwise; comes back with the status."""
    email = changes.pop("email", f"{name.lower()}@example.org")
    codes = services.app.codes
    issued = codes.find_sendable(codes.issue(email, "register", CALLER))
    assert issued is not None
    application = RegistrationRequest(
        name, email, CodeOrProof(codes.code_of(issued)), PASSWORD, "java", "en", questionnaire_token=token
    )
    return asyncio.run(services.app.registration.register(replace(application, **changes), CALLER)).status


def kept() -> int:
    return int(StoredQuestionnaire.select().count())


# --- submitting ---


def test_answers_that_break_a_rule_are_not_kept_and_cost_nothing(make_services: MakeServices) -> None:
    services = make_services(questionnaire__limits_per_client=["1 per hour"])
    for _time in range(3):
        with pytest.raises(InvalidAnswer):
            submit(services, {})
    assert kept() == 0
    assert submit(services, RIGHT).passed


def test_after_a_failed_attempt_the_client_has_to_wait(services: ServiceHarness, clock: ManualClock) -> None:
    submit(services, WRONG)
    clock.advance(seconds=100)
    for answers in (RIGHT, WRONG):
        with pytest.raises(RateLimited) as refused:
            submit(services, answers)
        assert refused.value.facts == {"remainingSeconds": 200}
    assert submit(services, RIGHT, NEIGHBOUR).passed
    clock.advance(seconds=200)
    assert submit(services, RIGHT).passed


def test_the_wait_survives_a_restart(services: ServiceHarness, clock: ManualClock) -> None:
    submit(services, WRONG)
    services.restart()
    with pytest.raises(RateLimited):
        submit(services, RIGHT)
    clock.advance(minutes=5)
    services.app.purge_expired()
    assert submit(services, RIGHT).passed


def test_a_host_may_do_without_the_wait(make_services: MakeServices) -> None:
    services = make_services(questionnaire__retry_after="0 seconds")
    submit(services, WRONG)
    assert not submit(services, WRONG).passed


@pytest.mark.every_database
async def test_of_many_failed_attempts_at_once_one_counts(services: ServiceHarness) -> None:
    outcomes = await asyncio.gather(
        *(services.app.questionnaires.submit(WRONG, SUBMITTER) for number in range(20)), return_exceptions=True
    )
    assert sum(isinstance(outcome, SubmitQuestionnaireReply) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, RateLimited) for outcome in outcomes) == 19
    assert kept() == 1


@pytest.mark.every_database
def test_many_proven_addresses_behind_one_client_may_fail_at_once(services: ServiceHarness) -> None:
    codes = services.app.codes
    proofs = []
    for number in range(8):
        email = f"player{number}@example.org"
        row = codes.find_sendable(codes.issue(email, "register", CALLER))
        assert row is not None
        proofs.append(codes.prove(email, "register", codes.code_of(row), CALLER))

    async def submit_all() -> list[SubmitQuestionnaireReply]:
        submit_to = services.app.questionnaires.submit
        return await asyncio.gather(*(submit_to(WRONG, Submitter(CALLER, proof)) for proof in proofs))

    assert not any(submitted.passed for submitted in asyncio.run(submit_all()))
    with pytest.raises(RateLimited):
        submit(services, RIGHT)


def test_nobody_fills_the_table(make_services: MakeServices, clock: ManualClock) -> None:
    services = make_services(
        questionnaire__limits_per_client=["2 per 10 minutes"], questionnaire__limits_total=["6 per 10 minutes"]
    )
    for caller in (CALLER, NEIGHBOUR):
        submit(services, RIGHT, caller)
        submit(services, RIGHT, caller)
        with pytest.raises(RateLimited):
            submit(services, RIGHT, caller)
    for number in range(2):  # what is left is for those who submitted nothing
        submit(services, RIGHT, replace(CALLER, address=f"192.0.2.{number}", limit_key=f"192.0.2.{number}"))
    with pytest.raises(RateLimited):
        submit(services, RIGHT, replace(CALLER, address="192.0.2.9", limit_key="192.0.2.9"))
    assert kept() == 6
    clock.advance(minutes=11)
    services.app.purge_expired()
    assert kept() == 0
    assert submit(services, RIGHT).passed


# --- registering ---


def test_a_missing_result_costs_no_try_of_the_code(services: ServiceHarness) -> None:
    for _time in range(6):
        with pytest.raises(QuestionnaireRequired):
            register(services, "Alice", None, code_or_proof=CodeOrProof("000000"))
    assert register(services, "Alice", submit(services, RIGHT).token) == "pending"


@pytest.mark.every_database
def test_one_result_and_many_registrations_make_one_user(services: ServiceHarness) -> None:
    token = submit(services, RIGHT).token
    codes = services.app.codes
    applications = []
    for number in range(8):
        issued = codes.find_sendable(codes.issue(f"p{number}@example.org", "register", CALLER))
        assert issued is not None
        given = CodeOrProof(codes.code_of(issued))
        applications.append(
            RegistrationRequest(
                f"Player{number}", f"p{number}@example.org", given, PASSWORD, "java", "en", questionnaire_token=token
            )
        )

    async def register_all() -> list[object]:
        registration = services.app.registration
        return await asyncio.gather(
            *(registration.register(application, CALLER) for application in applications), return_exceptions=True
        )

    outcomes = asyncio.run(register_all())
    refused = [outcome for outcome in outcomes if isinstance(outcome, QuestionnaireRequired)]
    assert len(refused) == 7, outcomes
    made = [number for number in range(8) if services.find_user(f"Player{number}") is not None]
    assert len(made) == 1
    user = services.user(f"Player{made[0]}")
    assert services.app.questionnaire_results.find_of(user.id) is not None


def test_the_result_stays_with_the_user_whatever_becomes_of_the_questions(
    services: ServiceHarness, clock: ManualClock
) -> None:
    register(services, "Alice", submit(services, RIGHT).token)
    services.restart(questionnaire__file="")
    clock.advance(days=100)
    services.app.purge_expired()
    result = services.app.questionnaire_results.find_of(services.user("Alice").id)
    assert result is not None
    assert result.answers == (AnsweredQuestion(1, "single_choice", "Which?", ("Right",), 60, 60, "", (0,)),)
    assert result.summary == "60 of 60 points; 60 needed."
    services.decide("delete", "Alice")
    assert kept() == 0, "it goes with the user"


def test_it_is_kept_in_the_language_of_the_host(make_services: MakeServices) -> None:
    services = make_services(server__language="zh")
    register(services, "Alice", submit(services, RIGHT, replace(CALLER, language="en")).token)
    result = services.app.questionnaire_results.find_of(services.user("Alice").id)
    assert result is not None
    assert (result.answers[0].question, result.answers[0].answers) == ("哪一个？", ("对",))
    assert result.summary == "得分 60/60，及格分 60。"


# --- answers in words ---


def test_where_nobody_reviews_who_passed_may_play_at_once(make_services: MakeServices) -> None:
    services = make_services(QUESTIONS + TEXT, registration__approval=False)
    assert register(services, "Alice", submit(services, RIGHT).token) == "approved"


def test_an_answer_in_words_has_to_be_read_even_where_nobody_reviews(make_services: MakeServices) -> None:
    services = make_services(QUESTIONS + TEXT, registration__approval=False)
    submitted = submit(services, RIGHT | WORDS)
    assert (submitted.passed, submitted.manual_review_required) == (True, True)
    assert register(services, "Alice", submitted.token) == "pending"
    result = services.app.questionnaire_results.find_of(services.user("Alice").id)
    assert result is not None
    assert result.requires_review
    assert result.answers[1] == AnsweredQuestion(2, "text", "Why?", ("Because I like it.",), None, 20, "")
    assert "Answers to review: 1, worth up to 20 more points." in result.summary
    services.decide("approve", "Alice")
    assert services.user("Alice").status == "approved"


def test_who_could_not_pass_with_all_points_of_the_words_has_failed(make_services: MakeServices) -> None:
    services = make_services(QUESTIONS + TEXT)
    assert submit(services, NEARLY | WORDS).manual_review_required
    failed = submit(services, WRONG | WORDS)
    assert (failed.passed, failed.manual_review_required) == (False, False)


@pytest.fixture
def service() -> Iterator[ScoringService]:
    with ScoringService(score_reply(20, "A good reason.")) as service:
        yield service


@pytest.fixture
def scoring_services(make_services: MakeServices, service: ScoringService) -> ServiceHarness:
    return make_services(
        QUESTIONS + TEXT,
        registration__approval=False,
        questionnaire__scorer_url=service.url,
        questionnaire__scorer_key=KEY,
        questionnaire__scorer_timeout="30 s",
    )


def test_a_service_that_scores_them_spares_the_reader(scoring_services: ServiceHarness) -> None:
    submitted = submit(scoring_services, NEARLY | WORDS)
    assert (submitted.score, submitted.passed, submitted.manual_review_required) == (60, True, False)
    assert register(scoring_services, "Alice", submitted.token) == "approved"
    result = scoring_services.app.questionnaire_results.find_of(scoring_services.user("Alice").id)
    assert result is not None
    assert (result.answers[1].points, result.answers[1].note) == (20, "A good reason.")
    assert result.summary == "60 of 80 points; 60 needed.\nQuestion 2, 20 of 20 points: A good reason."


def test_too_few_points_from_the_service_fail(scoring_services: ServiceHarness, service: ScoringService) -> None:
    service.reply = score_reply(19)
    failed = submit(scoring_services, NEARLY | WORDS)
    assert (failed.score, failed.passed, failed.manual_review_required) == (59, False, False)
    with pytest.raises(RateLimited):
        submit(scoring_services, RIGHT)


@pytest.mark.parametrize("said", [ScoringReply(500), score_reply(21), ScoringReply(body=b"?"), NO_REPLY])
def test_a_service_that_fails_leaves_it_to_the_reader(
    scoring_services: ServiceHarness, service: ScoringService, said: ScoringReply
) -> None:
    service.reply = said
    service.release()  # where nothing is replied the connection ends
    submitted = submit(scoring_services, NEARLY | WORDS)
    assert (submitted.score, submitted.passed, submitted.manual_review_required) == (40, True, True)
    assert register(scoring_services, "Alice", submitted.token) == "pending"


def test_the_service_is_not_paid_for_nothing(
    scoring_services: ServiceHarness, service: ScoringService, clock: ManualClock
) -> None:
    submit(scoring_services, RIGHT)  # without words
    submit(scoring_services, WRONG | WORDS)  # all is lost
    with pytest.raises(RateLimited):
        submit(scoring_services, NEARLY | WORDS)  # too early
    assert service.requests == []


async def test_the_service_is_asked_no_more_often_than_a_client_may_submit(
    make_services: MakeServices, service: ScoringService
) -> None:
    services = make_services(
        QUESTIONS + TEXT, questionnaire__scorer_url=service.url, questionnaire__limits_per_client=["2 per hour"]
    )
    submit = services.app.questionnaires.submit
    outcomes = await asyncio.gather(*(submit(RIGHT | WORDS, SUBMITTER) for number in range(9)), return_exceptions=True)
    assert sum(isinstance(outcome, RateLimited) for outcome in outcomes) == 7
    assert len(service.requests) == 2


async def test_a_failure_while_others_of_the_client_are_being_scored_counts_for_them_too(
    scoring_services: ServiceHarness, service: ScoringService
) -> None:
    service.reply = NO_REPLY
    submit = scoring_services.app.questionnaires.submit
    waiting = asyncio.create_task(submit(NEARLY | WORDS, SUBMITTER))
    await asyncio.to_thread(service.wait_for_requests, 1)
    assert not (await submit(WRONG, SUBMITTER)).passed
    service.release()
    with pytest.raises(RateLimited):
        await waiting


def test_the_key_stands_nowhere_in_the_database(scoring_services: ServiceHarness) -> None:
    register(scoring_services, "Alice", submit(scoring_services, RIGHT | WORDS).token)
    for table in (StoredQuestionnaire, RateLimitWindow):
        assert KEY not in str(list(table.select().dicts()))


# --- switched off ---


def test_where_it_is_off_nothing_is_asked(make_services: MakeServices) -> None:
    services = make_services("")
    assert not services.app.questionnaires.is_enabled
    with pytest.raises(NotEnabled):
        submit(services, RIGHT)
    assert register(services, "Alice", None) == "pending"
    assert register(services, "Bob", "1.whatever") == "pending"
    assert services.app.questionnaire_results.find_of(services.user("Alice").id) is None
