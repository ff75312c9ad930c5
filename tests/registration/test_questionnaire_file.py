"""The questionnaire's file: what the sample promises, and what stops the start."""

from collections.abc import Callable
from pathlib import Path

import pytest

from regsvc.config.sections import ConfigError
from regsvc.registration.questionnaire.questions import ChoiceQuestion, Questionnaire, TextQuestion, load_questionnaire
from tests.conftest import MakeDaemon
from tests.support.command_line import companion
from tests.support.quick_start import REPOSITORY

SAMPLE = REPOSITORY / "conf" / "questionnaire.toml"
CHOICE = """
[[question]]
id = 1
type = "single_choice"
text = "Which?"
[[question.option]]
text = "This"
score = 60
[[question.option]]
text = "That"
"""
TEXT = """
[[question]]
id = 2
type = "text"
text = "Why?"
"""

Load = Callable[..., Questionnaire]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load(content: str | bytes, pass_score: int = 60) -> Questionnaire:
        file = tmp_path / "questions.toml"
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return load_questionnaire(file, pass_score)

    return load


def problems_of(load: Load, content: str | bytes, pass_score: int = 60) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        load(content, pass_score)
    return list(refused.value.problems)


# --- what is read ---


def test_the_sample_works_as_it_is() -> None:
    sample = load_questionnaire(SAMPLE, pass_score=60)
    assert sample.max_score == 100
    assert sample.languages == {"de", "en", "fr", "zh"}
    assert {question.type for question in sample.questions} == {"single_choice", "multiple_choice", "text"}
    for language in sample.languages - {"en"}:
        for question in sample.questions:
            assert question.text.in_language(language) != question.text.in_language("en")


def test_what_is_left_out_is_usual(load: Load) -> None:
    several = CHOICE.replace("single", "multiple").replace("id = 1", "id = 3")
    single, text, multiple = load(CHOICE + TEXT + several).questions
    assert isinstance(single, ChoiceQuestion)
    assert isinstance(multiple, ChoiceQuestion)
    assert isinstance(text, TextQuestion)
    assert single.is_required
    assert (single.min_selections, single.max_selections) == (1, 1)
    assert (multiple.min_selections, multiple.max_selections) == (1, 2)
    assert [option.score for option in single.options] == [60, 0]
    assert (text.min_length, text.max_length, text.is_multiline, text.max_score) == (0, 1000, False, 0)
    assert text.placeholder.in_language("en") == ""


def test_a_text_may_be_written_once_or_in_any_languages(load: Load) -> None:
    [question] = load(CHOICE.replace('text = "Which?"', 'text.de = "Welche?"\ntext.pt_BR = "Qual?"')).questions
    assert question.text.by_language == {"de": "Welche?", "pt-br": "Qual?"}
    assert isinstance(question, ChoiceQuestion)
    assert question.options[0].text.in_language("de") == "This"


