"""Events as they happen, as bytes on the wire, and the audit log."""

import http.client
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from regsvc.config.host_sections import HttpSection
from regsvc.config.sections import Config
from regsvc.database.audit import ACTIONS, DECISIONS
from regsvc.runtime.event_streams import MAX_STREAMS_PER_ADMIN, EventStreams, newest_id, read_tail
from regsvc.sync.report import SyncReport
from tests.support.command_line import companion
from tests.support.daemon import HOST
from tests.support.each import assert_each
from tests.support.event_listener import EventListener
from tests.support.live_api import LiveApi, make_features
from tests.support.operators import Operators
from tests.support.our_tables import ago, our_database
from tests.support.refusals import assert_refused
from tests.support.stack import OPERATOR, MakeStack, Person, Stack
from tests.support.watching import ask_until

# GET /events: admins receive events as they happen, for as long as their session lasts.


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


# The event stream as bytes: keep-alive comments, and listeners that do not read.


REQUEST = b"GET /events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer olivia\r\n\r\n"

HEARTBEAT = timedelta(milliseconds=20)


class EmptyLog:
    """A worker for an audit log without entries, which needs no database."""

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if function in (newest_id, read_tail):
            return 0 if function is newest_id else (0, [])
        return function(*arguments)


class Stage:
    """The API with streams of its own."""

    def __init__(self, http: HttpSection | None = None, **options: Any) -> None:
        worker: Any = EmptyLog()
        self.streams = EventStreams(worker, lambda session: True, **options)
        features = make_features(Config(http=http or HttpSection()))
        features[EventStreams] = self.streams
        self.api = LiveApi(features)

    @property
    def listeners(self) -> int:
        return len(self.streams._streams)

    def tell(self, count: int) -> None:
        """So many runs of the sync that changed nothing."""
        report = SyncReport(started_at=datetime(2031, 5, 4, tzinfo=UTC))

        def tell() -> None:
            for _run in range(count):
                self.streams.publish_run(report)

        self.api.call(tell)

    def listen(self, window: int | None = None) -> socket.socket:
        """`window`: how many bytes the client takes before it reads any."""
        client = socket.socket()
        if window is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        client.settimeout(10)
        client.connect(("127.0.0.1", self.api.port))
        client.sendall(REQUEST)
        ask_until(lambda: self.listeners, lambda count: count == 1)
        return client


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage(heartbeat_interval=HEARTBEAT)
    with made.api:
        yield made


def read_until(client: socket.socket, wanted: bytes, count: int = 1) -> bytes:
    received = b""
    while received.count(wanted) < count:
        piece = client.recv(65536)
        assert piece, received
        received += piece
    return received


def test_it_begins_at_once_and_gives_signs_of_life(stage: Stage) -> None:
    with stage.listen() as client:
        received = read_until(client, b": still here\n\n", 3)
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Type: text/event-stream\r\n" in received
    assert b"retry: 3000\n\n" in received


def test_who_leaves_is_forgotten(stage: Stage) -> None:
    with stage.listen():
        pass
    ask_until(lambda: stage.listeners, lambda count: count == 0)


def fill(stage: Stage) -> None:
    """Publish so many events that the buffers of a listener that does not read are full."""
    before = -1
    [stream] = stage.streams._streams
    while stage.listeners and not (before == len(stream._queue) - 200 and before > 200):
        before = len(stream._queue)
        stage.tell(200)


def test_who_takes_nothing_is_cut_off() -> None:
    stage = Stage(HttpSection(write_timeout=timedelta(milliseconds=100)), heartbeat_interval=HEARTBEAT)
    with stage.api, stage.listen(window=2048):
        fill(stage)
        ask_until(lambda: stage.listeners, lambda count: count == 0)


def test_the_end_does_not_wait_for_who_takes_nothing(stage: Stage) -> None:
    with stage.listen(window=2048):
        fill(stage)
        stage.api.call(stage.streams.close)
        began = time.monotonic()
        ask_until(lambda: stage.listeners, lambda count: count == 0)
        assert time.monotonic() - began < 30


