"""Generators for the sample config and tables of pages in `docs/`; each can write its file or check it."""

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path


def with_parts(page: Path, parts: Mapping[str, str]) -> str:
    """Return the text of a page with these parts, each between `<!-- name -->` and `<!-- /name -->`, replaced."""
    text = page.read_text(encoding="utf-8")
    for name, part in parts.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        text = text.partition(begin)[0] + begin + part + end + text.partition(end)[2]
    return text


def grid(*lines: Iterable[str]) -> str:
    """Return a table in Markdown; the first line is its head."""
    heads, *rows = [[cell.replace("|", r"\|").replace("<", r"\<") for cell in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in (heads, ["---"] * len(heads), *rows))


def bullets(lines: Iterable[tuple[str, str]]) -> str:
    """Return a list in Markdown: what is explained, and its explanation."""
    return "".join(f"* {name}: {note}\n" for name, note in lines).replace("<", r"\<")


def write_or_check(file: Path, text: str, arguments: Sequence[str] | None, description: str) -> int:
    """Write the file; with --check in `arguments` only test whether it is current. Return the exit status.

    `arguments` None: those of the process. `description` is shown by --help.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the file is not current")
    if not parser.parse_args(arguments).check:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return 0
    if file.is_file() and file.read_text(encoding="utf-8") == text:
        return 0
    print(f"{file} is not current; run: make sample", file=sys.stderr)
    return 1
