"""Stored results of the questionnaire: the token, its single use, and the user the row belongs to in the end."""

import logging
import re
from datetime import timedelta

import pytest
from peewee import Database

from regsvc.auth.derived_secrets import DerivedSecrets
from regsvc.core.errors import QuestionnaireFailed, QuestionnaireRequired
from regsvc.database.models import StoredQuestionnaire, User
from regsvc.registration.questionnaire.questions import Evaluation
from regsvc.registration.questionnaire.service import QuestionnaireResults
from regsvc.users.gates import Gates
from regsvc.users.user_details import AnsweredQuestion
from regsvc.users.user_list import UserList
from regsvc.users.user_query import UsersQuery
from tests.support.database_fixtures import InParallel, MakeUser
from tests.support.manual_clock import ManualClock
from tests.support.meanwhile import meanwhile

ANSWERS = (
    AnsweredQuestion(1, "single_choice", "Which?", ("This 你好 \U0001f600",), 60, 60, ""),
    AnsweredQuestion(2, "text", "Why?", ("Because.\n\x01",), None, 40, ""),
    AnsweredQuestion(3, "text", "Who?", (), 0, 0, ""),
)
PASSED = Evaluation((), max_score=100, pass_score=0)
FAILED = Evaluation((), max_score=100, pass_score=60)


@pytest.fixture
def results(our_database: Database, clock: ManualClock) -> QuestionnaireResults:
    return QuestionnaireResults(DerivedSecrets(b"k" * 32), clock, timedelta(minutes=10))


def keep(results: QuestionnaireResults, evaluation: Evaluation = PASSED) -> str:
    return results.save(evaluation, ANSWERS, "60 of 100 points.")[0]


def test_a_token_is_checked_as_often_as_one_likes_and_redeemed_once(
    results: QuestionnaireResults, alice: User, make_user: MakeUser
) -> None:
    token = keep(results)
    for look in range(3):
        assert results.check(token).user is None, look
    assert results.redeem(token, alice.id).max_score == 100
    with pytest.raises(QuestionnaireRequired):
        results.check(token)
    with pytest.raises(QuestionnaireRequired):
        results.redeem(token, make_user("Bob").id)
    with pytest.raises(QuestionnaireRequired):
        results.redeem(token, alice.id)


def test_a_token_expires(results: QuestionnaireResults, alice: User, clock: ManualClock) -> None:
    token = keep(results)
    clock.advance(minutes=10, milliseconds=-1)
    results.check(token)
    clock.advance(milliseconds=1)
    with pytest.raises(QuestionnaireRequired):
        results.check(token)
    with pytest.raises(QuestionnaireRequired):
        results.redeem(token, alice.id)


def test_a_result_that_did_not_pass_is_refused_as_that(results: QuestionnaireResults, alice: User) -> None:
    token = keep(results, FAILED)
    with pytest.raises(QuestionnaireFailed):
        results.check(token)
    with pytest.raises(QuestionnaireFailed):
        results.redeem(token, alice.id)


def test_no_other_token_will_do(results: QuestionnaireResults, our_database: Database, clock: ManualClock) -> None:
    token, failed = keep(results), keep(results, FAILED)
    row_id, mac = token.split(".")
    foreign = keep(QuestionnaireResults(DerivedSecrets(b"x" * 32), clock, timedelta(minutes=10)))
    forged = [
        f"{failed.split('.')[0]}.{mac}",
        f"{row_id}.{failed.split('.')[1]}",
        f"{row_id}.{mac[:-1]}",
        f"{row_id}.{mac}=",
        f"{2**63}.{mac}",
        f"{10**30}.{mac}",
        f"-1.{mac}",
        f"{row_id}.",
        mac,
        "",
        "1.\ud800",
        foreign,
        None,
    ]
    for other in forged:
        with pytest.raises(QuestionnaireRequired):
            results.check(other)
    results.check(token)


def test_a_mailed_link_is_no_questionnaire(results: QuestionnaireResults) -> None:
    row_id = keep(results).split(".")[0]
    nonce = StoredQuestionnaire.get_by_id(int(row_id)).nonce
    with pytest.raises(QuestionnaireRequired):
        results.check(DerivedSecrets(b"k" * 32).link_token(int(row_id), nonce, "reset"))


def test_a_token_that_is_redeemed_between_look_and_use_is_lost(
    results: QuestionnaireResults, alice: User, make_user: MakeUser
) -> None:
    token, bobs = keep(results), keep(results)

    def redeem_first() -> None:
        results.redeem(token, alice.id)

    with meanwhile(QuestionnaireResults, "check", redeem_first, after=True), pytest.raises(QuestionnaireRequired):
        results.redeem(token, make_user("Bob").id)
    assert results.check(bobs).user is None


