"""A host's own colours and pictures: themes, `server.accent`, `server.custom_css`, and warnings about them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from regsvc.config.value_checks import unreadable_reason
from regsvc.core.safe_paths import open_file

READABLE: Final = 4.5
"""The contrast that text needs."""

_STEPS: Final = 100
_RED_GREEN_BLUE: Final = (0.2126, 0.7152, 0.0722)
MAX_STYLE_BYTES: Final = 64 * 1024
LIGHT: Final[Mapping[str, str]] = {
    "page": "#eef0f2",
    "card": "#ffffff",
    "sunken": "#f3f5f7",
    "text": "#1c2430",
    "quiet": "#55606e",
    "on-accent": "#ffffff",
    "bad": "#a8201a",
}
"""Colours of our pages in light mode, by the names of their CSS variables, as in `styles/tokens.css`."""
DARK: Final[Mapping[str, str]] = {
    "page": "#14181d",
    "card": "#1e242b",
    "sunken": "#161b21",
    "text": "#e8ebee",
    "quiet": "#a9b3be",
    "on-accent": "#10201a",
    "bad": "#ff9c92",
}
"""Colours of our pages in dark mode."""
_PAIRS: Final = (
    *((front, back) for front in ("text", "quiet", "accent", "bad") for back in ("page", "card", "sunken")),
    ("on-accent", "accent"),
)
_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
_DARK_BLOCK: Final = re.compile(r"@media[^{]*prefers-color-scheme:\s*dark[^{]*\{")
_VARIABLE: Final = re.compile(r"--([\w-]+)\s*:\s*(#(?:[0-9a-fA-F]{3,4}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8}))\s*[;}]")
_FONT: Final = re.compile(r"@font-face\s*\{[^}]*\}?")
_IMPORT: Final = re.compile(r"@import\s[^;]*;?")
_TOKEN: Final = re.compile(
    r"""(?P<comment>/\*.*?(?:\*/|\Z)) | "(?:\\.|[^"\\\n])*"? | '(?:\\.|[^'\\\n])*'?
    | url\(\s*(?!["'\s])[^)]*\)? | \\. | [{}]""",
    re.DOTALL | re.IGNORECASE | re.VERBOSE,
)
"""Whatever may contain a brace that opens or closes no block, and the braces that do."""
_PICTURE: Final = re.compile(r"""url\(\s*["']?([^"')\s]+)""")


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, from 1 to 21."""
    darker, lighter = sorted((_luminance(_channels(one)), _luminance(_channels(other))))
    return (lighter + 0.05) / (darker + 0.05)


def readable_on(background: str, colour: str) -> str:
    """Return the colour, mixed with as much black or white as makes it readable on a background."""
    end = 0 if _luminance(_channels(background)) > _luminance((128, 128, 128)) else 255
    channels = _channels(colour)
    mixtures = (
        f"#{bytes(round(channel + (end - channel) * step / _STEPS) for channel in channels).hex()}"
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


if TYPE_CHECKING:
    from regsvc.config.sections import Config


class Accent(NamedTuple):
    """An accent colour in light and in dark mode."""

    light: str
    dark: str


THEMES: Final[Mapping[str, Accent]] = {
    "default": Accent("#2f6f4f", "#7cc9a0"),
    "ocean": Accent("#1f5f99", "#86bdf0"),
    "ember": Accent("#a33d14", "#f5a27c"),
    "amethyst": Accent("#6a43a8", "#c3a6f2"),
}
"""The accent colours of our pages' themes, as in `styles/tokens.css`."""


def accent_of(config: Config) -> Accent:
    """Return the accent colours of a host: `server.accent`, as readable as text has to be, else those of the theme.

    No colour is refused: none has a contrast of 4.5:1 both to a light and to a dark page.
    """
    server = config.server
    if not server.accent:
        return THEMES.get(server.theme, THEMES["default"])
    return _readable_accent(server.accent)


@lru_cache(maxsize=2)
def _readable_accent(accent: str) -> Accent:
    # readable on the darkest background of light mode and on the lightest of dark mode, so on the others, too
    return Accent(readable_on(LIGHT["page"], accent), readable_on(DARK["card"], accent))


def read_style(file: Path | None) -> str:
    """Return the text of `server.custom_css`; "" if it is not set or cannot be used."""
    if file is None or unusable_style_reason(file):
        return ""
    return _read(file)


def unusable_style_reason(file: Path) -> str | None:
    """Return a sentence if the file cannot be the style sheet of a host, else None."""
    if reason := unreadable_reason(file):
        return reason
    if file.stat().st_size > MAX_STYLE_BYTES:
        return f"{file} is larger than {MAX_STYLE_BYTES // 1024} KiB; every visitor would wait for it"
    try:
        _read(file)
    except UnicodeDecodeError:
        return f"{file} is not UTF-8 text; save it as UTF-8"
    except OSError as error:
        return f"{error.filename} cannot be read ({error.strerror})"
    return None


def _read(file: Path) -> str:
    with open(open_file(file), encoding="utf-8-sig") as style:  # noqa: PTH123 - a descriptor, not a path
        return style.read()


def image_sources(config: Config) -> list[str]:
    """Return the origins of the images on the pages of this host, as CSP sources."""
    own = (config.server.logo_url, config.server.banner_url, config.server.favicon)
    pictures = (*own, *(download.icon for download in config.downloads.values()))
    return sorted({_source(picture) for picture in pictures if picture})


def _source(address: str) -> str:
    try:
        parts = urlsplit(address)  # a word for a host's own front end has no picture here, and counts as ours
    except ValueError:  # no address at all: from nowhere that we allow
        return address
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else "'self'"


def _is_local_file(address: str) -> bool:
    with suppress(OSError):  # in a folder that we may not read
        return address.startswith("/") and Path(address).is_file()
    return False


def picture_warnings(config: Config) -> Iterator[str]:
    """Yield sentences about pictures and parts of the style sheet that browsers do not get or do not load."""
    server = config.server
    pictures = {"logo_url": server.logo_url, "banner_url": server.banner_url, "favicon": server.favicon}
    for name, address in pictures.items():
        if _is_local_file(address):
            yield (
                f"server.{name} is a file on this machine, which visitors do not get: the companion serves no "
                "pictures; put it on a web server, and write its web address."
            )
    style = _COMMENT.sub("", config.custom_css)
    if _IMPORT.search(style):
        yield "server.custom_css: @import has no effect; copy the rules into the file."
    if _FONT.search(style):
        yield "server.custom_css: @font-face has no effect, as pages load no fonts; name fonts that devices have."
    allowed = image_sources(config)
    for address in dict.fromkeys(_PICTURE.findall(_IMPORT.sub("", _FONT.sub("", style)))):
        if not address.startswith(("data:", "#")) and _source(address) not in allowed:
            yield (
                f"server.custom_css: {address} is not loaded: pictures have to be data: addresses, or from where "
                "server.logo_url, banner_url or favicon is."
            )


def brace_warnings(config: Config) -> Iterator[str]:
    """Yield a sentence about the first place where the braces or comments of the style sheet do not match."""
    style, opened = config.custom_css, list[int]()

    def place(start: int) -> str:
        return f"server.custom_css: line {style.count(chr(10), 0, start) + 1}"

    for token in _TOKEN.finditer(style):
        if token["comment"] and not token[0].endswith("*/", 2):
            yield f"{place(token.start())}: the comment has no end, so all that follows is ignored; write */."
            return
        if token[0] == "{":
            opened.append(token.start())
        elif token[0] == "}" and not opened:
            yield f"{place(token.start())}: a }} closes nothing, so the rule after it is ignored; remove it."
            return
        elif token[0] == "}":
            opened.pop()
    if opened:
        yield (
            f"{place(opened[0])}: this block, or one within it, is not closed, so the rules after it have no effect, "
            "or another; write the missing }."
        )


def style_warnings(config: Config) -> Iterator[str]:
    """Yield sentences about colours of the host that are hard to read."""
    accent, shown = config.server.accent, accent_of(config)
    if accent and shown.light != accent:
        yield (
            f"server.accent {accent} has a contrast of {_ratio(accent, LIGHT['page'])} to the light pages, where text "
            f"needs {READABLE}:1: it is darkened to {shown.light} there."
        )
    light, dark = _variables(config.custom_css)
    for mode, colours, changed in (
        ("light", {**LIGHT, "accent": shown.light, **light}, light),
        ("dark", {**DARK, "accent": shown.dark, **light, **dark}, {**light, **dark}),
    ):
        for front, back in _PAIRS:
            is_changed = front in changed or back in changed
            if is_changed and contrast(colours[front], colours[back]) < READABLE:
                yield (
                    f"server.custom_css: in {mode} mode, --{front} has a contrast of "
                    f"{_ratio(colours[front], colours[back])} to --{back}; text needs {READABLE}:1."
                )


def _variables(style: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables that a style sheet sets to hexadecimal colours: everywhere, and in dark mode alone."""
    rest, dark = _COMMENT.sub("", style), ""
    while (match := _DARK_BLOCK.search(rest)) is not None:
        end = _end_of_block(rest, match.end())
        dark += rest[match.end() : end]
        rest = rest[: match.start()] + rest[end:]
    return dict(_VARIABLE.findall(rest)), dict(_VARIABLE.findall(dark))


def _end_of_block(text: str, start: int) -> int:
    """Return where the block ends whose opening brace is before `start`."""
    depth = 1
    for match in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.end()
    return len(text)


def _ratio(one: str, other: str) -> str:
    return f"{int(contrast(one, other) * 10) / 10}:1"
