"""GET /events: admins hear what happens while it happens, for as long as they may."""

import http.client
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, closing

import pytest

from regsvc.runtime.event_streams import MAX_STREAMS_PER_ADMIN
from tests.support.command_line import companion
from tests.support.daemon import HOST
from tests.support.listening import Listening
from tests.support.operators import Operators
from tests.support.our_tables import ago, our_database
from tests.support.refusals import assert_refused, assert_refused_as_200
from tests.support.stack import MakeVillage, Person, Village
from tests.support.watching import ask_until


def listen(village: Village, token: str | None = None, **headers: str) -> Listening:
    return Listening(village.daemon, token or village.olivia(), headers)


def sql(village: Village, statement: str, *values: object) -> None:
    our_database(village).execute(statement, values)


@pytest.fixture(autouse=True)
def _first_sync_is_over(village: Village) -> None:
    """The end of the run that every daemon begins with would be heard."""
    village.sync()


# --- What is heard ---


def test_olivia_hears_of_every_step(village: Village) -> None:
    before = time.time() * 1000 - 1
    with listen(village) as olivia:
        alice = village.pending("alice")
        [event] = olivia.hears("user_registered")
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
            village.decides(transition, alice, reason="a secret between us")
            [event] = olivia.hears(name)
            assert (event.data["username"], event.data["status"], event.data["by"]) == (alice.name, status, "Olivia")
            assert set(event.data) == {"username", "status", "at", "by"}
            ids.append(event.id)
    assert None not in ids
    assert ids == sorted(ids, key=int)  # type: ignore[arg-type]
    audits = {audit["id"] for audit in village.audits(alice)}
    assert set(ids) <= audits


def test_a_run_of_the_sync_is_heard(village: Village) -> None:
    with listen(village) as olivia:
        village.sync()
        [event] = olivia.hears("sync_finished")
        assert event.data["adopted"] == 0
        village.authme.register(village.newcomer("bob").name, "bobs-secret")
        village.sync()
        [event] = olivia.hears("sync_finished")
        assert (event.data["adopted"], event.data["by"]) == (1, "sync")
        assert event.id is not None


def test_what_is_typed_in_sql_is_heard_when_the_sync_carries_it_out(village: Village) -> None:
    alice = village.pending("alice")
    with listen(village) as olivia:
        sql(village, "UPDATE regsvc_user SET status = 'approved' WHERE username_key = ?", alice.key)
        village.sync()
        heard = olivia.hears("user_approved", "sync_finished")
        assert (heard[0].data["username"], heard[0].data["by"]) == (alice.name, "sql")


def test_what_a_command_does_is_heard(village: Village) -> None:
    alice = village.pending("alice")
    with listen(village) as olivia:
        done = companion("users", "approve", alice.name, config=village.daemon.config_file)
        assert done.status == 0, done.errors
        [event] = olivia.hears("user_approved")
        assert event.data["username"] == alice.name
        assert event.data["by"].startswith("cli:")


def test_what_happened_before_is_not_told(village: Village) -> None:
    village.pending("alice")
    with listen(village) as olivia:
        bob = village.pending("bob")
        [event] = olivia.hears("user_registered")
        assert event.data["username"] == bob.name


def test_who_comes_back_is_told_what_was_missed(village: Village) -> None:
    alice = village.pending("alice")
    with listen(village) as olivia:
        village.decides("approve", alice)
        [last] = olivia.hears("user_approved")
    village.decides("ban", alice)
    village.decides("unban", alice)
    with listen(village, **{"Last-Event-ID": str(last.id)}) as olivia:
        heard = olivia.hears("user_banned", "user_unbanned")
        assert {event.data["username"] for event in heard} == {alice.name}
        village.decides("delete", alice)
        olivia.hears("user_deleted")


@pytest.mark.parametrize("last_id", ["", "junk", "-1", "1e3", "9" * 30, "0x10", "１"])
def test_an_id_that_is_none_is_a_first_visit(village: Village, last_id: str) -> None:
    with listen(village, **{"Last-Event-ID": last_id.encode().decode("latin-1")}) as olivia:
        bob = village.pending("bob")
        [event] = olivia.hears("user_registered")
        assert event.data["username"] == bob.name


# --- How it is sent ---


def test_it_is_a_stream_that_no_proxy_keeps(village: Village) -> None:
    with listen(village, **{"X-Request-ID": "r-1"}) as olivia:
        assert olivia.headers["Content-Type"] == "text/event-stream"
        assert olivia.headers["X-Accel-Buffering"] == "no"
        assert olivia.headers["Cache-Control"] == "no-store"
        assert olivia.headers["X-Content-Type-Options"] == "nosniff"
        assert olivia.headers["X-Request-ID"] == "r-1"
        assert "Content-Length" not in olivia.headers


def test_a_look_at_the_headers(village: Village) -> None:
    reply = village.daemon.request("HEAD", "/events", token=village.olivia())
    assert (reply.status, reply.body) == (200, b"")
    assert reply.headers["Content-Type"] == "text/event-stream"
    assert_refused(village.post("/events", {}, token=village.olivia()), 405, "method_not_allowed")


def test_a_token_in_the_address_is_none(village: Village) -> None:
    reply = village.get("/events", {"token": village.olivia(), "access_token": village.olivia()})
    assert_refused(reply, 401, "unauthorized")


