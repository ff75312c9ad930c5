"""What the fixtures of `tests/services/conftest.py` are, for the tests' annotations."""

from collections.abc import Callable
from typing import Any, Protocol

from regsvc.models import User
from regsvc.tokens import Tokens

KEY = b"the signing key, of more than thirty-two bytes"
FORMER_KEY = b"the former key, of more than thirty-two bytes"

MakeUser = Callable[..., User]
MakeTokens = Callable[..., Tokens]


class InParallel(Protocol):
    """Calls a rule on so many threads at the same moment; what each got, exceptions included."""

    def __call__(self, rule: Callable[[], Any], threads: int) -> list[Any]: ...
