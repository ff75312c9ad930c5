"""The exception that ends a start, and descriptions of unexpected ones for logs."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Final

EX_CONFIG: Final = 78
"""Exit status: the host has to fix something first (sysexits.h)."""
EX_TEMPFAIL: Final = 75
"""Exit status: another attempt may succeed, without anything being fixed here (sysexits.h)."""


def describe_exception(error: BaseException) -> str:
    """Return the types and frames of an exception and of its causes on one line, newest first.

    Messages are left out: those of database drivers contain the values of the statement, which may be hashes.
    """
    return "; caused by ".join(f"{type(link).__qualname__} at {_frames(link)}" for link in _chain(error))


def locate_exception(error: BaseException) -> str:
    """Return the type of an exception and the place that raised it, without its message, as `describe_exception`."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _frames(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return " < ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(frames))


class StartupError(Exception):
    """Error that prevents a start; `str()` is a sentence. The host has to fix it, unless `exit_status` is another."""

    exit_status: int = EX_CONFIG
