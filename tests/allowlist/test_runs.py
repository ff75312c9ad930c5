"""The game's allowlist and our users, on a server without AuthMe: a stand-in that does what the game does."""

import errno
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plugin_bridge.server.allowlist import MAX_BYTES
from plugin_bridge.server.player_uuids import offline_uuid
from plugin_bridge.server.rcon import open_rcon
from regsvc.allowlist.run import ListReport
from regsvc.core.errors import WrongStatus
from regsvc.database.bulk import insert_rows
from regsvc.database.models import STATUSES, Allowed, AuditEntry, OutboxEntry, User
from regsvc.sync.report import describe_plan
from tests.support.authme.game_server import GameServer
from tests.support.peers.allowlist_server import AllowlistServer, allowlist_server
from tests.support.peers.rcon_server import PASSWORD
from tests.support.ports import free_port
from tests.support.services import MakeServices, ServiceHarness


@pytest.fixture
def server(game_server: GameServer) -> Iterator[AllowlistServer]:
    with allowlist_server(game_server.directory) as running:
        game_server.write_properties(online_mode="false", white_list="true", **running.properties)
        yield running


@pytest.fixture
def place(make_services: MakeServices, server: AllowlistServer) -> ServiceHarness:
    return make_services(authme__enabled=False)


def run(place: ServiceHarness, *, allow_mass_changes: bool = False) -> ListReport:
    report = place.sync(allow_mass_changes=allow_mass_changes).listed
    return report or ListReport()


def listed(server: AllowlistServer) -> set[str]:
    """Names of the players whom the running server lets in."""
    return set(server.listed.values())


def states() -> dict[str, str]:
    return {row.username_key: row.state for row in Allowed.select()}


@pytest.mark.every_database
def test_who_takes_the_name_of_a_user_deleted_in_sql_waits(place: ServiceHarness, server: AllowlistServer) -> None:
    place.approved("Alice")
    run(place)
    assert server.may_join("Alice")
    place.ours.execute("DELETE FROM regsvc_user WHERE username_key = 'alice'")
    place.register("Alice", email="mallory@example.org")  # before the next run
    run(place)
    assert place.user("Alice").status == "pending"
    assert not server.may_join("Alice")


@pytest.mark.every_database
def test_alice_gets_in_once_she_is_approved(place: ServiceHarness, server: AllowlistServer) -> None:
    place.register("Alice")
    run(place)
    assert not server.may_join("Alice")
    place.decide("approve", "Alice")
    assert run(place).counts == {"added": 1}
    assert server.may_join("Alice")
    assert states() == {"alice": "listed"}
    assert run(place) == ListReport()
    place.decide("ban", "Alice")
    assert run(place).counts == {"removed": 1}
    assert not server.may_join("Alice")
    assert states() == {}
    place.decide("unban", "Alice")
    run(place)
    assert server.may_join("Alice")
    place.decide("delete", "Alice")
    run(place)
    assert not server.may_join("Alice")
    assert states() == {}


def test_who_was_on_the_list_first_is_adopted(place: ServiceHarness, server: AllowlistServer) -> None:
    for name in ("bob", "carla"):
        server.type_add(name)
    assert run(place).counts == {"adopted": 2}
    assert (place.user("bob").status, place.user("bob").email) == ("approved", None)
    place.decide("ban", "carla")
    run(place)
    assert server.listed == {offline_uuid("bob"): "bob"}


def test_an_operator_in_the_game_approves_and_takes_off(place: ServiceHarness, server: AllowlistServer) -> None:
    """What is taken off in the game stays off, and the user stays approved."""
    run(place)
    place.register("dave")
    server.type_add("dave")
    assert run(place).counts == {"approved": 1}
    assert place.user("dave").status == "approved"
    server.type_remove("dave")
    assert run(place).counts == {"taken_off": 1}
    assert run(place) == ListReport()
    assert place.user("dave").status == "approved"
    assert not server.may_join("dave")
    place.decide("approve", "dave")
    assert run(place).counts == {"added": 1}
    assert server.may_join("dave")
    with pytest.raises(WrongStatus):
        place.decide("approve", "dave")


