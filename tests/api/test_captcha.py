"""GET /api/captcha: an alias of /api/captcha/generate for older front ends."""

import pytest

from tests.support.stack import Stack

pytestmark = pytest.mark.one_database("sqlite")


def test_it_is_the_same_route(stack: Stack) -> None:
    reply = stack.get("/api/captcha")
    assert reply.status == 200
    assert reply.json.keys() == stack.get("/api/captcha/generate").json.keys()
    assert reply.json["image"].startswith("data:image/png;base64,")


def test_its_challenges_are_the_same_too(stack: Stack) -> None:
    tokens = [stack.get(path).json["token"] for path in ("/api/captcha", "/api/captcha/generate")]
    assert len(tokens[0]) == len(tokens[1])
    assert tokens[0] != tokens[1]
