"""A questionnaire, answers to it, and its submission."""

from pathlib import Path
from typing import Any

from tests.support.daemon import Reply
from tests.support.stack import NO_LIMIT, Person, Stack

QUESTIONS = """
[[question]]
id = 1
type = "single_choice"
text = { en = "What do you do?", zh = "你会怎么做？", de = "Was tust du?" }
[[question.option]]
text = { en = "Talk", zh = "商量", de = "Reden" }
score = 50
[[question.option]]
text = { en = "Fight", zh = "打架" }
score = -10

[[question]]
id = 7
type = "multiple_choice"
required = false
text = "Which are allowed?"
max_selections = 2
[[question.option]]
text = "Building"
score = 10
[[question.option]]
text = "Cheating"
score = -30
[[question.option]]
text = "Singing"
score = 10

[[question]]
id = 9
type = "text"
required = false
text = { en = "Why here?", zh = "为什么来这里？" }
min_length = 5
max_length = 20
multiline = true
placeholder = { en = "A sentence", zh = "一句话" }
max_score = 30
scoring_rule = "the secret rule"
"""
UNSCORED = """
[[question]]
id = 11
type = "text"
required = false
text = "Who told you about us?"
max_length = 100
"""
TALK: dict[str, Any] = {"1": {"type": "single_choice", "selectedOptionIds": [0]}}
FIGHT: dict[str, Any] = {"1": {"type": "single_choice", "selectedOptionIds": [1]}}
BUILD: dict[str, Any] = {"7": {"type": "multiple_choice", "selectedOptionIds": [0]}}
WORDS: dict[str, Any] = {"9": {"type": "text", "textAnswer": "I like it."}}
PASSING = TALK | BUILD

SUBMIT = "/api/questionnaire/submit"


def asking(directory: Path, more: str = "", /, **questionnaire: Any) -> dict[str, dict[str, Any]]:
    """Return the config of a stack with the questionnaire and `more` questions; `questionnaire`: more of its keys."""
    file = directory / "questions.toml"
    file.write_text(QUESTIONS + more, encoding="utf-8")
    usual = {"file": str(file), "limits_per_client": NO_LIMIT, "limits_total": NO_LIMIT}
    return {"questionnaire": {**usual, **questionnaire}}


def submit(stack: Stack, answers: object, client: str = "", **fields: object) -> Reply:
    """Submit answers. `client`: the address in the proxy's header; empty: the test's own."""
    headers = {"X-Forwarded-For": client} if client else {}
    return stack.post(SUBMIT, {"answers": answers, **fields}, headers=headers)


def token_for(stack: Stack, answers: object = PASSING, client: str = "") -> str:
    """Submit answers and return the token."""
    reply = submit(stack, answers, client)
    assert reply.status == 200, reply.text
    token: str = reply.json["token"]
    return token


def applies(stack: Stack, person: Person, token: object, **fields: object) -> Reply:
    """Register with a result."""
    return stack.register(person, questionnaire={"token": token}, **fields)


def proof_for(stack: Stack, person: Person) -> str:
    """Prove the person's address and return the proof."""
    reply = stack.post("/api/verify/check", {"email": person.email, "code": stack.code_for(person.email)})
    assert reply.status == 200, reply.text
    proof: str = reply.json["proof"]
    return proof