@pytest.mark.every_database
def test_an_entry_older_than_a_rejection_approves_nobody(place: ServiceHarness, server: AllowlistServer) -> None:
    """Neither on the first run, nor after one while the list was not kept; one typed in the game since then does."""
    for name in ("bob", "rick"):
        place.register(name)
        server.type_add(name)
    place.decide("reject", "rick")
    assert run(place).counts == {"approved": 1, "removed": 1}
    assert (place.user("bob").status, place.user("rick").status) == ("approved", "rejected")
    place.restart(allowlist__enabled=False)
    place.register("carla")
    server.type_add("carla")
    place.clock.advance(minutes=1)
    place.decide("reject", "carla")
    place.restart(allowlist__enabled="auto")
    assert run(place).counts == {"removed": 1}
    assert listed(server) == {"bob"}
    for name in ("rick", "carla"):
        server.type_add(name)
    assert run(place).counts == {"approved": 2}
    assert listed(server) == {"bob", "rick", "carla"}


def test_who_has_to_be_reviewed_is_not_approved_by_an_old_entry(place: ServiceHarness, server: AllowlistServer) -> None:
    place.restart(sync__existing_players="pending")
    place.register("bob")
    server.type_add("bob")
    assert run(place).counts == {"removed": 1}
    assert (place.user("bob").status, listed(server)) == ("pending", set())
    server.type_add("bob")
    assert run(place).counts == {"approved": 1}


def test_an_old_list_that_is_restored_approves_nobody_unasked(place: ServiceHarness, server: AllowlistServer) -> None:
    names = [f"player_{number}" for number in range(30)]
    for name in names:
        place.register(name)
        place.decide("reject", name)
    run(place)
    server.file.write_text(json.dumps([{"uuid": offline_uuid(name), "name": name} for name in names]))
    assert run(place).held_back == {"approved": 30}
    assert run(place) == ListReport(), "what is held back makes no work"
    assert User.select().where(User.status == "approved").count() == 0
    assert (states(), place.app.sync.has_held_back_changes) == ({}, True)
    assert run(place, allow_mass_changes=True).counts == {"approved": 30}


@pytest.mark.every_database
def test_names_that_nobody_can_have_are_left_alone(place: ServiceHarness, server: AllowlistServer) -> None:
    """They would be written to the database, or asked for, as they are."""
    run(place)
    names = ["", " ", "a\0b", "\ud800", "x" * 300, "\u202eevil", " zoe\n"]
    entries = [{"uuid": offline_uuid(f"{number}"), "name": name} for number, name in enumerate(names)]
    server.file.write_text(json.dumps(entries))
    place.approved("Alice")
    assert run(place).counts == {"adopted": 1, "added": 1}
    assert {user.username for user in User.select()} == {"Alice", "zoe"}
    assert json.loads(server.file.read_text())[: len(entries)] == entries


def test_an_edit_that_the_sync_has_not_applied_stops_no_other(place: ServiceHarness, server: AllowlistServer) -> None:
    """As one that the guard holds back."""
    run(place)
    place.register("bob")
    User.update(status="banned").where(User.username == "bob").execute()
    for name in ("bob", "zoe"):
        server.type_add(name)
    runner = place.app.allowlist
    assert runner is not None
    assert runner.run().counts == {"adopted": 1}
    assert (place.user("bob").applied_status, listed(server)) == ("pending", {"bob", "zoe"})


def test_names_that_differ_in_case_are_two_players(place: ServiceHarness, server: AllowlistServer) -> None:
    """Vanilla takes the UUID of the name in small letters, whoever is meant."""
    run(place)
    place.register("Steve_X")
    server.type_add("Steve_X")
    run(place)
    assert place.user("Steve_X").status == "approved"
    run(place)
    assert server.may_join("Steve_X")


