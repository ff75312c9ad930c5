"""Findings about the game server's files, broken one at a time."""

import json
import os
from pathlib import Path

from plugin_bridge.server.files import OpsFile
from tests.support.authme.authme_like import offline_uuid
from tests.support.doctor_case import RCON_PASSWORD, DoctorCase


def test_the_properties_or_the_whole_directory_are_missing(doctor_case: DoctorCase, tmp_path: Path) -> None:
    doctor_case.game.properties_file.unlink()
    assert str(doctor_case.game.properties_file) in doctor_case.only_finding("game.unreadable").title
    doctor_case.change("game", directory=str(tmp_path / "nowhere"))
    doctor_case.change("authme", config=str(doctor_case.game.authme_config))
    doctor_case.change("game", operators=["Olivia"])
    assert "nowhere" in doctor_case.only_finding("game.unreadable").title


def test_the_operators_are_half_written(doctor_case: DoctorCase) -> None:
    doctor_case.game.ops_file.write_text('[{"uuid": "353162d4", "na')
    os.utime(doctor_case.game.ops_file, (1_700_000_000, 1_700_000_000))
    finding = doctor_case.only_finding("game.unreadable")
    assert finding.where == str(doctor_case.game.ops_file)
    assert finding.title.endswith("line 1, column 23: the text is not closed (since 2023-11-14 22:13 UTC).")


def test_the_operators_are_typed_by_hand(doctor_case: DoctorCase) -> None:
    """The game reads them, and so they are operators; whom it leaves out is named."""
    doctor_case.game.ops_file.write_text(
        "[\n  // ours\n  {'uuid': '5862580e-aa1b-3ba2-82db-40e501c08259', name: Olivia; \"level\" = '4'},\n"
        '  {"uuid": "x", "name": "Bob", "level": 4}, {"name": "\\ud83d", "level": 4}\n]'
    )
    odd, ignored = (finding for finding in doctor_case.findings() if finding.id == "game.unreadable")
    assert odd.title == "ops.json, line 2, column 3: it is no JSON; not every version reads it so."
    assert ignored.title == "The game does not take 2 entries of ops.json: 2 (Bob), 3."
    assert {odd.severity, ignored.severity} == {"risky"}
    operators = OpsFile(doctor_case.game.ops_file)
    assert [operators.level_of(name) for name in ("Olivia", "Bob")] == [4, 4]


def test_nobody_is_an_operator(doctor_case: DoctorCase) -> None:
    doctor_case.game.write_operators("Olivia", levels={"Olivia": 2})
    doctor_case.change("auth", min_operator_level=3)
    assert "level 3" in doctor_case.only_finding("game.no_operators").title
    doctor_case.game.write_operators()
    doctor_case.only_finding("game.no_operators")
    doctor_case.game.ops_file.unlink()
    doctor_case.only_finding("game.no_operators")
    doctor_case.change("game", operators=["Olivia"])
    assert doctor_case.findings() == []


def test_idleness_needs_something_that_tells_of_logins(doctor_case: DoctorCase) -> None:
    doctor_case.change("membership", idle="90 days")
    assert doctor_case.findings() == []  # AuthMe tells
    doctor_case.change("authme", enabled=False)
    doctor_case.game.write_properties(white_list="true", level_name="overworld", enable_rcon="true")
    world = doctor_case.game.directory / "overworld"
    found = [finding for finding in doctor_case.findings() if finding.id == "game.no_logins"]
    assert [finding.title for finding in found] == [
        f"The folder {world}/playerdata, which would tell who plays, is missing or cannot be read."
    ]
    (world / "playerdata").mkdir(parents=True)
    assert "game.no_logins" not in [finding.id for finding in doctor_case.findings()]
    doctor_case.change("game", directory=None)
    [broken] = [finding for finding in doctor_case.findings() if finding.id == "config.broken"]
    assert '[membership] idle = "90 days": nothing tells who plays; set game.directory' in str(broken.title)


def write_note(case: DoctorCase, name: str, seconds_ago: int) -> Path:
    """Write AuthMe's note that it gives op back to this player."""
    folder = case.game.authme_directory / "playerdata" / offline_uuid(name)
    folder.mkdir(parents=True)
    (folder / "data.json").write_text('{"operator": true}')
    written = (folder / "data.json").stat().st_mtime - seconds_ago
    os.utime(folder / "data.json", (written, written))
    return folder


