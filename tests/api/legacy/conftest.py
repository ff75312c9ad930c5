"""A host whose players and operators use a front end that existed before, and nothing else."""

import pytest

from tests.support.stack import MakeStack, Stack


@pytest.fixture(scope="module")
def stack(make_stack: MakeStack) -> Stack:
    return make_stack(config={"http": {"legacy_status": True}})
