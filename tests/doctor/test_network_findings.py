"""Findings about several game servers that share AuthMe's table."""

import itertools
from pathlib import Path

import pytest

from regsvc.doctor.checkup import as_text, in_language
from tests.support.authme.authme_database import DatabaseKind, MariaDBSchema
from tests.support.authme.game_server import GameServer, write_game_server
from tests.support.doctor_case import RCON_PASSWORD, DoctorCase
from tests.support.each import assert_each


@pytest.fixture
def database_kind() -> DatabaseKind:
    """Servers share a table on a database server; an SQLite file belongs to one."""
    return "mariadb"


@pytest.fixture
def survival(doctor_case: DoctorCase, tmp_path: Path) -> GameServer:
    """A second game server, on which everything is as it should be."""
    game = write_game_server(tmp_path / "survival")
    game.write_properties(enable_rcon="true", rcon_password=RCON_PASSWORD)
    game.install_authme(doctor_case.table)
    for file in (game.properties_file, game.authme_config):
        file.chmod(0o600)
    doctor_case.change("game", server=[{"name": "survival", "directory": str(game.directory)}])
    return game


def test_servers_that_agree_are_fine(doctor_case: DoctorCase, survival: GameServer) -> None:
    for game in (doctor_case.game, survival):
        game.change_authme({"Hooks.bungeecord": True})
    survival.change_authme({"settings.security.pbkdf2Rounds": 20_000, "DataSource.backend": "MYSQL"})
    assert [finding for finding in doctor_case.findings() if finding.id.startswith(("network", "game"))] == []


DANGEROUS = [
    ("DataSource.caching", True, "survival: DataSource.caching is true."),
    ("settings.registration.enabled", True, "survival: settings.registration.enabled is true."),
    ("settings.security.passwordHash", "BCRYPT", "is BCRYPT; on the main game server it is SHA256."),
    ("settings.security.legacyHashes", ["BCRYPT"], 'is BCRYPT; on the main game server it is "".'),
    ("settings.restrictions.maxNicknameLength", 12, "is 12; on the main game server it is 16."),
    ("settings.restrictions.allowedNicknameCharacters", "[a-z]*", "is [a-z]*; on the main game server"),
    ("DataSource.mySQLTablename", "another", "is another; on the main game server it is authme."),
    ("DataSource.mySQLDatabase", "another", "is another; on the main game server"),
    ("DataSource.mySQLHost", "192.0.2.7", "is 192.0.2.7; on the main game server it is 127.0.0.1."),
    ("DataSource.mySQLColumnPassword", "another", "is another; on the main game server it is password."),
    ("ExternalBoardOptions.mySQLColumnGroup", "rank", 'is rank; on the main game server it is "".'),
    ("ExternalBoardOptions.nonActivedUserGroup", 3, "is 3; on the main game server it is -1."),
]


def test_what_differs_dangerously_is_named(doctor_case: DoctorCase, survival: GameServer) -> None:
    same = survival.authme_config.read_text(encoding="utf-8")

    def check(case: tuple[str, object, str]) -> None:
        key, value, title = case
        survival.authme_config.write_text(same, encoding="utf-8")
        survival.change_authme({key: value})
        [finding] = [finding for finding in doctor_case.findings() if finding.id == "network.differs"]
        assert finding.title.startswith("survival: ")
        assert title in finding.title
        assert finding.where.startswith(f"{survival.authme_config}: {key}")

    assert_each(DANGEROUS, check)


def test_servers_with_the_same_problem_share_a_finding(
    doctor_case: DoctorCase, survival: GameServer, tmp_path: Path
) -> None:
    """What differs between them is a line of its own in the report; the reason and the advice are said once."""
    skyblock = write_game_server(tmp_path / "skyblock")
    skyblock.install_authme(doctor_case.table)
    skyblock.authme_config.chmod(0o600)
    listed = [{"name": game.directory.name, "directory": str(game.directory)} for game in (survival, skyblock)]
    doctor_case.change("game", server=listed)
    for game in (doctor_case.game, survival, skyblock):
        game.write_properties()
        game.change_authme({"DataSource.caching": game is not doctor_case.game})
    skyblock.change_authme({"settings.restrictions.maxNicknameLength": 12})
    checkup = doctor_case.examine()
    [off] = [finding for finding in checkup.findings if finding.id == "game.rcon_off"]
    assert off.title.startswith("the main game server, survival, skyblock: RCON is off")
    assert [str(game.properties_file) in off.where for game in (doctor_case.game, survival, skyblock)] == [True] * 3
    caching, other = [finding.title for finding in checkup.findings if finding.id == "network.differs"]
    assert caching == "survival, skyblock: DataSource.caching is true."
    assert other.startswith("skyblock: settings.restrictions.maxNicknameLength is 12;")
    told = as_text(checkup, {}, has_colours=False)
    assert told.count("network.differs") == 1
    assert told.count("Do: Write what the main game server’s config.yml has") == 1
    assert f"  {caching}\n  skyblock: settings.restrictions.maxNicknameLength is 12;" in told
    words = in_language(checkup, "zh").findings
    assert any(finding.title.startswith("主游戏服务器、survival、skyblock：") for finding in words)


def test_a_file_of_its_own_is_no_shared_table(doctor_case: DoctorCase, survival: GameServer) -> None:
    survival.change_authme({"DataSource.backend": "SQLITE"})
    [finding] = [finding for finding in doctor_case.findings() if finding.id == "network.differs"]
    assert str(survival.authme_directory) in finding.title


def test_a_config_that_cannot_be_read_is_told_of_without_a_secret(
    doctor_case: DoctorCase, survival: GameServer
) -> None:
    assert isinstance(doctor_case.table.database, MariaDBSchema)
    survival.authme_config.write_text("DataSource: {mySQLPassword: hunter2", encoding="utf-8")
    [finding] = [finding for finding in doctor_case.findings() if finding.id == "network.differs"]
    assert f"{survival.authme_config} is not valid YAML" in finding.title
    assert "hunter2" not in str(finding)


def test_a_server_without_authme_has_nothing_that_differs(doctor_case: DoctorCase, survival: GameServer) -> None:
    survival.authme_config.unlink()
    assert [finding for finding in doctor_case.findings() if finding.id.startswith("network")] == []


def test_a_proxy_without_other_servers_is_told_of(doctor_case: DoctorCase) -> None:
    for key, other in itertools.permutations(["Hooks.bungeecord", "Hooks.velocity"]):
        doctor_case.game.change_authme({key: True, other: False})
        [finding] = [finding for finding in doctor_case.findings() if finding.id == "network.unknown"]
        assert finding.title == f"{key} is true, and only one game server is known."


def test_each_servers_console_and_files_are_examined(doctor_case: DoctorCase, survival: GameServer) -> None:
    survival.write_properties()
    [finding] = [finding for finding in doctor_case.findings() if finding.id == "game.rcon_off"]
    assert finding.title.startswith("survival: RCON is off")
    assert finding.where.startswith(str(survival.properties_file))
    survival.write_properties(enable_rcon="true", rcon_password="short")
    found = {finding.id: finding.where for finding in doctor_case.findings()}
    assert str(survival.properties_file) in found["game.rcon_password"]
    survival.properties_file.unlink()
    [finding] = [finding for finding in doctor_case.findings() if finding.id == "game.unreadable"]
    assert str(survival.properties_file) in finding.title
