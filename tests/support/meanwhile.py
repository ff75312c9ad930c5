"""What other people and processes do while our code is at work, at exactly the moment that a rule is about."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock


@contextmanager
def meanwhile(owner: Any, name: str, happens: Callable[[], object], *, after: bool = False) -> Iterator[None]:
    """Let something happen once, right before or right `after` the next call of this method of a class or object.

    AssertionError if the method is not called.
    """
    method, due = getattr(owner, name), [happens]

    def calling(*given: Any, **named: Any) -> Any:
        is_now = bool(due)
        happening = due.pop() if due else happens  # taken off first: it may call the method itself
        if is_now and not after:
            happening()
        result = method(*given, **named)
        if is_now and after:
            happening()
        return result

    with mock.patch.object(owner, name, calling):
        yield
    assert not due, f"{name} was not called"