def test_with_the_server_off_the_file_is_enough(
    place: ServiceHarness, server: AllowlistServer, game_server: GameServer
) -> None:
    server.stop()
    game_server.write_properties(online_mode="false", white_list="true", server_port=free_port(), **server.properties)
    place.app.context.properties_files[""].refresh()
    place.approved("Alice")
    run(place)
    assert states() == {"alice": "listed"}
    server.start()
    assert server.may_join("Alice")


def test_without_a_console_it_waits_for_the_server_to_start_again(
    place: ServiceHarness, server: AllowlistServer, game_server: GameServer
) -> None:
    """Meanwhile the server may write its own list over ours: it is written again."""
    with socket.create_server(("127.0.0.1", 0)) as game:
        port = game.getsockname()[1]
        game_server.write_properties(online_mode="false", white_list="true", server_port=port)
        place.app.context.properties_files[""].refresh()
        place.approved("Alice")
        report = run(place)
        assert (report.counts, report.is_loaded) == ({"added": 1}, False)
        assert [(row.state, row.reason) for row in Allowed.select()] == [("add", "restart")]
        server.type_add("bob")
        run(place)
        place.decide("ban", "Alice")
        run(place)
        server.type_add("carla")  # its memory never had Alice, and has nobody else of ours
        run(place)
        assert states()["alice"] == "remove"
    run(place)  # now the port is closed: the server is off
    assert "alice" not in states()


@pytest.mark.parametrize("content", ["", "[{", "null"])
def test_a_broken_list_is_left_alone_and_told(place: ServiceHarness, server: AllowlistServer, content: str) -> None:
    for name in ("Alice", "Bob"):
        place.approved(name)
    run(place)
    server.file.write_text(content)
    report = run(place)
    assert "whitelist.json" in str(report.unavailable)
    assert server.file.read_text() == content
    server.answer("whitelist reload")  # which empties the list
    assert listed(server) == set()
    server.type_add("zoe")
    run(place)
    assert listed(server) == {"Alice", "Bob", "zoe"}
    assert {place.user(name).status for name in ("Alice", "Bob")} == {"approved"}


def test_an_emptied_list_takes_nobody_off(place: ServiceHarness, server: AllowlistServer) -> None:
    for name in ("Alice", "Bob"):
        place.approved(name)
    run(place)
    server.file.write_text("[]")
    run(place)
    assert listed(server) == {"Alice", "Bob"}


def test_the_last_entry_may_be_taken_off_while_others_are(place: ServiceHarness, server: AllowlistServer) -> None:
    """Who was taken off before, or is about to be, does not make it an emptied list."""
    for name in ("Alice", "Bob", "Carla"):
        place.approved(name)
    run(place)
    server.type_remove("Alice")
    run(place)
    place.decide("ban", "Bob")
    for name in ("Bob", "Carla"):
        server.type_remove(name)
    run(place)
    assert (listed(server), states()) == (set(), {"alice": "taken_off", "carla": "taken_off"})


def test_what_changes_after_the_last_look_of_a_run_makes_another_due(
    place: ServiceHarness, server: AllowlistServer
) -> None:
    place.approved("Alice")
    runner = place.app.allowlist
    assert runner is not None
    plan = runner._plan

    def plan_and_take_off(*arguments: Any, **more: Any) -> Any:
        changes = plan(*arguments, **more)
        if not changes:
            server.type_remove("Alice")
        return changes

    with mock.patch.object(runner, "_plan", plan_and_take_off):
        run(place)
    assert runner.is_due()
    assert run(place).counts == {"taken_off": 1}


