"""Signals: what a reviewer is told of an applicant, from whatever source."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peewee import Database

from plugin_bridge.authme.players import Addresses, NoPlayers, PlayersUnavailable
from regsvc.auth.rate_limits import DurableLimits
from regsvc.core.clock import epoch_ms
from regsvc.core.email_address import mailbox_of
from regsvc.core.errors import InvalidField
from regsvc.database.audit import Actor, Audit
from regsvc.database.models import KnownClient, PlayerAddress, Reader, Review, StoredQuestionnaire, User
from regsvc.users.gates import Gates
from regsvc.users.notes import Notes
from regsvc.users.signals import FindAccounts, SignalFields, copy_addresses, find_nothing
from regsvc.users.user_details import list_history
from regsvc.users.user_list import UserList
from regsvc.users.user_query import UsersQuery
from tests.support.database_fixtures import MakeUser, insert_whole
from tests.support.manual_clock import ManualClock
from tests.support.statements import recorded_statements

Arrive = Callable[..., User]
pytestmark = pytest.mark.every_database


@pytest.fixture
def arrive(make_user: MakeUser) -> Arrive:
    """Make a user who registered from an address. `fields` are further columns."""

    def arrive(name: str, address: str | None = None, status: str = "pending", **fields: object) -> User:
        make_user(name, status=status)
        changes = {"registration_ip": address, "is_email_verified": True, **fields}
        User.update(**changes).where(User.username == name).execute()
        found: User = User.get(User.username == name)
        return found

    return arrive


def queue(find_accounts: FindAccounts = find_nothing) -> dict[str, tuple[SignalFields, ...]]:
    users = UserList(lambda name: False, Gates(True, lambda: False), find_accounts)
    return {entry.username: tuple(entry.signals) for entry in users.list_users(UsersQuery(status="pending")).entries}


def told() -> dict[str, list[tuple[str, int, list[str]]]]:
    return {
        name: [(it.kind, it.count, [other.username for other in it.users]) for it in signals]
        for name, signals in queue().items()
    }


def test_a_wave_from_one_network_is_seen_as_such(arrive: Arrive) -> None:
    """One was banned; twenty more come from the same network, and one from elsewhere."""
    arrive("Griefer", "203.0.113.200", "banned")
    for number in range(20):
        arrive(f"Wave_{number}xy", f"203.0.113.{number}")
    arrive("Far", "203.0.114.7")
    arrive("Nearly", "203.0.11.7")
    signals = queue()
    assert signals.pop("Far") == signals.pop("Nearly") == ()
    for name, found in signals.items():
        [signal] = found
        assert (signal.kind, signal.count, signal.sources) == ("same_network", 20, ("registration",)), name
        assert (signal.users[0].username, signal.users[0].status) == ("Griefer", "banned")


@pytest.mark.parametrize(
    ("own", "near", "far"),
    [
        ("2001:db8:1:2::5", "2001:db8:1:2:a:b:c:d", "2001:db8:1:3::5"),
        ("2001:db8::5", "2001:db8::a:b:c:d", "2001:db8:0:1::5"),
        ("2001::5:1:2:3:4", "2001:0:0:5::1", "2001:0:5::1"),
        ("2001:db8:1::7", "2001:db8:1:0:a:b:c:d", "2001:db8:1:1::7"),
        ("2001:db8:0:0:1::", "2001:db8::7", "2001:db8::1:0:0:1:1"),
    ],
)
def test_an_ipv6_network_is_a_64(arrive: Arrive, own: str, near: str, far: str) -> None:
    arrive("Alice", own)
    arrive("Near", near, "approved")
    arrive("Far", far, "approved")
    assert told() == {"Alice": [("same_network", 1, ["Near"])]}


@pytest.mark.parametrize("address", [None, "127.0.0.1", "::1", "no address"])
def test_what_tells_nothing(arrive: Arrive, address: str | None) -> None:
    arrive("Alice", address)
    arrive("Bob", address)
    assert told() == {"Alice": [], "Bob": []}


def test_addresses_of_logins_and_of_the_game(arrive: Arrive, clock: ManualClock) -> None:
    arrive("Alice", "203.0.113.7")
    bob, carla, dora = (arrive(name, None, "approved") for name in ("Bob", "Carla", "Dora"))
    KnownClient.create(user=bob.id, client="203.0.113.7", last_login_at=clock())
    PlayerAddress.create(user=carla.id, source="ip", address="203.0.113.7", seen_at=clock())
    PlayerAddress.create(user=dora.id, source="regip", address="203.0.113.8", seen_at=clock())
    same, near = queue()["Alice"]
    assert [same.kind, near.kind] == ["same_address", "same_network"]
    assert same.sources == ("game_login", "login")
    assert [other.username for other in same.users] == ["Carla", "Bob"]
    assert near.sources == ("game_registration",)


def test_an_applicant_of_the_game_is_known_by_the_game_s_addresses(arrive: Arrive, clock: ManualClock) -> None:
    alice = arrive("Alice", None, origin="adopted")
    PlayerAddress.create(user=alice.id, source="regip", address="203.0.113.8", seen_at=clock())
    KnownClient.create(user=alice.id, client="2001:db8:1:2::/64", last_login_at=clock())
    arrive("Bob", "203.0.113.9", "banned")
    arrive("Carla", "2001:db8:1:2::1", "approved")
    assert told() == {"Alice": [("same_network", 2, ["Bob", "Carla"]), ("game_first", 0, [])]}


def test_a_crowded_network_takes_nothing_from_the_others(arrive: Arrive) -> None:
    """In each of 2,000 addresses of one network somebody is; of them the banned one is not lost, either."""
    arrive("Alice", "203.0.113.7")
    arrive("Bob", "198.51.100.7")
    arrive("Carla", "198.51.100.8", "rejected")
    same = {"status": "approved", "applied_status": "approved", "origin": "registered"}
    same |= {"created_at": User.get().created_at}
    crowd = [
        {"username": f"Crowd_{n}", "username_key": f"crowd_{n}", "registration_ip": f"203.0.113.{n % 250}", **same}
        for n in range(2000)
    ]
    insert_whole(User, crowd)
    arrive("Griefer", "203.0.113.99", "banned")
    signals = told()
    assert signals["Bob"] == [("same_network", 1, ["Carla"])]
    [(same_kind, *_rest), (kind, count, [first, *_others])] = signals["Alice"]
    assert (same_kind, kind, first) == ("same_address", "same_network", "Griefer")
    assert count > 500


@pytest.mark.parametrize(
    ("name", "other", "is_alike"),
    [
        ("Bill_O", "Bi1l_0", True),
        ("IlI1", "llll", True),
        ("b0b", "BOB_", False),
        ("Olive", "0LlVE", True),
        ("Alice", "Alicia", False),
    ],
)
def test_names_that_look_alike(arrive: Arrive, name: str, other: str, is_alike: bool) -> None:
    arrive(name)
    arrive(other, None, "approved")
    assert told() == {name: [("look_alike", 1, [other])] if is_alike else []}


def test_earlier_decisions(arrive: Arrive, clock: ManualClock) -> None:
    alice = arrive("Alice", email_key="alice@example.org")
    decision = {"user_id": 0, "operator": "Olivia", "status_before": "approved", "reviewed_at": clock()}
    by_name = {"username": "ALICE", "username_key": alice.username_key, "email_key": None}
    by_address = {"username": "Mallory", "username_key": "mallory", "email_key": "alice@example.org"}
    Review.create(**decision, **by_name, transition="reject", status_after="rejected")
    Review.create(**decision, **by_address, transition="ban", status_after="banned")
    assert told()["Alice"] == [
        ("earlier_ban", 1, ["Mallory"]),
        ("earlier_rejection", 1, ["ALICE"]),
        ("same_email", 1, ["Mallory"]),
    ]


def test_one_mailbox_under_several_addresses(arrive: Arrive, clock: ManualClock) -> None:
    decision = {"operator": "Olivia", "status_before": "approved", "reviewed_at": clock()}
    banned = arrive("Griefer", None, "banned", email="b1@example.org", email_key="b1@example.org")
    by_address = {"username": "Griefer", "username_key": "griefer", "email_key": "b1@example.org"}
    Review.create(user_id=banned.id, **decision, **by_address, transition="ban", status_after="banned")
    arrive("Twin", None, "approved", email_key="b.1+a@example.org")
    arrive("Unproven", None, "approved", email_key="b1+u@example.org", is_email_verified=False)
    arrive("Again", email_key="b1+x@example.org")
    arrive("Elsewhere", email_key="b1@example.com")
    assert told() == {
        "Again": [("earlier_ban", 1, ["Griefer"]), ("same_email", 2, ["Griefer", "Twin"])],
        "Elsewhere": [],
    }
    [entry] = list_history(User.get(User.username == "Again"), 10)
    assert (entry.username, entry.is_same_email, entry.is_same_name) == ("Griefer", True, False)


LOCAL_PARTS = st.text("ab.+é", min_size=1, max_size=8) | st.sampled_from(['"a+b"', '"a@b.c"', "+x", "...", ".+."])


def test_the_database_finds_the_mailboxes_that_the_program_computes(arrive: Arrive) -> None:
    alice = arrive("Alice")

    @settings(max_examples=60, deadline=None)
    @given(LOCAL_PARTS, st.sampled_from(["example.org", "xn--bcher-kva.example"]))
    def check(local_part: str, domain: str) -> None:
        key = f"{local_part}@{domain}"
        User.update(email_key=key).where(User.id == alice.id).execute()
        assert User.get_by_id(alice.id).mailbox == mailbox_of(key)

    check()
    User.update(email_key=None).where(User.id == alice.id).execute()
    assert User.get_by_id(alice.id).mailbox is None


def test_addresses_that_are_not_proven(arrive: Arrive) -> None:
    arrive("Alice", email=None, is_email_verified=False)
    arrive("Bob", email="bob@example.org", is_email_verified=False)
    assert told() == {"Alice": [("no_email", 0, [])], "Bob": [("unproven_email", 0, [])]}
    users = UserList(lambda name: False, Gates(True, lambda: False), requires_code=lambda: False)
    assert not any(entry.signals for entry in users.list_users(UsersQuery(status="pending")).entries)


def answered(user: User, seconds: int | None, clock: ManualClock) -> None:
    points = {"score": 1, "max_score": 1, "pass_score": 1, "is_passed": True, "requires_review": False}
    texts = {"nonce": "", "summary": "", "answers": "[]", "submitted_at": clock()}
    StoredQuestionnaire.create(user=user.id, answer_seconds=seconds, **points, **texts)


def test_answers_in_a_tenth_of_the_usual_time(arrive: Arrive, clock: ManualClock) -> None:
    for number in range(10):
        answered(arrive(f"Player_{number}x", None, "approved"), 200 + number, clock)
    for name, seconds in (("Alice", 20), ("Bob", 21), ("Carla", None)):
        answered(arrive(name), seconds, clock)
    signals = queue()
    assert signals == {
        "Alice": (SignalFields("fast_answers", seconds=20, usual_seconds=204),),
        "Bob": (),
        "Carla": (),
    }


def test_minecraft_accounts(arrive: Arrive) -> None:
    for name in ("Alice", "Bob", "Carla"):
        arrive(name)
    found = queue(lambda names: {"Alice": True, "Bob": False})
    kinds = {name: [signal.kind for signal in signals] for name, signals in found.items()}
    assert kinds == {"Alice": ["minecraft_account"], "Bob": ["no_minecraft_account"], "Carla": []}


def test_a_page_costs_three_statements(arrive: Arrive) -> None:
    """The list with its total, earlier decisions, and all else."""
    clients: list[dict[str, object]] = []
    for number in range(100):
        user = arrive(f"Player_{number}", f"203.0.{number}.7" if number % 2 else f"2001:db8:{number}::1")
        for near in range(6):
            clients.append({"user": user, "client": f"10.{near}.{number}.1", "last_login_at": user.created_at})
    insert_whole(KnownClient, clients)
    if isinstance(User._meta.database, Database):
        with recorded_statements() as statements:
            assert len(queue()) == 100
        assert len(statements) <= 3


@pytest.mark.every_database
def test_signals_read_no_table_whole(arrive: Arrive, our_database: Database, database_kind: str) -> None:
    for number in range(300):
        user = arrive(f"Player_{number}", f"203.0.{number}.7", "approved")
        PlayerAddress.create(user=user.id, source="ip", address=f"203.1.{number}.7", seen_at=user.created_at)
        KnownClient.create(user=user.id, client=f"203.2.{number}.7", last_login_at=user.created_at + timedelta(1))
    if database_kind != "sqlite":
        tables = "regsvc_user, regsvc_known_client, regsvc_player_address"
        our_database.execute_sql(f"ANALYZE TABLE {tables}").fetchall()
    statements: list[tuple[str, object]] = []
    arrive("Alice", "203.0.7.9")
    arrive("Bob", "2001:db8::9")
    execute: Any = our_database.execute_sql

    def record(sql: str, parameters: object = None, *rest: object) -> object:
        statements.append((sql, parameters))
        return execute(sql, parameters, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(our_database, "execute_sql", record)
        queue()
    sql, parameters = next(it for it in statements if "look_key IN" in it[0])
    if database_kind == "sqlite":
        plan = [row[3] for row in execute(f"EXPLAIN QUERY PLAN {sql}", parameters).fetchall()]
        assert not [line for line in plan if line.startswith("SCAN") and line.split()[1] in ("u", "a")]
        assert not [line for line in plan if "(status=" in line], "nor all who are banned"
    else:
        cursor = execute(f"EXPLAIN FORMAT=TRADITIONAL {sql}", parameters)
        names = [column[0] for column in cursor.description]
        plan = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        assert not [row for row in plan if row["table"] in ("u", "a") and row["type"] in ("ALL", "index")]


class InGame(NoPlayers):
    """AuthMe's table, with the addresses of some players; or away."""

    def __init__(self, *rows: Addresses) -> None:
        self.rows: list[Addresses] | None = list(rows)

    def find_addresses(self, since: int, limit: int) -> list[Addresses]:
        if self.rows is None:
            raise PlayersUnavailable("away")
        return [row for row in self.rows if max(row[3] or 0, row[4] or 0) >= since][:limit]


