"""The game server's own files, broken one at a time."""

from pathlib import Path

import pytest

from tests.support.doctor_case import RCON_PASSWORD, Clinic


def test_the_directory_is_not_there(clinic: Clinic, tmp_path: Path) -> None:
    clinic.change("game", directory=str(tmp_path / "nowhere"))
    clinic.change("authme", config=str(clinic.game.authme_config))
    clinic.change("game", operators=["Olivia"])
    assert "nowhere" in clinic.only_finding("game.no_directory").title


def test_the_operators_are_half_written(clinic: Clinic) -> None:
    clinic.game.ops_file.write_text('[{"uuid": "353162d4", "na')
    finding = clinic.only_finding("game.operators_unreadable")
    assert finding.where == str(clinic.game.ops_file)


def test_nobody_is_an_operator(clinic: Clinic) -> None:
    clinic.game.write_operators()
    clinic.only_finding("game.no_operators")
    clinic.game.ops_file.unlink()
    clinic.only_finding("game.no_operators")
    clinic.change("game", operators=["Olivia"])
    assert clinic.findings() == []


def test_no_operator_is_high_enough(clinic: Clinic) -> None:
    clinic.game.write_operators("Olivia", levels={"Olivia": 2})
    clinic.change("auth", min_operator_level=3)
    assert "level 3" in clinic.only_finding("game.no_operators").title


def test_the_properties_are_missing(clinic: Clinic) -> None:
    clinic.game.properties_file.unlink()
    assert str(clinic.game.properties_file) in clinic.only_finding("game.properties_unreadable").title


@pytest.mark.parametrize(
    "properties", [{}, {"enable_rcon": "true", "rcon_password": ""}], ids=["switched off", "without a password"]
)
def test_rcon_is_off(clinic: Clinic, properties: dict[str, object]) -> None:
    clinic.game.write_properties(**properties)
    clinic.only_finding("game.rcon_off")
    clinic.change("game", rcon=False)
    assert clinic.findings() == []


@pytest.mark.parametrize("password", ["hunter2", "minecraft12345", "aaaaaaaaaaaaaaaa", "change-me-please"])
def test_the_password_of_rcon_is_weak(clinic: Clinic, password: str) -> None:
    clinic.game.write_properties(enable_rcon="true", rcon_password=password)
    assert password not in str(clinic.only_finding("game.rcon_password"))


def test_rcon_answers_on_the_internet(clinic: Clinic) -> None:
    clinic.change_machine(find_public_address=lambda: "8.8.4.4", is_answered=lambda host, port: True)
    assert clinic.only_finding("game.rcon_exposed").title == "RCON answers at 8.8.4.4:25575."
    clinic.change_machine(is_answered=lambda host, port: False)
    assert clinic.findings() == []


def test_rcon_listens_in_a_private_network(clinic: Clinic) -> None:
    clinic.game.write_properties(enable_rcon="true", rcon_password=RCON_PASSWORD, server_ip="192.168.1.7")
    clinic.change_machine(is_answered=lambda host, port: True)
    assert clinic.findings() == []


def test_rcon_is_on_another_machine(clinic: Clinic) -> None:
    clinic.change("game", rcon_host="game.example.org")
    assert "game.example.org" in clinic.only_finding("game.rcon_over_network").title


def test_mojang_and_authme_both_ask(clinic: Clinic) -> None:
    clinic.game.write_properties(enable_rcon="true", rcon_password=RCON_PASSWORD, online_mode="true")
    clinic.only_finding("game.online_mode")


def test_nobody_asks(clinic: Clinic) -> None:
    clinic.change("authme", enabled=False)
    clinic.only_finding("game.offline_mode")