def test_many_changes_at_once_wait_for_a_person(place: ServiceHarness, server: AllowlistServer) -> None:
    """Thirty users who were approved while nobody kept the list; a new approval works all the same."""
    names = [f"Player_{number}" for number in range(30)]
    for name in names:
        place.approved(name)
    Allowed.delete().execute()
    plan = place.app.sync.plan_alone(allow_mass_changes=False, is_full=False, max_names=3)
    lines = list(describe_plan(plan, 3))
    assert "  30 users are added to the allowlist: Player_0, Player_1, Player_10 and 27 more" in lines
    assert not states(), "a plan writes nothing"
    report = run(place)
    assert (report.held_back, report.counts) == ({"added": 30}, {})
    assert place.app.sync.has_held_back_changes
    assert {(row.state, row.reason) for row in Allowed.select()} == {("add", "held_back")}
    place.approved("Alice")
    assert run(place).counts == {"added": 1}
    assert listed(server) == {"Alice"}
    assert run(place) == ListReport(), "what is held back makes no work"
    assert run(place, allow_mass_changes=True).counts == {"added": 30}
    assert listed(server) == {"Alice", *names}
    for name in names:
        server.type_remove(name)
    assert run(place).held_back == {"taken_off": 30}
    assert states() == dict.fromkeys(["alice", *map(str.lower, names)], "listed")
    assert Allowed.select().where(Allowed.shown_as == "waiting").count() == 30
    assert run(place, allow_mass_changes=True).counts == {"taken_off": 30}
    entry = AuditEntry.get(AuditEntry.action == "allowlist.taken_off")
    assert (entry.operator, entry.target, json.loads(str(entry.detail))["count"]) == ("game", None, 30)


def test_a_player_who_joined_decides_which_uuids_count(
    place: ServiceHarness, server: AllowlistServer, game_server: GameServer
) -> None:
    """The server's files say "offline", but behind the proxy players have those of their accounts."""
    account = "069a79f4-44e9-4726-a5be-fca90e38aaf5"
    place.approved("Notch")
    joined = [{"name": "Notch", "uuid": account, "expiresOn": "2099-01-01 00:00:00 +0000"}]
    (game_server.directory / "usercache.json").write_text(json.dumps(joined))
    place.app.context.uuids.refresh()
    report = run(place)
    assert (report.doubt, report.counts) == ("Notch", {})
    assert [(row.state, row.reason) for row in Allowed.select()] == [("add", "uuid_in_doubt")]
    place.restart(allowlist__uuids="online")
    run(place)
    assert server.listed == {account: "Notch"}


# --- what may be wrong with the file, and with the server ---


def test_what_a_plugin_keeps_off_the_list_is_told_and_not_tried_at_each_tick(
    place: ServiceHarness, server: AllowlistServer
) -> None:
    """Once it does not object any more, the next decision or hour brings it."""
    server.vetoed = {"alice"}
    for name in ("Alice", "Bob"):
        place.approved(name)
    report = run(place)
    assert (report.counts, report.refused, report.is_loaded) == ({"added": 2}, ["Alice"], True)
    assert [(row.username, row.state, row.reason) for row in Allowed.select().order_by(Allowed.username)] == [
        ("Alice", "add", "refused"),
        ("Bob", "listed", None),
    ]
    before = len(server.commands)
    assert run(place) == ListReport()
    server.type_add("zoe")
    assert run(place).counts == {"adopted": 1}
    assert len(server.commands) == before
    server.vetoed = set()
    place.clock.advance(hours=1)
    assert run(place).counts == {"added": 1}
    assert listed(server) == {"Alice", "Bob", "zoe"}


def make_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_a_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def make_it_huge(path: Path) -> None:
    os.truncate(path, MAX_BYTES + 1)


