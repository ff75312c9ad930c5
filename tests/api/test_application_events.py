"""GET /api/application/events: an open page follows its application, whoever decides."""

import pytest

from tests.support.event_listener import EventListener
from tests.support.our_tables import our_database
from tests.support.refusals import assert_refused
from tests.support.stack import Person, Stack

PATH = "/api/application/events"


def apply(stack: Stack, name: str) -> tuple[Person, str]:
    """Register a new person; return them and the token of the application."""
    person = stack.newcomer(name)
    reply = stack.register(person)
    assert reply.status == 201, reply.text
    return person, reply.json["applicationToken"]


def listen(stack: Stack, token: str) -> EventListener:
    return EventListener(stack.daemon, None, {"X-Application-Token": token}, path=PATH)


@pytest.mark.every_database
def test_alice_sees_the_approval_on_her_open_page(stack: Stack) -> None:
    alice, token = apply(stack, "alice")
    with listen(stack, token) as page:
        first = page.wait_for(username=alice.name)
        looked_up = stack.get("/api/application", headers={"X-Application-Token": token}).json
        assert first.data | {"usualSeconds": 0} == looked_up | {"usualSeconds": 0}
        stack.decides("approve", alice, reason="Welcome!")
        assert page.wait_for(status="approved").data["reason"] == "Welcome!"
    assert token.partition(".")[2] not in "\n".join(stack.daemon.log)


def test_a_page_shows_the_line_moving(stack: Stack) -> None:
    first, _token = apply(stack, "first")
    _second, token = apply(stack, "second")
    with listen(stack, token) as page:
        before = page.wait_for(status="pending")
        stack.decides("reject", first)
        page.wait_for(place=before.data["place"] - 1)


def test_a_status_typed_in_sql_reaches_the_page(stack: Stack) -> None:
    alice, token = apply(stack, "alice")
    with listen(stack, token) as page:
        page.wait_for(status="pending")
        our_database(stack).execute("UPDATE regsvc_user SET status = 'approved' WHERE username_key = ?", (alice.key,))
        page.wait_for(status="approved")
    stack.sync()


def test_the_stream_ends_with_the_application(stack: Stack) -> None:
    alice, token = apply(stack, "alice")
    with listen(stack, token) as page:
        page.wait_for(status="pending")
        stack.decides("delete", alice)
        page.wait_for_end()
    assert_refused(stack.get(PATH, {"token": token}), 404, "application_not_found")


def test_the_token_in_the_query_is_taken_and_not_logged(stack: Stack) -> None:
    _alice, token = apply(stack, "alice")
    with EventListener(stack.daemon, None, path=f"{PATH}?token={token}") as page:
        page.wait_for(status="pending")
    assert_refused(stack.get(PATH, {"token": f"{token}x"}), 404, "application_not_found")
    assert token.partition(".")[2] not in "\n".join(stack.daemon.log)


def test_head_and_other_methods(stack: Stack) -> None:
    _alice, token = apply(stack, "alice")
    reply = stack.daemon.request("HEAD", f"{PATH}?token={token}")
    assert (reply.status, reply.headers["Content-Type"]) == (200, "text/event-stream")
    assert stack.daemon.request("HEAD", PATH).status == 404
    assert_refused(stack.post(PATH, {}), 405, "method_not_allowed")
