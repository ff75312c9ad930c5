"""Colours as CSS writes them ("#2f6f4f"), and the contrast between two of them (WCAG 2.2, 1.4.3)."""

from __future__ import annotations

from typing import Final

READABLE: Final = 4.5
"""The contrast that text needs."""

_STEPS: Final = 100
_RED_GREEN_BLUE: Final = (0.2126, 0.7152, 0.0722)


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, from 1 to 21."""
    darker, lighter = sorted((_luminance(_channels(one)), _luminance(_channels(other))))
    return (lighter + 0.05) / (darker + 0.05)


def readable_on(background: str, colour: str) -> str:
    """Return the colour, mixed with as much black or white as makes it readable on a background."""
    end = 0 if _luminance(_channels(background)) > _luminance((128, 128, 128)) else 255
    channels = _channels(colour)
    mixtures = (
        _format([round(channel + (end - channel) * step / _STEPS) for channel in channels])
        for step in range(_STEPS + 1)
    )
    return next(mixture for mixture in mixtures if contrast(mixture, background) >= READABLE)


def _channels(colour: str) -> tuple[int, ...]:
    """Return red, green and blue, of 0 to 255; an alpha channel is ignored."""
    digits = colour.removeprefix("#")
    if len(digits) in (3, 4):
        digits = "".join(digit * 2 for digit in digits)
    return tuple(bytes.fromhex(digits[:6]))


def _luminance(channels: tuple[int, ...]) -> float:
    linear = [_linear(channel / 255) for channel in channels]
    return sum(weight * value for weight, value in zip(_RED_GREEN_BLUE, linear, strict=True))


def _linear(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else float(((value + 0.055) / 1.055) ** 2.4)


def _format(channels: list[int]) -> str:
    return f"#{bytes(channels).hex()}"