def test_addresses_of_the_game_are_copied(arrive: Arrive, clock: ManualClock) -> None:
    """Alice played today and registered long ago; Bob's address is this machine; nobody is Carla."""
    for name in ("Alice", "Bob"):
        arrive(name)
    today, long_ago = epoch_ms(clock()), epoch_ms(clock() - timedelta(days=99))
    game = InGame(
        ("alice", "203.0.113.7", "203.0.113.8", today, long_ago),
        ("bob", "127.0.0.1", "2001:db8:0:0:0:0:0:1", today, today),
        ("carla", "203.0.113.9", None, today, None),
    )
    keep = timedelta(days=90)
    assert copy_addresses(game, keep, clock) == 2
    assert {(row.user.username, row.source, row.address) for row in PlayerAddress.select()} == {
        ("Alice", "ip", "203.0.113.7"),
        ("Bob", "regip", "2001:db8::1"),
    }
    clock.advance(days=1)
    game.rows = [("alice", "203.0.114.1", None, epoch_ms(clock()), None)]
    assert copy_addresses(game, keep, clock) == 1
    assert PlayerAddress.get(PlayerAddress.source == "ip").address == "203.0.114.1"
    game.rows = None
    assert copy_addresses(game, keep, clock) == 0
    assert PlayerAddress.select().count() == 2


