"""Pictures of captcha puzzles: easy for a person, tedious for a program, and no two alike.

Letters are rotated, differ in size and touch; curves in ink and in the paper's colour cross them; the whole is
distorted, on cloudy and scratched paper, in random colours. The font is Pillow's default.

Everything is drawn in one channel, from 0 for paper to 255 for ink; the palette turns it into colours. Blocking.
"""

import io
import os
import struct
import zlib
from collections.abc import Callable
from colorsys import hls_to_rgb
from functools import lru_cache
from itertools import pairwise
from math import sin, tau
from random import SystemRandom
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont
from PIL.Image import Resampling, Transform

HEIGHT = 80
"""Pixels."""

Point = tuple[float, float]
Size = tuple[int, int]

_PAPER, _INK = 0, 255
_PAPER_TONES = [tone * 70 // 255 for tone in range(256)]
_INK_TONES = [165 + tone * 90 // 255 for tone in range(256)]
# Two shades of paper and two of ink: with 16 the picture is twice as large, and a phone waits for it.
_SHADES = (0.04, 0.15, 0.72, 0.97)  # from paper to ink
_TO_SHADE = [(tone >= 35) + (tone >= 118) + (tone >= 210) for tone in range(256)]

# Tuned by eye: a slanted 7 is a 1, a curve makes an 8 of a 6. Look at a few dozen pictures before changing a number.
_FONT_SIZES = range(52, 67, 2)
_WEIGHT = 2  # pixels added to the font's strokes
_HALO = 6  # pixels kept clear around a sign
_OVERLAPS = (6.0, 11.0)  # pixels shared by two neighbours, including the margins of their boxes: most of them touch
_SIGNS = frozenset("+=?")  # a curve through one of these would make it look like another sign
_LEAN, _SIGNS_LEAN = 16.0, 8.0  # degrees to either side
_CURVES = ((_PAPER, 2), (_INK, 2), (_PAPER, 1), (_INK, 2))  # thicker ink would turn a 5 into a 6
_SCRATCHES = 50
_MARGIN, _LETTER_WIDTH, _SIGN_WIDTH = 8, 40, 30  # pixels

_random = SystemRandom()


def render(text: str) -> bytes:
    """Return a PNG of the text (three characters or more, no spaces), `HEIGHT` pixels high and at least 152 wide."""
    written = _bend(_write(text))
    picture = Image.composite(
        _clouds(written.size, 24, _INK_TONES),
        _clouds(written.size, 6, _PAPER_TONES),
        written,
    )
    _scratch(picture)
    return _in_colours(picture.point(_TO_SHADE))


# --- writing ---


class _Letter(NamedTuple):
    """A character as a mask of ink; `halo` is the mask of the clear area around it, or None."""

    shape: Image.Image
    halo: Image.Image | None

    def put(self, sheet: Image.Image, at: Size) -> None:
        if self.halo is not None:
            sheet.paste(_PAPER, at, self.halo)
        sheet.paste(_INK, at, self.shape)


def _write(text: str) -> Image.Image:
    """Draw the letters in an uneven row, crossed by curves, with signs on top of the curves."""
    width = sum(_SIGN_WIDTH if character in _SIGNS else _LETTER_WIDTH for character in text)
    sheet = Image.new("L", (4 * _MARGIN + width, HEIGHT), _PAPER)
    letters = [_lean(character) for character in text]
    placed = list(zip(letters, _row(letters, sheet.width), strict=True))
    for letter, at in placed:
        letter.put(sheet, at)
    pen = ImageDraw.Draw(sheet)
    for tone, thickness in _CURVES:
        pen.line(_curve(sheet.width), fill=tone, width=thickness, joint="curve")
    for letter, at in placed:
        if letter.halo is not None:
            letter.put(sheet, at)
    return sheet


def _lean(character: str) -> _Letter:
    """Return the character in a random size, slightly rotated."""
    size = _random.choice(_FONT_SIZES)
    most = _SIGNS_LEAN if character in _SIGNS else _LEAN
    angle = _random.uniform(-most, most)

    def turned(weight: int) -> Image.Image:
        return _stamp(character, size, weight).rotate(angle, Resampling.BILINEAR, expand=True)

    return _Letter(turned(_WEIGHT), turned(_HALO) if character in _SIGNS else None)


@lru_cache(maxsize=512)
def _stamp(character: str, size: int, weight: int) -> Image.Image:
    """Return the upright character, in a box of the same size for every weight."""
    font = ImageFont.load_default(size)
    left, top, right, bottom = font.getbbox(character, stroke_width=_HALO)
    stamp = Image.new("L", (int(right - left), int(bottom - top)), _PAPER)
    ImageDraw.Draw(stamp).text((-left, -top), character, fill=_INK, font=font, stroke_width=weight)
    return stamp


def _row(letters: list[_Letter], width: int) -> list[Size]:
    """Return the position of each letter's box, so that the row is centred on the sheet and fits on it."""
    widths = [letter.shape.width - 2 * (_HALO - _WEIGHT) for letter in letters]
    steps = [wide - _random.uniform(*_OVERLAPS) for wide in widths[:-1]]
    squeeze = min(1.0, (width - 2 * _MARGIN - widths[-1]) / sum(steps))
    x = (width - sum(steps) * squeeze - widths[-1]) / 2 - (_HALO - _WEIGHT)
    places = []
    for letter, step in zip(letters, [*steps, 0], strict=True):
        y = (HEIGHT - letter.shape.height) / 2 + _random.uniform(-6, 6)
        places.append((round(x), round(y)))
        x += step * squeeze
    return places


def _curve(width: int) -> list[Point]:
    """Return the points of a wave from edge to edge."""
    middle, slope = _random.uniform(0.3, 0.7) * HEIGHT, _random.uniform(-0.1, 0.1)
    wave = _wave(_random.uniform(6, 14), width / _random.uniform(0.6, 1.5))
    return [(x, middle + slope * (x - width / 2) + wave(x)) for x in range(-4, width + 8, 8)]


def _wave(height: float, length: float) -> Callable[[float], float]:
    """Return a sine of this amplitude and wavelength, in pixels, with a random phase."""
    phase = _random.uniform(0, tau)
    return lambda distance: height * sin(distance * tau / length + phase)


# --- bending, colouring ---


def _bend(sheet: Image.Image) -> Image.Image:
    """Distort the sheet with one wave horizontally and one vertically."""
    across, down = 9, 3
    sideways = _wave(_random.uniform(3, 5), HEIGHT / _random.uniform(0.8, 1.3))
    upwards = _wave(_random.uniform(4, 7), sheet.width / _random.uniform(1.5, 2.5))
    columns = [sheet.width * column // across for column in range(across + 1)]
    rows = [sheet.height * row // down for row in range(down + 1)]
    source = {(x, y): (x + sideways(y), y + upwards(x)) for x in columns for y in rows}
    mesh = [
        (
            (left, top, right, bottom),
            (*source[left, top], *source[left, bottom], *source[right, bottom], *source[right, top]),
        )
        for left, right in pairwise(columns)
        for top, bottom in pairwise(rows)
    ]
    return sheet.transform(sheet.size, Transform.MESH, mesh, Resampling.BILINEAR)


def _clouds(size: Size, grain: int, tones: list[int]) -> Image.Image:
    """Return soft noise with clouds `grain` pixels wide."""
    coarse = (size[0] // grain + 1, size[1] // grain + 1)
    noise = Image.frombytes("L", coarse, os.urandom(coarse[0] * coarse[1]))
    return noise.resize(size, Resampling.BICUBIC).point(tones)


def _scratch(picture: Image.Image) -> None:
    """Draw short strokes at random places in random tones."""
    pen = ImageDraw.Draw(picture)
    for across, down, to_right, to_bottom, tone in struct.iter_unpack("5B", os.urandom(5 * _SCRATCHES)):
        x, y = across * picture.width // 256, down * picture.height // 256
        pen.line((x, y, x + to_right % 7 - 3, y + to_bottom % 7 - 3), fill=tone)


def _in_colours(shades: Image.Image) -> bytes:
    """Return the PNG of a picture of `_SHADES`, from pale paper to dark ink, each of a random hue."""
    paper = hls_to_rgb(_random.random(), _random.uniform(0.90, 0.96), 0.6)
    ink = hls_to_rgb(_random.random(), _random.uniform(0.16, 0.26), 0.7)
    shades.putpalette([int(255 * (p + (i - p) * step)) for step in _SHADES for p, i in zip(paper, ink, strict=True)])
    png = io.BytesIO()
    # noise has no repetitions worth searching for: Huffman alone is both the smallest and the fastest
    shades.save(png, "PNG", bits=2, compress_level=1, compress_type=zlib.Z_HUFFMAN_ONLY)
    return png.getvalue()