# GET /api/admin/audits: filters and pages of the audit log, which cannot be changed.


MINUTE = 60_000
FIELDS = {"id", "action", "operator", "target", "detail", "ip", "timestamp"}


def ask(stack: Stack, **query: object) -> dict[str, Any]:
    """A page that is there. `from` and `to` are given as `since` and `until`."""
    named = {{"since": "from", "until": "to"}.get(name, name): str(value) for name, value in query.items()}
    reply = stack.get("/api/admin/audits", named, token=stack.olivia())
    assert reply.status == 200, reply.text
    payload: dict[str, Any] = reply.json
    return payload


def actions(stack: Stack, person: Person) -> list[str]:
    """Return the audit entries about this person, oldest first."""
    return [entry["action"] for entry in stack.audits(person)][::-1]


# --- What is written down ---


def test_a_life_in_entries(stack: Stack) -> None:
    alice = stack.pending("alice")
    stack.decides("reject", alice)
    stack.decides("approve", alice)
    token = stack.user_token(alice)
    stack.login(alice, "a wrong one")
    stack.post("/api/logout", {}, token=token)
    stack.decides("password", alice, password="olivias-choice-1")
    stack.decides("ban", alice)
    stack.decides("unban", alice)
    stack.authme.unregister_from_console(alice.name)
    stack.sync()
    stack.authme.register(alice.name, "a foreign password")
    stack.sync()
    stack.decides("delete", alice)

    assert actions(stack, alice) == [
        "user.registered",
        "user.rejected",
        "user.approved",
        "user.logged_in",
        "user.login_failed",
        "user.logged_out",
        "user.password_changed",
        "user.banned",
        "user.unbanned",
        "sync.player_removed",
        "sync.player_returned",
        "sync.player_locked",
        "user.deleted",
    ]


def test_an_entry_says_who_what_whom_when_and_whence(stack: Stack) -> None:
    bob = stack.approved("bob")
    stack.decides("ban", bob, reason="griefing", expiresAt=4_102_444_800_000)

    entry = stack.audits(bob)[0]
    assert set(entry) == FIELDS
    assert (entry["action"], entry["operator"], entry["target"]) == ("user.banned", OPERATOR, bob.name)
    assert entry["detail"] == {"statusBefore": "approved", "reason": "griefing", "expiresAt": 4_102_444_800_000}
    assert entry["ip"] == "127.0.0.1"
    assert abs(entry["timestamp"] - time.time() * 1000) < MINUTE


@pytest.mark.every_database
def test_the_newest_entry_comes_first_in_the_order_of_the_actions(stack: Stack) -> None:
    people = [stack.approved("bob") for _number in range(3)]
    entries = ask(stack, size=100)["audits"]
    assert entries == sorted(entries, key=lambda entry: (entry["timestamp"], entry["id"]), reverse=True)
    approved = [entry["target"] for entry in entries if entry["action"] == "user.approved"]
    assert approved[:3] == [person.name for person in reversed(people)]


def test_a_run_of_the_sync_leaves_one_entry_if_it_did_something(stack: Stack) -> None:
    def runs() -> int:
        return int(ask(stack, action="sync.run")["pagination"]["totalCount"])

    stack.sync()
    before = runs()
    stack.sync()
    assert runs() == before

    bob = stack.approved("bob")
    stack.authme.set_password(bob.name, "changed-in-the-game")
    stack.sync()
    assert runs() == before + 1
    newest = ask(stack, action="sync.run", size=1)["audits"][0]
    assert (newest["operator"], newest["target"], newest["detail"]["updated"]) == ("sync", None, 1)


