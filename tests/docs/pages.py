"""Pages for people: their blocks of commands and samples, the words in backquotes, and their links."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "systemd/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
)
HISTORY = ROOT / "CHANGELOG.md"
"""Names what is gone, too; only its links are checked."""

_BLOCK = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?<=\n\n)(?: {4}\S.*\n)+")
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_LINK = re.compile(r"\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block; the language of one that is only indented is `sh`."""

    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@cache
def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@cache
def list_blocks() -> tuple[Block, ...]:
    """Return the blocks of all pages, in their order."""
    found = []
    for page in PAGES:
        text = text_of(page)
        for match in _BLOCK.finditer(text):
            indent = len(match["indent"])
            lines = "".join(line[indent:] or "\n" for line in match["text"].splitlines(keepends=True))
            found.append(Block(name_of(page), text[: match.start()].count("\n") + 1, match["language"], lines))
        prose = _without_blocks(text)
        for match in _INDENTED.finditer(prose):
            lines = "".join(line[4:] for line in match[0].splitlines(keepends=True))
            found.append(Block(name_of(page), prose[: match.start()].count("\n") + 1, "sh", lines))
    return tuple(found)


def list_spans(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the place of each text in backquotes, outside blocks, and the text on one line."""
    prose = _without_blocks(text_of(page))
    for match in _SPAN.finditer(prose):
        yield f"{name_of(page)}:{prose[: match.start()].count(chr(10)) + 1}", " ".join(match[1].split())


def list_links(page: Path) -> list[str]:
    return _LINK.findall(_without_blocks(text_of(page)))


@cache
def anchors_of(page: Path) -> frozenset[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", _without_blocks(text_of(page)), re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


def _without_blocks(text: str) -> str:
    """Return the text with empty lines in place of fenced blocks, so that its lines keep their numbers."""
    return _BLOCK.sub(lambda match: "\n" * match[0].count("\n"), text)


def without_comments(script: str) -> str:
    """Return shell lines, continued ones joined, without comments and empty lines."""
    joined = re.sub(r"\\\n\s*", " ", script)
    lines = (re.sub(r"(^|\s+)# ?.*$", "", line) for line in joined.splitlines())
    return "".join(f"{line}\n" for line in lines if line.strip())


def split_commands(script: str) -> Iterator[str]:
    """Yield the commands of shell lines, without comments and redirections."""
    command, quote = "", ""
    for letter in without_comments(script):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "\n;|&":
            if command.strip():
                yield re.sub(r"\s*\d?[<>]+\s*\S+", "", command).strip()
            command = ""
            continue
        command += letter
