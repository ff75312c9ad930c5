"""Findings about the gates: whether approvals let anybody in, and the game's allowlist, broken one thing at a time."""

import json
import os
from typing import Any

import pytest

from plugin_bridge.server.player_uuids import offline_uuid
from tests.support.doctor_case import RCON_PASSWORD, DoctorCase

ACCOUNT = "069a79f4-44e9-4726-a5be-fca90e38aaf5"


@pytest.fixture
def listed(doctor_case: DoctorCase) -> DoctorCase:
    """A server without AuthMe whose allowlist is kept, with the operator on it."""
    doctor_case.game.authme_config.unlink()
    write_properties(doctor_case)
    write_list(doctor_case, "Olivia")
    doctor_case.start_once()
    columns = "username, username_key, status, applied_status, origin, created_at"
    values = "'Olivia', 'olivia', 'approved', 'approved', 'adopted', '2026-01-01 00:00:00'"
    doctor_case.our_database.execute(f"INSERT INTO regsvc_user ({columns}) VALUES ({values})")
    assert doctor_case.findings() == []
    return doctor_case


def write_properties(case: DoctorCase, **values: str) -> None:
    console = {"enable_rcon": "true", "rcon_password": RCON_PASSWORD}
    case.game.write_properties(**{**console, "white_list": "true", "online_mode": "true", **values})


def write_list(case: DoctorCase, *names: str) -> None:
    entries = [{"uuid": offline_uuid(name), "name": name} for name in names]
    (case.game.directory / "whitelist.json").write_text(json.dumps(entries))


def remember(case: DoctorCase, name: str, state: str, reason: str | None, since: str = "2026-01-01 00:00:00") -> None:
    values = f"'{name.lower()}', '{name}', '{state}', {'NULL' if reason is None else repr(reason)}, '{since}'"
    case.our_database.execute(
        f"INSERT INTO regsvc_allowlist (username_key, username, state, reason, since) VALUES ({values})"
    )


def test_approvals_let_nobody_in(listed: DoctorCase) -> None:
    """There is neither AuthMe nor a list; what is to be done is in the finding."""
    write_properties(listed, white_list="false")
    finding = listed.only_finding("allowlist.no_gate")
    assert (finding.severity, finding.title[:26]) == ("broken", "Approvals let nobody in: t")
    assert "white-list=true" in finding.do
    listed.change("authme", enabled=False)
    listed.change("allowlist", enabled=False)
    assert listed.only_finding("allowlist.no_gate").severity == "risky"


def test_the_config_says_nothing_of_a_game_server(doctor_case: DoctorCase) -> None:
    doctor_case.change("game", directory=None, operators=["Olivia"])
    doctor_case.change("database", url=f"sqlite:///{doctor_case.state_dir}/own.db")
    assert "where the game server is" in doctor_case.only_finding("allowlist.no_gate").title


def test_authme_is_there_and_the_list_keeps_new_players_out(doctor_case: DoctorCase) -> None:
    write_properties(doctor_case, online_mode="false")
    doctor_case.change("allowlist", enabled=False)
    assert "allowlist.enabled is false" in doctor_case.only_finding("allowlist.no_gate").title


@pytest.mark.parametrize("content", ["", "[", '{"uuid": 1}'])
def test_the_list_is_broken(listed: DoctorCase, content: str) -> None:
    file = listed.game.directory / "whitelist.json"
    file.write_text(content)
    finding = listed.only_finding("allowlist.unusable")
    assert str(file) in finding.title
    assert finding.where == str(file)