@pytest.mark.every_database
def test_a_change_whose_entry_cannot_be_written_does_not_happen(stack: Stack) -> None:
    bob = stack.approved("bob")
    ours = our_database(stack)
    stack.olivia()
    if stack.kind == "sqlite":
        ours.execute(
            "CREATE TRIGGER no_bans BEFORE INSERT ON regsvc_audit WHEN NEW.action = 'user.banned'"
            " BEGIN SELECT RAISE(ABORT, 'full'); END"
        )
    else:
        ours.execute(
            "CREATE TRIGGER no_bans BEFORE INSERT ON regsvc_audit FOR EACH ROW"
            " IF NEW.action = 'user.banned' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'full'; END IF"
        )
    try:
        assert stack.decide("ban", bob).status >= 500
        assert stack.status(bob) == "approved"
        assert stack.authme.login(bob.name, bob.password)
        assert "user.banned" not in actions(stack, bob)
    finally:
        ours.execute("DROP TRIGGER no_bans")
    assert stack.decide("ban", bob).status == 200


# --- Pages ---


@pytest.mark.every_database
def test_pages(stack: Stack) -> None:
    bob = stack.approved("bob")
    for transition in ("ban", "unban") * 3:
        stack.decides(transition, bob)
    everything = [entry["id"] for entry in stack.audits(bob)]
    assert len(everything) == 8

    found = []
    for number in (1, 2, 3):
        page = ask(stack, target=bob.name, page=number, size=3)
        assert page["pagination"] == {
            "currentPage": number,
            "pageSize": 3,
            "totalCount": 8,
            "totalPages": 3,
            "hasNext": number < 3,
            "hasPrev": number > 1,
        }
        found += [entry["id"] for entry in page["audits"]]
    assert found == everything

    first = ask(stack)["pagination"]
    assert (first["currentPage"], first["pageSize"]) == (1, 20)
    beyond = ask(stack, target=bob.name, page=4, size=3)
    assert beyond["audits"] == []
    assert (beyond["pagination"]["hasNext"], beyond["pagination"]["hasPrev"]) == (False, True)
    assert ask(stack, page=2**31 - 1, size=100)["audits"] == []


# --- Filters ---


def test_every_action_may_be_asked_for(stack: Stack) -> None:
    def check(action: str) -> None:
        assert {entry["action"] for entry in ask(stack, action=action)["audits"]} <= {action}

    assert {entry["action"] for entry in ask(stack, action="decisions")["audits"]} <= set(DECISIONS)

    assert_each(ACTIONS, check)


def test_by_operator(stack: Stack) -> None:
    bob = stack.approved("bob")
    stack.user_token(bob)
    for spelling in (bob.name, bob.key, bob.name.upper()):
        entries = ask(stack, operator=spelling)["audits"]
        assert [entry["action"] for entry in entries] == ["user.logged_in", "user.registered"]
    assert {entry["operator"] for entry in ask(stack, operator="olivia", size=100)["audits"]} == {OPERATOR}
    assert ask(stack, operator="nobody at all")["audits"] == []


@pytest.mark.every_database
def test_by_target_in_any_case_and_after_the_end(stack: Stack) -> None:
    bob = stack.approved("bob")
    stack.decides("delete", bob)
    for spelling in (bob.name, bob.key, bob.name.upper()):
        entries = ask(stack, target=spelling)["audits"]
        assert [entry["action"] for entry in entries] == ["user.deleted", "user.approved", "user.registered"]
    for literal in ("%", "_", "Bob%", f"{bob.name[:-1]}_"):
        assert ask(stack, target=literal)["audits"] == []


@pytest.mark.every_database
def test_by_time_both_ends_included(stack: Stack) -> None:
    bob = stack.approved("bob")
    stack.decides("ban", bob)
    banned, approved, registered = (entry["timestamp"] for entry in stack.audits(bob))

    def found(**query: int) -> list[str]:
        return [entry["action"] for entry in ask(stack, target=bob.name, **query)["audits"]]

    assert found(since=banned) == ["user.banned"]
    assert found(until=registered) == ["user.registered"]
    assert found(since=approved, until=approved) == ["user.approved"]
    assert found(since=registered, until=banned) == ["user.banned", "user.approved", "user.registered"]
    assert found(since=banned + 1) == []
    assert found(until=registered - 1) == []
    assert found(since=banned, until=registered) == []
