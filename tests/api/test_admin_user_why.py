"""GET /api/admin/user/why: what keeps somebody out of the game, for operators."""

from tests.support.stack import Stack

PATH = "/api/admin/user/why"


def test_the_first_problem_is_the_answer_and_the_rest_is_told(stack: Stack) -> None:
    alice = stack.pending("alice")
    reply = stack.get(PATH, {"username": alice.name.upper()}, token=stack.olivia())
    assert reply.status == 200, reply.text
    answer, steps = reply.json["answer"], reply.json["steps"]
    assert (answer["name"], answer["code"], answer["helper"]) == ("review", "pending", "operator")
    assert answer["text"].startswith(f"{alice.name} has been waiting for an operator’s review since ")
    assert answer == next(step for step in steps if step["verdict"] == "problem")
    assert [step["code"] for step in steps] == ["registered", "email_proven", "pending", "server_off", "spelling"]


def test_names_without_a_user_have_an_answer_in_the_callers_language(stack: Stack) -> None:
    query = {"username": "nobody_here", "language": "zh"}
    answer = stack.get(PATH, query, token=stack.olivia()).json["answer"]
    assert (answer["code"], answer["text"]) == ("unregistered", "没有人以 nobody_here 注册：需要先注册。")
    bob = stack.approved("bob")
    answer = stack.get(PATH, {"username": bob.name[:-1]}, token=stack.olivia()).json["answer"]
    assert answer["code"] == "similar"


def test_who_is_approved_is_kept_out_by_the_server_alone(stack: Stack) -> None:
    bob = stack.approved("bob")
    reply = stack.get(PATH, {"username": bob.name}, token=stack.olivia()).json
    assert [step["code"] for step in reply["steps"]] == ["registered", "email_proven", "approved", "row", "server_off"]
    assert reply["answer"]["code"] == "server_off"
