"""What game proxies ask at every join: any 200 is an answer, which they remember for a minute."""

import pytest

from tests.support.daemon import Reply
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Person, Stack

pytestmark = pytest.mark.one_database("sqlite")


def ask(stack: Stack, name: str, path: str = "/api/user/status", client: str = "192.0.2.1") -> Reply:
    return stack.get(path, {"username": name}, headers={"X-Forwarded-For": client, "X-API-Key": "unused"})


def test_each_status_is_told(stack: Stack) -> None:
    waiting, playing, refused, banned = (stack.pending(name) for name in ("alice", "bob", "rita", "ben"))
    stack.decides("approve", playing)
    stack.decides("reject", refused)
    stack.decides("ban", banned)
    people = {"pending": waiting, "approved": playing, "rejected": refused, "banned": banned}
    for status, person in people.items():
        for name in (person.name, person.name.swapcase()):
            data = ask(stack, name).json["data"]
            assert (data["registered"], data["status"], data["username"]) == (True, status, person.name)
            told = ask(stack, name, "/api/check-whitelist").json
            assert told == {"success": True, "found": True, "username": person.name, "status": status}


def test_an_address_that_ends_with_a_slash_is_good_enough(stack: Stack) -> None:
    """A proxy puts `backend_url` and its path together."""
    bob = stack.approved("bob")
    for path in ("/api/user/status", "/api/check-whitelist"):
        assert ask(stack, bob.name, f"/{path}").json == ask(stack, bob.name, path).json
    assert_refused(ask(stack, bob.name, "//api/config"), 404, "unknown_path")


@pytest.mark.parametrize("name", ["Nobody", "Bad Name", ".Steve", "a" * 40, "Üser", "a&b=c%41+d"])
def test_a_name_nobody_has_is_never_an_error(stack: Stack, name: str) -> None:
    reply = ask(stack, name)
    assert (reply.status, reply.json["data"]) == (200, {"registered": False})
    told = ask(stack, name, "/api/check-whitelist")
    assert (told.status, told.json) == (200, {"success": True, "found": False, "status": "not_registered"})


@pytest.mark.parametrize("path", ["/api/user/status", "/api/review/status", "/api/check-whitelist"])
def test_a_limit_keeps_its_status_so_that_it_is_not_taken_for_an_answer(few: tuple[Stack, Person], path: str) -> None:
    stack, bob = few
    client = f"192.0.2.{len(path)}"
    assert ask(stack, bob.name, path, client).json["success"] is True
    assert_refused(ask(stack, bob.name, path, client), 429, "rate_limited")


@pytest.fixture(scope="module")
def few(make_stack: MakeStack) -> tuple[Stack, Person]:
    """A host that answers each client once a minute, with a player."""
    stack = make_stack(config={"http": {"legacy_status": True, "status_limit": ["1 per minute"]}})
    return stack, stack.approved("bob")


def test_the_route_of_old_proxies_is_there_for_them_alone(make_stack: MakeStack) -> None:
    assert_refused(ask(make_stack(), "bob", "/api/check-whitelist"), 404, "unknown_path")
