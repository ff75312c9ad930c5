"""Files that every installation has beside the program, and the search in them: config, units, samples, documentation.

They are named by their path in the repository. In a clone they are read from there; a wheel has copies of them in
`regsvc/shipped`, which `setup.py` makes. It runs this module by itself, which therefore imports nothing of ours.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SHIPPED: Final = (
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "conf/*.toml",
    "docs/*.md",
    "packaging/monitoring/*",
    "packaging/proxy/*",
    "systemd/*",
)
"""What is shipped, as patterns; folders below are not searched."""

REPOSITORY: Final = Path(__file__).resolve().parents[2]
_COPIES: Final = Path(__file__).resolve().parents[1] / "shipped"


def list_shipped() -> list[str]:
    """Return the names of all shipped files."""
    root = _root()
    found = {path for pattern in SHIPPED for path in root.glob(pattern) if path.is_file()}
    return sorted(path.relative_to(root).as_posix() for path in found)


def read_shipped(name: str) -> str:
    """Return the text of a shipped file, such as `conf/companion.toml`; raise FileNotFoundError for any other."""
    if name not in list_shipped():
        raise FileNotFoundError(f"{name} is not shipped with the companion")
    return (_root() / name).read_text(encoding="utf-8")


def _root() -> Path:
    return _COPIES if _COPIES.is_dir() else REPOSITORY


def print_shipped(words: list[str]) -> int:
    """Print the list of all files, or what the words name; return the exit status, 2 if there is no such thing.

    They name a file (a page also without `docs/` and `.md`), a section of one (`upgrade#the-way-back`), or are searched
    for: first in titles, headings and names of files, else in the text. One match is printed, several are listed.
    """
    names = list_shipped()
    if not words:
        _print_columns([(name, _title(name)) for name in names])
        return 0
    asked = " ".join(words)
    path, _hash, anchor = asked.partition("#")
    file = next((name for name in (path, f"docs/{path}.md", f"{path}.md") if name in names), None)
    if file is not None and not anchor:
        print(read_shipped(file), end="")
        return 0
    if file is not None:
        found = [section for section in list_sections(file) if section.anchor == anchor.lower()]
    else:
        found = _search([word for word in re.split(r"[\s#]+", asked) if re.search(r"\w", word)])
    if len(found) == 1:
        print(f"{found[0].place}\n\n{found[0].text.strip()}")
    elif found:
        _print_columns([(section.place, section.heading) for section in found[:_MOST_LISTED]])
        if len(found) > _MOST_LISTED:
            print(f"and {len(found) - _MOST_LISTED} more: name another word")
        print("`companion docs PAGE#SECTION` prints one of them", file=sys.stderr)
    else:
        missing = f"nothing about {asked}" if file is None else f"no section {anchor} in {file}"
        listing = "`companion docs` lists what there is"
        print(f"companion: there is {missing}; {_suggestion(anchor or asked, file)}{listing}", file=sys.stderr)
    return 0 if found else 2


def _print_columns(rows: list[tuple[str, str]]) -> None:
    width = max(len(first) for first, _second in rows)
    for first, second in rows:
        print(f"{first:{width}}  {second}".rstrip())


# --- the search ---


_MOST_LISTED: Final = 20
_NOT_SEARCHED: Final = ("CHANGELOG.md", "LICENSE")
_FOR_CONTRIBUTORS: Final = tuple(
    f"docs/{name}.md" for name in ("architecture", "assumptions", "benchmarks", "decisions", "dependencies", "faults")
)
"""Come last among the matches: who searches on a host asks how to do something."""
_FENCE: Final = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_HEADING: Final = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_TABLE: Final = re.compile(r"^(?:#.*\n)*\[+(\w+)\]+$", re.MULTILINE)


@dataclass(frozen=True)
class Section:
    """A heading of a page with what is below it, a table of a sample config, or a file that has neither."""

    file: str
    level: int
    """1: the whole file."""
    anchor: str
    """As GitHub makes it; empty where the file has no headings."""
    heading: str
    text: str
    """With the sections below it."""
    own_text: str
    """Without them."""

    @property
    def place(self) -> str:
        return f"{self.file}#{self.anchor}" if self.level > 1 else self.file


def list_sections(file: str) -> Iterator[Section]:
    """Yield the sections of a file in their order."""
    text = read_shipped(file)
    if file.endswith(".md"):
        searched = _FENCE.sub(lambda fence: " " * len(fence[0]), text)  # a # there begins a comment
        found = [(match.start(), len(match[1]), match[2]) for match in _HEADING.finditer(searched)]
    else:
        found = [(match.start(), 2, match[1]) for match in _TABLE.finditer(text) if file.endswith(".toml")]
    if not found:
        yield Section(file, 1, "", _title(file), text, text)
    used: dict[str, int] = {}
    for index, (start, level, heading) in enumerate(found):
        following = found[index + 1 :]
        end = next((later for later, its_level, _heading in following if its_level <= level), len(text))
        next_start = following[0][0] if following else len(text)
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        times = used[anchor] = used.get(anchor, -1) + 1
        anchor = f"{anchor}-{times}" if times else anchor
        yield Section(file, level, anchor, heading, text[start:end], text[start:next_start])


def _search(words: list[str]) -> list[Section]:
    """Return the sections whose headings have the words, else those whose text has them, the best first."""
    if not words:
        return []
    files = [name for name in list_shipped() if name not in _NOT_SEARCHED and not name.endswith(".json")]
    sections = [section for file in files for section in list_sections(file)]
    patterns = [_pattern(word) for word in words]
    headed = []
    for section in sections:
        own = section.heading if section.level > 1 else f"{section.heading} {section.file}"
        around = f"{own} {section.file} {_title(section.file)}"
        if any(each.search(own) for each in patterns) and all(each.search(around) for each in patterns):
            headed.append(section)
    if headed:
        return sorted(headed, key=lambda section: section.file in _FOR_CONTRIBUTORS)
    counts = [(min(len(each.findall(section.own_text)) for each in patterns), section) for section in sections]
    best = sorted(counts, key=lambda pair: (pair[1].file in _FOR_CONTRIBUTORS, -pair[0]))
    return [section for count, section in best if count]


def _pattern(word: str) -> re.Pattern[str]:
    """Return the pattern of words that begin so, in any case; an `s` at the end is not needed."""
    stem = word[:-1] if len(word) > 4 and word[-1] in "sS" else word
    return re.compile(rf"(?<![^\W_]){re.escape(stem)}", re.IGNORECASE)


def _suggestion(asked: str, file: str | None) -> str:
    """Return what may have been meant, as a question before the next words: sections of the file, or words; or ""."""
    import difflib

    if file is not None:
        alike = difflib.get_close_matches(asked.lower(), [section.anchor for section in list_sections(file)], n=1)
        return f"did you mean {file}#{alike[0]}? " if alike else ""
    texts = (f"{name} {read_shipped(name)}".lower() for name in list_shipped())
    known = {word for text in texts for word in re.findall(r"[a-z]{3,}", text)}
    words = re.findall(r"\w+", asked.lower())
    meant = [word if word in known else "".join(difflib.get_close_matches(word, known, 1, 0.75)) for word in words]
    return f"did you mean {' '.join(meant)}? " if all(meant) and meant != words else ""


def _title(name: str) -> str:
    """Return the heading of a page, or the first comment of a file."""
    first = read_shipped(name).partition("\n")[0]
    return first.lstrip("# ").partition(". ")[0].rstrip(".") if first.startswith("# ") else ""