def test_authme_gives_op_back_to_who_has_it_no_more(doctor_case: DoctorCase) -> None:
    doctor_case.game.write_operators("Olivia", "Oscar")
    doctor_case.start_once()
    doctor_case.our_database.execute(
        "INSERT INTO regsvc_operator (username_key, username, level, left_at) VALUES ('oscar', 'Oscar', 4, ?)",
        ("2026-01-01 00:00:00",),
    )
    doctor_case.game.write_operators("Olivia")
    folder = write_note(doctor_case, "Oscar", 30)
    assert doctor_case.findings() == []  # somebody stands at the prompt
    os.utime(folder / "data.json", (1_000_000_000, 1_000_000_000))
    finding = doctor_case.only_finding("game.op_held")
    assert ("Oscar" in finding.title, finding.where) == (True, str(folder))
    mo = write_note(doctor_case, "Mo", 7200)  # of whom we never heard
    profile = {"name": "Mo", "uuid": offline_uuid("Mo"), "expiresOn": "2099-01-01 00:00:00 +0000"}
    doctor_case.game.usercache_file.write_text(json.dumps([profile]))
    assert [finding.where for finding in doctor_case.findings()] == [str(mo), str(folder)]
    doctor_case.game.write_operators("Olivia", "Oscar")
    assert {finding.id for finding in doctor_case.findings()} == {"game.op_held", "game.operators_unregistered"}


def test_whose_op_authme_holds_cannot_be_seen(doctor_case: DoctorCase) -> None:
    (doctor_case.game.authme_directory / "playerdata").mkdir()
    assert doctor_case.findings() == []
    doctor_case.game.change_authme({"limbo.persistence.type": "DISABLED", "settings.restrictions.timeout": 20})
    assert "45 s" in doctor_case.only_finding("game.op_unseen").title


def test_levels_do_not_hold_beside_authme(doctor_case: DoctorCase) -> None:
    doctor_case.game.write_operators("Olivia", levels={"Olivia": 2})
    assert doctor_case.findings() == []
    (doctor_case.game.authme_directory / "playerdata").mkdir()
    assert "olivia get level 4" in doctor_case.only_finding("game.operator_levels").title
    doctor_case.game.write_properties(enable_rcon="true", rcon_password=RCON_PASSWORD, op_permission_level=2)
    assert doctor_case.findings() == []
    doctor_case.start_once()
    doctor_case.our_database.execute(
        "INSERT INTO regsvc_operator (username_key, username, level) VALUES ('olivia', 'Olivia', 1)"
    )
    assert "level of olivia" in doctor_case.only_finding("game.operator_levels").title


def test_an_operators_name_is_free_for_anyone(doctor_case: DoctorCase) -> None:
    doctor_case.game.write_operators("Olivia", "Oscar")
    assert "as oscar" in doctor_case.only_finding("game.operators_unregistered").title
    doctor_case.start_once()
    assert "as oscar" in doctor_case.only_finding("game.operators_unregistered").title
    columns = "username, username_key, status, applied_status, origin, created_at"
    values = "'Oscar', 'oscar', 'pending', 'pending', 'registered', '2026-01-01 00:00:00'"
    doctor_case.our_database.execute(f"INSERT INTO regsvc_user ({columns}) VALUES ({values})")
    assert doctor_case.findings() == []


def test_rcon_is_off_or_its_password_weak(doctor_case: DoctorCase) -> None:
    for password in ("hunter2", "minecraft12345", "aaaaaaaaaaaaaaaa", "change-me-please"):
        doctor_case.game.write_properties(enable_rcon="true", rcon_password=password)
        assert password not in str(doctor_case.only_finding("game.rcon_password"))
    for properties in ({}, {"enable_rcon": "true", "rcon_password": ""}):
        doctor_case.game.write_properties(**properties)
        doctor_case.only_finding("game.rcon_off")
    doctor_case.change("game", rcon=False)
    assert doctor_case.findings() == []


def test_rcon_answers_on_the_internet(doctor_case: DoctorCase) -> None:
    doctor_case.change_host(find_public_address=lambda: "8.8.4.4", accepts_connections=lambda host, port: True)
    assert doctor_case.only_finding("game.rcon_exposed").title == "RCON is reachable at 8.8.4.4:25575."
    doctor_case.change_host(accepts_connections=lambda host, port: False)
    assert doctor_case.findings() == []
    doctor_case.change_host(find_public_address=lambda: None, accepts_connections=lambda host, port: True)
    doctor_case.game.write_properties(enable_rcon="true", rcon_password=RCON_PASSWORD, server_ip="192.168.1.7")
    assert doctor_case.findings() == []
    doctor_case.change("game", rcon_host="game.example.org")
    assert "game.example.org" in doctor_case.only_finding("game.rcon_exposed").title


def test_mojang_and_authme_both_ask_or_nobody(doctor_case: DoctorCase) -> None:
    doctor_case.game.write_properties(enable_rcon="true", rcon_password=RCON_PASSWORD, online_mode="true")
    doctor_case.only_finding("game.online_mode")
    doctor_case.game.write_properties(enable_rcon="true", rcon_password=RCON_PASSWORD, white_list="true")
    doctor_case.change("authme", enabled=False)
    doctor_case.only_finding("game.online_mode")
