"""POST /api/application/answer: what is refused, and what is kept nevertheless."""

from regsvc.core.text import MAX_ANSWER
from tests.api.test_admin_user_ask import answer, applied, ask, questions_of
from tests.support.refusals import assert_refused
from tests.support.stack import Stack


def test_an_answer_after_the_decision_is_kept_once(stack: Stack) -> None:
    alice, token = applied(stack, "alice")
    ask(stack, alice)
    stack.decides("reject", alice)
    assert_refused(answer(stack, token, "Too late?"), 409, "answer_too_late")
    assert_refused(answer(stack, token, "Again"), 409, "nothing_asked")
    assert questions_of(stack, alice) == [("Which Bob?", "Too late?")]
    stack.decides("reopen", alice)
    assert stack.user(alice)["waitingFor"] == "review"


def test_a_long_answer_in_any_script_is_taken(stack: Stack) -> None:
    alice, token = applied(stack, "alice")
    ask(stack, alice)
    assert_refused(answer(stack, token, "\U0001f600" * (MAX_ANSWER + 1)), 422, "answer_too_long", field="text")
    assert answer(stack, token, "\U0001f600" * MAX_ANSWER).status == 200
