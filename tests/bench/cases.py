"""The requests whose statements and calls are counted: each prepares its person, then makes one request."""

from collections.abc import Callable
from typing import Any

from tests.support.daemon import Reply
from tests.support.stack import Stack

PLENTY = ["100000 per minute", "100000 per day"]
CONFIG: dict[str, dict[str, Any]] = {
    "log": {"level": "warning"},
    # as many limits as by default, so that as many are counted
    "verification": {
        "limits_per_address": PLENTY,
        "limits_per_client": PLENTY,
        "limits_total": PLENTY,
        "limits_total_forgot": PLENTY,
    },
}

Act = Callable[[], object]


def send_code(stack: Stack) -> Act:
    person = stack.newcomer()
    return lambda: _require(stack.post("/api/verify/send", {"email": person.email}), 200)


def register(stack: Stack) -> Act:
    person = stack.newcomer()
    code = stack.code_for(person.email)
    return lambda: _require(stack.register(person, code=code), 201)


def approve(stack: Stack) -> Act:
    return _as_olivia(stack, "/api/admin/user/approve", {"username": stack.pending().name})


def ban(stack: Stack) -> Act:
    return _as_olivia(stack, "/api/admin/user/ban", {"username": stack.approved().name, "reason": "griefing"})


def log_in(stack: Stack) -> Act:
    person = stack.approved()
    stack.user_token(person)  # the next login is from a known client
    return lambda: _require(stack.login(person), 200)


def list_users(stack: Stack) -> Act:
    token = stack.olivia()
    return lambda: _require(stack.get("/api/admin/users", token=token), 200)


def set_password(stack: Stack) -> Act:
    body = {"username": stack.approved().name, "password": "another-secret"}
    return _as_olivia(stack, "/api/admin/user/password", body)


def tick(stack: Stack) -> Act:
    stack.sync()
    stack.sync()  # looks at what the first one wrote
    return _as_olivia(stack, "/api/admin/sync", {})


def tick_after_a_password(stack: Stack) -> Act:
    person, act = stack.approved(), tick(stack)
    assert stack.authme.set_password(person.name, "changed-in-game")
    return act


CASES: dict[str, Callable[[Stack], Act]] = {
    "verify/send": send_code,
    "register": register,
    "approve": approve,
    "ban": ban,
    "login": log_in,
    "admin/users": list_users,
    "admin/user/password": set_password,
    "sync tick, nothing changed": tick,
    "sync tick, one password changed in the game": tick_after_a_password,
}


def warm_up(stack: Stack) -> None:
    """Let each case run once, so that nothing is loaded or connected for the first time when it counts."""
    for prepare in CASES.values():
        prepare(stack)()


def _as_olivia(stack: Stack, path: str, body: object) -> Act:
    """Return a request of the operator's; her token is verified before, not in between."""
    token = stack.olivia()
    return lambda: _require(stack.post(path, body, token=token), 200)


def _require(reply: Reply, status: int) -> None:
    assert reply.status == status, reply.text
