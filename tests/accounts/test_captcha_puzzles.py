import re
from collections import Counter

import pytest

from regsvc.accounts.captcha import make_sum, make_text, puzzle_maker
from regsvc.config.sections import CaptchaSection

LOOK_ALIKES = ["0ODQ9", "1IL7", "TY", "2Z", "5S", "6G", "38B", "UV", "CG", "PR", "EF", "MNW", "4A"]


def test_a_sum_and_its_answer() -> None:
    for _round in range(200):
        puzzle = make_sum()
        match = re.fullmatch(r"(\d\d)\+(\d)=\?", puzzle.text)
        assert match is not None
        assert int(puzzle.answer) == int(match[1]) + int(match[2])


def test_no_sum_is_so_common_that_guessing_pays() -> None:
    answers = Counter(make_sum().answer for _round in range(20_000))
    assert answers.most_common(1)[0][1] < 20_000 * 0.05


@pytest.mark.parametrize("length", [3, 4, 8])
def test_characters_are_their_own_answer(length: int) -> None:
    puzzle = make_text(length)
    assert puzzle.answer == puzzle.text
    assert re.fullmatch(rf"[A-Z0-9]{{{length}}}", puzzle.text)


@pytest.mark.parametrize("group", LOOK_ALIKES)
def test_no_two_characters_look_alike(group: str) -> None:
    used = {character for _round in range(500) for character in make_text(8).text}
    assert len(used) >= 10
    assert len(used & set(group)) <= 1


def test_the_config_says_what_is_asked() -> None:
    assert re.fullmatch(r"\d\d\+\d=\?", puzzle_maker(CaptchaSection(type="math"))().text)
    assert re.fullmatch("[A-Z0-9]{6}", puzzle_maker(CaptchaSection(type="text", length=6))().text)


def test_a_question_is_not_printed() -> None:
    assert make_text(8).text not in repr(make_text(8))
    puzzle = make_sum()
    assert puzzle.answer not in repr(puzzle)
