"""Users in every status, and decisions about them over HTTP."""

from typing import Any

from tests.support.daemon import Reply
from tests.support.stack import Person, Stack

STATUSES = ("pending", "approved", "rejected", "banned")
AWAY_FROM_PENDING = {"approved": "approve", "rejected": "reject", "banned": "ban"}


def person_with_status(stack: Stack, status: str, name: str = "alice", **fields: object) -> Person:
    """Register a person and bring them to this status; `fields` go into the registration."""
    person = stack.pending(name, **fields)
    if status != "pending":
        stack.decides(AWAY_FROM_PENDING[status], person)
    return person


def decide_as(stack: Stack, token: str, transition: str, username: str, **fields: object) -> Reply:
    """Send a decision with this token."""
    return stack.post(f"/api/admin/user/{transition}", {"username": username, **fields}, token=token)


def decide_on_many(stack: Stack, transition: str, usernames: list[str], **fields: object) -> list[dict[str, Any]]:
    """Send Olivia's decision about many users and return the results."""
    body = {"usernames": usernames, **fields}
    reply = stack.post(f"/api/admin/user/{transition}", body, token=stack.olivia())
    assert reply.status == 200, reply.text
    assert reply.json["success"] is True
    results: list[dict[str, Any]] = reply.json["results"]
    return results