@pytest.mark.parametrize("spoil", [make_a_folder, make_a_loop, make_it_huge])
def test_what_is_no_list_stops_nothing_else(
    place: ServiceHarness, server: AllowlistServer, spoil: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    place.approved("Alice")
    spoil(server.file)
    for _tick in range(2):
        assert "whitelist.json" in str(run(place).unavailable)
    assert len([line for line in caplog.messages if "the allowlist is not kept" in line]) == 1
    server.file.rmdir() if server.file.is_dir() else server.file.unlink()
    run(place)
    assert listed(server) == {"Alice"}


@pytest.mark.parametrize("problem", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EBUSY])
def test_a_list_that_cannot_be_written_stays_whole_and_waits(
    place: ServiceHarness, server: AllowlistServer, problem: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, a read-only one, a folder of another user, a file that is mounted."""
    run(place)
    place.approved("Alice")

    def fail(*_arguments: object) -> None:
        raise OSError(problem, os.strerror(problem))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", fail) if problem == errno.EBUSY else patched.setattr(os, "fsync", fail)
        assert "whitelist.json cannot be" in str(run(place).unavailable)
    assert (server.file.read_text(), (server.folder / ".whitelist.json.companion").exists()) == ("[]", False)
    assert run(place).counts == {"added": 1}
    assert server.may_join("Alice")


def hang(server: AllowlistServer) -> None:
    server.is_slow = True


def refuse(server: AllowlistServer) -> None:
    server.password = "another"


def hang_up(server: AllowlistServer) -> None:
    server.before = lambda _command: server.hang_up()


@pytest.mark.parametrize("spoil", [hang, refuse, hang_up])
def test_a_console_that_hangs_or_refuses_loses_nothing(
    place: ServiceHarness,
    server: AllowlistServer,
    game_server: GameServer,
    spoil: Callable[[AllowlistServer], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Once it answers again, what is in the file counts; until then the log says what is wrong with the console."""
    monkeypatch.setattr("regsvc.allowlist.run.open_rcon", partial(open_rcon, max_seconds=0.2))
    with socket.create_server(("127.0.0.1", 0)) as game:
        port = game.getsockname()[1]
        game_server.write_properties(online_mode="false", white_list="true", server_port=port, **server.properties)
        place.approved("Alice")
        spoil(server)
        assert not run(place).is_loaded
        assert [(row.state, row.reason) for row in Allowed.select()] == [("add", "restart")]
        assert "cannot be told to read its allowlist: " in caplog.text
        assert "enable-rcon=true" not in caplog.text  # it is on
        server.is_slow, server.password, server.before = False, PASSWORD, lambda _command: None
        monkeypatch.setattr("regsvc.allowlist.run.open_rcon", open_rcon)  # with the time that a busy machine needs
        assert run(place).is_loaded
    assert server.may_join("Alice")


def test_who_is_taken_off_is_kicked_even_if_they_joined_again(place: ServiceHarness, server: AllowlistServer) -> None:
    """Without enforce-whitelist the server lets them play on; the kick of the decision may have been too early."""
    for name in ("Alice", "Bob", "Carla"):
        place.approved(name)
    run(place)
    place.decide("ban", "Alice")
    place.decide("delete", "Bob")
    User.update(status="pending", applied_status="pending").where(User.username_key == "carla").execute()
    OutboxEntry.delete().where(OutboxEntry.kind == "rcon").execute()
    run(place)
    kicks = [row.recipient for row in OutboxEntry.select().where(OutboxEntry.template == "kick")]
    assert (sorted(kicks), listed(server)) == (["Alice", "Bob", "Carla"], set())


@pytest.mark.every_database
def test_five_thousand_entries_are_adopted_on_the_first_start(place: ServiceHarness, server: AllowlistServer) -> None:
    names = [f"player_{number}" for number in range(5000)]
    server.file.write_text(json.dumps([{"uuid": offline_uuid(name), "name": name} for name in names]))
    before = server.file.read_text()
    assert run(place).counts == {"adopted": 5000}
    assert (User.select().where(User.status == "approved").count(), server.file.read_text()) == (5000, before)
    assert run(place) == ListReport()


def test_an_unchanged_list_costs_one_look_and_one_statement(
    place: ServiceHarness, server: AllowlistServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.approved("Alice")
    run(place)
    runner, looks = place.app.allowlist, list[Path]()
    assert runner is not None
    stat = Path.stat

    def look(path: Path, **more: Any) -> os.stat_result:
        looks.append(path)
        return stat(path, **more)

    monkeypatch.setattr(Path, "stat", look)
    monkeypatch.setattr(Path, "open", None)
    database = place.app.context.location.database
    with mock.patch.object(database, "execute_sql", wraps=database.execute_sql) as execute:
        assert not runner.is_due()
    assert (looks, execute.call_count) == ([server.file], 1)


def test_a_ban_that_overtakes_a_run_is_not_lost(place: ServiceHarness, server: AllowlistServer) -> None:
    """The run had read that Alice is to be listed, and would write so."""
    place.approved("Alice")
    runner = place.app.allowlist
    assert runner is not None
    plan, bans = runner._plan, iter(["Alice"])

    def plan_and_ban(*arguments: Any, is_loaded: bool, **more: Any) -> Any:
        changes = plan(*arguments, is_loaded=is_loaded, **more)
        if is_loaded and (name := next(bans, None)):
            place.decide("ban", name)
        return changes

    with mock.patch.object(runner, "_plan", plan_and_ban):
        run(place)
    assert (listed(server), states()) == (set(), {})


NAMES = ("Alice", "bob", "Carla", "dave")


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    statuses=st.fixed_dictionaries(dict.fromkeys(NAMES, st.none() | st.sampled_from(STATUSES))),
    records=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["add", "listed", "remove", "taken_off"])),
    entries=st.permutations(NAMES).flatmap(lambda names: st.integers(0, 4).map(lambda count: names[:count])),
)
def test_two_runs_bring_any_list_and_any_users_in_accord(
    place: ServiceHarness,
    server: AllowlistServer,
    statuses: Mapping[str, str | None],
    records: Mapping[str, str],
    entries: Sequence[str],
) -> None:
    """Entries of others are as they were, with whatever fields they have, and those that the game ignores."""
    User.delete().execute()
    Allowed.delete().execute()
    database, moment = place.app.context.location.database, place.clock()
    users = [
        {
            "username": name,
            "username_key": name.lower(),
            "status": status,
            "applied_status": status,
            "platform": "java",
            "origin": "created",
            "created_at": moment,
        }
        for name, status in statuses.items()
        if status is not None
    ]
    insert_rows(database, User, users)
    noted = [
        {"username": name, "username_key": name.lower(), "state": state, "uuid": offline_uuid(name), "since": moment}
        for name, state in records.items()
    ]
    insert_rows(database, Allowed, noted)
    others: list[Any] = [{"uuid": offline_uuid("zoe"), "name": "zoe", "note": "✓"}, {"name": "nobody"}]
    mixed = [*others, *({"uuid": offline_uuid(name), "name": name} for name in entries)]
    server.file.write_text(json.dumps(mixed))
    server.answer("whitelist reload")
    run(place)
    run(place)
    assert run(place) == ListReport()
    written = json.loads(server.file.read_text())
    assert [entry for entry in written if entry in others] == others
    for name in NAMES:
        user, state = place.find_user(name), states().get(name.lower())
        if user is None or user.status != "approved":
            assert not server.may_join(name)
        else:
            assert server.may_join(name) == (state == "listed")
            assert state == "listed" or (state == "taken_off" and name not in entries)


