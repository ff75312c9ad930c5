"""What the fixtures of `tests/support/fixtures.py` are, for the tests' annotations."""

from collections.abc import Callable
from typing import Any, Protocol

from regsvc.auth.sessions import Sessions
from regsvc.database.models import User

KEY = b"the signing key, of more than thirty-two bytes"
FORMER_KEY = b"the former key, of more than thirty-two bytes"

MakeUser = Callable[..., User]
MakeSessions = Callable[..., Sessions]


class InParallel(Protocol):
    """Calls a rule on so many threads at the same moment; what each got, exceptions included."""

    def __call__(self, rule: Callable[[], Any], threads: int) -> list[Any]: ...
