"""What other people and processes do while our code is at work, at exactly the moment that a rule is about."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
from pymysql.err import OperationalError

from tests.support.authme.authme_database import AuthMeDatabase, MariaDBSchema


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

    if isinstance(owner, type | ModuleType):
        with mock.patch.object(owner, name, calling):
            yield
    else:  # past the class, which may be frozen
        object.__setattr__(owner, name, calling)
        try:
            yield
        finally:
            object.__delattr__(owner, name)
    assert not due, f"{name} was not called"


def assert_locked(place: AuthMeDatabase, table: str, condition: str) -> None:
    """Check that nobody else can change these rows now, in a schema of MariaDB's."""
    assert isinstance(place, MariaDBSchema)
    with closing(place.database.connect()) as shell, pytest.raises(OperationalError) as refused:
        shell.cursor().execute(f"SELECT 1 FROM {table} WHERE {condition} FOR UPDATE NOWAIT")
    assert refused.value.args[0] in (1205, 3572), "on MariaDB and MySQL: the row is locked"
