"""AuthMe's config.yml, broken one key at a time."""

import pytest

from tests.support.doctor_case import DoctorCase


def test_there_is_no_authme(doctor_case: DoctorCase) -> None:
    doctor_case.game.authme_config.unlink()
    doctor_case.game.write_properties(enable_rcon="true", rcon_password="a long one, 5f1c0e", online_mode="true")
    finding = doctor_case.only_finding("authme.none")
    assert str(doctor_case.game.authme_config) in finding.title
    doctor_case.change("authme", enabled=False)
    assert doctor_case.findings() == []


@pytest.mark.parametrize("text", ["DataSource: [", "just words", "DataSource:\n  mySQLTablename: 'a; DROP TABLE b'"])
def test_its_config_cannot_be_used(doctor_case: DoctorCase, text: str) -> None:
    doctor_case.game.authme_config.write_text(text)
    checkup = doctor_case.examine()
    assert [finding.id for finding in checkup.findings] == ["authme.unusable"]
    assert "AuthMe's config and its table: the config cannot be read" in checkup.not_examined


def test_its_table_is_on_postgresql(doctor_case: DoctorCase) -> None:
    doctor_case.game.change_authme({"DataSource.backend": "POSTGRESQL"})
    assert doctor_case.only_finding("authme.postgresql").severity == "broken"


def test_a_value_is_not_of_its_kind(doctor_case: DoctorCase) -> None:
    doctor_case.game.change_authme({"Purge.useAutoPurge": "false", "DataSource.backend": "ORACLE"})
    first, second = doctor_case.findings()
    assert first.id == second.id == "authme.ignored_value"
    assert "Purge.useAutoPurge" in first.title + second.title
    assert "DataSource.backend, ORACLE," in first.title + second.title


def test_caching_is_on(doctor_case: DoctorCase) -> None:
    doctor_case.game.change_authme({"DataSource.caching": True})
    finding = doctor_case.only_finding("authme.caching")
    assert finding.where == f"{doctor_case.game.authme_config}: DataSource.caching: false"


def test_caching_is_on_and_unregistered_players_are_kicked(doctor_case: DoctorCase) -> None:
    doctor_case.game.change_authme({"DataSource.caching": True, "settings.restrictions.kickNonRegistered": True})
    assert "kickNonRegistered" in doctor_case.only_finding("authme.caching").title


@pytest.mark.parametrize("approval", [True, False])
def test_players_register_in_the_game_too(doctor_case: DoctorCase, approval: bool) -> None:
    doctor_case.game.change_authme({"settings.registration.enabled": True})
    doctor_case.change("registration", approval=approval)
    assert ("reviewed" in doctor_case.only_finding("authme.ingame_registration").title) == approval


def test_guests_may_play(doctor_case: DoctorCase) -> None:
    doctor_case.game.change_authme({"settings.registration.force": False})
    assert "force: true" in doctor_case.only_finding("authme.registration_not_forced").where
