"""One check for many cases within one test."""

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def assert_each(cases: Iterable[T], check: Callable[[T], object]) -> None:
    """Run `check` on every case, then fail once with every case that failed and its error."""
    failures = []
    for case in cases:
        try:
            check(case)
        except Exception as error:
            failures.append(f"{case!s:.200}: {type(error).__name__}: {error}")
    assert not failures, "\n".join([f"{len(failures)} failed:", *failures])
