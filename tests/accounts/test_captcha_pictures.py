import io
from collections.abc import Callable

import pytest
from PIL import Image

from regsvc.accounts.captcha import Puzzle, make_sum, make_text
from regsvc.accounts.captcha_pictures import render


@pytest.mark.parametrize("text", ["29+4=?", "KXP", "KXPA", "NNNNNNNN", "HJHJHJHJ"])
def test_a_picture_is_large_enough_to_read_and_small_enough_to_send(text: str) -> None:
    png = render(text)
    with Image.open(io.BytesIO(png)) as picture:
        picture.load()
        assert picture.format == "PNG"
        assert picture.width >= 150
        assert picture.height >= 50
    assert len(png) < 10_000


@pytest.mark.parametrize("make_puzzle", [make_sum, lambda: make_text(4)], ids=["math", "text"])
def test_no_two_pictures_are_alike(make_puzzle: Callable[[], Puzzle]) -> None:
    assert (
        len({render(make_puzzle().text) for _picture in range(100)} | {render("29+4=?") for _picture in range(100)})
        == 200
    )


def test_the_same_question_is_bent_another_way_each_time() -> None:
    """Not only the colours differ: the shapes in shades of grey do."""
    shapes = set()
    for _picture in range(50):
        with Image.open(io.BytesIO(render("KXPA"))) as picture:
            shapes.add(picture.tobytes())
    assert len(shapes) == 50


def test_ink_stands_out_from_paper_in_every_picture() -> None:
    """The darkest tenth is far darker than the brightest half, whatever colours were drawn."""
    for _picture in range(100):
        with Image.open(io.BytesIO(render("29+4=?"))) as picture:
            tones = sorted(picture.convert("L").tobytes())
        assert tones[len(tones) // 2] - tones[len(tones) // 20] > 70


def test_everything_that_was_written_is_on_the_picture() -> None:
    """The widest text leaves a margin of paper on the left and on the right."""
    for _picture in range(30):
        with Image.open(io.BytesIO(render("NNNNNNNN"))) as picture:
            grey = picture.convert("L")
        edges = [grey.getpixel((x, y)) for x in (0, grey.width - 1) for y in range(grey.height)]
        dark = [tone for tone in edges if isinstance(tone, int | float) and tone < 110]
        assert len(dark) < len(edges) // 5
