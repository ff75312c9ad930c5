"""Contrast of colours, and colours made readable."""

import pytest

from regsvc.config.host_style import READABLE, contrast, readable_on


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [("#000", "#ffffff", 21.0), ("#ffffff", "#ffffff", 1.0), ("#777777", "#ffffff", 4.48), ("#ff0000", "#fff", 4.0)],
)
def test_contrast_is_that_of_wcag(one: str, other: str, expected: float) -> None:
    assert contrast(one, other) == pytest.approx(expected, abs=0.01)
    assert contrast(other, one) == contrast(one, other)


@pytest.mark.parametrize("background", ["#eef0f2", "#1e242b", "#ffffff", "#000000"])
@pytest.mark.parametrize("colour", ["#ffcc00", "#000000", "#ffffff", "#7f7f7f", "#0000ff", "#39ff14"])
def test_any_colour_becomes_readable(colour: str, background: str) -> None:
    shown = readable_on(background, colour)
    assert contrast(shown, background) >= READABLE
    assert (shown == colour) is (contrast(colour, background) >= READABLE)