def test_the_list_cannot_be_replaced(listed: DoctorCase, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is read-only, as systemd makes it, or the file is another user's."""
    with monkeypatch.context() as patch:
        patch.setattr("os.geteuid", lambda: 12345)
        assert "belongs to another user" in listed.only_finding("allowlist.unusable").title
    folder, access = listed.game.directory, os.access
    monkeypatch.setattr("os.access", lambda path, mode: path != folder and access(path, mode))
    finding = listed.only_finding("allowlist.unusable")
    assert finding.title == f"We may not write to {folder}."
    assert "ReadWritePaths=" in finding.do


def test_the_list_was_switched_on_after_the_unit_was_written(listed: DoctorCase) -> None:
    """systemd protects the folder from the daemon alone: in a shell it can be written."""
    told = json.dumps({"success": True, "braked": False, "allowlist": "away"}).encode()
    listed.change_host(fetch=lambda url: told)
    finding = listed.only_finding("allowlist.unusable")
    assert finding.title.startswith(f"The running companion cannot replace {listed.game.directory}")
    assert "companion install again" in finding.do


def test_only_changes_of_the_list_are_held_back(listed: DoctorCase) -> None:
    """What the sync of AuthMe's table once held back is over, and not counted."""
    entry = "INSERT INTO regsvc_audit (action, operator, detail, created_at) VALUES (?, 'sync', ?, '2026-01-01')"
    listed.our_database.execute(entry, ("sync.braked", '{"locked": 77}'))
    listed.our_database.execute(entry, ("sync.run", "{}"))
    for name in ("Bob", "Carol"):
        remember(listed, name, "add", "held_back", since="2999-01-01 00:00:00")
    for braked in (None, True):
        if braked:  # the daemon says so, too
            told = json.dumps({"success": True, "braked": True, "allowlist": "up"}).encode()
            listed.change_host(fetch=lambda url, told=told: told)
        finding = listed.only_finding("sync.braked")
        assert finding.title == "The sync holds back 2 changes of the allowlist: too many at once."


def test_a_running_server_does_not_read_the_list(listed: DoctorCase) -> None:
    write_properties(listed, enable_rcon="false")
    finding = listed.only_finding("allowlist.reload")
    assert "enable-rcon=true, rcon.port=25575, rcon.password=" in finding.where
    write_properties(listed)
    listed.change_host(accepts_connections=lambda host, port: port == 25565)
    assert "25575" in listed.only_finding("allowlist.reload").title
    listed.change_host(accepts_connections=lambda host, port: False)  # the server is off
    assert listed.findings() == []


def test_a_player_joined_with_another_kind_of_uuid(listed: DoctorCase) -> None:
    """As the run decides it: only users count, and of them what they joined with last."""
    write_properties(listed, online_mode="true")
    joined = [("Aaron", offline_uuid("Aaron")), ("Olivia", ACCOUNT), ("Olivia", offline_uuid("Olivia"))]
    file = listed.game.directory / "usercache.json"
    file.write_text(json.dumps([{"name": name, "uuid": uuid} for name, uuid in joined]))
    assert listed.findings() == []  # Aaron has no user
    file.write_text(json.dumps([{"name": name, "uuid": uuid} for name, uuid in reversed(joined)]))
    finding = listed.only_finding("allowlist.uuids")
    assert finding.title.startswith(f"Olivia joined with {offline_uuid('Olivia')} (offline)")
    assert "uuids" in finding.where
    listed.change("allowlist", uuids="online")  # the host has said what is true
    assert listed.findings() == []


def test_users_wait_for_the_list(listed: DoctorCase) -> None:
    for number in range(5):
        remember(listed, f"Bob{number}", "add", "no_uuid")
    remember(listed, "Late", "add", "no_uuid", since="2999-01-01 00:00:00")
    finding = listed.only_finding("allowlist.waiting")
    assert finding.title == "5 users wait: bob0, bob1, bob2, …"
    assert "game.profiles" in finding.do
    remember(listed, "Other", "add", "another")  # reason than the doctor knows
    other, _unknown = sorted(listed.findings(), key=lambda found: found.title)
    assert (other.title, "companion why NAME" in other.do) == ("1 user waits: other.", True)


def test_a_user_was_taken_off_in_the_game(listed: DoctorCase) -> None:
    remember(listed, "Alice", "taken_off", None)
    assert listed.only_finding("allowlist.taken_off").title == "1 user is off: alice."


def test_operators_would_be_kicked(listed: DoctorCase) -> None:
    write_list(listed)
    assert listed.findings() == []
    write_properties(listed, enforce_whitelist="true")
    assert listed.only_finding("allowlist.operators").title == "Not on the allowlist: olivia."


@pytest.mark.parametrize("links", [{"Whitelisted players bypass check": True}, {}])
def test_the_list_bypasses_discordsrv(listed: DoctorCase, links: dict[str, Any]) -> None:
    """It is the default there, and named only where a link is required."""
    file = listed.game.directory / "plugins/DiscordSRV/linking.yml"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"Require linked account to play": {"Enabled": True, **links}}))
    assert str(file) in listed.only_finding("allowlist.discordsrv").where
    for harmless in ({"Enabled": False}, {"Enabled": True, "Whitelisted players bypass check": False}):
        file.write_text(json.dumps({"Require linked account to play": harmless}))
        assert listed.findings() == []
    file.write_text("Require: [")
    assert listed.findings() == []


def test_the_management_protocol_keeps_the_server_from_starting(doctor_case: DoctorCase) -> None:
    management = {"management_server_enabled": "true"}
    console = {"enable_rcon": "true", "rcon_password": RCON_PASSWORD}
    doctor_case.game.write_properties(**console, **management)
    finding = doctor_case.only_finding("game.management")
    lines = finding.where.partition(": ")[2].split(", ")
    assert [line.partition("=")[0].removeprefix("management-server-") for line in lines] == [
        *("enabled", "port", "tls-enabled", "secret")
    ]
    management |= {"management_server_tls_enabled": "false", "management_server_secret": "short"}
    doctor_case.game.write_properties(**console, **management)
    assert "short" not in str(doctor_case.examine())
    doctor_case.only_finding("game.management")
    doctor_case.game.write_properties(**console, **management | {"management_server_secret": "a1" * 20})
    assert doctor_case.findings() == []
