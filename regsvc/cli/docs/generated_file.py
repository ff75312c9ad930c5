"""A file of the repository that a program writes: for each the same two commands, write and check."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def write_or_check(file: Path, text: str, arguments: Sequence[str] | None, about: str) -> int:
    """Write the file; with --check in `arguments` say whether it is current (exit status 0) or not (1).

    `arguments` None: the process's own. `about` is what --help says.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if the file is not current")
    if not parser.parse_args(arguments).check:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return 0
    if file.is_file() and file.read_text(encoding="utf-8") == text:
        return 0
    print(f"{file} is not current; run: make sample", file=sys.stderr)
    return 1
