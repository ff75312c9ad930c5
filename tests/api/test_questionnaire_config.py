"""GET /api/questionnaire/config: the questions, without the scoring."""

from pathlib import Path

import pytest

from tests.support.daemon import to_json
from tests.support.questions import asking
from tests.support.stack import MakeStack, Stack

PATH = "/api/questionnaire/config"


@pytest.fixture(scope="module")
def asking_stack(make_stack: MakeStack, tmp_path_factory: pytest.TempPathFactory) -> Stack:
    return make_stack(config=asking(tmp_path_factory.mktemp("questions"), pass_score=55))


def questions(stack: Stack, language: str | None = None, **headers: str) -> list[str]:
    reply = stack.get(PATH, {"language": language} if language else None, headers=headers)
    assert reply.status == 200
    return [question["question"] for question in reply.json["data"]["questions"]]


def test_all_that_a_form_needs_is_told(asking_stack: Stack) -> None:
    assert asking_stack.get(PATH).json == {
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
def test_neither_scores_nor_rules_are_told(asking_stack: Stack, language: str) -> None:
    payload = asking_stack.get(PATH, {"language": language}).text
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
    asking_stack: Stack, language: str, accept: str, asked: list[str]
) -> None:
    assert questions(asking_stack, language or None, **{"Accept-Language": accept}) == asked


def test_the_language_of_each_question_is_told(asking_stack: Stack) -> None:
    """Screen readers speak it so, also where the page is in another one."""
    asked = asking_stack.get(PATH, {"language": "de"}).json["data"]["questions"]
    assert [question["language"] for question in asked] == ["de", None, "en"]


def test_the_public_config_tells_of_it(asking_stack: Stack) -> None:
    payload = asking_stack.get("/api/config").json["config"]["questionnaire"]
    assert payload == {"enabled": True, "passScore": 55, "hasTextQuestions": True}


def test_a_player_may_see_it_whoever_he_is(asking_stack: Stack) -> None:
    assert asking_stack.get(PATH, token=asking_stack.olivia()).status == 200


def test_where_it_is_off_that_is_told(stack: Stack) -> None:
    assert stack.get(PATH).json == {"success": True, "data": {"enabled": False, "passScore": 60, "questions": []}}


def test_the_sample_is_asked_as_it_is(make_stack: MakeStack) -> None:
    sample = Path(__file__).resolve().parents[2] / "conf" / "questionnaire.toml"
    stack = make_stack(config={"questionnaire": {"file": str(sample)}})
    asked = stack.get(PATH, {"language": "zh"}).json["data"]["questions"]
    assert [question["id"] for question in asked] == [1, 2, 3, 4]
    assert not to_json(asked).isascii()
