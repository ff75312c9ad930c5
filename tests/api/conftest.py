"""Fixtures of the tests of the routes, beside those of all tests.

make_stack  a function that makes a stack with another config, for the whole test file:
              `make_stack("mariadb", config={"registration": {"approval": False}})`
operators     the operators in the ops.json of `stack`, which tests may change
provider      a real OAuth 2.0 server for chat accounts
chat_stack  a stack whose players have accounts there, on each kind of database; others: `make_chat_stack`
impatient     a stack on SQLite whose daemon waits only briefly for locks of other processes
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.authme.authme_database import DatabaseKind
from tests.support.chat_stack import ChatStack, make_chat_stack
from tests.support.operators import Operators
from tests.support.peers.oauth_server import OAuthServer
from tests.support.stack import MakeStack, Stack


@pytest.fixture(scope="module")
def make_stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeStack]:
    with ExitStack() as stacks:

        def make(kind: DatabaseKind = "sqlite", **options: Any) -> Stack:
            server = request.getfixturevalue("mariadb") if kind == "mariadb" else None
            return stacks.enter_context(Stack(kind, tmp_path_factory.mktemp("stack"), server, **options))

        yield make


@pytest.fixture(scope="module")
def provider() -> Iterator[OAuthServer]:
    with OAuthServer() as server:
        yield server


@pytest.fixture(scope="module", params=["sqlite", "mariadb"])
def chat_stack(request: pytest.FixtureRequest, make_stack: MakeStack, provider: OAuthServer) -> ChatStack:
    return make_chat_stack(make_stack, provider, request.param)


@pytest.fixture(scope="module")
def operators(stack: Stack) -> Operators:
    return Operators(stack)


@pytest.fixture(scope="module")
def impatient(make_stack: MakeStack) -> Stack:
    stack = make_stack(config={"database": {"busy_timeout": "300 ms"}})
    stack.olivia()  # logs in while her own row can be read
    return stack