# --- filters and orders of the queue ---


def names(**query: Any) -> list[str]:
    users = UserList(lambda name: False, Gates(True, lambda: False))
    return [entry.username for entry in users.list_users(UsersQuery(status="pending", **query)).entries]


def test_filters_and_orders(arrive: Arrive, clock: ManualClock) -> None:
    alice = arrive("Alice", platform="bedrock")
    arrive("Bob", language="de")
    carla = arrive("Carla", "203.0.113.7")
    arrive("Dora", "203.0.113.8", "approved")
    for user, score, words in ((alice, 5, "Ich baue Schlösser."), (carla, 9, 'A "castle" of sand')):
        answers = json.dumps([{"question": "What do you build?", "answers": [words]}], ensure_ascii=False)
        texts = {"nonce": "", "summary": "", "answers": answers, "submitted_at": clock()}
        points = {"max_score": 10, "pass_score": 6, "is_passed": True, "requires_review": True}
        StoredQuestionnaire.create(user=user.id, score=score, **points, **texts)
    assert names(sort="score") == ["Carla", "Alice", "Bob"]
    assert names(sort="newest") == ["Carla", "Bob", "Alice"]
    assert names(platform="bedrock") == ["Alice"]
    assert names(user_language="de") == ["Bob"]
    assert names(below_pass=True) == ["Alice"]
    assert names(has_signal=True) == ["Carla"]
    assert names(search='"Castle"') == ["Carla"]
    assert names(search="schlösser") == ["Alice"]
    assert names(search="build") == []
    assert names(search="203.0.113.") == ["Carla"]


