"""What keeps players out of the game, as they and operators read it."""

from datetime import UTC, datetime

import pytest

from regsvc.core.i18n import load_translations
from regsvc.runtime.join_facts import JoinStep, word_for_player
from tests.support.stack import Stack

# GET /api/user/why: what keeps players out of the game, as they read it themselves.


PATH = "/api/user/why"
WORDS = load_translations()
ENGLISH = {
    "pending": "waiting for a moderator",
    "rejected": "apply again now",
    "rejected_until": "apply again from 2026-11-24",
    "banned": "ask a moderator",
    "banned_until": "banned until 2026-11-24",
    "chat": "link it here",
    "no_password": "Forgot password?",
    "password_algorithm": "Forgot password?",
    "row_no_password": "Forgot password?",
    "other_case": "knows you as ALICE",
    "cached": "until 2026-11-24",
    "list_no_profile": "no Minecraft account named Alice",
    "list_restart": "restarted",
    "server_off": "not running",
    "server_full": "full",
    "row_waiting": "in a few minutes",
    "list_waiting": "in a few minutes",
    "list_held_back": "ask a moderator",
    "list_refused": "ask a moderator",
    "list_no_uuid": "ask a moderator",
    "similar": "ask a moderator",
    "list_doubt": "ask a moderator",
    "row_foreign": "ask a moderator",
    "sync_stopped": "ask a moderator",
}
NOW = datetime(2031, 5, 4, 12, tzinfo=UTC)
FACTS = {
    "username": "Alice",
    "until": "2026-11-24",
    "platform": "Discord",
    "realname": "ALICE",
    "similar": "Mallory",
    "reason": "seen with Mallory",
    "uuid": "5627dd98-e6be-3c21-b8a8-e92344183641",
}


@pytest.mark.parametrize("code", ENGLISH)
def test_each_cause_is_told_in_four_languages_without_operators_secrets(code: str) -> None:
    told = {
        tag: word_for_player(JoinStep("any", "problem", code, FACTS, NOW), WORDS, tag)
        for tag in ("en", "de", "fr", "zh")
    }
    assert ENGLISH[code] in told["en"]
    assert len(set(told.values())) == len(told)
    for text in told.values():
        assert not [secret for secret in ("{", "`", "Mallory", str(FACTS["uuid"])) if secret in text]


def test_players_read_why_they_cannot_join(stack: Stack) -> None:
    alice = stack.approved("alice")
    token = stack.user_token(alice)
    reply = stack.get(PATH, {"language": "de"}, token=token)
    assert (reply.status, reply.json["canJoin"]) == (200, False)
    assert reply.json["why"] == "Der Spielserver läuft gerade nicht. Versuch es später noch einmal."
    stack.decides("ban", alice, reason="Seen with Mallory")
    assert stack.get(PATH, token=token).status == 401
    assert stack.get(PATH).status == 401


# GET /api/admin/user/why: what keeps somebody out of the game, for operators.


WHY_OF_ANOTHER = "/api/admin/user/why"


def test_the_first_problem_is_the_answer_and_the_rest_is_told(stack: Stack) -> None:
    alice = stack.pending("alice")
    reply = stack.get(WHY_OF_ANOTHER, {"username": alice.name.upper()}, token=stack.olivia())
    assert reply.status == 200, reply.text
    answer, steps = reply.json["answer"], reply.json["steps"]
    assert (answer["name"], answer["code"], answer["helper"]) == ("review", "pending", "operator")
    assert answer["text"].startswith(f"{alice.name} has been waiting for an operator’s review since ")
    assert answer == next(step for step in steps if step["verdict"] == "problem")
    assert [step["code"] for step in steps] == ["registered", "email_proven", "pending", "server_off", "spelling"]


def test_names_without_a_user_have_an_answer_in_the_callers_language(stack: Stack) -> None:
    query = {"username": "nobody_here", "language": "zh"}
    answer = stack.get(WHY_OF_ANOTHER, query, token=stack.olivia()).json["answer"]
    assert (answer["code"], answer["text"]) == ("unregistered", "没有人以 nobody_here 注册：需要先注册。")
    bob = stack.approved("bob")
    answer = stack.get(WHY_OF_ANOTHER, {"username": bob.name[:-1]}, token=stack.olivia()).json["answer"]
    assert answer["code"] == "similar"


def test_who_is_approved_is_kept_out_by_the_server_alone(stack: Stack) -> None:
    bob = stack.approved("bob")
    reply = stack.get(WHY_OF_ANOTHER, {"username": bob.name}, token=stack.olivia()).json
    assert [step["code"] for step in reply["steps"]] == ["registered", "email_proven", "approved", "row", "server_off"]
    assert reply["answer"]["code"] == "server_off"