def test_a_stranger_is_refused_in_json(village: Village) -> None:
    alice = village.approved("alice")
    assert_refused(village.get("/events"), 401, "unauthorized")
    assert_refused(village.get("/events", token="garbage"), 401, "unauthorized")
    assert_refused(village.get("/events", token=village.user_token(alice)), 403, "forbidden")


# --- When it ends ---

End = Callable[[Village, Operators, Person, str], object]
ENDS: dict[str, End] = {
    "logged out": lambda village, operators, oscar, token: village.post("/api/logout", {}, token=token),
    "password changed": lambda village, operators, oscar, token: village.decides(
        "password", oscar, password="another-1"
    ),
    "banned": lambda village, operators, oscar, token: village.decides("ban", oscar),
    "deleted": lambda village, operators, oscar, token: village.decides("delete", oscar),
    "no operator any more": lambda village, operators, oscar, token: operators.dismiss(oscar),
    "expired": lambda village, operators, oscar, token: change_session(village, oscar, "expires_at", ago(seconds=1)),
    "idle": lambda village, operators, oscar, token: change_session(village, oscar, "last_seen_at", ago(hours=3)),
    "banned by SQL": lambda village, operators, oscar, token: sql(
        village, "UPDATE regsvc_user SET status = 'banned' WHERE username_key = ?", oscar.key
    ),
}


def change_session(village: Village, person: Person, column: str, moment: str) -> None:
    whose = "user_id = (SELECT id FROM regsvc_user WHERE username_key = ?)"
    sql(village, f"UPDATE regsvc_session SET {column} = ? WHERE {whose}", moment, person.key)


def test_a_session_that_ends_closes_the_stream(village: Village, operators: Operators) -> None:
    """All at once: each is looked after every few seconds."""
    people = {reason: operators.new("oscar", level=2) for reason in ENDS}
    tokens = {reason: village.admin_token(oscar.name, oscar.password) for reason, oscar in people.items()}
    with ExitStack() as open_ones:
        streams = {reason: open_ones.enter_context(listen(village, token)) for reason, token in tokens.items()}
        began = time.monotonic()
        for reason, end in ENDS.items():
            end(village, operators, people[reason], tokens[reason])
        for reason, stream in streams.items():
            stream.wait_for_end()
            assert time.monotonic() - began < 10, reason
            assert not [event for event in stream.heard if event.data["username"] == people[reason].name], reason
    for reason, token in tokens.items():
        assert village.get("/events", token=token).status == (403 if reason == "no operator any more" else 401)


def test_listening_is_no_activity(village: Village, operators: Operators) -> None:
    """An hour and more of nothing else but streams, opened again and again: the admin's time runs all the while."""
    oscar = operators.new("oscar")
    token = village.admin_token(oscar.name, oscar.password)
    seen_at = ago(minutes=90)
    change_session(village, oscar, "last_seen_at", seen_at)
    for _time in range(3):
        with listen(village, token) as stream:
            alice = village.pending("alice")
            assert stream.hears("user_registered")[0].data["username"] == alice.name
    assert last_seen(village, oscar) == seen_at[:19]

    assert village.get("/api/admin/verify", token=token).status == 200
    assert last_seen(village, oscar) > seen_at[:19]


def last_seen(village: Village, person: Person) -> str:
    """When the session was used last, to the second."""
    whose = "user_id = (SELECT id FROM regsvc_user WHERE username_key = ?)"
    [row] = our_database(village).query(f"SELECT last_seen_at FROM regsvc_session WHERE {whose}", (person.key,))
    return str(row["last_seen_at"])[:19]


def test_one_admin_listens_in_so_many_places(village: Village, operators: Operators) -> None:
    oscar = operators.new("oscar")
    token = village.admin_token(oscar.name, oscar.password)
    with ExitStack() as places:
        for _place in range(MAX_STREAMS_PER_ADMIN):
            places.enter_context(listen(village, token))
        assert_refused(village.get("/events", token=token), 429, "too_many_streams")
        chinese = village.get("/events", {"language": "zh"}, token=token)
        assert_refused(chinese, 429, "too_many_streams", language="zh")
        with listen(village):
            """Olivia has places of her own."""
    ask_until(lambda: try_to_listen(village, token), lambda status: status == 200)


def try_to_listen(village: Village, token: str) -> int:
    """A place is free as soon as the daemon has seen that somebody left."""
    with closing(http.client.HTTPConnection(HOST, village.daemon.port, timeout=10)) as connection:
        connection.request("GET", "/events", headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status


def test_a_stop_ends_the_stream_at_once(make_village: MakeVillage) -> None:
    village = make_village()
    with listen(village) as olivia:
        began = time.monotonic()
        village.daemon.send(signal.SIGTERM)
        olivia.wait_for_end()
        assert village.daemon.wait_for_end() == 0
        assert time.monotonic() - began < 5
    village.daemon.start()


def test_an_old_front_end_is_refused_in_its_manner(make_village: MakeVillage) -> None:
    village = make_village(config={"http": {"legacy_status": True}})
    with ExitStack() as places:
        for _place in range(MAX_STREAMS_PER_ADMIN):
            places.enter_context(listen(village))
        assert_refused_as_200(village.get("/events", token=village.olivia()), "too_many_streams")
    assert_refused(village.get("/events"), 401, "unauthorized")