# --- what stops the start ---


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        (("id = 1\n", ""), "[[question]] number 1: id: write a whole number from 1 to 999999, such as id = 1."),
        (("id = 1\n", 'id = "a"\n'), '[[question]] number 1: id = "a": this must be a whole number from 1 to 999999.'),
        (("id = 1\n", "id = 0\n"), "[[question]] number 1: id = 0: this must be a whole number from 1 to 999999."),
        (("single_choice", "choice"), 'question 1: type = "choice": this must be "single_choice" or "multiple_choice"'),
        (('type = "single_choice"\n', ""), "question 1: type: this must be"),
        (('"Which?"', '" "'), 'question 1: text = " ": this must not be empty.'),
        (('"Which?"', "4"), "question 1: text = 4: write a text in quotes"),
        (('"Which?"', "{}"), "question 1: text: write it in one language at least, such as text.en"),
        (('"Which?"', '{english = "Which?"}'), "question 1: text.english: this must be a language, such as"),
        (('"Which?"', '{en = ["Which?"]}'), "question 1: text.en: write a text in quotes"),
        (('"Which?"', '"\\u0007"'), "question 1: text"),
        (('"Which?"', f'"{"?" * 2001}"'), "this has 2001 characters; it may have 2000."),
        (('text = "Which?"\n', ""), "question 1: text: write a text in quotes"),
        (("id = 1\n", 'id = 1\nrequired = "yes"\n'), 'question 1: required = "yes": this must be true or false'),
        (("id = 1\n", "id = 1\nreqiured = true\n"), "question 1: reqiured = true: there is no such key here; did you"),
        (("id = 1\n", "id = 1\nmin_selections = 1\n"), "only questions of the type multiple_choice have it; remove it"),
        (("id = 1\n", "id = 1\nmax_length = 1\n"), "max_length = 1: only questions of the type text have it"),
        (("score = 60", "scroe = 60"), "question 1, option 1: scroe = 60: there is no such key here; did you mean"),
        (("score = 60", "score = 6.5"), "question 1, option 1: score = 6.5: this must be a whole number from"),
        (("score = 60", "score = true"), "question 1, option 1: score = true: this must be a whole number"),
        (
            ('[[question.option]]\ntext = "That"', ""),
            "question 1: option: there must be from 2 to 50, and there are 1.",
        ),
        (("[[question]]", "[[qeustion]]\n[[question]]"), "questions.toml: qeustion: there is no such key here"),
        (("score = 60", "score = 59"), "passing is impossible: the questions bring 59 points at most, and"),
    ],
)
def test_a_broken_choice_stops_the_start(load: Load, changed: tuple[str, str], problem: str) -> None:
    problems = problems_of(load, CHOICE.replace(*changed))
    assert any(problem in told for told in problems), problems
    assert all(told.split(": ")[0].endswith("questions.toml") for told in problems)


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("min_length = -1", "min_length = -1: this must be a whole number from 0 to 4000."),
        ("max_length = 0", "max_length = 0: this must be a whole number from 1 to 4000."),
        ("min_length = 50\nmax_length = 40", "max_length = 40: this must be a whole number from 50 to 4000."),
        ("max_score = -1", "max_score = -1: this must be a whole number from 0 to 10000."),
        ('scoring_rule = "friendly"', "without points there is nothing to score; write max_score too."),
        ("multiline = 1", "multiline = 1: this must be true or false, without quotes."),
        ("placeholder = 1", "placeholder = 1: write a text in quotes"),
        ("min_selections = 1", "only questions of the type multiple_choice have it; remove it."),
        ("option = []", "only questions of the type single_choice and multiple_choice have it; remove it."),
    ],
)
def test_a_broken_text_question_stops_the_start(load: Load, written: str, problem: str) -> None:
    [told] = problems_of(load, CHOICE + TEXT + written)
    assert f"question 2: {written.splitlines()[-1].partition(' ')[0]}" in told
    assert problem in told


@pytest.mark.parametrize(
    ("bounds", "problem"),
    [
        ("min_selections = 0", "min_selections = 0: this must be a whole number from 1 to 2."),
        ("min_selections = 3", "min_selections = 3: this must be a whole number from 1 to 2."),
        ("min_selections = 2\nmax_selections = 1", "max_selections = 1: this must be a whole number from 2 to 2."),
    ],
)
def test_bounds_that_nobody_can_keep_stop_the_start(load: Load, bounds: str, problem: str) -> None:
    several = CHOICE.replace("single", "multiple").replace("id = 1", f"id = 1\n{bounds}")
    [told] = problems_of(load, several)
    assert problem in told


def test_every_problem_is_told_at_once(load: Load) -> None:
    broken = CHOICE.replace("score = 60", "score = 'much'") + TEXT.replace('"Why?"', '""') + CHOICE + CHOICE
    assert [told.split(": ")[1] for told in problems_of(load, broken)] == [
        "question 1, option 1",
        "question 2",
        "question 1",
    ]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "question: there must be from 1 to 100, and there are 0."),
        ("question = 4", "question = 4: each question needs a heading of its own, in double brackets."),
        ("question = [4]", "question: each question needs a heading of its own, in double brackets."),
        ("[[question", "the file is not valid TOML"),
        (b"\xff", "the file is not UTF-8 text; save it as UTF-8."),
        (TEXT * 101, "question: there must be from 1 to 100, and there are 101."),
        ("#" * (1024 * 1024 + 1), "the file is too large"),
    ],
)
def test_a_file_that_is_no_questionnaire_stops_the_start(load: Load, content: str | bytes, problem: str) -> None:
    assert problem in problems_of(load, content)[0]


def test_a_file_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\[questionnaire\] file: there is no file .*nowhere"):
        load_questionnaire(tmp_path / "nowhere.toml", 60)


def test_the_command_line_says_what_is_wrong_with_it(daemon: MakeDaemon, tmp_path: Path) -> None:
    file = tmp_path / "questions.toml"
    file.write_text(CHOICE.replace("score = 60", "scroe = 60"), encoding="utf-8")
    place = daemon({"questionnaire": {"file": str(file)}})
    for command in ("check-config", "serve"):
        told = companion(command, config=place.config_file)
        assert told.status == 78
        assert f"{file}: question 1, option 1: scroe = 60" in told.errors
    file.write_text(CHOICE, encoding="utf-8")
    assert companion("check-config", config=place.config_file).status == 0