def test_pages_of_an_order_by_score_and_of_signals(arrive: Arrive, clock: ManualClock) -> None:
    for number in range(7):
        arrive(f"Player_{number}x", "203.0.113.7")
    users = UserList(lambda name: False, Gates(True, lambda: False))
    for options in ({"sort": "score"}, {"has_signal": True}):
        found, after = list[str](), None
        while True:
            page = users.list_users(UsersQuery(status="pending", size=3, after=after, **options))
            found += [entry.username for entry in page.entries]
            after = page.next_cursor
            if after is None:
                break
        assert found == [f"Player_{number}x" for number in range(7)], options


@pytest.mark.parametrize("field", ["sort", "platform", "user_language", "below_pass", "has_signal", "waiting_for"])
def test_they_are_those_of_the_queue_alone(arrive: Arrive, field: str) -> None:
    values: dict[str, Any] = {"sort": "score", "platform": "java", "user_language": "en", "waiting_for": "review"}
    users = UserList(lambda name: False, Gates(True, lambda: False))
    with pytest.raises(InvalidField) as refused:
        users.list_users(UsersQuery(**{field: values.get(field, True)}))
    assert refused.value.field == field.removeprefix("user_")


def test_two_read_one_application(our_database: Database, clock: ManualClock) -> None:
    notes = Notes(our_database, DurableLimits(clock), Audit(clock), clock)
    olivia, rita = Actor("Olivia"), Actor("Rita")
    assert notes.read("Alice", olivia) == []
    assert notes.read("alice", rita) == ["Olivia"]
    assert notes.read("Alice", olivia) == ["Rita"]
    assert notes.read("Bob", rita) == []
    assert notes.read("Alice", olivia) == []
    notes.read("Alice", rita)
    clock.advance(seconds=31)
    assert notes.read("Alice", olivia) == []
    notes.read("", olivia)
    assert [row.reader for row in Reader.select()] == ["olivia"]
