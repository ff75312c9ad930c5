"""Answering the questionnaire and registering with what came of it: the services on both databases, without HTTP."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regsvc.core.caller import Caller
from regsvc.core.errors import (
    InvalidAnswer,
    NotEnabled,
    QuestionnaireFailed,
    QuestionnaireRequired,
    RateLimited,
    UsernameTaken,
)
from regsvc.database.models import RateLimitWindow, StoredQuestionnaire
from regsvc.registration.questionnaire.questions import Answer
from regsvc.registration.questionnaire.service import SubmittedAnswers
from regsvc.registration.steps import Application
from regsvc.users.user_details import AnsweredQuestion
from tests.support.authme_tables import AuthMeTable
from tests.support.game_server import GameServer
from tests.support.manual_clock import StandingClock
from tests.support.scorer import KEY, SILENCE, Said, ScoringService, verdict
from tests.support.services import CALLER, PASSWORD, House, MakeHouse, open_house

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
NEIGHBOUR = replace(CALLER, limit_key="198.51.100.8")


@pytest.fixture
def make_house(
    game_server: GameServer, authme_table: AuthMeTable, clock: StandingClock, tmp_path: Path
) -> Iterator[MakeHouse]:
    """A house that asks `questions`; without any it asks nothing."""
    with ExitStack() as stack:

        def make(questions: str = QUESTIONS, **given: object) -> House:
            file = tmp_path / "questions.toml"
            file.write_text(questions, encoding="utf-8")
            asked = {"questionnaire__file": str(file)} if questions else {}
            house = open_house(game_server, authme_table, clock, tmp_path / "state", **{**asked, **given})
            stack.callback(lambda: house.close())
            return house

        yield make


@pytest.fixture
def house(make_house: MakeHouse) -> House:
    return make_house()


def submit(house: House, answers: Mapping[str, Answer], caller: Caller = CALLER) -> SubmittedAnswers:
    return asyncio.run(house.app.questionnaires.submit(answers, caller))


def register(house: House, name: str, token: str | None, **changes: Any) -> str:
    """With a right code, unless the changes say otherwise; comes back with the status."""
    email = changes.pop("email", f"{name.lower()}@example.org")
    codes = house.app.mail_parts.codes
    issued = codes.find_to_mail(codes.issue(email, "register"))
    assert issued is not None
    application = Application(name, email, codes.code_of(issued), PASSWORD, "java", "en", questionnaire_token=token)
    return asyncio.run(house.app.registration.register(replace(application, **changes), CALLER)).status


def kept() -> int:
    return int(StoredQuestionnaire.select().count())


# --- submitting ---


def test_what_came_of_it(house: House, clock: StandingClock) -> None:
    passed = submit(house, RIGHT)
    assert (passed.score, passed.max_score, passed.pass_score) == (60, 60, 60)
    assert (passed.is_passed, passed.requires_review) == (True, False)
    assert (passed.submitted_at, (passed.expires_at - clock()).total_seconds()) == (clock(), 600)
    failed = submit(house, NEARLY)
    assert (failed.score, failed.is_passed) == (40, False)
    assert failed.token != passed.token


def test_answers_that_break_a_rule_are_not_kept_and_cost_nothing(make_house: MakeHouse) -> None:
    house = make_house(questionnaire__limits_per_client=["1 per hour"])
    for _time in range(3):
        with pytest.raises(InvalidAnswer):
            submit(house, {})
    assert kept() == 0
    assert submit(house, RIGHT).is_passed


def test_after_a_failed_attempt_the_client_has_to_wait(house: House, clock: StandingClock) -> None:
    submit(house, WRONG)
    clock.advance(seconds=100)
    for answers in (RIGHT, WRONG):
        with pytest.raises(RateLimited) as refused:
            submit(house, answers)
        assert refused.value.facts == {"remainingSeconds": 200}
    assert submit(house, RIGHT, NEIGHBOUR).is_passed
    clock.advance(seconds=200)
    assert submit(house, RIGHT).is_passed


def test_the_wait_survives_a_restart(house: House, clock: StandingClock) -> None:
    submit(house, WRONG)
    house.restart()
    with pytest.raises(RateLimited):
        submit(house, RIGHT)
    clock.advance(minutes=5)
    house.app.purge_expired()
    assert submit(house, RIGHT).is_passed


def test_who_passed_need_not_wait(house: House) -> None:
    assert submit(house, RIGHT).token != submit(house, RIGHT).token


def test_a_host_may_do_without_the_wait(make_house: MakeHouse) -> None:
    house = make_house(questionnaire__retry_after="0 seconds")
    submit(house, WRONG)
    assert not submit(house, WRONG).is_passed


def test_of_many_failed_attempts_at_once_one_counts(house: House) -> None:
    async def submit_many() -> list[SubmittedAnswers | BaseException]:
        return await asyncio.gather(
            *(house.app.questionnaires.submit(WRONG, CALLER) for number in range(20)), return_exceptions=True
        )

    outcomes = asyncio.run(submit_many())
    assert sum(isinstance(outcome, SubmittedAnswers) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, RateLimited) for outcome in outcomes) == 19
    assert kept() == 1


def test_nobody_fills_the_table(make_house: MakeHouse, clock: StandingClock) -> None:
    house = make_house(
        questionnaire__limits_per_client=["2 per 10 minutes"], questionnaire__limits_total=["3 per 10 minutes"]
    )
    submit(house, RIGHT)
    submit(house, RIGHT)
    with pytest.raises(RateLimited):
        submit(house, RIGHT)
    submit(house, RIGHT, NEIGHBOUR)
    with pytest.raises(RateLimited):
        submit(house, RIGHT, NEIGHBOUR)
    assert kept() == 3
    clock.advance(minutes=11)
    house.app.purge_expired()
    assert kept() == 0
    assert submit(house, RIGHT).is_passed


# --- registering ---


@pytest.mark.parametrize("token", [None, "", "1.forged", "1"])
def test_nobody_registers_without_a_result(house: House, token: str | None) -> None:
    submit(house, RIGHT)
    with pytest.raises(QuestionnaireRequired):
        register(house, "Alice", token)
    assert house.find_user("Alice") is None


def test_who_passed_registers_once(house: House) -> None:
    token = submit(house, RIGHT).token
    assert register(house, "Alice", token) == "pending"
    with pytest.raises(QuestionnaireRequired):
        register(house, "Bob", token)
    assert house.find_user("Bob") is None


def test_who_failed_does_not_register(house: House) -> None:
    with pytest.raises(QuestionnaireFailed):
        register(house, "Alice", submit(house, WRONG).token)


def test_who_dawdles_answers_again(house: House, clock: StandingClock) -> None:
    token = submit(house, RIGHT).token
    clock.advance(minutes=10)
    with pytest.raises(QuestionnaireRequired):
        register(house, "Alice", token)


def test_a_missing_result_costs_no_try_of_the_code(house: House) -> None:
    for _time in range(6):
        with pytest.raises(QuestionnaireRequired):
            register(house, "Alice", None, code="000000")
    assert register(house, "Alice", submit(house, RIGHT).token) == "pending"


def test_a_refused_registration_burns_nothing(house: House) -> None:
    register(house, "Alice", submit(house, RIGHT).token)
    token = submit(house, RIGHT).token
    with pytest.raises(UsernameTaken):
        register(house, "Alice", token, email="other@example.org")
    assert register(house, "Bob", token) == "pending"


def test_one_result_and_many_registrations_make_one_user(house: House) -> None:
    token = submit(house, RIGHT).token
    codes = house.app.mail_parts.codes
    applications = []
    for number in range(8):
        issued = codes.find_to_mail(codes.issue(f"p{number}@example.org", "register"))
        assert issued is not None
        code = codes.code_of(issued)
        applications.append(
            Application(
                f"Player{number}", f"p{number}@example.org", code, PASSWORD, "java", "en", questionnaire_token=token
            )
        )

    async def register_all() -> list[object]:
        registration = house.app.registration
        return await asyncio.gather(
            *(registration.register(application, CALLER) for application in applications), return_exceptions=True
        )

    outcomes = asyncio.run(register_all())
    refused = [outcome for outcome in outcomes if isinstance(outcome, QuestionnaireRequired)]
    assert len(refused) == 7, outcomes
    made = [number for number in range(8) if house.find_user(f"Player{number}") is not None]
    assert len(made) == 1
    user = house.user(f"Player{made[0]}")
    assert house.app.questionnaires.find_result_of(user.id) is not None


def test_the_result_stays_with_the_user_whatever_becomes_of_the_questions(house: House, clock: StandingClock) -> None:
    register(house, "Alice", submit(house, RIGHT).token)
    house.restart(questionnaire__file="")
    clock.advance(days=100)
    house.app.purge_expired()
    result = house.app.questionnaires.find_result_of(house.user("Alice").id)
    assert result is not None
    assert result.answers == (AnsweredQuestion(1, "single_choice", "Which?", ("Right",), 60, 60, ""),)
    assert result.summary == "60 of 60 points; 60 are needed."


def test_it_goes_with_the_user(house: House) -> None:
    register(house, "Alice", submit(house, RIGHT).token)
    house.decide("delete", "Alice")
    assert kept() == 0


def test_it_is_kept_in_the_language_of_the_host(make_house: MakeHouse) -> None:
    house = make_house(server__language="zh")
    register(house, "Alice", submit(house, RIGHT, replace(CALLER, language="en")).token)
    result = house.app.questionnaires.find_result_of(house.user("Alice").id)
    assert result is not None
    assert (result.answers[0].question, result.answers[0].answers) == ("哪一个？", ("对",))
    assert result.summary == "得分 60/60，及格分 60。"


# --- answers in words ---


def test_where_nobody_reviews_who_passed_may_play_at_once(make_house: MakeHouse) -> None:
    house = make_house(QUESTIONS + TEXT, registration__approval=False)
    assert register(house, "Alice", submit(house, RIGHT).token) == "approved"


def test_an_answer_in_words_has_to_be_read_even_where_nobody_reviews(make_house: MakeHouse) -> None:
    house = make_house(QUESTIONS + TEXT, registration__approval=False)
    submitted = submit(house, RIGHT | WORDS)
    assert (submitted.is_passed, submitted.requires_review) == (True, True)
    assert register(house, "Alice", submitted.token) == "pending"
    result = house.app.questionnaires.find_result_of(house.user("Alice").id)
    assert result is not None
    assert result.requires_review
    assert result.answers[1] == AnsweredQuestion(2, "text", "Why?", ("Because I like it.",), None, 20, "")
    assert "Answers to read: 1. They may bring up to 20 points more." in result.summary
    house.decide("approve", "Alice")
    assert house.user("Alice").status == "approved"


def test_who_could_not_pass_with_all_points_of_the_words_has_failed(make_house: MakeHouse) -> None:
    house = make_house(QUESTIONS + TEXT)
    assert submit(house, NEARLY | WORDS).requires_review
    failed = submit(house, WRONG | WORDS)
    assert (failed.is_passed, failed.requires_review) == (False, False)


@pytest.fixture
def service() -> Iterator[ScoringService]:
    with ScoringService(verdict(20, "A good reason.")) as service:
        yield service


@pytest.fixture
def scoring_house(make_house: MakeHouse, service: ScoringService) -> House:
    return make_house(
        QUESTIONS + TEXT,
        registration__approval=False,
        questionnaire__scorer_url=service.url,
        questionnaire__scorer_key=KEY,
        questionnaire__scorer_timeout="300 ms",
    )


def test_a_service_that_scores_them_spares_the_reader(scoring_house: House) -> None:
    submitted = submit(scoring_house, NEARLY | WORDS)
    assert (submitted.score, submitted.is_passed, submitted.requires_review) == (60, True, False)
    assert register(scoring_house, "Alice", submitted.token) == "approved"
    result = scoring_house.app.questionnaires.find_result_of(scoring_house.user("Alice").id)
    assert result is not None
    assert (result.answers[1].points, result.answers[1].note) == (20, "A good reason.")
    assert result.summary == "60 of 80 points; 60 are needed.\nQuestion 2, 20 of 20 points: A good reason."


def test_too_few_points_from_the_service_fail(scoring_house: House, service: ScoringService) -> None:
    service.says = verdict(19)
    failed = submit(scoring_house, NEARLY | WORDS)
    assert (failed.score, failed.is_passed, failed.requires_review) == (59, False, False)
    with pytest.raises(RateLimited):
        submit(scoring_house, RIGHT)


@pytest.mark.parametrize("said", [Said(500), verdict(21), Said(body=b"?"), SILENCE])
def test_a_service_that_fails_leaves_it_to_the_reader(
    scoring_house: House, service: ScoringService, said: Said
) -> None:
    service.says = said
    submitted = submit(scoring_house, NEARLY | WORDS)
    assert (submitted.score, submitted.is_passed, submitted.requires_review) == (40, True, True)
    assert register(scoring_house, "Alice", submitted.token) == "pending"


def test_the_service_is_not_paid_for_nothing(
    scoring_house: House, service: ScoringService, clock: StandingClock
) -> None:
    submit(scoring_house, RIGHT)  # without words
    submit(scoring_house, WRONG | WORDS)  # all is lost
    with pytest.raises(RateLimited):
        submit(scoring_house, NEARLY | WORDS)  # too early
    assert service.asked == []


def test_the_service_is_asked_no_more_often_than_a_client_may_submit(
    make_house: MakeHouse, service: ScoringService
) -> None:
    house = make_house(
        QUESTIONS + TEXT, questionnaire__scorer_url=service.url, questionnaire__limits_per_client=["2 per hour"]
    )

    async def submit_many() -> list[object]:
        submit = house.app.questionnaires.submit
        return await asyncio.gather(*(submit(RIGHT | WORDS, CALLER) for number in range(9)), return_exceptions=True)

    outcomes = asyncio.run(submit_many())
    assert sum(isinstance(outcome, RateLimited) for outcome in outcomes) == 7
    assert len(service.asked) == 2


def test_a_failure_while_others_of_the_client_are_being_scored_counts_for_them_too(
    scoring_house: House, service: ScoringService
) -> None:
    service.says = SILENCE
    submit = scoring_house.app.questionnaires.submit

    async def guess_while_waiting() -> None:
        waiting = asyncio.create_task(submit(NEARLY | WORDS, CALLER))
        await asyncio.to_thread(service.wait_for_requests, 1)
        assert not (await submit(WRONG, CALLER)).is_passed
        service.release()
        await waiting

    with pytest.raises(RateLimited):
        asyncio.run(guess_while_waiting())


def test_the_key_stands_nowhere_in_the_database(scoring_house: House) -> None:
    register(scoring_house, "Alice", submit(scoring_house, RIGHT | WORDS).token)
    for table in (StoredQuestionnaire, RateLimitWindow):
        assert KEY not in str(list(table.select().dicts()))


# --- switched off ---


def test_where_it_is_off_nothing_is_asked(make_house: MakeHouse) -> None:
    house = make_house("")
    assert not house.app.questionnaires.is_enabled
    with pytest.raises(NotEnabled):
        submit(house, RIGHT)
    assert register(house, "Alice", None) == "pending"
    assert register(house, "Bob", "1.whatever") == "pending"
    assert house.app.questionnaires.find_result_of(house.user("Alice").id) is None