# --- without the folder ---


ACCOUNTS = {
    name.lower(): (f"069a79f4-44e9-4726-a5be-00000000000{number}", name)
    for number, name in enumerate(("Alice", "Bob", "Carla", "Dave", "Zoe"))
}


@pytest.fixture
def far(make_services: MakeServices, server: AllowlistServer) -> ServiceHarness:
    """A place that has the server's console alone."""
    server.is_online, server.profiles = True, dict(ACCOUNTS)
    return make_services(
        authme__enabled=False,
        game__directory="",
        game__rcon_host="127.0.0.1",
        game__rcon_port=server.port,
        game__rcon_password=server.password,
        allowlist__enabled=True,
        allowlist__uuids="online",
    )


@pytest.mark.every_database
def test_the_console_alone_keeps_the_list_of_a_server_in_online_mode(
    far: ServiceHarness, server: AllowlistServer
) -> None:
    server.type_add("zoe")
    far.approved("alice")
    assert run(far).counts == {"adopted": 1, "added": 1}
    assert listed(server) == {"Zoe", "Alice"}
    assert {step.verdict for step in far.app.why_not.find_steps("Alice", None)} == {"ok"}
    assert {(row.username_key, row.state, row.uuid) for row in Allowed.select()} == {
        ("alice", "listed", None),
        ("zoe", "listed", None),
    }
    assert run(far) == ListReport()
    far.register("Bob")
    server.type_add("bob")
    server.type_remove("Alice")
    far.clock.advance(minutes=1)
    assert run(far).counts == {"approved": 1, "taken_off": 1}
    far.decide("ban", "Bob")
    assert run(far).counts == {"removed": 1}
    assert listed(server) == {"Zoe"}
    assert {command.split()[0] for command in server.commands} == {"whitelist"}


