"""GET /events: admins receive events as they happen, for as long as their session lasts."""

import http.client
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, closing

import pytest

from regsvc.runtime.event_streams import MAX_STREAMS_PER_ADMIN
from tests.support.command_line import companion
from tests.support.daemon import HOST
from tests.support.event_listener import EventListener
from tests.support.operators import Operators
from tests.support.our_tables import ago, our_database
from tests.support.refusals import assert_refused
from tests.support.stack import MakeStack, Person, Stack
from tests.support.watching import ask_until


def listen(stack: Stack, token: str | None = None, **headers: str) -> EventListener:
    return EventListener(stack.daemon, token or stack.olivia(), headers)


def sql(stack: Stack, statement: str, *values: object) -> None:
    our_database(stack).execute(statement, values)


# --- What is heard ---


def test_olivia_hears_of_every_step(stack: Stack) -> None:
    before = time.time() * 1000 - 1
    with listen(stack) as olivia:
        alice = stack.pending("alice")
        [event] = olivia.expect_events("user_registered")
        assert event.data["username"] == event.data["by"] == alice.name
        assert event.data["status"] == "pending"
        assert before <= event.data["at"] <= time.time() * 1000 + 1
        ids = [event.id]
        for transition, name, status in (
            ("reject", "user_rejected", "rejected"),
            ("approve", "user_approved", "approved"),
            ("ban", "user_banned", "banned"),
            ("unban", "user_unbanned", "approved"),
            ("delete", "user_deleted", "deleted"),
        ):
            stack.decides(transition, alice, reason="a secret between us")
            [event] = olivia.expect_events(name)
            assert (event.data["username"], event.data["status"], event.data["by"]) == (alice.name, status, "Olivia")
            assert set(event.data) == {"username", "status", "at", "by"}
            ids.append(event.id)
    assert None not in ids
    assert ids == sorted(ids, key=int)  # type: ignore[arg-type]
    audits = {audit["id"] for audit in stack.audits(alice)}
    assert set(ids) <= audits


def test_a_run_of_the_sync_is_heard(stack: Stack) -> None:
    stack.sync()  # the run that every daemon begins with is over
    with listen(stack) as olivia:
        stack.sync()
        [event] = olivia.expect_events("sync_finished")
        assert event.data["adopted"] == 0
        stack.authme.register(stack.newcomer("bob").name, "bobs-secret")
        stack.sync()
        [event] = olivia.expect_events("sync_finished")
        assert (event.data["adopted"], event.data["by"]) == (1, "sync")
        assert event.id is not None


def test_what_is_typed_in_sql_is_heard_when_the_sync_carries_it_out(stack: Stack) -> None:
    alice = stack.pending("alice")
    stack.sync()
    with listen(stack) as olivia:
        sql(stack, "UPDATE regsvc_user SET status = 'approved' WHERE username_key = ?", alice.key)
        stack.sync()
        heard = olivia.expect_events("user_approved", "sync_finished")
        assert (heard[0].data["username"], heard[0].data["by"]) == (alice.name, "sql")


def test_what_a_command_does_is_heard(stack: Stack) -> None:
    alice = stack.pending("alice")
    with listen(stack) as olivia:
        done = companion("users", "approve", alice.name, config=stack.daemon.config_file)
        assert done.status == 0, done.errors
        [event] = olivia.expect_events("user_approved")
        assert event.data["username"] == alice.name
        assert event.data["by"].startswith("cli:")


def test_who_comes_back_is_told_what_was_missed(stack: Stack) -> None:
    alice = stack.pending("alice")
    with listen(stack) as olivia:
        stack.decides("approve", alice)
        [last] = olivia.expect_events("user_approved")
    stack.decides("ban", alice)
    stack.decides("unban", alice)
    with listen(stack, **{"Last-Event-ID": str(last.id)}) as olivia:
        heard = olivia.expect_events("user_banned", "user_unbanned")
        assert {event.data["username"] for event in heard} == {alice.name}
        stack.decides("delete", alice)
        olivia.expect_events("user_deleted")


@pytest.mark.parametrize("last_id", ["", "-1", "9" * 30, "１"])
def test_an_id_that_is_none_is_a_first_visit(stack: Stack, last_id: str) -> None:
    with listen(stack, **{"Last-Event-ID": last_id.encode().decode("latin-1")}) as olivia:
        bob = stack.pending("bob")
        [event] = olivia.expect_events("user_registered")
        assert event.data["username"] == bob.name


# --- How it is sent ---


def test_it_is_a_stream_that_no_proxy_keeps(stack: Stack) -> None:
    with listen(stack, **{"X-Request-ID": "r-1"}) as olivia:
        assert olivia.headers["Content-Type"] == "text/event-stream"
        assert olivia.headers["X-Accel-Buffering"] == "no"
        assert olivia.headers["Cache-Control"] == "no-store"
        assert olivia.headers["X-Content-Type-Options"] == "nosniff"
        assert olivia.headers["X-Request-ID"] == "r-1"
        assert "Content-Length" not in olivia.headers


