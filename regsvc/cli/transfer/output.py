"""Output of an export: standard output, a pipe, or a file that appears only when it is complete; and its cells."""

import getpass
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

from regsvc.cli.transfer.tables import TransferProblem

STANDARD_OUTPUT: Final = "-"


@contextmanager
def open_output(target: str) -> Iterator[TextIO]:
    """Open the output for writing. Files are readable by our own user only (0600). Raises `TransferProblem`."""
    if target == STANDARD_OUTPUT:
        yield sys.stdout
        sys.stdout.flush()
        return
    path = Path(target)
    if path.exists() and not path.is_file():  # a pipe or a device such as /dev/null is written to, never replaced
        with _writing_into(path) as file:
            yield file
        return
    path = path.resolve()  # keeps a symbolic link
    draft = path.with_name(f".{path.name}.unfinished")
    try:
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8", newline="") as file:  # noqa: PTH123 - a descriptor, not a path
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise TransferProblem(f"{path} cannot be written: {error.strerror}.") from error
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def _writing_into(path: Path) -> Iterator[TextIO]:
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise TransferProblem(f"{path} cannot be written: {error.strerror}.") from error


_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
_MARK: Final = "'"


def to_cell(value: object) -> str:
    """Convert a value: None becomes an empty cell, a boolean yes or no."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    # text that already begins with the mark is marked, too, so that removing one mark always restores it
    return f"{_MARK}{text}" if text.startswith((*_FORMULAS, _MARK)) else text


def from_cell(cell: str) -> str:
    """Reverse `to_cell` for text. A leading ' that marks nothing is kept."""
    return cell[1:] if cell[:1] == _MARK and cell[1:2] in (*_FORMULAS, _MARK) and len(cell) > 1 else cell


STANDARD_INPUT: Final = "-"


def read_url(value: str, title: str) -> str:
    """Return the value, or for "-" the next line of standard input: other users can see a command line.

    `title` is the prompt on a terminal.
    """
    if value != STANDARD_INPUT:
        return value
    if sys.stdin.isatty():
        return getpass.getpass(f"{title} (not shown): ").strip()
    return sys.stdin.readline().strip()
