"""Types of the fixtures in `tests/support/fixtures.py`."""

from collections.abc import Callable
from typing import Any, Protocol

from regsvc.auth.sessions import Sessions
from regsvc.database.models import User

KEY = b"the signing key, of more than thirty-two bytes"
FORMER_KEY = b"the former key, of more than thirty-two bytes"

MakeUser = Callable[..., User]
MakeSessions = Callable[..., Sessions]


class InParallel(Protocol):
    """Calls a function on `threads` threads at once and returns the results, exceptions included."""

    def __call__(self, rule: Callable[[], Any], threads: int) -> list[Any]: ...
