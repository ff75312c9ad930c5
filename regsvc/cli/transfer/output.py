"""Output of an export: standard output, a pipe, or a file that appears only when it is complete."""

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