def test_a_later_result_replaces_its_users_earlier_one(
    results: QuestionnaireResults, alice: User, make_user: MakeUser
) -> None:
    bob = make_user("Bob")
    for user in (alice, bob):
        results.redeem(keep(results), user.id)
    token = results.save(PASSED, ANSWERS, "Better.")[0]
    results.replace_of(alice.id, token)
    found = results.find_all_of([alice.id, bob.id])
    assert {user: result.summary for user, result in found.items()} == {
        alice.id: "Better.",
        bob.id: "60 of 100 points.",
    }
    with pytest.raises(QuestionnaireRequired):
        results.replace_of(alice.id, token)


def test_one_token_in_many_hands_has_one_winner(
    results: QuestionnaireResults, our_database: Database, make_user: MakeUser, in_parallel: InParallel
) -> None:
    token = keep(results)
    users = iter([make_user(f"Alice{number}").id for number in range(10)])

    def redeem() -> str:
        with our_database.atomic():
            results.redeem(token, next(users))
        return "won"

    outcomes = in_parallel(redeem, 10)
    assert sorted(str(outcome) for outcome in outcomes) == ["questionnaire_required"] * 9 + ["won"]


def test_what_was_answered_is_the_users_and_comes_back_as_it_was(
    results: QuestionnaireResults, alice: User, clock: ManualClock
) -> None:
    assert results.find_of(alice.id) is None
    results.redeem(keep(results), alice.id)
    found = results.find_of(alice.id)
    assert found is not None
    assert found.answers == ANSWERS
    assert (found.score, found.max_score, found.pass_score) == (0, 100, 0)
    assert (found.is_passed, found.requires_review) == (True, False)
    assert (found.summary, found.submitted_at) == ("60 of 100 points.", clock())


def test_long_answers_are_kept_whole(results: QuestionnaireResults, alice: User) -> None:
    long = tuple(AnsweredQuestion(number, "text", "?", ("\U0001f600" * 4000,), None, 0, "") for number in range(20))
    results.redeem(results.save(PASSED, long, "x" * 2000)[0], alice.id)
    found = results.find_of(alice.id)
    assert found is not None
    assert found.answers == long
    assert found.summary == "x" * 1000


def test_what_nobody_used_in_time_is_purged(results: QuestionnaireResults, alice: User, clock: ManualClock) -> None:
    results.redeem(keep(results), alice.id)
    keep(results)
    keep(results, FAILED)
    clock.advance(minutes=5)
    token = keep(results)
    clock.advance(minutes=6)
    assert results.purge_expired() == 2
    results.check(token)
    assert results.find_of(alice.id) is not None


@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_what_a_user_answered_who_was_deleted_by_sql_is_purged(
    results: QuestionnaireResults, our_database: Database, alice: User, make_user: MakeUser
) -> None:
    bob = make_user("Bob")
    results.redeem(keep(results), alice.id)
    results.redeem(keep(results), bob.id)
    our_database.execute_sql("PRAGMA foreign_keys = OFF")  # as in a shell of SQLite
    our_database.execute_sql("DELETE FROM regsvc_user WHERE username_key = 'alice'")
    assert results.purge_expired() == 1
    assert results.find_of(alice.id) is None
    assert results.find_of(bob.id) is not None


def test_a_page_of_users_shows_them_with_one_question_to_the_database(
    results: QuestionnaireResults, make_user: MakeUser, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    users = [make_user(f"Alice{number}") for number in range(30)]
    for user in users[:20]:
        results.redeem(keep(results), user.id)
    listing = UserList(lambda name: False, Gates(True, lambda: False))
    with caplog.at_level(logging.DEBUG, logger="peewee"):
        page = listing.list_users(UsersQuery(size=30))
    assert [entry.questionnaire_score for entry in page.entries] == [None] * 10 + [0] * 20
    assert [entry.questionnaire_passed for entry in page.entries] == [None] * 10 + [True] * 20
    assert {entry.questionnaire_review_summary for entry in page.entries} == {None, "60 of 100 points."}
    asked = [record.getMessage() for record in caplog.records]
    assert len([text for text in asked if "regsvc_questionnaire_result" in text]) == 1
    to_read = re.compile(r"THEN \S+answers\S END AS \S+answers_to_read\S")
    assert not [text for text in asked if "answers" in to_read.sub("", text)], (
        "the answers are long, and not shown here"
    )