def test_a_look_at_the_headers(stack: Stack) -> None:
    reply = stack.daemon.request("HEAD", "/events", token=stack.olivia())
    assert (reply.status, reply.body) == (200, b"")
    assert reply.headers["Content-Type"] == "text/event-stream"
    assert_refused(stack.post("/events", {}, token=stack.olivia()), 405, "method_not_allowed")


# --- When it ends ---

End = Callable[[Stack, Operators, Person, str], object]
ENDS: dict[str, End] = {
    "logged out": lambda stack, operators, oscar, token: stack.post("/api/logout", {}, token=token),
    "password changed": lambda stack, operators, oscar, token: stack.decides("password", oscar, password="another-1"),
    "banned": lambda stack, operators, oscar, token: stack.decides("ban", oscar),
    "deleted": lambda stack, operators, oscar, token: stack.decides("delete", oscar),
    "no operator any more": lambda stack, operators, oscar, token: operators.dismiss(oscar),
    "expired": lambda stack, operators, oscar, token: change_session(stack, oscar, "expires_at", ago(seconds=1)),
    "idle": lambda stack, operators, oscar, token: change_session(stack, oscar, "last_seen_at", ago(hours=3)),
    "banned by SQL": lambda stack, operators, oscar, token: sql(
        stack, "UPDATE regsvc_user SET status = 'banned' WHERE username_key = ?", oscar.key
    ),
}


def change_session(stack: Stack, person: Person, column: str, moment: str) -> None:
    whose = "user_id = (SELECT id FROM regsvc_user WHERE username_key = ?)"
    sql(stack, f"UPDATE regsvc_session SET {column} = ? WHERE {whose}", moment, person.key)


def test_a_session_that_ends_closes_the_stream(stack: Stack, operators: Operators) -> None:
    """All at once: each is looked after every few seconds."""
    people = {reason: operators.new("oscar", level=2) for reason in ENDS}
    tokens = {reason: stack.admin_token(oscar.name, oscar.password) for reason, oscar in people.items()}
    with ExitStack() as open_ones:
        streams = {reason: open_ones.enter_context(listen(stack, token)) for reason, token in tokens.items()}
        began = time.monotonic()
        for reason, end in ENDS.items():
            end(stack, operators, people[reason], tokens[reason])
        for reason, stream in streams.items():
            stream.wait_for_end()
            assert time.monotonic() - began < 10, reason
            assert not [event for event in stream.received if event.data.get("username") == people[reason].name], reason
    for reason, token in tokens.items():
        is_former_admin = reason == "no operator any more"  # whose session ends a moment after the right
        assert stack.get("/events", token=token).status in ((401, 403) if is_former_admin else (401,))


def test_listening_is_no_activity(stack: Stack, operators: Operators) -> None:
    """An hour and more of nothing else but streams, opened again and again: the admin's time runs all the while."""
    oscar = operators.new("oscar")
    token = stack.admin_token(oscar.name, oscar.password)
    seen_at = ago(minutes=90)
    change_session(stack, oscar, "last_seen_at", seen_at)
    for _time in range(3):
        with listen(stack, token) as stream:
            alice = stack.pending("alice")
            assert stream.expect_events("user_registered")[0].data["username"] == alice.name
    assert last_seen(stack, oscar) == seen_at[:19]

    assert stack.get("/api/admin/verify", token=token).status == 200
    assert last_seen(stack, oscar) > seen_at[:19]


def last_seen(stack: Stack, person: Person) -> str:
    """When the session was used last, to the second."""
    whose = "user_id = (SELECT id FROM regsvc_user WHERE username_key = ?)"
    [row] = our_database(stack).query(f"SELECT last_seen_at FROM regsvc_session WHERE {whose}", (person.key,))
    return str(row["last_seen_at"])[:19]


def test_one_admin_listens_in_so_many_places(stack: Stack, operators: Operators) -> None:
    oscar = operators.new("oscar")
    token = stack.admin_token(oscar.name, oscar.password)
    with ExitStack() as places:
        for _place in range(MAX_STREAMS_PER_ADMIN):
            places.enter_context(listen(stack, token))
        assert try_to_listen(stack, token) == 429  # a stream that opens would never be read to its end
        chinese = stack.get("/events", {"language": "zh"}, token=token)
        assert_refused(chinese, 429, "too_many_streams", language="zh")
        with listen(stack):
            """Olivia has an allowance of streams of her own."""
    ask_until(lambda: try_to_listen(stack, token), lambda status: status == 200)


def try_to_listen(stack: Stack, token: str) -> int:
    """A stream counts until the daemon has noticed that the client left."""
    with closing(http.client.HTTPConnection(HOST, stack.daemon.port, timeout=10)) as connection:
        connection.request("GET", "/events", headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status


def test_a_stop_ends_the_stream_at_once(make_stack: MakeStack) -> None:
    stack = make_stack()
    with listen(stack) as olivia:
        began = time.monotonic()
        stack.daemon.send(signal.SIGTERM)
        olivia.wait_for_end()
        assert stack.daemon.wait_for_end() == 0
        assert time.monotonic() - began < 5
    stack.daemon.start()