def test_who_has_no_account_waits_and_is_told(far: ServiceHarness, server: AllowlistServer) -> None:
    """Nothing that could be a selector is ever sent."""
    for name in ("Alice", "Nobody"):
        far.approved(name)
    Allowed.create(username_key="@a", username="@a", state="remove", since=far.clock())
    server.listed["x"] = "@a"
    report = run(far)
    assert (sorted(report.refused), listed(server)) == (["@a", "Nobody"], {"Alice", "@a"})
    before = len(server.commands)
    assert run(far) == ListReport()
    assert len(server.commands) == before
    server.profiles["nobody"] = ("069a79f4-44e9-4726-a5be-000000000009", "Nobody")
    far.decide("ban", "Nobody")
    far.decide("unban", "Nobody")
    assert run(far).counts == {"added": 1}
    assert listed(server) == {"Alice", "Nobody", "@a"}


@pytest.mark.parametrize("answer", ["Unknown command", "There are 3 whitelisted players: Alice", "Nope: a b c"])
def test_an_answer_that_is_no_whole_list_takes_nobody_off(
    far: ServiceHarness, server: AllowlistServer, answer: str
) -> None:
    for name in ("Alice", "Bob"):
        far.approved(name)
    run(far)
    server.answers["whitelist"] = answer
    far.clock.advance(minutes=1)
    run(far)
    assert [row.state for row in Allowed.select() if row.state == "taken_off"] == []
    del server.answers["whitelist"]
    far.clock.advance(hours=1)
    run(far)
    assert states() == {"alice": "listed", "bob": "listed"}
    assert listed(server) == {"Alice", "Bob"}


def test_many_names_go_to_the_console_a_few_at_a_time(far: ServiceHarness, server: AllowlistServer) -> None:
    names = [f"Player_{number}" for number in range(300)]
    for number, name in enumerate(names):
        server.profiles[name.lower()] = (f"069a79f4-44e9-4726-a5be-{number:012}", name)
    rows = [
        {
            "username": name,
            "username_key": name.lower(),
            "status": "approved",
            "applied_status": "approved",
            "platform": "java",
            "origin": "created",
            "created_at": far.clock(),
        }
        for name in names
    ]
    insert_rows(far.app.context.location.database, User, rows)
    assert run(far).held_back == {"added": 300}
    run(far, allow_mass_changes=True)
    while states() != dict.fromkeys(map(str.lower, names), "listed"):
        assert run(far).refused == []
    assert listed(server) == set(names)


def test_the_console_that_is_away_is_told_and_nobody_is_lost(far: ServiceHarness, server: AllowlistServer) -> None:
    far.approved("Alice")
    server.stop()
    assert "console" in str(run(far).unavailable)
    server.start()
    run(far)
    server.type_remove("Alice")
    server.type_add("Bob")
    server.stop()
    far.clock.advance(minutes=1)
    run(far)
    server.start()
    assert run(far).counts == {"taken_off": 1, "adopted": 1}
